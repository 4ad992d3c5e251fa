//! A request's head as Lua holds it: one block with the bytes and the fields' places, made at once and
//! read on demand. It needs no finalizer.
//!
//! | file | topic |
//! |---|---|
//! | here | the block, and what is read of it by a method |
//! | `table` | fields by name |
//! | `query` | what is percent-encoded |
//! | `routing` | paths, parameters and matches of routes |
//! | `kind` | what handlers index |

mod kind;
mod query;
mod routing;
mod table;

pub(super) use kind::{is_known, kind};
use query::push_decoded;
pub(crate) use query::push_pairs;
use routing::{matches, params, route};
pub(crate) use table::{Table, push_lower};

use super::connection::Connection;
use super::life;
use crate::codec::http1::fields::{Field, MAX_FIELDS, Span};
use crate::codec::http1::head::{Head, Method};
use crate::raw::object::{self, Object};
use crate::raw::{Function, Text, args, functions, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::borrow::Cow;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::c_int;

/// The head; its fields and bytes lie behind it. For handlers it is the request itself: see [`kind`].
#[derive(Clone, Copy)]
pub(crate) struct Request {
    head: Head,
    length: usize,
    /// Its route's id; 0 when that needs a closer look, or there is none.
    route: i64,
    /// The life of its exchange, see `connection`.
    life: u32,
}

/// User values: what is known of it by name, a table or nil; the exchange that it belongs to; its whole body.
const KNOWN: c_int = 1;
const CONNECTION: c_int = 2;
const BODY: c_int = 3;

impl Object for Request {
    const NAME: &'static CStr = c"lio.http.head";
    const USER_VALUES: c_int = 3;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"method", method),
        (c"target", target),
        (c"raw_path", raw_path),
        (c"path", path),
        (c"raw_query", raw_query),
        (c"query", query),
        (c"host", host),
        (c"version", version),
        (c"field", field),
        (c"field_all", field_all),
        (c"fields", fields),
        (c"upgrade", upgrade),
        (c"params", params),
        (c"matches", matches),
        (c"route", route),
        (c"connection", connection),
        (c"whole_body", whole_body),
    ];
}

/// Pushes the head that was parsed at the start of the stream's buffer, with its fields. Making the
/// userdata may run finalizers, that is any Lua code, which may parse another head into the same table: the fields
/// are copied before, by pointer, since nothing may be taken to stay the same; `bytes` is asked afterwards where the
/// head's bytes are. False, with nothing pushed, when they are gone. The metatable of heads is at `metatable`.
///
/// # Safety
/// As for [`object::push_new`]; `fields` can be read; what `bytes` gives has `head_len` bytes.
pub(crate) unsafe fn push(
    state: *mut lua_State,
    head: Head,
    fields: *const [Field],
    route: i64,
    metatable: c_int,
    bytes: impl FnOnce() -> Option<*const u8>,
) -> bool {
    // The table that `fields` is a part of serves other exchanges, too.
    let mut kept = [const { MaybeUninit::<Field>::uninit() }; MAX_FIELDS];
    let count = fields.len().min(MAX_FIELDS);
    // SAFETY: both have that many, and they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(fields.cast(), kept.as_mut_ptr(), count) };
    // SAFETY: the tail has room for fields and bytes; as many fields as are copied were kept.
    unsafe {
        let places = count * size_of::<Field>();
        let value = Request {
            head,
            length: head.head_len,
            route,
            life: 0,
        };
        let request = object::push_with_tail(state, metatable, value, places + head.head_len);
        let Some(bytes) = bytes() else {
            ffi::lua_pop(state, 1);
            return false;
        };
        let tail = object::tail(request);
        std::ptr::copy_nonoverlapping(kept.as_ptr().cast::<u8>(), tail, places);
        std::ptr::copy_nonoverlapping(bytes, tail.add(places), head.head_len);
        true
    }
}

impl Request {
    fn fields(&self) -> &[Field] {
        // SAFETY: `push` wrote `field_count` fields at the start of the tail, and a slot's size is a
        // multiple of its alignment, which is at least that of a field.
        unsafe { std::slice::from_raw_parts(object::tail(self).cast(), self.head.field_count) }
    }

    fn bytes(&self) -> &[u8] {
        let places = self.head.field_count * size_of::<Field>();
        // SAFETY: `push` wrote `length` bytes behind the fields.
        unsafe { std::slice::from_raw_parts(object::tail(self).add(places), self.length) }
    }

    fn table(&self) -> Table<'_> {
        Table {
            fields: self.fields(),
            bytes: self.bytes(),
        }
    }

    /// The value of a field, several joined by commas.
    pub(crate) fn joined<'a>(&'a self, name: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let mut values = self.table().values(name);
        let first = values.next()?;
        let mut rest = values.peekable();
        if rest.peek().is_none() {
            return Some(Cow::Borrowed(first));
        }
        let mut joined = first.to_vec();
        for value in rest {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(value);
        }
        Some(Cow::Owned(joined))
    }

    /// Whether there may be a field that asks for less than the whole: a condition, or a range.
    pub(crate) fn has_conditions(&self) -> bool {
        let bytes = self.bytes();
        self.fields()
            .iter()
            .any(|field| match field.name.of(bytes) {
                [b'i' | b'I', b'f' | b'F', b'-', ..] => true,
                name => name.eq_ignore_ascii_case(b"range"),
            })
    }

    /// Which of the known methods it is.
    pub(crate) fn method_id(&self) -> Method {
        self.head.method_id
    }
}

unsafe fn check<'a>(state: *mut lua_State) -> &'a Request {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe { &*object::check::<Request>(state, 1) }
}

unsafe fn push_span(state: *mut lua_State, span: Option<Span>) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive.
    unsafe {
        match span {
            Some(span) => push_bytes(state, span.of(check(state).bytes())),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `head:method()` → as sent.
unsafe extern "C-unwind" fn method(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, Some(check(state).head.method)) }
}

/// `head:target()` → the request target as sent.
unsafe extern "C-unwind" fn target(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, Some(check(state).head.target)) }
}

/// `head:raw_query()` → what stands behind the `?`, or nil.
unsafe extern "C-unwind" fn raw_query(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, check(state).head.query) }
}

/// `head:host()` → `host[:port]`, or nil.
unsafe extern "C-unwind" fn host(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, check(state).head.host) }
}

/// `head:raw_path()` → the path as sent.
unsafe extern "C-unwind" fn raw_path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        push_bytes(state, request.head.path(request.bytes()));
        1
    }
}

/// `head:path()` → the path, percent-decoded.
unsafe extern "C-unwind" fn path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        push_decoded(state, request.head.path(request.bytes()), false);
        1
    }
}

/// `head:query()` → decoded keys and values; repeated keys as lists, a key without `=` as `""`.
unsafe extern "C-unwind" fn query(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        let raw = request
            .head
            .query
            .map_or(&[][..], |span| span.of(request.bytes()));
        push_pairs(state, raw);
        1
    }
}

/// `head:version()` → `"1.0"` or `"1.1"`.
unsafe extern "C-unwind" fn version(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let text: &[u8] = if check(state).head.version == 10 {
            b"1.0"
        } else {
            b"1.1"
        };
        push_bytes(state, text);
        1
    }
}

/// `head:upgrade()` → whether the client offers to switch protocols.
unsafe extern "C-unwind" fn upgrade(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        ffi::lua_pushboolean(state, check(state).head.upgrade.into());
        1
    }
}

/// `head:field(name)` → the value, several joined by `, ` (cookies by `; `), or nil. Case-blind.
unsafe extern "C-unwind" fn field(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let name = args::bytes(state, 2);
        check(state).table().push_joined(state, name);
        1
    }
}

/// `head:field_all(name)` → list of the values, in order.
unsafe extern "C-unwind" fn field_all(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let name = args::bytes(state, 2);
        check(state).table().push_all(state, name);
        1
    }
}

/// `head:fields()` → table of lower-case name to value; repeated ones joined.
unsafe extern "C-unwind" fn fields(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state).table().push_table(state);
        1
    }
}

/// `head:connection()` → the table of its connection; nil before it is served.
unsafe extern "C-unwind" fn connection(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state);
        ffi::lua_settop(state, 1);
        ffi::lua_getiuservalue(state, 1, CONNECTION);
        match object::test::<Connection>(state, 2) {
            Some(found) if (*found).is_attached() => {
                life::push_table_of(state, 2, check(state).life);
            }
            _ => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `head:whole_body([text])` → the body that was kept, or nil; `text` is kept.
unsafe extern "C-unwind" fn whole_body(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state);
        if ffi::lua_gettop(state) > 1 {
            ffi::lua_settop(state, 2);
            ffi::lua_setiuservalue(state, 1, BODY);
        }
        ffi::lua_getiuservalue(state, 1, BODY);
        1
    }
}

/// Pushes the body that was kept with the head at `index`, or nil. → whether there is one.
///
/// # Safety
/// A head is at `index`, and there is a free stack slot.
pub(super) unsafe fn push_body(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::lua_getiuservalue(state, index, BODY) == ffi::LUA_TSTRING }
}

/// Keeps the body that is on top (popped) with the head at `index`.
///
/// # Safety
/// As for [`push_body`].
pub(super) unsafe fn keep_body(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe { ffi::lua_setiuservalue(state, index, BODY) };
}

/// Pushes the exchange that the head at `index` came by, which is at the new top then; raises before it is served.
///
/// # Safety
/// As for [`push_body`].
pub(super) unsafe fn push_exchange(state: *mut lua_State, index: c_int) -> *mut Connection {
    // SAFETY: the caller's promise.
    unsafe {
        let life = (*object::check::<Request>(state, index)).life;
        ffi::lua_getiuservalue(state, index, CONNECTION);
        let at = ffi::lua_gettop(state);
        match object::test::<Connection>(state, at) {
            Some(found) if (*found).is_attached() => {
                if (*found).stands_for(life) {
                    return found;
                }
                life::push_table_of(state, at, life);
                ffi::lua_getfield(state, -1, c"x".as_ptr());
                ffi::lua_replace(state, at);
                ffi::lua_settop(state, at);
                object::check::<Connection>(state, at)
            }
            _ => raise(state, Text::new("the request is not served")),
        }
    }
}

/// Tells the head at `index` whose it is; the exchange, in its `life`, is on top (popped).
///
/// # Safety
/// A head is at `index`.
pub(super) unsafe fn belongs(state: *mut lua_State, index: c_int, life: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        (*object::check::<Request>(state, index)).life = life;
        ffi::lua_setiuservalue(state, index, CONNECTION);
    }
}

/// Pushes a table of what `head:…` can do, as functions.
///
/// # Safety
/// As for [`push_bytes`].
pub(super) unsafe fn push_functions(state: *mut lua_State) {
    // SAFETY: the caller's promise.
    unsafe { crate::raw::module::push(state, <Request as Object>::METHODS) };
}
