//! `lio.http`: exchanges as `lualib/lio/webserver.lua` uses them. Nothing here waits: a call that would
//! block returns `false` with the stream armed.

use super::body::MAX_TRAILER_FIELDS;
use super::exchange::{Exchange, Next, Piece, Workspace};
use super::fields::Field;
use super::head::{Head, Limits};
use super::routes::{Found, Routes};
use super::status::{Reject, reason};
use super::{answer, client, form, list, request, routes, select, serve, spool, uri};
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Fault, Function, Text, args, guard, module, push_bytes, raise, settle};
use crate::stream::{Filled, Stream};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

// User values of an exchange; all but the first two by `attach`.
const STREAM: c_int = 1;
const ROUTES: c_int = 2;
/// The table of lualib/lio/web/connection.lua.
pub(super) const SELF: c_int = 3;
/// The head of a request that waits for its handler.
pub(super) const HEAD: c_int = 4;
pub(super) const TOOLS: c_int = 5;
pub(super) const HANDLERS: c_int = 6;
pub(super) const WRAPPERS: c_int = 7;
/// By route: whether its handler has no use for a response.
pub(super) const BRIEF: c_int = 8;

/// An exchange and what it works on; the user values keep both alive.
pub(crate) struct Connection {
    pub(crate) exchange: Exchange,
    stream: *mut Stream,
    routes: *const Routes,
    /// The VM's workspace, which the registry keeps.
    space: *mut Workspace,
    /// It has all its user values.
    pub(super) attached: bool,
    /// What [`serve::ready`] found that is no request; `look` tells.
    pub(super) pending: Option<Step>,
    /// The current request's route, 0 when that needs a closer look.
    pub(super) route: i64,
    /// Answers are queued that did not go out yet.
    pub(super) more: bool,
    /// The loop is going to send what is queued before it waits.
    pub(super) flush_noted: bool,
    /// A request is worked on, or waits for its handler.
    pub(super) busy: bool,
    /// What one that is not busy waits for.
    pub(super) waits: Wait,
    /// It has had a request.
    pub(super) served: bool,
    /// The handler has set something of the answer: status, fields, body.
    pub(super) touched: bool,
    /// It did more than that, or than to return.
    pub(super) special: bool,
    /// What comes next depends on more than its bytes: a stop has begun, or its requests are counted.
    pub(super) careful: bool,
    /// Seconds it may wait between two requests.
    pub(super) keep_alive: f64,
    /// When the wait is over, and when its timer fires, in seconds of `lio.now`.
    pub(super) due: f64,
    pub(super) timer_due: f64,
    /// When the wait for the head, or for the rest of a body, has begun.
    since: Option<f64>,
}

/// What a connection without a request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Idle,
    Partial,
    Unread,
    Blocked,
}

impl Wait {
    const ALL: [(Wait, &'static str); 4] = [
        (Wait::Idle, "idle"),
        (Wait::Partial, "partial"),
        (Wait::Unread, "unread"),
        (Wait::Blocked, "blocked"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Object for Connection {
    const NAME: &'static CStr = c"lio.http.exchange";
    const USER_VALUES: c_int = 8;
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"next", next),
        (c"answer", answer::answer),
        (c"start", answer::start),
        (c"chunk", answer::chunk),
        (c"last_chunk", answer::last_chunk),
        (c"refuse", refuse),
        (c"body", body),
        (c"piece", piece),
        (c"received", received),
        (c"discard", discard),
        (c"trailers", trailers),
        (c"close_after", close_after),
        (c"is_closing", is_closing),
        (c"is_answered", is_answered),
        (c"is_head", is_head),
        (c"body_sent", body_sent),
        (c"leaves_unread", leaves_unread),
        (c"is_last_arrived", is_last_arrived),
        (c"hand_over", hand_over),
        (c"attach", attach),
        (c"touch", touch),
        (c"work", work),
        (c"rest", rest),
        (c"waits", waits),
        (c"idle_due", idle_due),
        (c"act_by", act_by),
        (c"expired", expired),
        (c"since", since),
        (c"careful", careful),
    ];
    fn key() -> &'static Key {
        key!()
    }
}

impl Object for Workspace {
    const NAME: &'static CStr = c"lio.http workspace of this VM";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    fn key() -> &'static Key {
        key!()
    }
}

static WORKSPACE: Key = Key::new(4);

/// The workspace of the VM; it lives as long as the VM.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; one user at a time.
pub(crate) unsafe fn workspace(state: *mut lua_State) -> *mut Workspace {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, WORKSPACE.pointer());
        let known = object::test::<Workspace>(state, -1);
        ffi::lua_pop(state, 1);
        if let Some(known) = known {
            return known;
        }
        let Ok(made) =
            object::push_new(
                state,
                || Ok::<_, std::convert::Infallible>(Workspace::new()),
            );
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, WORKSPACE.pointer());
        made
    }
}

impl Connection {
    /// Whether stream, routes and workspace are what they were: their finalizers may have run, by a
    /// script or because the VM is closing.
    pub(super) unsafe fn is_whole(&self) -> bool {
        // SAFETY: the user values and the registry keep the blocks; a closing VM frees them last.
        unsafe {
            object::is_alive(self.stream)
                && object::is_alive(self.routes)
                && object::is_alive(self.space)
        }
    }

    /// The VM's workspace; one user at a time.
    pub(crate) fn space(&self) -> *mut Workspace {
        self.space
    }

    /// The exchange and its stream, which are different objects.
    pub(crate) fn parts(&mut self) -> (&mut Exchange, &mut Stream) {
        // SAFETY: the user value keeps the stream alive; Lua runs one call at a time.
        (&mut self.exchange, unsafe { &mut *self.stream })
    }
}

/// The connection at argument 1.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; one reference at a time.
#[inline]
pub(crate) unsafe fn check<'a>(state: *mut lua_State) -> &'a mut Connection {
    // SAFETY: the caller's promise.
    unsafe { check_at(state, 1) }
}

/// The connection at argument `index`.
///
/// # Safety
/// As for [`check`].
#[inline]
pub(crate) unsafe fn check_at<'a>(state: *mut lua_State, index: c_int) -> &'a mut Connection {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe {
        let connection = object::check::<Connection>(state, index);
        if !(*connection).is_whole() {
            raise(state, Text::new("the exchange's stream or routes are gone"));
        }
        &mut *connection
    }
}

/// `http.exchange(stream, routes, request_line, headers, fields)` → an exchange with these limits:
/// bytes of the request line and of the header section, number of fields (256 at most).
unsafe extern "C-unwind" fn exchange(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the exchange is owned by Lua before anything can raise.
    unsafe {
        let stream = object::check::<Stream>(state, 1);
        let routes = object::check::<Routes>(state, 2);
        let space = workspace(state);
        let limits = Limits {
            request_line: args::integer_in(state, 3, 1, 1 << 30, "request line limit") as usize,
            headers: args::integer_in(state, 4, 1, 1 << 30, "headers limit") as usize,
            fields: args::integer_in(state, 5, 1, 256, "fields limit") as usize,
        };
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Connection {
                exchange: Exchange::new(limits),
                stream,
                routes,
                space,
                attached: false,
                pending: None,
                route: 0,
                more: false,
                flush_noted: false,
                busy: false,
                waits: Wait::Idle,
                served: false,
                touched: false,
                special: false,
                careful: false,
                keep_alive: 0.0,
                due: 0.0,
                timer_due: f64::INFINITY,
                since: None,
            })
        });
        ffi::lua_pushvalue(state, 1);
        ffi::lua_setiuservalue(state, -2, STREAM);
        ffi::lua_pushvalue(state, 2);
        ffi::lua_setiuservalue(state, -2, ROUTES);
        1
    }
}

/// What `next` found, as plain data.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Wait(Wait),
    Over,
    Refused(Reject),
    Request(Head, i64),
}

impl Step {
    /// Pushes what `next` returns for it, unless it is a request. Returns how many values.
    pub(super) unsafe fn push(self, state: *mut lua_State) -> c_int {
        // SAFETY: plain stack work.
        unsafe {
            match self {
                Step::Wait(what) => {
                    ffi::lua_pushboolean(state, 0);
                    push_bytes(state, what.name().as_bytes());
                    2
                }
                Step::Refused(reject) => push_refusal(state, reject),
                Step::Over | Step::Request(..) => {
                    ffi::lua_pushnil(state);
                    1
                }
            }
        }
    }
}

fn step(connection: &mut Connection, workspace: &mut Workspace) -> Step {
    // SAFETY: the user value keeps the routes alive.
    let routes = unsafe { &*connection.routes };
    let (exchange, stream) = connection.parts();
    if stream.is_closed() {
        return Step::Over;
    }
    match exchange.next(stream, workspace) {
        Ok(Next::Request(head)) => {
            let bytes = stream.buffered();
            let raw = request::route_path(&head, bytes);
            match request::normal_path(raw, &mut workspace.scratch) {
                Some(path) => {
                    let method = head.method.of(bytes);
                    match routes.find(head.method_id, method, path) {
                        Found::Route(id) => Step::Request(head, id),
                        Found::Unsure => Step::Request(head, 0),
                    }
                }
                None => {
                    // Begun, so that the refusal suits its method and version.
                    exchange.begin(stream, &head);
                    Step::Refused(Reject::bad("malformed percent-encoding in the path"))
                }
            }
        }
        Ok(Next::Idle) => Step::Wait(Wait::Idle),
        Ok(Next::Partial) => Step::Wait(Wait::Partial),
        Ok(Next::Unread) => Step::Wait(Wait::Unread),
        Ok(Next::Blocked) => Step::Wait(Wait::Blocked),
        Ok(Next::Over) | Err(_) => Step::Over,
        Ok(Next::Refused(reject)) => Step::Refused(reject),
    }
}

/// Takes the next request: its head is pushed, and what is queued then noted in the connection. For any other
/// step nothing is pushed.
///
/// # Safety
/// The connection's userdata is on the stack; finalizers may run, so nothing that needs `Drop` may be alive.
pub(super) unsafe fn take(state: *mut lua_State, connection: *mut Connection) -> Step {
    // SAFETY: the head is copied before its bytes are consumed.
    unsafe {
        let space = (*connection).space();
        let found = guard(|| Ok(step(&mut *connection, &mut *space)));
        let found = settle(state, found);
        let Step::Request(head, id) = found else {
            return found;
        };
        let stream = (*connection).stream;
        let bytes = (*stream).buffered().as_ptr();
        let still = || {
            let now = (*stream).buffered();
            (now.as_ptr() == bytes && now.len() >= head.head_len).then_some(bytes)
        };
        let fields = &(&(*space).fields)[..head.field_count];
        if !request::push(state, &head, fields, id, still) {
            // A finalizer has closed the connection, or read on it.
            return Step::Over;
        }
        let (exchange, stream) = (*connection).parts();
        settle(state, guard(|| Ok(exchange.begin(stream, &head))));
        (*connection).more = stream.queued() > 0;
        (*connection).route = id;
        (*connection).since = None;
        found
    }
}

/// `x:next()` → head, route, pipelined: the next request; the route's id, 0 when that needs a closer look;
/// whether answers are queued that did not go out yet. `false, what` when it would block: `"idle"`
/// between requests, `"partial"` inside a head, `"unread"` inside the body of a request that is answered,
/// `"blocked"` on the peer's reading. `nil` when the connection is over; `nil, status, reason` when the
/// request must be refused.
unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection: *mut Connection = check(state);
        match take(state, connection) {
            Step::Request(..) => {
                ffi::lua_pushinteger(state, (*connection).route);
                ffi::lua_pushboolean(state, (*connection).more.into());
                3
            }
            step => step.push(state),
        }
    }
}

/// `x:attach(connection, tools, handlers, wrappers, brief, keep_alive)`: from now on `http.serve` serves it.
/// `connection` is its table, `tools` what `http.tools` checked, the next three are the app's, and `keep_alive`
/// is how many seconds it may be idle.
unsafe extern "C-unwind" fn attach(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection: *mut Connection = check(state);
        (*connection).keep_alive = ffi::luaL_checknumber(state, 7);
        let values = [SELF, TOOLS, HANDLERS, WRAPPERS, BRIEF];
        for (argument, value) in (2..).zip(values) {
            ffi::luaL_checktype(state, argument, ffi::LUA_TTABLE);
            ffi::lua_pushvalue(state, argument);
            ffi::lua_setiuservalue(state, 1, value);
        }
        (*connection).attached = true;
        0
    }
}

/// `x:touch([special])` → whether the answer to the current request has begun: the handler sets something of it.
/// With `special`: it does something that only Lua knows how to conclude.
unsafe extern "C-unwind" fn touch(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        connection.touched = true;
        connection.special |= ffi::lua_toboolean(state, 2) != 0;
        push_flag(state, connection.exchange.answered)
    }
}

/// `x:work()`: whatever comes is not looked at until `rest`.
unsafe extern "C-unwind" fn work(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        check(state).busy = true;
        0
    }
}

/// `x:rest(what)`: it waits for the loop's events; `what` is a word of `next`'s.
unsafe extern "C-unwind" fn rest(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        let name = args::bytes(state, 2);
        let known = Wait::ALL.iter().find(|known| known.1.as_bytes() == name);
        let Some((what, _)) = known else {
            raise(state, Text::new("rest: not a kind of wait"));
        };
        (connection.busy, connection.waits) = (false, *what);
        0
    }
}

/// `x:waits()` → the word that `rest` was given; nil while a request is worked on.
unsafe extern "C-unwind" fn waits(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        match connection.busy {
            true => ffi::lua_pushnil(state),
            false => push_bytes(state, connection.waits.name().as_bytes()),
        }
        1
    }
}

/// `x:idle_due()` → when its wait for another request ends, in seconds of `lio.now`; nil when it waits for
/// something else, or for its first one.
unsafe extern "C-unwind" fn idle_due(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        let idle = connection.served && !connection.busy && connection.waits == Wait::Idle;
        match idle {
            true => ffi::lua_pushnumber(state, connection.due),
            false => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `x:act_by(due)` → whether the timer must be set to `due` (seconds of `lio.now`), since it is set to later.
unsafe extern "C-unwind" fn act_by(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let due = ffi::luaL_checknumber(state, 2);
        let connection = check(state);
        connection.due = due;
        let earlier = due < connection.timer_due;
        if earlier {
            connection.timer_due = due;
        }
        push_flag(state, earlier)
    }
}

/// `x:expired()` → when its wait is over: the timer has fired and is not set.
unsafe extern "C-unwind" fn expired(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        connection.timer_due = f64::INFINITY;
        ffi::lua_pushnumber(state, connection.due);
        1
    }
}

/// `x:since()` → when the wait for the head, or for the rest of a body, has begun: at the first call, in
/// seconds of `lio.now`.
unsafe extern "C-unwind" fn since(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        let since = *connection.since.get_or_insert_with(crate::timer::monotonic);
        ffi::lua_pushnumber(state, since);
        1
    }
}

/// `x:careful()`: from now on Lua is asked what comes before and after each request.
unsafe extern "C-unwind" fn careful(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        check(state).careful = true;
        0
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

unsafe fn limit(state: *mut lua_State) -> u64 {
    // SAFETY: as for `exchange`.
    unsafe {
        match args::is_none(state, 2) {
            true => u64::MAX >> 1,
            false => args::integer_in(state, 2, 0, i64::MAX, "limit") as u64,
        }
    }
}

/// Pushes what reading the body came to, `data` being where `Data` points into.
unsafe fn push_piece(
    state: *mut lua_State,
    result: Result<Piece, Fault>,
    data: impl FnOnce(usize, usize),
) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        match result {
            Ok(Piece::Data { from, to, .. }) => {
                data(from, to);
                1
            }
            Ok(Piece::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Ok(Piece::End) => {
                ffi::lua_pushnil(state);
                1
            }
            Ok(Piece::Truncated) => {
                ffi::lua_pushnil(state);
                ffi::lua_pushinteger(state, 400);
                push_bytes(state, b"closed");
                3
            }
            Ok(Piece::Refused(reject)) => push_refusal(state, reject),
            Err(fault) => {
                ffi::lua_pushnil(state);
                ffi::lua_pushinteger(state, 400);
                push_bytes(state, fault.code().as_bytes());
                3
            }
        }
    }
}

/// `x:body([limit])` → the rest of the body as one string; `false` would block; `nil, status, reason`
/// when it is over the limit (413, before it is read), malformed, or ends early.
unsafe extern "C-unwind" fn body(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`; what is pushed belongs to the stream or the exchange.
    unsafe {
        let limit = limit(state);
        let connection = check(state);
        let result = guard(|| {
            let (exchange, stream) = connection.parts();
            let piece = exchange.whole(stream, limit);
            Ok(piece.map_err(|error| Fault::io("recv", &error)))
        });
        let result = settle(state, result);
        // A wait for more, or a refusal, is not over with the handler's return.
        if !matches!(result, Ok(Piece::Data { .. } | Piece::End)) {
            connection.special = true;
        }
        let (exchange, stream) = connection.parts();
        push_piece(state, result, |from, to| {
            if let Ok(Piece::Data { consume: 0, .. }) = result {
                push_bytes(state, &exchange.collected()[from..to]);
                *exchange.collected() = Vec::new();
                return;
            }
            push_bytes(state, &stream.buffered()[from..to]);
            stream.consume(to);
        })
    }
}

/// `x:piece([limit])` → the next piece of the body; `nil` at its end; `false` would block;
/// `nil, status, reason` as for `body`.
unsafe extern "C-unwind" fn piece(state: *mut lua_State) -> c_int {
    // SAFETY: as for `body`.
    unsafe {
        let limit = limit(state);
        let connection = check(state);
        connection.special = true;
        let result = guard(|| {
            let (exchange, stream) = connection.parts();
            let piece = exchange.piece(stream, limit);
            Ok(piece.map_err(|error| Fault::io("recv", &error)))
        });
        let result = settle(state, result);
        let (_, stream) = connection.parts();
        push_piece(state, result, |from, to| {
            push_bytes(state, &stream.buffered()[from..to]);
            if let Ok(Piece::Data { consume, .. }) = result {
                stream.consume(consume);
            }
        })
    }
}

/// `x:received()` → bytes of the current body that were received.
unsafe extern "C-unwind" fn received(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        let (exchange, stream) = connection.parts();
        let count = exchange.received() + stream.buffered().len() as u64;
        ffi::lua_pushinteger(state, count as i64);
        1
    }
}

/// `x:refuse(status [, message])`: queues a plain answer after which the connection closes.
unsafe extern "C-unwind" fn refuse(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let status = args::integer_in(state, 2, 400, 599, "status") as u16;
        let message = match args::is_none(state, 3) {
            true => reason(status),
            false => args::utf8(state, 3),
        };
        let connection = check(state);
        let space = connection.space();
        let queued = guard(|| {
            let (exchange, stream) = connection.parts();
            exchange.refuse(stream, &mut *space, status, message);
            Ok(())
        });
        settle(state, queued);
        0
    }
}

/// `x:body_sent(gone)` → bytes of the current answer behind its head, framing included. With `gone`, what
/// the system took of them; else what is queued counts as well.
unsafe extern "C-unwind" fn body_sent(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let gone = ffi::lua_toboolean(state, 2) != 0;
        let (exchange, stream) = check(state).parts();
        let queued = if gone { 0 } else { stream.queued() as u64 };
        let end = stream.written + queued;
        let from = exchange.body_from.unwrap_or(end);
        ffi::lua_pushinteger(state, end.saturating_sub(from) as i64);
        1
    }
}

/// `x:discard()`: reads and drops what the peer still sends. `false` would block, `nil` at its end.
unsafe extern "C-unwind" fn discard(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        let done = guard(|| {
            let (_, stream) = connection.parts();
            // A peer that never stops does not hold the loop: `fill` says that it would block now and then.
            loop {
                let there = stream.buffered().len();
                stream.consume(there);
                match stream.fill(0) {
                    Ok(Filled::Some) => {}
                    Ok(Filled::WouldBlock) => return Ok(false),
                    _ => return Ok(true),
                }
            }
        });
        match settle(state, done) {
            true => ffi::lua_pushnil(state),
            false => ffi::lua_pushboolean(state, 0),
        }
        1
    }
}

/// `x:trailers()` → table of lower-case name to value of the fields behind a chunked body (RFC 9112
/// section 7.1.2), once it was read; of a repeated one the last.
unsafe extern "C-unwind" fn trailers(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`; a copy of the section stays on the stack.
    unsafe {
        push_bytes(state, check(state).exchange.trailers());
        let section = args::bytes(state, -1);
        let mut found = [Field::default(); MAX_TRAILER_FIELDS];
        let parsed = guard(|| Ok(super::body::trailers(section, &mut found).unwrap_or(0)));
        let count = settle(state, parsed);
        ffi::lua_createtable(state, 0, count as c_int);
        for field in &found[..count] {
            request::push_lower(state, field.name.of(section));
            push_bytes(state, field.value.of(section));
            ffi::lua_rawset(state, -3);
        }
        1
    }
}

/// `x:close_after()`: the connection closes after the current answer.
unsafe extern "C-unwind" fn close_after(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        check(state).exchange.close_after();
        0
    }
}

unsafe fn push_flag(state: *mut lua_State, flag: bool) -> c_int {
    // SAFETY: a free stack slot is guaranteed to a C function.
    unsafe { ffi::lua_pushboolean(state, flag.into()) };
    1
}

/// `x:is_closing()` → whether no request follows the current one.
unsafe extern "C-unwind" fn is_closing(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe { push_flag(state, check(state).exchange.closing) }
}

/// `x:is_answered()` → whether the answer to the current request has begun.
unsafe extern "C-unwind" fn is_answered(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe { push_flag(state, check(state).exchange.answered) }
}

/// `x:is_head()` → whether the current request is HEAD.
unsafe extern "C-unwind" fn is_head(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe { push_flag(state, check(state).exchange.is_head()) }
}

/// `x:leaves_unread()` → whether the peer may still be sending, so that closing now would reset the
/// connection under the answer.
unsafe extern "C-unwind" fn leaves_unread(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let (exchange, stream) = check(state).parts();
        push_flag(state, exchange.leaves_unread(stream))
    }
}

/// `x:is_last_arrived()` → whether nothing has come behind the current request and its body.
unsafe extern "C-unwind" fn is_last_arrived(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let (exchange, stream) = check(state).parts();
        push_flag(state, exchange.is_last_arrived(stream))
    }
}

/// `x:hand_over()`: the stream is somebody else's from now on.
unsafe extern "C-unwind" fn hand_over(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let connection = check(state);
        connection.special = true;
        connection.exchange.hand_over();
        0
    }
}

/// `http.pairs(text [, most])` → table of a urlencoded form: as `head:query()`; nil when it has more than
/// `most` pairs.
unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let text = args::bytes(state, 1);
        if !args::is_none(state, 2) {
            let most = args::integer_in(state, 2, 0, i64::MAX, "number of pairs") as usize;
            if uri::query_pairs(text).nth(most).is_some() {
                ffi::lua_pushnil(state);
                return 1;
            }
        }
        request::push_pairs(state, text);
        1
    }
}

/// `http.escape(text)` → `text` percent-encoded, all but the unreserved characters (RFC 3986 section 2.3).
unsafe extern "C-unwind" fn escape(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`; the scratch buffer belongs to the workspace.
    unsafe {
        let text = args::bytes(state, 1);
        let space = workspace(state);
        let escaped = guard(|| {
            let scratch = &mut (*space).scratch;
            scratch.clear();
            uri::percent_encode(text, scratch);
            Ok(())
        });
        settle(state, escaped);
        let scratch = &(*space).scratch;
        push_bytes(state, scratch);
        1
    }
}

/// `http.reason(status)` → its reason phrase.
unsafe extern "C-unwind" fn reason_of(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let status = args::integer_in(state, 1, 100, 599, "status") as u16;
        push_bytes(state, reason(status).as_bytes());
        1
    }
}

/// `http.check_field(name, value)`: raises when either could not be sent, so that the error points to
/// who set it.
unsafe extern "C-unwind" fn check_field(state: *mut lua_State) -> c_int {
    // SAFETY: as for `exchange`.
    unsafe {
        let name = args::bytes(state, 1);
        let value = args::bytes(state, 2);
        if let Some(message) = answer::fault_of(name, value) {
            raise(state, Text::new(message));
        }
        0
    }
}

/// Opens `lio.http`. `http.head` holds what heads can do, as functions; `http.body(x, …)` is the exchange's
/// method of that name.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            &[
                (c"exchange", exchange),
                (c"routes", routes::new),
                (c"answers", client::answers),
                (c"pairs", pairs),
                (c"multipart", form::new),
                (c"spool", spool::new),
                (c"reason", reason_of),
                (c"escape", escape),
                (c"check_field", check_field),
                (c"put_field", list::put_field),
                (c"select", select::select),
                (c"accepted", select::accepted),
                (c"media_type", select::media_type),
                (c"boundary", select::boundary),
                (c"kind", request::kind),
                (c"tools", serve::tools),
                (c"body", body),
                (c"look", serve::look),
                (c"queue", serve::queue),
                (c"due", serve::due),
                (c"take_due", serve::take_due),
                (c"serve", serve::serve),
            ],
        );
        request::push_functions(state);
        ffi::lua_setfield(state, -2, c"head".as_ptr());
        1
    }
}
