//! `lio.http.multipart`: a form's parser as `lualib/lio/web/form.lua` uses it. It is fed the pieces of a
//! body, or takes them from an exchange; nothing here waits: what would need more bytes returns `false`.

use super::connection::check_at;
use super::exchange::Piece;
use super::request::push_lower;
use crate::codec::http1::status::Reject;
use crate::codec::multipart::{Event, Limits, Multipart, Part};
use crate::file::spool::Spool;
use crate::raw::object::{self, Object};
use crate::raw::{
    Fault, Function, Text, args, functions, guard, may_be_finalizer, push_bytes, raise, settle,
};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

const PARSER: c_int = 1;

/// A parser and what it was refused for.
pub(crate) struct Form {
    // Boxed, since the searcher in it asks for an alignment that Lua does not give.
    parser: Box<Multipart>,
    /// A field's value as far as it has come.
    collected: Vec<u8>,
    /// Bytes of the current part that were handed out.
    taken: u64,
    /// Whether a part has begun and not ended.
    within: bool,
    /// Data that was looked at and is still to be handed out.
    ahead: Option<(usize, usize)>,
    refused: Option<Reject>,
    /// The current part is being handed to Lua.
    busy: bool,
}

impl Object for Form {
    const NAME: &'static CStr = c"lio.http.multipart";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"feed", feed),
        (c"finish", finish),
        (c"pull", pull),
        (c"next", next),
        (c"peek", peek),
        (c"piece", piece),
        (c"text", text),
        (c"store", store),
    ];
}

/// What a step came to, as plain data.
#[derive(Clone, Copy)]
enum Step {
    Hungry,
    Part,
    Data(usize, usize),
    /// The current part, or the whole form, is complete.
    End,
    Refused(Reject),
    Failed(Fault),
}

impl Form {
    fn new(content_type: &[u8], limits: Limits) -> Result<Self, Reject> {
        Ok(Self {
            parser: Box::new(Multipart::new(content_type, limits)?),
            collected: Vec::new(),
            taken: 0,
            within: false,
            ahead: None,
            refused: None,
            busy: false,
        })
    }

    fn refuse(&mut self, reject: Reject) -> Step {
        self.refused = Some(reject);
        Step::Refused(reject)
    }

    fn event(&mut self) -> Result<Event, Step> {
        if let Some(reject) = self.refused {
            return Err(Step::Refused(reject));
        }
        self.parser.next().map_err(|reject| self.refuse(reject))
    }

    /// Takes the next bytes of the body, in the place of what was not read of the last ones.
    fn feed(&mut self, piece: &[u8]) {
        self.ahead = None;
        self.parser.feed(piece);
    }

    /// The next part; what is left of the current one is passed over.
    fn next(&mut self) -> Result<Step, Step> {
        self.ahead = None;
        loop {
            match self.event()? {
                Event::Hungry => return Ok(Step::Hungry),
                Event::Part => {
                    self.within = true;
                    self.taken = 0;
                    self.collected.clear();
                    return Ok(Step::Part);
                }
                Event::Data(_) => {}
                Event::PartEnd => self.within = false,
                Event::Done => return Ok(Step::End),
            }
        }
    }

    /// The next data of the current part, which may have `limit` bytes in all.
    fn piece(&mut self, limit: u64) -> Result<Step, Step> {
        if !self.within {
            return Ok(Step::End);
        }
        if let Some((from, to)) = self.ahead.take() {
            return self.count(from, to, limit);
        }
        match self.event()? {
            Event::Hungry => Ok(Step::Hungry),
            Event::Data(range) => self.count(range.start, range.end, limit),
            _ => {
                self.within = false;
                Ok(Step::End)
            }
        }
    }

    fn count(&mut self, from: usize, to: usize, limit: u64) -> Result<Step, Step> {
        self.taken += (to - from) as u64;
        if self.taken > limit {
            let reject = Reject::new(413, "a part of the form is larger than allowed");
            return Err(self.refuse(reject));
        }
        Ok(Step::Data(from, to))
    }

    /// Whether the current part has data, which stays to be read.
    fn peek(&mut self) -> Result<Step, Step> {
        let step = self.piece(u64::MAX)?;
        if let Step::Data(from, to) = step {
            self.taken -= (to - from) as u64;
            self.ahead = Some((from, to));
        }
        Ok(step)
    }

    /// Collects the rest of the current part.
    fn text(&mut self, limit: u64) -> Result<Step, Step> {
        loop {
            match self.piece(limit)? {
                Step::Data(from, to) => {
                    let data = &self.parser.bytes()[from..to];
                    self.collected.extend_from_slice(data);
                }
                other => return Ok(other),
            }
        }
    }

    /// Writes what has come of the current part to a file.
    fn store(&mut self, spool: &mut Spool, limit: u64) -> Result<Step, Step> {
        loop {
            match self.piece(limit)? {
                Step::Data(from, to) => spool
                    .write(&self.parser.bytes()[from..to])
                    .map_err(|error| Step::Failed(Fault::io("store", &error)))?,
                other => return Ok(other),
            }
        }
    }

    fn finish(&mut self) -> Result<(), Reject> {
        match self.refused {
            Some(reject) => Err(reject),
            None => self.parser.finish(),
        }
    }
}

/// The parser at argument 1. It is refused to a finalizer in the middle of `next`.
unsafe fn check<'a>(state: *mut lua_State) -> &'a mut Form {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe {
        let form = &mut *object::check::<Form>(state, PARSER);
        if form.busy && may_be_finalizer(state) {
            raise(
                state,
                Text::new("the form is busy: 'next' hands a part over"),
            );
        }
        form.busy = false;
        form
    }
}

unsafe fn limit(state: *mut lua_State, index: c_int) -> u64 {
    // SAFETY: nothing that needs `Drop` is alive.
    unsafe {
        match args::is_none(state, index) {
            true => u64::MAX >> 1,
            false => args::integer_in(state, index, 0, i64::MAX, "limit") as u64,
        }
    }
}

unsafe fn push_refusal(state: *mut lua_State, reject: Reject) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushnil(state);
        ffi::lua_pushinteger(state, i64::from(reject.status));
        push_bytes(state, reject.reason.as_bytes());
        3
    }
}

/// Runs a step, and pushes what is the same for all: `false` hungry; `nil, status, reason` refused, with
/// status 500 when a file could not be written.
unsafe fn run(
    state: *mut lua_State,
    step: impl FnOnce() -> Result<Step, Step>,
    push: impl FnOnce(Step) -> c_int,
) -> c_int {
    // SAFETY: plain stack work; `Step` is plain data.
    unsafe {
        let found: Result<Step, Text> = guard(|| Ok(step().unwrap_or_else(|step| step)));
        match settle(state, found) {
            Step::Hungry => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Step::Refused(reject) => push_refusal(state, reject),
            Step::Failed(fault) => {
                let message = fault.message();
                ffi::lua_pushnil(state);
                ffi::lua_pushinteger(state, 500);
                push_bytes(state, message.as_bytes());
                3
            }
            other => push(other),
        }
    }
}

/// `http.multipart(content_type, parts, headers)` → a parser for a body of that type with so many parts at
/// most, each with so many bytes of headers; or nil, status, reason.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the parser is owned by Lua before anything can raise.
    unsafe {
        let content_type = args::bytes(state, 1);
        let limits = Limits {
            parts: args::integer_in(state, 2, 0, i64::MAX, "parts limit") as u64,
            headers: args::integer_in(state, 3, 1, 1 << 30, "headers limit") as usize,
        };
        match object::push_new(state, || Form::new(content_type, limits)) {
            Ok(_) => 1,
            Err(reject) => push_refusal(state, reject),
        }
    }
}

/// `m:feed(piece)`: the next bytes of the body.
unsafe extern "C-unwind" fn feed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        check(state);
        let piece = args::bytes(state, 2);
        let form = check(state);
        settle(state, guard(|| Ok(form.feed(piece))));
        0
    }
}

unsafe fn push_finished(state: *mut lua_State, form: *mut Form) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        match settle(state, guard(|| Ok((*form).finish()))) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(reject) => push_refusal(state, reject),
        }
    }
}

/// `m:finish()`: the body is at its end → true; or nil, status, reason when the form is not.
unsafe extern "C-unwind" fn finish(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe { push_finished(state, check(state)) }
}

/// `m:pull(x [, limit])`: takes the next piece of the exchange's body → true; `false` would block; nil,
/// status, reason when the body, or the form, is refused or ends early.
unsafe extern "C-unwind" fn pull(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; form and exchange are different objects.
    unsafe {
        let limit = limit(state, 3);
        let form: *mut Form = check(state);
        let connection = check_at(state, 2);
        let found = guard(|| {
            let (exchange, stream) = connection.parts();
            let piece = exchange.piece(stream, limit);
            if let Ok(Piece::Data { from, to, consume }) = piece {
                (*form).feed(&stream.buffered()[from..to]);
                stream.consume(consume);
            }
            Ok(piece.map_err(|error| Fault::io("recv", &error)))
        });
        match settle(state, found) {
            Ok(Piece::Data { .. }) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Ok(Piece::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Ok(Piece::End) => push_finished(state, form),
            Ok(Piece::Refused(reject)) => push_refusal(state, reject),
            Ok(Piece::Truncated) => push_refusal(state, Reject::bad("closed")),
            Err(fault) => push_refusal(state, Reject::bad(fault.code())),
        }
    }
}

/// The current part of a form that is being handed over, looked up for each value: a finalizer may have dropped it.
unsafe fn part<'a>(state: *mut lua_State, form: *const Form) -> &'a Part {
    // SAFETY: the form's userdata is on the stack; while it is busy its part stays.
    unsafe {
        if !object::is_alive(form) {
            raise(state, Text::new("the form is gone"));
        }
        (*form).parser.part()
    }
}

/// Pushes `"part"`, name, file name or nil, headers by lower-case name; of a repeated one the last.
unsafe fn push_part(state: *mut lua_State, form: *mut Form) -> c_int {
    // SAFETY: the part belongs to the parser, so a raise loses nothing; nothing of it is held while Lua allocates.
    unsafe {
        (*form).busy = true;
        push_bytes(state, b"part");
        push_bytes(state, &part(state, form).disposition.name);
        match &part(state, form).disposition.filename {
            Some(filename) => push_bytes(state, filename),
            None => ffi::lua_pushnil(state),
        }
        ffi::lua_createtable(state, 0, 4);
        for index in 0..part(state, form).count() {
            push_lower(state, part(state, form).field(index).0);
            push_bytes(state, part(state, form).field(index).1);
            ffi::lua_rawset(state, -3);
        }
        part(state, form);
        (*form).busy = false;
        4
    }
}

/// `m:next()` → `"part", name, filename or nil, headers`: the next part, what is left of the current one
/// being passed over; `nil` when the form is complete; `false` hungry; `nil, status, reason` refused.
unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let form: *mut Form = check(state);
        run(
            state,
            || (*form).next(),
            |step| match step {
                Step::Part => push_part(state, form),
                _ => {
                    ffi::lua_pushnil(state);
                    1
                }
            },
        )
    }
}

/// `m:piece([limit])` → the next data of the current part, `nil` at its end; `false` hungry; `nil, status,
/// reason` refused: 413 when the part is larger than `limit` bytes.
unsafe extern "C-unwind" fn piece(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let limit = limit(state, 2);
        let form: *mut Form = check(state);
        run(
            state,
            || (*form).piece(limit),
            |step| {
                match step {
                    Step::Data(from, to) => push_bytes(state, &(*form).parser.bytes()[from..to]),
                    _ => ffi::lua_pushnil(state),
                }
                1
            },
        )
    }
}

/// `m:peek()` → true when the current part has data, nil when it has none; `false` hungry; `nil, status,
/// reason` refused. To be asked before any of its data.
unsafe extern "C-unwind" fn peek(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let form: *mut Form = check(state);
        run(
            state,
            || (*form).peek(),
            |step| {
                match step {
                    Step::Data(..) => ffi::lua_pushboolean(state, 1),
                    _ => ffi::lua_pushnil(state),
                }
                1
            },
        )
    }
}

/// `m:text([limit])` → the current part as a whole; `false` hungry; `nil, status, reason` refused.
unsafe extern "C-unwind" fn text(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let limit = limit(state, 2);
        let form: *mut Form = check(state);
        run(
            state,
            || (*form).text(limit),
            |_| {
                push_bytes(state, &(&(*form).collected)[..]);
                1
            },
        )
    }
}

/// `m:store(file [, limit])` → the file's size once the current part is written to it as a whole; `false`
/// hungry; `nil, status, reason` refused, 500 when it cannot be written.
unsafe extern "C-unwind" fn store(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; form and file are different objects.
    unsafe {
        let spool = object::check::<Spool>(state, 2);
        let limit = limit(state, 3);
        let form: *mut Form = check(state);
        run(
            state,
            || (*form).store(&mut *spool, limit),
            |_| {
                ffi::lua_pushinteger(state, (*spool).size() as i64);
                1
            },
        )
    }
}
