//! `lio.timer`: timer queues as Lua sees them. A timer carries one value; the queue's user value keeps
//! it alive, by slot.

use super::{Queue, monotonic_nanos};
use crate::raw::object::{self, Key, Object, key};
use crate::raw::{Function, Text, args, functions, guard, module, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

struct Timers(Queue);

impl Object for Timers {
    const NAME: &'static CStr = c"lio.timers";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"add", add),
        (c"cancel", free),
        (c"create", create),
        (c"set", set),
        (c"clear", clear),
        (c"free", free),
        (c"next", next),
        (c"expire", expire),
        (c"count", count),
    ];
    fn key() -> &'static Key {
        key!()
    }
}

unsafe fn queue<'a>(state: *mut lua_State) -> &'a mut Queue {
    // SAFETY: argument 1 stays on the stack; nothing else refers to the queue meanwhile.
    unsafe { &mut (*object::check::<Timers>(state, 1)).0 }
}

/// The seconds that argument `index` means, in nanoseconds. A century is for ever; rounding up keeps a timer from
/// firing early.
///
/// # Safety
/// Nothing that needs `Drop` may be alive.
pub(crate) unsafe fn nanos(state: *mut lua_State, index: c_int) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let seconds = ffi::luaL_checknumber(state, index);
        if seconds.is_nan() {
            args::argument_error(state, index, Text::new("time is not a number"));
        }
        (seconds.clamp(0.0, 3.2e9) * 1e9).ceil() as u64
    }
}

/// The due time that argument `index`, seconds from now, means.
unsafe fn due(state: *mut lua_State, index: c_int) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { monotonic_nanos() + nanos(state, index) }
}

/// Sets a timer of the queue at `index` to fire so many nanoseconds from now. Never raises.
///
/// # Safety
/// `state` is valid; no reference into the queue is held.
pub(crate) unsafe fn set_timer(state: *mut lua_State, index: c_int, id: u64, nanos: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(timers) = object::test::<Timers>(state, index) {
            (*timers).0.set(id, monotonic_nanos() + nanos);
        }
    }
}

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

/// A timer of the queue at `index` does not fire until it is set again. Never raises.
///
/// # Safety
/// As for [`set_timer`].
pub(crate) unsafe fn clear_timer(state: *mut lua_State, index: c_int, id: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(timers) = object::test::<Timers>(state, index) {
            (*timers).0.clear(id);
        }
    }
}

/// `timer.new()` → an empty queue.
unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Timers(Queue::default()))
        });
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_setiuservalue(state, -2, 1);
        1
    }
}

/// Makes a timer in the queue at `index`, and pushes its id.
unsafe fn make(state: *mut lua_State, index: c_int, value: c_int, once: bool) -> u64 {
    // SAFETY: as for `new`.
    unsafe {
        let queue = &mut (*object::check::<Timers>(state, index)).0;
        let id = settle(state, guard(|| Ok(queue.create(once))));
        ffi::lua_getiuservalue(state, index, 1);
        ffi::lua_pushvalue(state, value);
        ffi::lua_rawseti(state, -2, Queue::slot(id) as i64 + 1);
        ffi::lua_pop(state, 1);
        ffi::lua_pushinteger(state, id as i64);
        id
    }
}

/// `timers:add(seconds, value)` → id. Fires once, then is gone.
unsafe extern "C-unwind" fn add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let due = due(state, 2);
        ffi::luaL_checkany(state, 3);
        let id = make(state, 1, 3, true);
        let queue = queue(state);
        settle(state, guard(|| Ok(queue.set(id, due))));
        1
    }
}

/// `timers:create(value)` → id of a timer that is not set and stays after it fired, until `free`.
unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        ffi::luaL_checkany(state, 2);
        make(state, 1, 2, false);
        1
    }
}

/// `timers:set(id, seconds)` → whether there is such a timer. Moves it; costs next to nothing when the
/// new time is the later one.
unsafe extern "C-unwind" fn set(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let id = ffi::luaL_checkinteger(state, 2) as u64;
        let due = due(state, 3);
        let queue = queue(state);
        let found = settle(state, guard(|| Ok(queue.set(id, due))));
        ffi::lua_pushboolean(state, found.into());
        1
    }
}

/// `timers:clear(id)` → whether there is such a timer. It does not fire until it is set again.
unsafe extern "C-unwind" fn clear(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let id = ffi::luaL_checkinteger(state, 2) as u64;
        let found = queue(state).clear(id);
        ffi::lua_pushboolean(state, found.into());
        1
    }
}

/// `timers:free(id)`, `timers:cancel(id)` → whether there was such a timer.
unsafe extern "C-unwind" fn free(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let id = ffi::luaL_checkinteger(state, 2) as u64;
        let queue = queue(state);
        let found = settle(state, guard(|| Ok(queue.free(id))));
        if found {
            release(state, 1, id);
        }
        ffi::lua_pushboolean(state, found.into());
        1
    }
}

unsafe fn release(state: *mut lua_State, index: c_int, id: u64) {
    // SAFETY: as for `new`.
    unsafe {
        ffi::lua_getiuservalue(state, index, 1);
        ffi::lua_pushnil(state);
        ffi::lua_rawseti(state, -2, Queue::slot(id) as i64 + 1);
        ffi::lua_pop(state, 1);
    }
}

/// `timers:next()` → seconds until the next timer is due (0 when it is), or nil when none is set.
unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let queue = queue(state);
        let due = settle(state, guard(|| Ok(queue.next_due())));
        match due {
            Some(due) => {
                let left = due.saturating_sub(monotonic_nanos());
                ffi::lua_pushnumber(state, left as f64 / 1e9);
            }
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `timers:expire()` → value and id of the next timer that is due, or nothing.
unsafe extern "C-unwind" fn expire(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let queue = queue(state);
        let fired = settle(state, guard(|| Ok(queue.expire(monotonic_nanos()))));
        let Some((id, freed)) = fired else { return 0 };
        ffi::lua_getiuservalue(state, 1, 1);
        ffi::lua_rawgeti(state, -1, Queue::slot(id) as i64 + 1);
        if freed {
            release(state, 1, id);
        }
        ffi::lua_pushinteger(state, id as i64);
        2
    }
}

/// `timers:count()` → how many timers there are, set or not.
unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        ffi::lua_pushinteger(state, queue(state).len() as i64);
        1
    }
}

/// Opens `lio.timer`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        module::push(state, functions![(c"new", new)]);
        1
    }
}
