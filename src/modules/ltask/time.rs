//! Clocks and timers of module `ltask`.

use super::service;
use crate::event::clock::{monotonic, monotonic_nanos};
use crate::ltask::log::centiseconds;
use crate::ltask::message::{Message, SYSTEM, kind};
use crate::ltask::service::Service;
use crate::raw::{Function, Text, args, functions};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::time::Duration;

pub(super) const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"timer_add", timer_add),
    (c"timer_update", timer_update),
    (c"timer_sleep", timer_sleep),
    (c"now", now),
    (c"walltime", walltime),
    (c"counter", counter),
    (c"cpucost", cpucost),
];

const TICK: u64 = 10_000_000;

/// A RESPONSE with `session` reaches the service after `ticks` centiseconds; with none, at the end of
/// what is in its mailbox now. The timer's id, if there is one.
pub(super) fn set_timer(service: &mut Service, session: i64, ticks: i64) -> Option<u64> {
    let id = service.id;
    let system = service.system();
    if ticks <= 0 {
        let message = Message::bare(SYSTEM, id, session, kind::RESPONSE);
        // Its own mailbox is there, and takes answers always.
        let _ = system.post(message, 0);
        return None;
    }
    let due = monotonic_nanos().saturating_add((ticks as u64).saturating_mul(TICK));
    Some(system.keeper.add(id, session, due))
}

/// `ltask.timer_add(session, centiseconds)`: after that time a RESPONSE with that session arrives.
unsafe extern "C-unwind" fn timer_add(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let session = ffi::luaL_checkinteger(state, 1);
        let ticks = ffi::luaL_checknumber(state, 2);
        if ticks.is_nan() {
            args::argument_error(state, 2, Text::new("time is not a number"));
        }
        set_timer(service(state), session, ticks.ceil() as i64);
        0
    }
}

/// `ltask.timer_update(t)` → `t`, emptied: timers are delivered without help.
unsafe extern "C-unwind" fn timer_update(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        for index in (1..=ffi::lua_rawlen(state, 1) as i64).rev() {
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, 1, index);
        }
        ffi::lua_settop(state, 1);
        1
    }
}

/// Sleeps for the milliseconds of argument 1; the system's end cuts it short.
pub(super) unsafe extern "C-unwind" fn timer_sleep(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let millis = ffi::luaL_checknumber(state, 1);
        if millis.is_nan() {
            args::argument_error(state, 1, Text::new("time is not a number"));
        }
        let time = Duration::from_secs_f64((millis / 1000.0).clamp(0.0, 1e9));
        service(state).system().sleep(time);
        0
    }
}

/// `ltask.now()` → seconds, centiseconds since the epoch.
unsafe extern "C-unwind" fn now(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let ticks = centiseconds() as i64;
        ffi::lua_pushinteger(state, ticks / 100);
        ffi::lua_pushinteger(state, ticks);
        2
    }
}

/// `ltask.walltime()` → centiseconds since the epoch (G1).
unsafe extern "C-unwind" fn walltime(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushinteger(state, centiseconds() as i64);
        1
    }
}

/// `ltask.counter()` → seconds of a clock that only goes forward, as float.
unsafe extern "C-unwind" fn counter(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushnumber(state, monotonic());
        1
    }
}

/// `ltask.cpucost()` → seconds that this service has run.
unsafe extern "C-unwind" fn cpucost(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        let mut busy = service.card.busy();
        if crate::ltask::worker::number().is_some() {
            busy += monotonic_nanos() - service.began;
        }
        ffi::lua_pushnumber(state, busy as f64 / 1e9);
        1
    }
}
