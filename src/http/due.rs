//! The connections with events, or with a request, that wait for [`super::serve`], and how they come there.
//!
//! [`ready`] is called by the selector's iterator for each connection with events, and queues it. Whether a request is
//! there is seen when it is served: so one read buffer does for all, and what belongs to a connection is touched
//! once. [`arrived`] looks at a new one at once, and queues it when a request is there, or what only Lua can do; else
//! it waits, or ends.
//!
//! Invariant: a queued connection is `busy`; whoever takes it out of the queue serves it.

use super::connection::{Connection, HEAD, KEEPER, SELF, workspace};
use super::keeper::{self, DUE, Keeper};
use super::step::{self, Step};
use super::tools as tool;
use super::{gate, life};
use crate::event::clock::monotonic;
use crate::raw::object::Block;
use crate::raw::{Text, raise};
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
/// is neither is left alone, with `None`. The selector is at `selector`; `block` is what is on top; `list` is where the
/// caller has the list of those that are due, 0 before the first.
///
/// # Safety
/// `state` has 16 free stack slots; nothing that needs `Drop` may be alive, and no reference into the selector:
/// finalizers may run.
pub(crate) unsafe fn ready(
    state: *mut lua_State,
    selector: c_int,
    block: Block,
    list: &mut c_int,
) -> Option<bool> {
    // SAFETY: the exchange stays on the stack until it is replaced, or the list has it.
    unsafe {
        let Some(connection) = block.get::<Connection>() else {
            let keeper = block.get::<Keeper>()?;
            return Some(gate::ready(state, selector, keeper));
        };
        if !(*connection).is_attached() {
            return None;
        }
        if !(*connection).is_whole() {
            ffi::lua_pop(state, 1);
            return Some(true);
        }
        if !(*connection).busy {
            if *list == 0 {
                push_list(state, -1);
                ffi::lua_rotate(state, -2, 1);
                *list = ffi::lua_gettop(state) - 1;
            }
            enqueue(state, *list, connection);
            return Some(true);
        }
        // Who has no table has nobody who waits.
        let known = ffi::lua_getiuservalue(state, -1, SELF) == ffi::LUA_TTABLE;
        match known {
            true => ffi::lua_replace(state, -2),
            false => ffi::lua_pop(state, 2),
        }
        Some(!known)
    }
}

/// Pushes the list of those that are due; an exchange that somebody serves is at `index`.
unsafe fn push_list(state: *mut lua_State, index: c_int) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getiuservalue(state, index, KEEPER);
        ffi::lua_getiuservalue(state, -1, DUE);
        ffi::lua_replace(state, -2);
    }
}

/// Looks at the new connection at the absolute index `at`.
///
/// # Safety
/// As for [`ready`].
pub(super) unsafe fn arrived(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: as for `ready`.
    unsafe {
        match step::take_once(state, connection) {
            Step::Request => {
                ffi::lua_setiuservalue(state, at, HEAD);
                (*connection).held = true;
            }
            Step::Wait(what) => return life::rest(state, at, connection, what, monotonic()),
            Step::Over if !(*connection).leaves_unread() => {
                return life::end(state, at, connection);
            }
            step => (*connection).pending = Some(step),
        }
        push_list(state, at);
        ffi::lua_pushvalue(state, at);
        enqueue(state, ffi::lua_gettop(state) - 1, connection);
        ffi::lua_pop(state, 1);
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

/// Puts the exchange on top of the stack (popped) behind those that are due; with the first of them, has them served.
unsafe fn enqueue(state: *mut lua_State, list: c_int, connection: *mut Connection) {
    // SAFETY: the workspace lives as long as the VM; the place in the queue is taken when it is filled.
    unsafe {
        let due = &raw mut (*(*connection).space()).due;
        if (*due).is_empty() {
            *due = Due::new();
            (*due).clock = monotonic();
            ffi::lua_getiuservalue(state, -1, KEEPER);
            keeper::call_tool(state, ffi::lua_gettop(state), tool::SCHEDULE, 0);
            ffi::lua_pop(state, 1);
        }
        let place = (*due).last + 1;
        ffi::lua_rawseti(state, list, place);
        (*due).last = place;
        (*connection).busy = true;
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
        ffi::lua_rawgeti(state, 1, tool::DUE);
        let list = ffi::lua_gettop(state);
        let space = workspace(state);
        if !push_due(state, &raw mut (*space).due, list) {
            ffi::lua_pushnil(state);
        }
        1
    }
}

/// Pushes the next due connection; their list is at `list`.
pub(super) unsafe fn push_due(state: *mut lua_State, due: *mut Due, list: c_int) -> bool {
    // SAFETY: assigning to a place that exists does not raise.
    unsafe {
        if (*due).is_empty() {
            return false;
        }
        let place = (*due).first;
        (*due).first += 1;
        ffi::lua_rawgeti(state, list, place);
        ffi::lua_pushboolean(state, 0);
        ffi::lua_rawseti(state, list, place);
        true
    }
}
