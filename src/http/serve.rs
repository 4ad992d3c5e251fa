//! Serves requests without leaving native code for what all of them need. Part of `lio.http`, used by
//! lualib/lio/web/connection.lua, whose functions do what only some requests need.
//!
//! A round of the loop has two steps. [`ready`] is called by the selector's iterator for each connection with
//! events: it reads and parses, and queues the connection when a request is there. Then one task calls
//! [`serve`], which goes through the queue: it calls the handler, answers when that returned a string and
//! touched nothing, and looks for the next request. When a handler waits, its task is the handler's, and the
//! loop starts another for those that are left.
//!
//! Invariant: a queued connection is `busy`, and its request head is its user value [`HEAD`]; whoever takes it
//! out of the queue serves it. Whatever a handler does besides returning marks the connection `special`, and the
//! Lua side then gives the answer and cleans up.

use super::exchange::Workspace;
use super::lua::{
    BRIEF, Connection, HANDLERS, HEAD, SELF, Step, TOOLS, WRAPPERS, Wait, check_at, take, workspace,
};
use super::{answer, request};
use crate::lua::object;
use crate::lua::{Text, push_bytes, raise};
use crate::timer::monotonic;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

/// What the Lua side gives once per VM, by index: `http.tools{…}`.
mod tool {
    /// Tables: the connections that are due, the metatable of responses.
    pub(super) const DUE: i64 = 1;
    pub(super) const RESPONSE: i64 = 2;
    /// `schedule(connection)`: have `serve` called in this round of the loop.
    pub(super) const SCHEDULE: i64 = 3;
    /// The message handler of what may fail.
    pub(super) const CAUGHT: i64 = 4;
    /// `choose(connection, req, res, route)` → the handler, when the route alone does not tell.
    pub(super) const CHOOSE: i64 = 5;
    /// `flush_later(connection)`: what is queued goes out before the loop waits.
    pub(super) const FLUSH: i64 = 6;
    /// `conclude(connection, req, res, ok, a, b, c)` → whether the connection goes on.
    pub(super) const CONCLUDE: i64 = 7;
    /// `rest(connection, what, status, reason)`: no request is there.
    pub(super) const REST: i64 = 8;
}

/// Where things lie on the stack of `serve`.
mod at {
    use std::os::raw::c_int;
    pub(super) const WORK: c_int = 1;
    pub(super) const TOOLS: c_int = 2;
    pub(super) const CONNECTION: c_int = 3;
    pub(super) const TABLE: c_int = 4;
    pub(super) const REQUEST: c_int = 5;
    pub(super) const CAUGHT: c_int = 6;
    /// Whether there is only the one connection to serve.
    pub(super) const ALONE: c_int = 7;
    /// The response, or nil for a handler that takes none; what the handler gave lies above it.
    pub(super) const RESPONSE: c_int = 8;
    pub(super) const RESULT: c_int = 9;
}

/// The connections that wait for `serve`: `due[first..=last]` of the tools.
pub(crate) struct Due {
    first: i64,
    last: i64,
    /// Seconds of `lio.now` at about the time that the round began.
    clock: f64,
}

impl Due {
    pub(crate) const fn new() -> Self {
        Due {
            first: 1,
            last: 0,
            clock: 0.0,
        }
    }

    fn is_empty(&self) -> bool {
        self.first > self.last
    }
}

/// `http.tools { … }` → the table, to be given to each exchange: what `serve` needs of the Lua side.
pub(super) unsafe extern "C-unwind" fn tools(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 1);
        for index in tool::DUE..=tool::REST {
            let kind = ffi::lua_rawgeti(state, 1, index);
            let wanted = match index {
                tool::DUE | tool::RESPONSE => ffi::LUA_TTABLE,
                _ => ffi::LUA_TFUNCTION,
            };
            if kind != wanted {
                raise(
                    state,
                    Text::format(format_args!("tools: value {index} is missing")),
                );
            }
            ffi::lua_pop(state, 1);
        }
        1
    }
}

/// The connection whose exchange is on top of the stack has events. → true when there is nothing left to do
/// for them; false with the protocol's table in the place of the exchange. What is no served exchange is left
/// alone, with `None`.
///
/// # Safety
/// `state` has 10 free stack slots; nothing that needs `Drop` may be alive, and no reference into the selector:
/// finalizers may run.
pub(crate) unsafe fn ready(state: *mut lua_State) -> Option<bool> {
    // SAFETY: the exchange stays on the stack until it is replaced; its blocks are looked at anew.
    unsafe {
        let connection =
            object::test::<Connection>(state, -1).filter(|found| (**found).attached)?;
        let at = ffi::lua_gettop(state);
        let handled = !(*connection).busy && (*connection).is_whole() && {
            let step = take(state, connection);
            match step {
                Step::Request(..) => {
                    keep(state, at, connection);
                    if enqueue(state, at, connection) {
                        ffi::lua_getiuservalue(state, at, TOOLS);
                        ffi::lua_rawgeti(state, -1, tool::SCHEDULE);
                        ffi::lua_getiuservalue(state, at, SELF);
                        ffi::lua_call(state, 1, 0);
                    }
                    true
                }
                _ => {
                    (*connection).pending = Some(step);
                    false
                }
            }
        };
        if handled {
            ffi::lua_settop(state, at - 1);
        } else {
            ffi::lua_getiuservalue(state, at, SELF);
            ffi::lua_replace(state, at);
        }
        Some(handled)
    }
}

/// The connection at argument `index`, which `attach` has seen.
unsafe fn check_attached(state: *mut lua_State, index: c_int) -> *mut Connection {
    // SAFETY: as for `check_at`.
    unsafe {
        let connection = check_at(state, index);
        if !connection.attached {
            raise(state, Text::new("the exchange is not attached"));
        }
        connection
    }
}

/// Keeps the request that is on top of the stack (popped) for `serve`.
unsafe fn keep(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_setiuservalue(state, at, HEAD);
        (*connection).busy = true;
    }
}

/// Puts the exchange at `at` behind those that are due. → whether it is the first of them.
unsafe fn enqueue(state: *mut lua_State, at: c_int, connection: *mut Connection) -> bool {
    // SAFETY: the workspace lives as long as the VM; the place in the queue is taken when it is filled.
    unsafe {
        let space = (*connection).space();
        ffi::lua_getiuservalue(state, at, TOOLS);
        ffi::lua_rawgeti(state, -1, tool::DUE);
        ffi::lua_pushvalue(state, at);
        let due = &mut (*space).due;
        let is_first = due.is_empty();
        if is_first {
            *due = Due::new();
            due.clock = monotonic();
        }
        let place = due.last + 1;
        ffi::lua_rawseti(state, -2, place);
        (*space).due.last = place;
        ffi::lua_pop(state, 2);
        is_first
    }
}

/// `http.queue(x)` → whether it is the first: puts an exchange that [`look`] has made busy behind those that are
/// due; the caller has them served.
pub(super) unsafe extern "C-unwind" fn queue(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let connection = check_attached(state, 1);
        let is_first = enqueue(state, 1, connection);
        ffi::lua_pushboolean(state, is_first.into());
        1
    }
}

/// `http.look(x)` → true when a request is there: the connection is busy, and `serve(work, x)` serves it; else
/// what `next` tells: `false, what`, or `nil`, or `nil, status, reason`.
pub(super) unsafe extern "C-unwind" fn look(state: *mut lua_State) -> c_int {
    // SAFETY: as for `ready`.
    unsafe {
        ffi::lua_settop(state, 1);
        let connection: *mut Connection = check_at(state, 1);
        let step = match (*connection).pending.take() {
            Some(step) => step,
            None => take(state, connection),
        };
        match step {
            Step::Request(..) => {
                keep(state, 1, connection);
                ffi::lua_pushboolean(state, 1);
                1
            }
            step => step.push(state),
        }
    }
}

/// `http.due()` → how many connections wait for `serve`.
pub(super) unsafe extern "C-unwind" fn due(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let due = &(*workspace(state)).due;
        ffi::lua_pushinteger(state, due.last - due.first + 1);
        1
    }
}

/// `http.take_due(tools)` → the exchange of the next connection that waits for `serve`, which the caller serves;
/// nil when there is none.
pub(super) unsafe extern "C-unwind" fn take_due(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let space = workspace(state);
        if !push_due(state, space, 1) {
            ffi::lua_pushnil(state);
        }
        1
    }
}

/// Pushes the next due connection; the tools are at `tools`.
unsafe fn push_due(state: *mut lua_State, space: *mut Workspace, tools: c_int) -> bool {
    // SAFETY: assigning nil to a place that exists does not raise.
    unsafe {
        let due = &mut (*space).due;
        if due.is_empty() {
            return false;
        }
        let place = due.first;
        due.first += 1;
        ffi::lua_rawgeti(state, tools, tool::DUE);
        ffi::lua_rawgeti(state, -1, place);
        ffi::lua_pushnil(state);
        ffi::lua_rawseti(state, -3, place);
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_pop(state, 1);
        true
    }
}

/// What `serve` does next.
enum Act {
    /// Take the next connection that is due.
    Take,
    /// Handle the request at [`at::REQUEST`].
    Handle,
    /// The handler has ended: its results, or its error when it failed, are above [`at::RESPONSE`].
    Finish(bool),
    /// `conclude` has ended; its result is on top.
    Concluded,
    /// Look for another request of the connection.
    Look,
    /// The connection waits, or is gone.
    Leave,
}

/// `http.serve(work, tools [, x])`: serves the connections that are due, one after another, or `x` alone, which
/// [`look`] has made busy. `work[1]` is the table of the one that is worked on, false in between. Runs in a
/// task: handlers may wait.
pub(super) unsafe extern "C-unwind" fn serve(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, at::WORK, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, at::TOOLS, ffi::LUA_TTABLE);
        ffi::lua_settop(state, at::REQUEST);
        ffi::luaL_checkstack(state, 20, std::ptr::null());
        let alone = ffi::lua_type(state, at::CONNECTION) != ffi::LUA_TNIL;
        ffi::lua_rawgeti(state, at::TOOLS, tool::CAUGHT);
        ffi::lua_pushboolean(state, alone.into());
        if !alone {
            return run(state, Act::Take);
        }
        let connection = check_attached(state, at::CONNECTION);
        (*(*connection).space()).due.clock = monotonic();
        begin(state);
        run(state, Act::Handle)
    }
}

/// The continuation of a handler that has waited.
unsafe extern "C-unwind" fn handled(
    state: *mut lua_State,
    status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `serve`.
    unsafe {
        has_waited(state);
        run(state, Act::Finish(status == ffi::LUA_YIELD))
    }
}

/// The continuation of a `conclude` that has waited.
unsafe extern "C-unwind" fn concluded(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `serve`.
    unsafe {
        has_waited(state);
        run(state, Act::Concluded)
    }
}

/// The loop went on meanwhile: time has passed, and what is queued from now on needs a flush of its own.
unsafe fn has_waited(state: *mut lua_State) {
    // SAFETY: the connection stays on the stack of `serve`.
    unsafe {
        let connection = check_at(state, at::CONNECTION);
        connection.flush_noted = false;
        (*connection.space()).due.clock = monotonic();
    }
}

unsafe fn run(state: *mut lua_State, act: Act) -> c_int {
    // SAFETY: a thin shell; no reference is held while Lua code runs.
    unsafe {
        let mut act = act;
        loop {
            act = match act {
                Act::Take => match take_next(state) {
                    true => Act::Handle,
                    false => return 0,
                },
                Act::Handle => Act::Finish(handle(state)),
                Act::Finish(ok) => match finish(state, ok) {
                    true => Act::Look,
                    false => Act::Concluded,
                },
                Act::Concluded => match ffi::lua_toboolean(state, -1) != 0 {
                    true => Act::Look,
                    false => Act::Leave,
                },
                Act::Look => match look_further(state) {
                    true => Act::Handle,
                    false => Act::Leave,
                },
                Act::Leave => {
                    ffi::lua_settop(state, at::ALONE);
                    ffi::lua_pushboolean(state, 0);
                    ffi::lua_rawseti(state, at::WORK, 1);
                    if ffi::lua_toboolean(state, at::ALONE) != 0 {
                        return 0;
                    }
                    Act::Take
                }
            };
        }
    }
}

/// Puts the next connection that is due into its place on the stack.
unsafe fn take_next(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        if !push_due(state, workspace(state), at::TOOLS) {
            return false;
        }
        ffi::lua_replace(state, at::CONNECTION);
        begin(state);
        true
    }
}

/// Fills in the table and the request of the exchange that is in its place.
unsafe fn begin(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getiuservalue(state, at::CONNECTION, SELF);
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawseti(state, at::WORK, 1);
        ffi::lua_replace(state, at::TABLE);
        ffi::lua_getiuservalue(state, at::CONNECTION, HEAD);
        ffi::lua_replace(state, at::REQUEST);
        ffi::lua_pushnil(state);
        ffi::lua_setiuservalue(state, at::CONNECTION, HEAD);
    }
}

/// Pushes a tool, and the connection's table as its first argument.
unsafe fn push_tool(state: *mut lua_State, index: i64) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgeti(state, at::TOOLS, index);
        ffi::lua_pushvalue(state, at::TABLE);
    }
}

/// Makes a response and calls the handler. → whether it returned.
unsafe fn handle(state: *mut lua_State) -> bool {
    // SAFETY: the connection stays on the stack.
    unsafe {
        let connection = check_attached(state, at::CONNECTION);
        let route = (*connection).route;
        ((*connection).touched, (*connection).special) = (false, false);
        (*connection).served = true;
        ffi::lua_settop(state, at::ALONE);
        ffi::lua_pushvalue(state, at::TABLE);
        request::belongs(state, at::REQUEST);
        ffi::lua_pushvalue(state, at::REQUEST);
        ffi::lua_rawseti(state, at::TABLE, 1);
        if (*connection).more && !(*connection).flush_noted {
            (*connection).flush_noted = true;
            push_tool(state, tool::FLUSH);
            ffi::lua_call(state, 1, 0);
        }
        ffi::lua_getiuservalue(state, at::CONNECTION, WRAPPERS);
        let plain = route != 0 && !(*connection).careful && ffi::lua_rawlen(state, -1) == 0;
        ffi::lua_pop(state, 1);
        if plain {
            ffi::lua_getiuservalue(state, at::CONNECTION, BRIEF);
            ffi::lua_rawgeti(state, -1, route);
            let brief = ffi::lua_toboolean(state, -1) != 0;
            ffi::lua_settop(state, at::ALONE);
            push_response(state, !brief);
            ffi::lua_getiuservalue(state, at::CONNECTION, HANDLERS);
            ffi::lua_rawgeti(state, -1, route);
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_pop(state, 1);
        } else {
            push_response(state, true);
            push_tool(state, tool::CHOOSE);
            ffi::lua_pushvalue(state, at::REQUEST);
            ffi::lua_pushvalue(state, at::RESPONSE);
            ffi::lua_pushinteger(state, route);
            ffi::lua_call(state, 4, 1);
        }
        ffi::lua_pushvalue(state, at::REQUEST);
        ffi::lua_pushvalue(state, at::RESPONSE);
        ffi::lua_pcallk(state, 2, 3, at::CAUGHT, 0, Some(handled)) == ffi::LUA_OK
    }
}

/// Pushes a response, or nil when there is no use for one.
unsafe fn push_response(state: *mut lua_State, wanted: bool) {
    // SAFETY: plain stack work.
    unsafe {
        if !wanted {
            return ffi::lua_pushnil(state);
        }
        // With room for what handlers set most: code, fields, body, kind.
        ffi::lua_createtable(state, 1, 4);
        ffi::lua_pushvalue(state, at::TABLE);
        ffi::lua_rawseti(state, -2, 1);
        ffi::lua_rawgeti(state, at::TOOLS, tool::RESPONSE);
        ffi::lua_setmetatable(state, -2);
    }
}

/// Whether the handler's first result is a body by itself: a string, or a table that is not the response.
unsafe fn is_body(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        match ffi::lua_type(state, at::RESULT) {
            ffi::LUA_TSTRING => true,
            ffi::LUA_TTABLE => ffi::lua_rawequal(state, at::RESULT, at::RESPONSE) == 0,
            _ => false,
        }
    }
}

/// Pushes a field of the response, read raw.
unsafe fn push_field(state: *mut lua_State, name: &'static CStr) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushstring(state, name.as_ptr());
        ffi::lua_rawget(state, at::RESPONSE)
    }
}

/// Answers with a body that the handler returned, and with the status, fields and type that it has set before.
/// False, with nothing queued, when that needs a closer look, or fails.
unsafe fn answer_touched(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work; what may raise runs protected.
    unsafe {
        let top = ffi::lua_gettop(state);
        if ffi::lua_type(state, at::RESPONSE) == ffi::LUA_TNIL {
            return false;
        }
        ffi::lua_pushcclosure(state, answer::answer, 0);
        ffi::lua_pushvalue(state, at::CONNECTION);
        if push_field(state, c"code") == ffi::LUA_TNIL {
            ffi::lua_pop(state, 1);
            ffi::lua_pushinteger(state, 200);
        }
        let untyped = push_field(state, c"kind") == ffi::LUA_TBOOLEAN;
        ffi::lua_pop(state, 1);
        let connection: *mut Connection = check_at(state, at::CONNECTION);
        let queued = match ffi::lua_type(state, at::RESULT) {
            ffi::LUA_TSTRING => {
                push_kind(state, answer::TEXT, untyped);
                ffi::lua_pushvalue(state, at::RESULT);
                ffi::lua_rawlen(state, at::RESULT) <= answer::INLINE
            }
            _ => {
                push_kind(state, answer::JSON, false);
                answer::push_json(state, connection, at::RESULT)
            }
        };
        if queued {
            push_field(state, c"fields");
        }
        let answered = queued && ffi::lua_pcall(state, 5, 1, 0) == ffi::LUA_OK;
        let whole = answered && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, top);
        whole
    }
}

unsafe fn push_kind(state: *mut lua_State, kind: &[u8], untyped: bool) {
    // SAFETY: plain stack work.
    unsafe {
        match untyped {
            true => ffi::lua_pushnil(state),
            false => push_bytes(state, kind),
        }
    }
}

/// Answers. → true when that is done; false when `conclude` did it, and its result is on top.
unsafe fn finish(state: *mut lua_State, ok: bool) -> bool {
    // SAFETY: the body stays on the stack while it is copied.
    unsafe {
        let connection: *mut Connection = check_at(state, at::CONNECTION);
        if ok
            && !(*connection).special
            && ffi::lua_type(state, at::RESULT + 1) == ffi::LUA_TNIL
            && is_body(state)
            && match (*connection).touched {
                false => answer::returned(state, connection, at::RESULT),
                true => answer_touched(state),
            }
        {
            return true;
        }
        if ffi::lua_type(state, at::RESPONSE) == ffi::LUA_TNIL {
            push_response(state, true);
            ffi::lua_replace(state, at::RESPONSE);
        }
        let values = ffi::lua_gettop(state) - at::RESPONSE;
        push_tool(state, tool::CONCLUDE);
        ffi::lua_pushvalue(state, at::REQUEST);
        ffi::lua_pushvalue(state, at::RESPONSE);
        ffi::lua_pushboolean(state, ok.into());
        for value in at::RESULT..at::RESULT + values {
            ffi::lua_pushvalue(state, value);
        }
        ffi::lua_callk(state, 4 + values, 1, 0, Some(concluded));
        false
    }
}

/// → whether there is another request, which is in its place then.
unsafe fn look_further(state: *mut lua_State) -> bool {
    // SAFETY: the connection stays on the stack.
    unsafe {
        ffi::lua_settop(state, at::ALONE);
        let connection: *mut Connection = check_at(state, at::CONNECTION);
        let step = take(state, connection);
        if let Step::Request(..) = step {
            ffi::lua_replace(state, at::REQUEST);
            return true;
        }
        let careful = (*connection).careful;
        if matches!(step, Step::Wait(Wait::Idle)) && !careful && (*connection).fall_idle() {
            return false;
        }
        push_tool(state, tool::REST);
        let values = step.push(state);
        ffi::lua_call(state, 1 + values, 0);
        false
    }
}

impl Connection {
    /// Waits for the next request, when the timer that is set is early enough.
    fn fall_idle(&mut self) -> bool {
        // SAFETY: the registry keeps the workspace; nothing else uses it now.
        let clock = unsafe { (*self.space()).due.clock };
        let due = clock + self.keep_alive;
        if due < self.timer_due {
            return false;
        }
        (self.due, self.busy, self.waits) = (due, false, Wait::Idle);
        true
    }
}
