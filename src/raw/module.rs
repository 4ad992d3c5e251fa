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
            function.push(state, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
    }
}

/// Pushes an empty table whose `__index` is `index`: for modules of many functions in VMs of which there
/// are many, and which use few. Each function comes into the table when it is used first, see [`find`].
///
/// # Safety
/// As for [`push`].
pub(crate) unsafe fn push_lazy(state: *mut lua_State, index: Function) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checkversion_(state, VERSION, 136);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_createtable(state, 0, 1);
        index.push(state, 0);
        ffi::lua_setfield(state, -2, c"__index".as_ptr());
        ffi::lua_setmetatable(state, -2);
    }
}

/// In an `__index` (table, name): finds the name in the lists, and keeps its function in the table. Whether
/// it was found; then it lies on top.
///
/// # Safety
/// `state` is valid; may raise a memory error.
pub(crate) unsafe fn find(state: *mut lua_State, lists: &[&[(&CStr, Function)]]) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        let Some(function) = search(state, lists) else {
            return false;
        };
        function.push(state, 0);
        keep(state);
        true
    }
}

/// The function of the name at 2.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn search(
    state: *mut lua_State,
    lists: &[&[(&CStr, Function)]],
) -> Option<Function> {
    // SAFETY: reads the name.
    unsafe {
        if ffi::lua_type(state, 2) != ffi::LUA_TSTRING {
            return None;
        }
        let name = super::args::bytes(state, 2);
        let mut entries = lists.iter().flat_map(|list| list.iter());
        let (_, function) = entries.find(|(known, _)| known.to_bytes() == name)?;
        Some(*function)
    }
}

/// Keeps the value on top under the name at 2 in the table at 1.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn keep(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawset(state, 1);
    }
}
