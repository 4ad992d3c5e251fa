//! `http.answers`: the answers of a stream as `lualib/lio/http/client` reads them, and their heads. Nothing
//! here waits: a call that would block returns `false` with the stream armed for reading.

use super::super::connection::workspace;
use super::super::exchange::Workspace;
use super::super::request::Table;
use super::incoming::{Data, Found, Incoming};
use crate::codec::http1::chunked::{MAX_TRAILER_FIELDS, trailers as parse_trailers};
use crate::codec::http1::fields::{Field, MAX_FIELDS};
use crate::codec::http1::reply::{Asked, Head};
use crate::codec::http1::status::Reject;
use crate::raw::object::{self, Object};
use crate::raw::stream::hand_over;
use crate::raw::{
    Fault, Function, Text, args, functions, guard, push_bytes, push_emptied, raise, settle,
};
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::c_int;

const STREAM: c_int = 1;

/// The answers of one stream, which the user value keeps alive.
struct Answers {
    incoming: Incoming,
    stream: *mut Stream,
}

impl Object for Answers {
    const NAME: &'static CStr = c"lio.http.answers";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"expect", expect),
        (c"head", head),
        (c"piece", piece),
        (c"body", body),
        (c"trailers", trailers),
        (c"has_begun", has_begun),
        (c"is_complete", is_complete),
        (c"is_reusable", is_reusable),
        (c"is_quiet", is_quiet),
    ];
}

impl Answers {
    /// The answers and their stream, which are different objects.
    fn parts(&mut self) -> (&mut Incoming, &mut Stream) {
        // SAFETY: the user value keeps the stream alive; Lua runs one call at a time.
        (&mut self.incoming, unsafe { &mut *self.stream })
    }
}

/// The answers at argument 1.
unsafe fn check<'a>(state: *mut lua_State) -> &'a mut Answers {
    // SAFETY: the argument stays on the stack while the caller runs; the user value keeps the block.
    unsafe {
        let answers = object::check::<Answers>(state, 1);
        if !object::is_alive((*answers).stream) {
            raise(state, Text::new("the stream of the answers is gone"));
        }
        &mut *answers
    }
}

/// A head as Lua holds it; its fields and bytes lie behind it.
#[derive(Clone, Copy)]
struct Kept(Head);

impl Object for Kept {
    const NAME: &'static CStr = c"lio.http.answer";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"reason", reason),
        (c"version", version),
        (c"field", field),
        (c"field_all", field_all),
        (c"fields", fields),
        (c"list", list),
    ];
}

impl Kept {
    fn table(&self) -> Table<'_> {
        let count = self.0.field_count;
        // SAFETY: `push_head` wrote the fields at the start of the tail, whose alignment is that of a
        // slot, and the head's bytes behind them.
        unsafe {
            let tail = object::tail(self);
            Table {
                fields: std::slice::from_raw_parts(tail.cast(), count),
                bytes: std::slice::from_raw_parts(
                    tail.add(count * size_of::<Field>()),
                    self.0.head_len,
                ),
            }
        }
    }
}

/// `http.answers(stream, bytes, fields)` → the answers of a stream, with these limits of a header
/// section: its bytes and its number of fields (256 at most).
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn answers(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the value is owned by Lua before anything can raise.
    unsafe {
        let stream = object::check::<Stream>(state, 1);
        let bytes = args::integer_in(state, 2, 1, 1 << 30, "header limit") as usize;
        let fields = args::integer_in(state, 3, 1, MAX_FIELDS as i64, "fields limit") as usize;
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Answers {
                incoming: Incoming::new((bytes, fields)),
                stream,
            })
        });
        ffi::lua_pushvalue(state, 1);
        ffi::lua_setiuservalue(state, -2, STREAM);
        1
    }
}

/// `x:expect(is_head)`: a request goes out, HEAD or another.
unsafe extern "C-unwind" fn expect(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let asked = match ffi::lua_toboolean(state, 2) {
            0 => Asked::Other,
            _ => Asked::Head,
        };
        let answers = check(state);
        settle(state, guard(|| Ok(answers.incoming.expect(asked))));
        0
    }
}

/// Pushes what is no data: `false`, `nil`, or `nil, message, code`.
unsafe fn push_rest<T>(state: *mut lua_State, found: Result<Found<T>, Fault>) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let (message, code) = match found {
            Ok(Found::There(_) | Found::End) => {
                ffi::lua_pushnil(state);
                return 1;
            }
            Ok(Found::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                return 1;
            }
            Err(fault) => return fault.push(state),
            Ok(Found::Truncated) => ("the connection ended within the answer", "truncated"),
            Ok(Found::Refused(Reject {
                status: 413 | 431,
                reason,
            })) => (reason, "too long"),
            Ok(Found::Refused(reject)) => (reject.reason, "protocol"),
        };
        ffi::lua_pushnil(state);
        push_bytes(state, message.as_bytes());
        push_bytes(state, code.as_bytes());
        3
    }
}

/// Makes the userdata of a head that lies at the start of the stream's buffer. False, with nothing
/// pushed, when a finalizer that ran meanwhile has taken the bytes away.
unsafe fn push_head(
    state: *mut lua_State,
    head: Head,
    table: *const Field,
    stream: *mut Stream,
) -> bool {
    let mut kept = [const { MaybeUninit::<Field>::uninit() }; MAX_FIELDS];
    let count = head.field_count.min(MAX_FIELDS);
    // SAFETY: the table, which another answer may be parsed into below, has that many; the copy is a place of its own.
    unsafe { std::ptr::copy_nonoverlapping(table, kept.as_mut_ptr().cast(), count) };
    // SAFETY: the tail has room for fields and bytes; as many fields as are copied were kept; the bytes
    // are looked up again after the allocation, which may run finalizers.
    unsafe {
        let places = count * size_of::<Field>();
        let before = (*stream).changes();
        object::push_metatable::<Kept>(state);
        let metatable = ffi::lua_gettop(state);
        let size = places + head.head_len;
        let made = object::push_with_tail(state, metatable, Kept(head), size);
        ffi::lua_remove(state, metatable);
        if !object::is_alive(stream) || (*stream).changes() != before {
            ffi::lua_pop(state, 1);
            return false;
        }
        let tail = object::tail(made);
        let bytes = (*stream).buffered().as_ptr();
        std::ptr::copy_nonoverlapping(kept.as_ptr().cast::<u8>(), tail, places);
        std::ptr::copy_nonoverlapping(bytes, tail.add(places), head.head_len);
        true
    }
}

/// `x:head()` → status, head: of the next answer, interim ones included; `false` would block;
/// `nil, message, code`: `"truncated"`, `"protocol"`, `"too long"`, or a word of the system's.
unsafe extern "C-unwind" fn head(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`; the head is copied before its bytes are consumed.
    unsafe {
        let space: *mut Workspace = workspace(state);
        let answers: *mut Answers = check(state);
        let found = guard(|| {
            let (incoming, stream) = (*answers).parts();
            let found = incoming.head(stream, &mut (*space).fields);
            Ok(found.map_err(|error| Fault::io("recv", &error)))
        });
        let found = settle(state, found);
        let Ok(Found::There(head)) = found else {
            return push_rest(state, found);
        };
        ffi::lua_pushinteger(state, i64::from(head.status));
        let table = (&raw const (*space).fields).cast();
        if !push_head(state, head, table, (*answers).stream) {
            let gone: Found<Head> = Found::Truncated;
            return push_rest(state, Ok(gone));
        }
        let (incoming, stream) = check(state).parts();
        settle(state, guard(|| Ok(incoming.take(stream, &head))));
        2
    }
}

unsafe fn limit(state: *mut lua_State) -> u64 {
    // SAFETY: as for `answers`.
    unsafe {
        match args::is_none(state, 2) {
            true => i64::MAX as u64,
            false => args::integer_in(state, 2, 0, i64::MAX, "limit") as u64,
        }
    }
}

type Read = fn(&mut Incoming, &mut Stream, u64) -> std::io::Result<Found<Data>>;

unsafe fn read(state: *mut lua_State, how: Read) -> Result<Found<Data>, Fault> {
    // SAFETY: as for `answers`.
    unsafe {
        let limit = limit(state);
        let answers = check(state);
        let found = guard(|| {
            let (incoming, stream) = answers.parts();
            Ok(how(incoming, stream, limit).map_err(|error| Fault::io("recv", &error)))
        });
        settle(state, found)
    }
}

/// `x:piece([limit])` → the next piece of the body; `nil` at its end; `false` would block; `nil, message,
/// code` as for `head`, `"too long"` when the body has or announces more than `limit` bytes.
unsafe extern "C-unwind" fn piece(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`; what is pushed belongs to the stream.
    unsafe {
        let found = read(state, Incoming::piece);
        let Ok(Found::There(data)) = found else {
            return push_rest(state, found);
        };
        hand_over(state, check(state).stream, data.from, data.to, data.consume);
        1
    }
}

/// `x:body([limit])` → the rest of the body as one string; else as for `piece`.
unsafe extern "C-unwind" fn body(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`; what is pushed belongs to the stream or the answers.
    unsafe {
        let found = read(state, Incoming::whole);
        let answers: *mut Answers = check(state);
        match found {
            Ok(Found::There(data)) => {
                hand_over(state, (*answers).stream, data.from, data.to, data.consume);
                1
            }
            Ok(Found::End) => {
                push_emptied(state, (*answers).incoming.collected());
                if object::is_alive(answers) {
                    (*answers).incoming.free_collected();
                }
                1
            }
            _ => push_rest(state, found),
        }
    }
}

/// `x:trailers()` → table of lower-case name to value of the fields behind a chunked body, once it was
/// read; of a repeated one the last.
unsafe extern "C-unwind" fn trailers(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`; a copy of the section stays on the stack.
    unsafe {
        push_bytes(state, check(state).incoming.trailers());
        let section = args::bytes(state, -1);
        let mut found = [Field::default(); MAX_TRAILER_FIELDS];
        let parsed = guard(|| Ok(parse_trailers(section, &mut found).unwrap_or(0)));
        let count = settle(state, parsed);
        let table = Table {
            fields: &found[..count],
            bytes: section,
        };
        table.push_table(state);
        1
    }
}

unsafe fn push_flag(state: *mut lua_State, ask: fn(&Incoming, &Stream) -> bool) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let (incoming, stream) = check(state).parts();
        ffi::lua_pushboolean(state, ask(incoming, stream).into());
        1
    }
}

/// `x:has_begun()` → whether bytes of an answer have come since `expect`.
unsafe extern "C-unwind" fn has_begun(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe { push_flag(state, Incoming::has_begun) }
}

/// `x:is_complete()` → whether the final answer has come and its body was read to the end.
unsafe extern "C-unwind" fn is_complete(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe { push_flag(state, |incoming, _| incoming.is_complete()) }
}

/// `x:is_reusable()` → whether another request may be sent.
unsafe extern "C-unwind" fn is_reusable(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe { push_flag(state, Incoming::is_reusable) }
}

/// `x:is_quiet()` → whether the peer has neither sent anything nor ended its side, as the system knows; the
/// stream is armed for reading then.
unsafe extern "C-unwind" fn is_quiet(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let (_, stream) = check(state).parts();
        let quiet = guard(|| Ok(!stream.is_closed() && stream.is_quiet()));
        let quiet = settle(state, quiet);
        ffi::lua_pushboolean(state, quiet.into());
        1
    }
}

unsafe fn kept<'a>(state: *mut lua_State) -> &'a Kept {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe { &*object::check::<Kept>(state, 1) }
}

/// `head:reason()` → the reason phrase, which may be empty.
unsafe extern "C-unwind" fn reason(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let head = kept(state);
        push_bytes(state, head.0.reason.of(head.table().bytes));
        1
    }
}

/// `head:version()` → `"1.0"` or `"1.1"`.
unsafe extern "C-unwind" fn version(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let text: &[u8] = match kept(state).0.version {
            10 => b"1.0",
            _ => b"1.1",
        };
        push_bytes(state, text);
        1
    }
}

/// `head:field(name)` → the value, several joined by `, `, or nil. Case-blind.
unsafe extern "C-unwind" fn field(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let name = args::bytes(state, 2);
        kept(state).table().push_joined(state, name);
        1
    }
}

/// `head:field_all(name)` → list of the values, in order.
unsafe extern "C-unwind" fn field_all(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let name = args::bytes(state, 2);
        kept(state).table().push_all(state, name);
        1
    }
}

/// `head:fields()` → table of lower-case name to value; repeated ones joined.
unsafe extern "C-unwind" fn fields(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        kept(state).table().push_table(state);
        1
    }
}

/// `head:list()` → flat list of names and values, as sent and in order.
unsafe extern "C-unwind" fn list(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answers`.
    unsafe {
        let table = kept(state).table();
        ffi::lua_createtable(state, 2 * table.fields.len() as c_int, 0);
        for (index, field) in table.fields.iter().enumerate() {
            push_bytes(state, field.name.of(table.bytes));
            ffi::lua_rawseti(state, -2, 2 * index as i64 + 1);
            push_bytes(state, field.value.of(table.bytes));
            ffi::lua_rawseti(state, -2, 2 * index as i64 + 2);
        }
        1
    }
}
