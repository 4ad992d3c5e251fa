//! Serves requests without leaving native code for what all of them need. Part of `lio.http`, used by
//! lualib/lio/web/connection.lua, whose functions do what only some requests need.
//!
//! One task calls [`serve`] in a round of the loop. It goes through the connections that are [`super::due`]: it
//! calls the handler, answers when that returned a string and touched nothing (`finish`), and looks for the next
//! request. When a handler waits, its task is the handler's, and the loop starts another for those that are left.
//!
//! Invariant: whatever a handler does besides returning marks the connection `special`, and the Lua side then
//! gives the answer and cleans up.

use super::connection::{Connection, HEAD, KEEPER, SELF, check_at, workspace};
use super::due::{check_attached, push_due};
use super::finish::finish;
use super::keeper::{BRIEF, HANDLERS, WRAPPERS};
use super::life;
use super::request;
use super::step::{Step, take};
use super::tools as tool;
use crate::timer::monotonic;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Where things lie on the stack of `serve`.
pub(super) mod at {
    use std::os::raw::c_int;
    pub(crate) const WORK: c_int = 1;
    pub(crate) const TOOLS: c_int = 2;
    pub(crate) const CONNECTION: c_int = 3;
    /// Its table, or nil until somebody asks for it.
    pub(crate) const TABLE: c_int = 4;
    pub(crate) const KEEPER: c_int = 5;
    pub(crate) const REQUEST: c_int = 6;
    pub(crate) const CAUGHT: c_int = 7;
    /// Whether there is only the one connection to serve.
    pub(crate) const ALONE: c_int = 8;
    /// The response, or nil for a handler that takes none; what the handler gave lies above it.
    pub(crate) const RESPONSE: c_int = 9;
    pub(crate) const RESULT: c_int = 10;
}

/// What `serve` does next.
enum Act {
    /// Take the next connection that is due.
    Take,
    /// Begin with the one that is in its place.
    Begin,
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
/// was taken out of those. `work[1]` is the exchange of the one that is worked on, false in between. Runs in a task:
/// handlers may wait.
pub(super) unsafe extern "C-unwind" fn serve(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, at::WORK, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, at::TOOLS, ffi::LUA_TTABLE);
        ffi::lua_settop(state, at::REQUEST);
        ffi::luaL_checkstack(state, 24, std::ptr::null());
        let alone = ffi::lua_type(state, at::CONNECTION) != ffi::LUA_TNIL;
        ffi::lua_rawgeti(state, at::TOOLS, tool::CAUGHT);
        ffi::lua_pushboolean(state, alone.into());
        if !alone {
            return run(state, Act::Take);
        }
        let connection = check_attached(state, at::CONNECTION);
        (*(*connection).space()).due.clock = monotonic();
        run(state, Act::Begin)
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
pub(super) unsafe extern "C-unwind" fn concluded(
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
                    true => Act::Begin,
                    false => return 0,
                },
                Act::Begin => match begin(state) {
                    true => Act::Handle,
                    false => Act::Leave,
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
        true
    }
}

/// Fills in what belongs to the exchange that is in its place. → whether it has a request; else Lua has done with it.
unsafe fn begin(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushvalue(state, at::CONNECTION);
        ffi::lua_rawseti(state, at::WORK, 1);
        ffi::lua_getiuservalue(state, at::CONNECTION, SELF);
        ffi::lua_replace(state, at::TABLE);
        ffi::lua_getiuservalue(state, at::CONNECTION, KEEPER);
        ffi::lua_replace(state, at::KEEPER);
        let connection: *mut Connection = check_at(state, at::CONNECTION);
        if let Some(step) = (*connection).pending.take() {
            over(state, step);
            return false;
        }
        ffi::lua_getiuservalue(state, at::CONNECTION, HEAD);
        ffi::lua_replace(state, at::REQUEST);
        true
    }
}

/// No request comes any more, or it is refused.
unsafe fn over(state: *mut lua_State, step: Step) {
    // SAFETY: plain stack work.
    unsafe {
        push_tool(state, tool::OVER);
        let values = step.push(state);
        ffi::lua_call(state, 1 + values, 0);
    }
}

/// Pushes the connection's table, which is made when it is first asked for.
unsafe fn push_table(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_type(state, at::TABLE) == ffi::LUA_TNIL {
            life::push_table(state, at::CONNECTION);
            ffi::lua_replace(state, at::TABLE);
        }
        ffi::lua_pushvalue(state, at::TABLE);
    }
}

/// Pushes a tool, and the connection's table as its first argument.
pub(super) unsafe fn push_tool(state: *mut lua_State, index: i64) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgeti(state, at::TOOLS, index);
        push_table(state);
    }
}

/// Makes a response and calls the handler. → whether it returned.
unsafe fn handle(state: *mut lua_State) -> bool {
    // SAFETY: the connection stays on the stack.
    unsafe {
        let connection = check_attached(state, at::CONNECTION);
        let route = (*connection).route;
        ((*connection).touched, (*connection).special) = (false, false);
        (*connection).concluded = false;
        (*connection).served = true;
        ffi::lua_settop(state, at::ALONE);
        ffi::lua_pushvalue(state, at::CONNECTION);
        request::belongs(state, at::REQUEST);
        if ffi::lua_type(state, at::TABLE) == ffi::LUA_TNIL {
            // A handler before may have asked for it.
            ffi::lua_getiuservalue(state, at::CONNECTION, SELF);
            ffi::lua_replace(state, at::TABLE);
        }
        if ffi::lua_type(state, at::TABLE) != ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, at::REQUEST);
            ffi::lua_rawseti(state, at::TABLE, 1);
        }
        if (*connection).more && !(*connection).flush_noted {
            (*connection).flush_noted = true;
            push_tool(state, tool::FLUSH);
            ffi::lua_call(state, 1, 0);
        }
        ffi::lua_getiuservalue(state, at::KEEPER, WRAPPERS);
        let plain = route != 0 && !(*connection).careful && ffi::lua_rawlen(state, -1) == 0;
        ffi::lua_pop(state, 1);
        (*connection).alone = plain;
        if plain {
            ffi::lua_getiuservalue(state, at::KEEPER, BRIEF);
            ffi::lua_rawgeti(state, -1, route);
            let brief = ffi::lua_toboolean(state, -1) != 0;
            ffi::lua_settop(state, at::ALONE);
            push_response(state, !brief);
            ffi::lua_getiuservalue(state, at::KEEPER, HANDLERS);
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
pub(super) unsafe fn push_response(state: *mut lua_State, wanted: bool) {
    // SAFETY: plain stack work.
    unsafe {
        if !wanted {
            return ffi::lua_pushnil(state);
        }
        // With room for what handlers set most: code, fields, body, kind.
        ffi::lua_createtable(state, 1, 4);
        push_table(state);
        ffi::lua_rawseti(state, -2, 1);
        ffi::lua_rawgeti(state, at::TOOLS, tool::RESPONSE);
        ffi::lua_setmetatable(state, -2);
    }
}

/// → whether there is another request, which is in its place then.
unsafe fn look_further(state: *mut lua_State) -> bool {
    // SAFETY: the connection stays on the stack.
    unsafe {
        ffi::lua_settop(state, at::ALONE);
        let connection: *mut Connection = check_at(state, at::CONNECTION);
        let step = take(state, connection);
        match step {
            Step::Request(..) => {
                ffi::lua_pushvalue(state, -1);
                ffi::lua_setiuservalue(state, at::CONNECTION, HEAD);
                ffi::lua_replace(state, at::REQUEST);
                return true;
            }
            Step::Wait(what) => {
                let clock = (*(*connection).space()).due.clock;
                life::rest(state, at::CONNECTION, connection, what, clock);
            }
            Step::Over if !(*connection).leaves_unread() => {
                life::end(state, at::CONNECTION, connection);
            }
            step => over(state, step),
        }
        false
    }
}
