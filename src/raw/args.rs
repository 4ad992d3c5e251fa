//! Argument checks of raw functions. Misuse raises, naming the argument and the call.

use super::{Text, push_bytes};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Raises `bad argument #index to 'call' (message)`.
///
/// # Safety
/// Nothing that needs `Drop` may be alive in the frames up to Lua.
pub(crate) unsafe fn argument_error(state: *mut lua_State, index: c_int, message: Text) -> ! {
    // SAFETY: `luaL_argerror` copies the message and does not return.
    unsafe {
        push_bytes(state, message.as_bytes());
        ffi::luaL_argerror(state, index, ffi::lua_tostring(state, -1));
    }
    unreachable!("luaL_argerror returned")
}

/// A string argument, as bytes that live as long as the argument stays on the stack.
///
/// # Safety
/// As for [`argument_error`].
pub(crate) unsafe fn bytes<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    // SAFETY: Lua keeps the string alive while it is on the stack; the caller's frame ends before.
    unsafe {
        let mut length = 0;
        let pointer = ffi::luaL_checklstring(state, index, &mut length);
        std::slice::from_raw_parts(pointer.cast(), length)
    }
}

/// A string argument that must be UTF-8.
///
/// # Safety
/// As for [`argument_error`].
pub(crate) unsafe fn utf8<'a>(state: *mut lua_State, index: c_int) -> &'a str {
    // SAFETY: as for `bytes`.
    unsafe {
        match std::str::from_utf8(bytes(state, index)) {
            Ok(text) => text,
            Err(_) => argument_error(state, index, Text::new("not valid UTF-8")),
        }
    }
}

/// An integer argument within `low..=high`.
///
/// # Safety
/// As for [`argument_error`].
pub(crate) unsafe fn integer_in(
    state: *mut lua_State,
    index: c_int,
    low: i64,
    high: i64,
    what: &str,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let value = ffi::luaL_checkinteger(state, index);
        if value < low || value > high {
            let message = Text::format(format_args!("{what} must be {low} to {high}, not {value}"));
            argument_error(state, index, message);
        }
        value
    }
}

/// Whether argument `index` is absent or nil.
///
/// # Safety
/// `state` is valid.
pub(crate) unsafe fn is_none(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: reads a type tag.
    unsafe { ffi::lua_type(state, index) <= ffi::LUA_TNIL }
}
