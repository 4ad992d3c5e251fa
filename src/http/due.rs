//! The connections with a request that wait for [`super::serve`], and how they come there.
//!
//! [`ready`] is called by the selector's iterator for each connection with events, [`arrived`] also for new ones: it
//! reads and parses, and queues the connection when a request is there, or what only Lua can do. Else the
//! connection waits, or ends.
//!
//! Invariant: a queued connection is `busy`, and its request head is its user value [`HEAD`]; whoever takes it
//! out of the queue serves it.

use super::connection::{Connection, HEAD, KEEPER, SELF, workspace};
use super::exchange::Workspace;
use super::keeper::{self, DUE, Keeper};
use super::step::{self, Step};
use super::tools as tool;
use super::{gate, life};
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

/// What is on top of the stack, an exchange or a keeper, has events. → true, and it is popped, when there is nothing
/// left to do for them; false when they are for Lua: the protocol's table, or the listener, is in its place. What
/// is neither is left alone, with `None`. The selector is at `selector`.
///
/// # Safety
/// `state` has 16 free stack slots; nothing that needs `Drop` may be alive, and no reference into the selector:
/// finalizers may run.
pub(crate) unsafe fn ready(state: *mut lua_State, selector: c_int) -> Option<bool> {
    // SAFETY: the exchange stays on the stack until it is replaced; its blocks are looked at anew.
    unsafe {
        let Some(connection) = object::test::<Connection>(state, -1) else {
            let keeper = object::test::<Keeper>(state, -1)?;
            return Some(gate::ready(state, selector, keeper));
        };
        if !(*connection).is_attached() {
            return None;
        }
        let at = ffi::lua_gettop(state);
        if !(*connection).is_whole() {
            ffi::lua_settop(state, at - 1);
            return Some(true);
        }
        if !(*connection).busy {
            arrived(state, at, connection);
            ffi::lua_settop(state, at - 1);
            return Some(true);
        }
        // Who has no table has nobody who waits.
        if ffi::lua_getiuservalue(state, at, SELF) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, at - 1);
            return Some(true);
        }
        ffi::lua_replace(state, at);
        Some(false)
    }
}

/// Looks at the connection at the absolute index `at`, which is not busy: new, or there are events for it.
///
/// # Safety
/// As for [`ready`].
pub(super) unsafe fn arrived(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: as for `ready`.
    unsafe {
        match step::take(state, connection) {
            Step::Request(..) => {
                ffi::lua_setiuservalue(state, at, HEAD);
            }
            Step::Wait(what) => return life::rest(state, at, connection, what, monotonic()),
            Step::Over if !(*connection).leaves_unread() => {
                return life::end(state, at, connection);
            }
            step => (*connection).pending = Some(step),
        }
        (*connection).busy = true;
        enqueue(state, at, connection);
    }
}

/// The connection at argument `index`, which a keeper serves.
pub(super) unsafe fn check_attached(state: *mut lua_State, index: c_int) -> *mut Connection {
    // SAFETY: as for `check_at`.
    unsafe {
        let connection = super::connection::check_at(state, index);
        if !connection.is_attached() {
            raise(state, Text::new("nobody serves the exchange"));
        }
        connection
    }
}

/// Puts the exchange at `at` behind those that are due; with the first of them, has them served.
unsafe fn enqueue(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: the workspace lives as long as the VM; the place in the queue is taken when it is filled.
    unsafe {
        let space = (*connection).space();
        ffi::lua_getiuservalue(state, at, KEEPER);
        let keeper = ffi::lua_gettop(state);
        ffi::lua_getiuservalue(state, keeper, DUE);
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
        if is_first {
            keeper::call_tool(state, keeper, tool::SCHEDULE, 0);
        }
        ffi::lua_settop(state, keeper - 1);
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
