//! Timer queues for the raw functions that are left. // bridge

use crate::event::timers::Queue;
use crate::modules::timer::Timers;
use crate::raw::{guard, object, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// A timer of the queue at `index` fires at `due`, in seconds of `lio.now`. Never raises.
///
/// # Safety
/// As for [`set_timer`].
pub(crate) unsafe fn set_timer_at(state: *mut lua_State, index: c_int, id: u64, due: f64) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(timers) = object::test::<Timers>(state, index) {
            (*timers)
                .0
                .set(id, (due.clamp(0.0, 6.4e9) * 1e9).ceil() as u64);
        }
    }
}

/// A timer of the queue at `index` that is not set and stays until it is freed; its value is the one at `value`.
///
/// # Safety
/// `state` is valid, with 4 free stack slots; nothing that needs `Drop` may be alive. May raise.
pub(crate) unsafe fn create_timer(state: *mut lua_State, index: c_int, value: c_int) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let index = ffi::lua_absindex(state, index);
        let value = ffi::lua_absindex(state, value);
        let id = make(state, index, value, false);
        ffi::lua_pop(state, 1);
        id
    }
}

/// There is no such timer any more in the queue at `index`. Never raises.
///
/// # Safety
/// As for [`set_timer`], with 3 free stack slots.
pub(crate) unsafe fn free_timer(state: *mut lua_State, index: c_int, id: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        let index = ffi::lua_absindex(state, index);
        if let Some(timers) = object::test::<Timers>(state, index)
            && (*timers).0.free(id)
        {
            release(state, index, id);
        }
    }
}

/// Makes a timer in the queue at `index`, and pushes its id.
unsafe fn make(state: *mut lua_State, index: c_int, value: c_int, once: bool) -> u64 {
    // SAFETY: as for `new`.
    unsafe {
        let queue = &mut (*object::check::<Timers>(state, index)).0;
        let id = settle(state, guard(|| Ok(queue.create(once))));
        if ffi::lua_getiuservalue(state, index, 1) != ffi::LUA_TTABLE {
            ffi::lua_pop(state, 1);
            ffi::lua_createtable(state, 0, 0);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, index, 1);
        }
        ffi::lua_pushvalue(state, value);
        ffi::lua_rawseti(state, -2, Queue::slot(id) as i64 + 1);
        ffi::lua_pop(state, 1);
        ffi::lua_pushinteger(state, id as i64);
        id
    }
}

unsafe fn release(state: *mut lua_State, index: c_int, id: u64) {
    // SAFETY: as for `new`.
    unsafe {
        ffi::lua_getiuservalue(state, index, 1);
        ffi::lua_pushboolean(state, 0);
        ffi::lua_rawseti(state, -2, Queue::slot(id) as i64 + 1);
        ffi::lua_pop(state, 1);
    }
}
