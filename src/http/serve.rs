//! Serves requests without leaving native code for what all of them need. Part of `lio.http`, used by
//! lualib/lio/web/connection.lua, whose functions do what only some requests need.
//!
//! One task calls [`serve`] in a round of the loop. It goes through the connections that are [`super::due`]: it
//! reads and parses, calls the handler, answers when that returned a string and touched nothing (`finish`), and
//! looks for the next request. When a handler waits, its task is the handler's, and the loop starts another for those
//! that are left.
//!
//! Invariant: whatever a handler does besides returning marks the connection `special`, and the Lua side then
//! gives the answer and cleans up.

use super::connection::{Connection, GONE, HEAD, KEEPER, check_at, workspace};
use super::due::{check_attached, push_due};
use super::finish::finish;
use super::keeper::HANDLERS;
use super::life;
use super::request;
use super::step::{self, Step};
use super::tools as tool;
use crate::event::clock::monotonic;
use crate::http::router::routes::{RouteId, Takes};
use crate::modules::http::request::Request;
use crate::modules::http::routes::AppRoutes;
use crate::raw::{Text, continuation, object, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Where things lie on the stack of `serve`.
pub(super) mod at {
    use std::os::raw::c_int;
    pub(crate) const WORK: c_int = 1;
    pub(crate) const TOOLS: c_int = 2;
    pub(crate) const CONNECTION: c_int = 3;
    pub(crate) const CAUGHT: c_int = 4;
    /// Whether there is only the one connection to serve.
    pub(crate) const ALONE: c_int = 5;
    /// The list of those that are due.
    pub(crate) const LIST: c_int = 6;
    /// The handlers of an app by route, see `Run::app`.
    pub(crate) const HANDLERS: c_int = 7;
    /// The metatable of requests; between two requests it is on top.
    pub(crate) const METATABLE: c_int = 8;
    pub(crate) const REQUEST: c_int = 9;
    /// The response, or nil for a handler that takes none; what the handler gave lies above it.
    pub(crate) const RESPONSE: c_int = 10;
    pub(crate) const RESULT: c_int = 11;
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

/// What `serve` knows between two waits.
struct Run {
    state: *mut lua_State,
    /// The one at [`at::CONNECTION`].
    connection: *mut Connection,
    /// Whose handlers are at [`at::HANDLERS`]; null: nobody's.
    app: *const AppRoutes,
}

/// `http.serve(work, tools [, x])`: serves the connections that are due, one after another, or `x` alone, which
/// was taken out of those. `work[1]` is the exchange of the one that is worked on, false in between. Runs in a
/// task: handlers may wait.
pub(super) unsafe extern "C-unwind" fn serve(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, at::WORK, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, at::TOOLS, ffi::LUA_TTABLE);
        ffi::lua_settop(state, at::CONNECTION);
        ffi::luaL_checkstack(state, 20, std::ptr::null());
        let alone = ffi::lua_type(state, at::CONNECTION) != ffi::LUA_TNIL;
        ffi::lua_rawgeti(state, at::TOOLS, tool::CAUGHT);
        ffi::lua_pushboolean(state, alone.into());
        ffi::lua_rawgeti(state, at::TOOLS, tool::DUE);
        ffi::lua_pushnil(state);
        object::push_metatable::<Request>(state);
        let mut run = Run {
            state,
            connection: std::ptr::null_mut(),
            app: std::ptr::null(),
        };
        if !alone {
            return run.go_on(Act::Take);
        }
        let act = run.begin();
        (*(*run.connection).space()).due.clock = monotonic();
        run.go_on(act)
    }
}

/// The continuation of a handler that has waited.
unsafe extern "C-unwind" fn handled(
    state: *mut lua_State,
    status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `serve`.
    unsafe { waited(state).go_on(Act::Finish(status == ffi::LUA_YIELD)) }
}

/// The continuation of a `conclude` that has waited.
pub(super) unsafe extern "C-unwind" fn concluded(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `serve`.
    unsafe { waited(state).go_on(Act::Concluded) }
}

/// The loop went on meanwhile: time has passed, and what is queued from now on needs a flush of its own.
unsafe fn waited(state: *mut lua_State) -> Run {
    // SAFETY: the connection stays on the stack of `serve`.
    unsafe {
        let connection = check_at(state, at::CONNECTION);
        connection.flush_noted = false;
        (*connection.space()).due.clock = monotonic();
        Run {
            state,
            connection,
            app: std::ptr::null(),
        }
    }
}

impl Run {
    unsafe fn go_on(&mut self, act: Act) -> c_int {
        let state = self.state;
        // SAFETY: a thin shell; no reference is held while Lua code runs.
        unsafe {
            let mut act = act;
            loop {
                act = match act {
                    Act::Take => match self.take_next() {
                        Some(act) => act,
                        None => break,
                    },
                    Act::Handle => Act::Finish(self.handle()),
                    Act::Finish(ok) => match finish(state, self.living(), ok) {
                        true => Act::Look,
                        false => Act::Concluded,
                    },
                    Act::Concluded => match ffi::lua_toboolean(state, -1) != 0 {
                        true => Act::Look,
                        false => Act::Leave,
                    },
                    Act::Look => match self.look_further() {
                        true => Act::Handle,
                        false => Act::Leave,
                    },
                    Act::Leave if ffi::lua_toboolean(state, at::ALONE) != 0 => break,
                    Act::Leave => Act::Take,
                };
            }
            ffi::lua_pushboolean(state, 0);
            ffi::lua_rawseti(state, at::WORK, 1);
            0
        }
    }

    /// The connection, after Lua code may have run.
    unsafe fn living(&self) -> *mut Connection {
        // SAFETY: the block stays where it is as long as the stack holds it; null is replaced before.
        unsafe {
            if !(*self.connection).is_whole() {
                raise(self.state, Text::new(GONE));
            }
            self.connection
        }
    }

    /// Puts the next connection that is due into its place on the stack. → what is to be done with it.
    unsafe fn take_next(&mut self) -> Option<Act> {
        let state = self.state;
        // SAFETY: plain stack work; the workspace lives as long as the VM.
        unsafe {
            let due = match self.connection.is_null() {
                true => &raw mut (*workspace(state)).due,
                false => &raw mut (*(*self.connection).space()).due,
            };
            ffi::lua_settop(state, at::METATABLE);
            if !push_due(state, due, at::LIST) {
                return None;
            }
            ffi::lua_replace(state, at::CONNECTION);
            Some(self.begin())
        }
    }

    /// Notes the connection that is in its place, and puts the request there that `look` has found.
    unsafe fn begin(&mut self) -> Act {
        let state = self.state;
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_pushvalue(state, at::CONNECTION);
            ffi::lua_rawseti(state, at::WORK, 1);
            self.connection = check_attached(state, at::CONNECTION);
            if let Some(step) = (*self.connection).pending.take() {
                over(state, step);
                return Act::Leave;
            }
            if !std::mem::take(&mut (*self.connection).held) {
                return Act::Look;
            }
            ffi::lua_getiuservalue(state, at::CONNECTION, HEAD);
            ffi::lua_pushnil(state);
            ffi::lua_setiuservalue(state, at::CONNECTION, HEAD);
            Act::Handle
        }
    }

    /// Makes a response and calls the handler. → whether it returned.
    unsafe fn handle(&mut self) -> bool {
        let state = self.state;
        // SAFETY: the connection stays on the stack.
        unsafe {
            let connection = self.living();
            let route = (*connection).route;
            ((*connection).touched, (*connection).special) = (false, false);
            (*connection).concluded = false;
            (*connection).served = true;
            let mut bare = (*connection).exchange.has_head();
            if !bare {
                ffi::lua_pushvalue(state, at::CONNECTION);
                request::belongs(state, at::REQUEST, (*connection).life);
            }
            if (*connection).more && !(*connection).flush_noted {
                (*connection).flush_noted = true;
                push_tool(state, tool::FLUSH);
                ffi::lua_call(state, 1, 0);
            }
            let connection = self.living();
            // By pointer: what is pushed below may run a finalizer that adds routes.
            let app: *const AppRoutes = (*connection).routes;
            let plain =
                route != 0 && !(*connection).careful && !(*connection).routes().is_wrapped();
            (*connection).alone = plain;
            if bare && !plain {
                restore(state, connection);
                bare = false;
            }
            if !plain {
                push_response(state);
                push_tool(state, tool::CHOOSE);
                ffi::lua_pushvalue(state, at::REQUEST);
                ffi::lua_pushvalue(state, at::RESPONSE);
                ffi::lua_pushinteger(state, route);
                ffi::lua_call(state, 4, 1);
            } else {
                match takes_of(&*connection) {
                    Takes::Both => push_response(state),
                    _ => ffi::lua_pushnil(state),
                }
                self.push_handlers(app);
                ffi::lua_rawgeti(state, at::HANDLERS, route);
            }
            if bare {
                return ffi::lua_pcallk(state, 0, 3, at::CAUGHT, 0, Some(continuation!(handled)))
                    == ffi::LUA_OK;
            }
            ffi::lua_pushvalue(state, at::REQUEST);
            ffi::lua_pushvalue(state, at::RESPONSE);
            ffi::lua_pcallk(state, 2, 3, at::CAUGHT, 0, Some(continuation!(handled))) == ffi::LUA_OK
        }
    }

    /// Puts the handlers of the connection's app into their place.
    unsafe fn push_handlers(&mut self, app: *const AppRoutes) {
        if self.app == app {
            return;
        }
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_getiuservalue(self.state, at::CONNECTION, KEEPER);
            ffi::lua_getiuservalue(self.state, -1, HANDLERS);
            ffi::lua_replace(self.state, at::HANDLERS);
            ffi::lua_pop(self.state, 1);
        }
        self.app = app;
    }

    /// → whether there is another request, which is in its place then.
    unsafe fn look_further(&mut self) -> bool {
        let state = self.state;
        // SAFETY: the connection stays on the stack.
        unsafe {
            ffi::lua_settop(state, at::METATABLE);
            let connection = self.living();
            let step = match step::look(state, connection) {
                Step::Request if takes_nothing(&*connection) => {
                    step::begin_above(state, connection);
                    ffi::lua_pushnil(state);
                    return true;
                }
                Step::Request if step::take_found(state, connection, at::METATABLE) => return true,
                Step::Request => Step::Over,
                step => step,
            };
            match step {
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
}

/// Whether the request that was found is for a handler that takes nothing: no request is made for it then, unless it
/// turns out that somebody else needs one.
fn takes_nothing(connection: &Connection) -> bool {
    connection.route != 0
        && !connection.careful
        && !connection.routes().is_wrapped()
        && takes_of(connection) == Takes::Nothing
}

/// What the handler of its request's route takes.
fn takes_of(connection: &Connection) -> Takes {
    RouteId::from_number(connection.route)
        .map_or(Takes::Both, |route| connection.routes().takes(route))
}

/// Makes the request whose head was left in the buffer after all.
///
/// # Safety
/// The connection is at [`at::CONNECTION`].
pub(super) unsafe fn restore(state: *mut lua_State, connection: *mut Connection) {
    // SAFETY: plain stack work.
    unsafe {
        step::push_left(state, connection, at::METATABLE);
        ffi::lua_replace(state, at::REQUEST);
        ffi::lua_pushvalue(state, at::CONNECTION);
        request::belongs(state, at::REQUEST, (*connection).life);
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

/// Pushes a tool, and the connection's table as its first argument.
pub(super) unsafe fn push_tool(state: *mut lua_State, index: i64) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgeti(state, at::TOOLS, index);
        life::push_table(state, at::CONNECTION);
    }
}

/// Pushes a response. What it can do may need the request, which its connection's table has then.
pub(super) unsafe fn push_response(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        // With room for what handlers set most: code, fields, body, kind.
        ffi::lua_createtable(state, 1, 4);
        life::push_table(state, at::CONNECTION);
        ffi::lua_pushvalue(state, at::REQUEST);
        ffi::lua_rawseti(state, -2, 1);
        ffi::lua_rawseti(state, -2, 1);
        ffi::lua_rawgeti(state, at::TOOLS, tool::RESPONSE);
        ffi::lua_setmetatable(state, -2);
    }
}
