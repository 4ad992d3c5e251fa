//! Values as text, by functions that a step calls: a metamethod may run.

use super::function::Function;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ptr::null_mut;

/// `(value)` → the text that `tostring` gives.
// SAFETY: C functions that let no panic pass: nothing in them panics.
pub(crate) const TO_TEXT: Function = unsafe { Function::foreign(to_text) };

/// `(error)` → the error if it is a string; the text that its `__tostring` gives; or what it is.
// SAFETY: as for `TO_TEXT`.
pub(crate) const ERROR_TEXT: Function = unsafe { Function::foreign(error_text) };

unsafe extern "C-unwind" fn to_text(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua; owns nothing.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::luaL_tolstring(state, 1, null_mut());
        1
    }
}

unsafe extern "C-unwind" fn error_text(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua; owns nothing, and the type's name is static.
    unsafe {
        ffi::lua_settop(state, 1);
        if ffi::lua_type(state, 1) != ffi::LUA_TSTRING {
            if ffi::luaL_getmetafield(state, 1, c"__tostring".as_ptr()) != ffi::LUA_TNIL {
                ffi::luaL_tolstring(state, 1, null_mut());
            } else {
                let kind = ffi::luaL_typename(state, 1);
                ffi::lua_pushfstring(state, c"(error object is a %s value)".as_ptr(), kind);
            }
        }
        1
    }
}

/// Takes the error on top of a stack.
///
/// # Safety
/// There is one.
pub(super) unsafe fn take_message(state: *mut lua_State) -> String {
    // SAFETY: reads and pops the top; a string is not converted.
    unsafe {
        let mut length = 0;
        let text = match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => {
                let bytes = ffi::lua_tolstring(state, -1, &mut length);
                let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
                String::from_utf8_lossy(bytes).into_owned()
            }
            _ => "(error object is not a string)".to_owned(),
        };
        ffi::lua_pop(state, 1);
        text
    }
}
