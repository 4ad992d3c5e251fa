//! The methods of `bee.select` and `bee.epoll`, where bee's results differ from lio's. The files of `lualib/bee` give
//! them to selectors under bee's names; they are functions of Lua's C API, so that errors name the user's line.
//!
//! Invariant: a closed selector has no core and no tables until `reopen` makes new ones. Iterators from before see
//! neither.

use super::interest::{self, Known};
use super::iterator::{self, Unit};
use super::lua::{self, Selector};
use crate::raw::object;
use crate::raw::{Fault, Text, args, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Opens the selector at argument 1 again when it is closed; raises when the system refuses.
unsafe fn reopen(state: *mut lua_State) {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        if let Err(fault) = lua::reopen(state, 1) {
            raise(state, fault.message());
        }
    }
}

/// `s:event_add(fd, events [, udata = fd])`: registers a descriptor, or replaces events and udata of a registered one.
/// `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn select_add(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        reopen(state);
        interest::add_level(state, Known::Replaced)
    }
}

/// `s:event_mod(fd, events [, udata])` → `true`, or `nil, message, code` for a descriptor that is not registered.
pub(super) unsafe extern "C-unwind" fn select_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        reopen(state);
        interest::event_mod(state)
    }
}

/// `s:event_del(fd)` → `true`, registered or not.
pub(super) unsafe extern "C-unwind" fn select_del(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        if !is_closed(state) {
            interest::event_del(state);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `for udata, events in s:wait([milliseconds]) do`. Without a time-out it raises when no registration asks for anything.
pub(super) unsafe extern "C-unwind" fn select_wait(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        reopen(state);
        let endless = args::timeout(state, 2, Unit::Milliseconds.per_second()).is_none();
        if endless && lua::open_core(state).1.asks_nothing() {
            raise(state, Text::new(iterator::NOTHING_TO_WAIT_FOR));
        }
        iterator::wait_in(state, Unit::Milliseconds)
    }
}

unsafe fn is_closed(state: *mut lua_State) -> bool {
    // SAFETY: as for `select_add`.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        (*selector).core.is_none()
    }
}

/// What every call on a closed epoll returns.
unsafe fn push_closed(state: *mut lua_State, call: &'static str) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe { Fault::os(call, libc::EBADF).push(state) }
}

/// `e:event_add(fd, events [, udata = fd])` → `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn epoll_add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        match is_closed(state) {
            true => push_closed(state, "event_add"),
            false => interest::epoll_add(state),
        }
    }
}

/// `e:event_mod(fd, events [, udata])` → `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn epoll_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        match is_closed(state) {
            true => push_closed(state, "event_mod"),
            false => interest::epoll_mod(state),
        }
    }
}

/// `e:event_del(fd)` → `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn epoll_del(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        match is_closed(state) {
            true => push_closed(state, "event_del"),
            false => interest::event_del(state),
        }
    }
}

/// `for udata, events in e:wait([milliseconds]) do`; `nil, message, code` when the epoll is closed.
pub(super) unsafe extern "C-unwind" fn epoll_wait(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        match is_closed(state) {
            true => push_closed(state, "wait"),
            false => iterator::wait_in(state, Unit::Milliseconds),
        }
    }
}

/// `e:close()` → `true`; `nil, message, code` when it is closed already.
pub(super) unsafe extern "C-unwind" fn epoll_close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select_add`.
    unsafe {
        match is_closed(state) {
            true => push_closed(state, "close"),
            false => lua::close(state),
        }
    }
}
