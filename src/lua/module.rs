//! Tables of functions, the form in which native modules reach Lua.

use super::Function;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

/// `LUA_VERSION_NUM` of the Lua this is built for.
#[cfg(not(feature = "lua55"))]
const VERSION: f64 = 504.0;
#[cfg(feature = "lua55")]
const VERSION: f64 = 505.0;

/// Pushes a table with `functions` in it.
///
/// # Safety
/// `state` is valid, with 3 free stack slots; may raise a memory error.
pub(crate) unsafe fn push(state: *mut lua_State, functions: &[(&CStr, Function)]) {
    // SAFETY: plain stack work.
    unsafe {
        // 136: `LUAL_NUMSIZES` of Lua with 64-bit integers and doubles.
        ffi::luaL_checkversion_(state, VERSION, 136);
        ffi::lua_createtable(state, 0, functions.len() as c_int + 4);
        add(state, functions);
    }
}

/// Adds `functions` to the table on top of the stack.
///
/// # Safety
/// As for [`push`].
pub(crate) unsafe fn add(state: *mut lua_State, functions: &[(&CStr, Function)]) {
    // SAFETY: plain stack work.
    unsafe {
        for (name, function) in functions {
            ffi::lua_pushcclosure(state, *function, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
    }
}
