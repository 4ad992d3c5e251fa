//! The connections with a request that wait for [`super::serve`], and how they come there.
//!
//! [`ready`] is called by the selector's iterator for each connection with events: it reads and parses, and queues
//! the connection when a request is there. Outside a round of the loop lualib/lio/web/connection.lua does that with
//! [`look`] and [`queue`].
//!
//! Invariant: a queued connection is `busy`, and its request head is its user value [`HEAD`]; whoever takes it
//! out of the queue serves it.

use super::connection::{Connection, HEAD, SELF, TOOLS, check_at, workspace};
use super::exchange::Workspace;
use super::step::{self, Step};
use super::tools as tool;
use crate::lua::object;
use crate::lua::{Text, raise};
use crate::timer::monotonic;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// The connections that wait for `serve`: `due[first..=last]` of the tools.
pub(crate) struct Due {
    first: i64,
    last: i64,
    /// Seconds of `lio.now` at about the time that the round began.
    pub(super) clock: f64,
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
            let step = step::take(state, connection);
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
pub(super) unsafe fn check_attached(state: *mut lua_State, index: c_int) -> *mut Connection {
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
            None => step::take(state, connection),
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
pub(super) unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let due = &(*workspace(state)).due;
        ffi::lua_pushinteger(state, due.last - due.first + 1);
        1
    }
}

/// `http.take_due(tools)` → the exchange of the next connection that waits for `serve`, which the caller serves;
/// nil when there is none.
pub(super) unsafe extern "C-unwind" fn take(state: *mut lua_State) -> c_int {
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
pub(super) unsafe fn push_due(state: *mut lua_State, space: *mut Workspace, tools: c_int) -> bool {
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
