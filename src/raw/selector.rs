//! Selectors and their registrations for raw functions that are not converted yet. // bridge

use super::object;
use super::{guard, settle};
use crate::modules::selector::iterator::{Event, LoopGuard};
pub(crate) use crate::modules::selector::state::{Loop, Selector};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

const UDATA: c_int = 1;

/// Pushes what closes a [`Loop::Guarded`] over the selector at `index`: the fourth value of its `for`.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn push_guard(state: *mut lua_State, index: c_int) {
    // SAFETY: the guard keeps the selector by its user value.
    unsafe {
        object::check::<Selector>(state, index);
        let Ok(_) = object::push_new(state, || Ok::<_, std::convert::Infallible>(LoopGuard));
        ffi::lua_pushvalue(state, index);
        ffi::lua_setiuservalue(state, -2, 1);
    }
}

/// For an iterator that was called with `arguments` values, by a loop of the kind `by`: the next event of the batch of
/// the selector that is upvalue `index`; `None` when that is over.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive; the upvalue is a selector.
pub(crate) unsafe fn next_ready(
    state: *mut lua_State,
    index: c_int,
    arguments: c_int,
    by: Loop,
) -> Option<Event> {
    // SAFETY: the selector is looked at each time: what is done with an event may run a finalizer that closes it.
    unsafe {
        let selector = object::upvalue::<Selector>(state, index)?;
        settle(state, guard(|| Ok((*selector).next(arguments, by))))
    }
}

/// Pushes the table that has the udata of each registration at its slot + 1; nil when the selector at `index` is
/// closed: then there are no events.
///
/// # Safety
/// `state` is valid, with a free stack slot; a selector is at `index`.
pub(crate) unsafe fn push_udatas(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::lua_getiuservalue(state, index, UDATA);
    }
}
