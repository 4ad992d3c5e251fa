//! Between `bootstrap.init`'s table and [`Config`].

use crate::ltask::config::{Config, Full};
use crate::raw::{Text, args, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::time::Duration;

/// Raises an error that names the field.
unsafe fn wrong(state: *mut lua_State, name: &CStr, expected: &str) -> ! {
    // SAFETY: the message is plain data.
    unsafe {
        let got = CStr::from_ptr(ffi::luaL_typename(state, -1));
        raise(
            state,
            Text::format(format_args!(
                "config.{}: {expected} expected, got {}",
                name.to_string_lossy(),
                got.to_string_lossy()
            )),
        )
    }
}

/// An integer field within `low..=high`, or `default`.
unsafe fn integer(state: *mut lua_State, name: &CStr, range: (i64, i64), default: usize) -> usize {
    // SAFETY: plain stack work.
    unsafe {
        let kind = ffi::lua_getfield(state, 1, name.as_ptr());
        let value = match kind {
            ffi::LUA_TNIL => default,
            _ => {
                let mut is_integer: c_int = 0;
                let value = ffi::lua_tointegerx(state, -1, &mut is_integer);
                if kind != ffi::LUA_TNUMBER || is_integer == 0 {
                    wrong(state, name, "integer");
                }
                if value < range.0 || value > range.1 {
                    let text = Text::format(format_args!(
                        "config.{}: must be {} to {}, not {value}",
                        name.to_string_lossy(),
                        range.0,
                        range.1
                    ));
                    raise(state, text);
                }
                value as usize
            }
        };
        ffi::lua_settop(state, 1);
        ffi::lua_pushinteger(state, value as i64);
        ffi::lua_setfield(state, 1, name.as_ptr());
        value
    }
}

/// A string field that stays on the stack; null when absent.
unsafe fn string(state: *mut lua_State, name: &CStr) -> *const std::os::raw::c_char {
    // SAFETY: plain stack work.
    unsafe {
        match ffi::lua_getfield(state, 1, name.as_ptr()) {
            ffi::LUA_TNIL => std::ptr::null(),
            ffi::LUA_TSTRING => ffi::lua_tostring(state, -1),
            // `false` switches off, as people write it.
            ffi::LUA_TBOOLEAN if ffi::lua_toboolean(state, -1) == 0 => std::ptr::null(),
            _ => wrong(state, name, "string"),
        }
    }
}

unsafe fn watchdog(state: *mut lua_State, default: Duration) -> Duration {
    // SAFETY: plain stack work.
    unsafe {
        let time = match ffi::lua_getfield(state, 1, c"watchdog".as_ptr()) {
            ffi::LUA_TNIL => default,
            ffi::LUA_TBOOLEAN if ffi::lua_toboolean(state, -1) == 0 => Duration::ZERO,
            ffi::LUA_TNUMBER => {
                let seconds = ffi::lua_tonumber(state, -1);
                if !(0.0..1e9).contains(&seconds) {
                    raise(
                        state,
                        Text::new("config.watchdog: seconds, 0 or more, expected"),
                    );
                }
                Duration::from_secs_f64(seconds)
            }
            _ => wrong(state, c"watchdog", "number"),
        };
        ffi::lua_settop(state, 1);
        ffi::lua_pushnumber(state, time.as_secs_f64());
        ffi::lua_setfield(state, 1, c"watchdog".as_ptr());
        time
    }
}

unsafe fn full(state: *mut lua_State) -> Full {
    // SAFETY: plain stack work.
    unsafe {
        let value = string(state, c"full");
        let full = match value.is_null() {
            true => Full::Error,
            false => match CStr::from_ptr(value).to_bytes() {
                b"error" => Full::Error,
                b"wait" => Full::Wait,
                _ => raise(state, Text::new("config.full: 'error' or 'wait' expected")),
            },
        };
        ffi::lua_settop(state, 1);
        let text = match full {
            Full::Error => c"error",
            Full::Wait => c"wait",
        };
        ffi::lua_pushstring(state, text.as_ptr());
        ffi::lua_setfield(state, 1, c"full".as_ptr());
        full
    }
}

/// Reads the table at index 1 and writes the values in force back. What needs `Drop` is made last, when
/// nothing can raise any more; the names of files stay on the stack until then.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive.
pub(super) unsafe fn read(state: *mut lua_State) -> Config {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 1);
        let (
            worker,
            queue,
            queue_sending,
            max_service,
            external_queue,
            log_queue,
            watchdog_default,
        ) = {
            let d = Config::default();
            (
                d.worker,
                d.queue,
                d.queue_sending,
                d.max_service,
                d.external_queue,
                d.log_queue,
                d.watchdog,
            )
        };
        let worker = integer(state, c"worker", (1, 256), worker);
        let queue = integer(state, c"queue", (1, 1 << 24), queue);
        let queue_sending = integer(state, c"queue_sending", (1, 1 << 24), queue_sending);
        let max_service = integer(state, c"max_service", (2, 1 << 20), max_service);
        let external_queue = integer(state, c"external_queue", (1, 1 << 24), external_queue);
        let log_queue = integer(state, c"log_queue", (1, 1 << 24), log_queue);
        let watchdog = watchdog(state, watchdog_default);
        let full = full(state);
        let crashlog = string(state, c"crashlog");
        let debuglog = string(state, c"debuglog");
        let owned = |text: *const std::os::raw::c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Config {
            worker,
            queue,
            queue_sending,
            max_service,
            external_queue,
            log_queue,
            watchdog,
            full,
            crashlog: owned(crashlog),
            debuglog: owned(debuglog),
        }
    }
}

/// Unused arguments are an error only where they matter; this names the call in messages.
pub(super) unsafe fn check_table(state: *mut lua_State) {
    // SAFETY: as for `args`.
    unsafe {
        if ffi::lua_type(state, 1) != ffi::LUA_TTABLE {
            args::type_error(state, 1, c"table");
        }
    }
}
