//! Tasks for raw functions that are left. // bridge

use super::{Text, push_bytes, raise};
use crate::lua::{Call, Fault};
use crate::task::Tasks;
use mlua::ffi::{self, lua_State};
use std::rc::Rc;

/// A call of the running function.
///
/// # Safety
/// As for [`Call::raw`].
#[inline(always)]
pub(crate) unsafe fn call<'c>(state: *mut lua_State) -> Call<'c> {
    // SAFETY: the caller's promise.
    unsafe { Call::raw(state) }
}

/// The value, or raises.
///
/// # Safety
/// As for [`raise`].
#[inline]
pub(crate) unsafe fn settle<T>(state: *mut lua_State, result: Result<T, Fault>) -> T {
    match result {
        Ok(value) => value,
        // SAFETY: the caller's promise.
        Err(fault) => unsafe { fault.raise_raw(state) },
    }
}

/// Raises `name: cannot wait here: …` at the line of the program.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn raise_cannot_wait(state: *mut lua_State, tasks: &Rc<Tasks>, name: &str) -> ! {
    // SAFETY: `message` is plain data; the caller vouches for the frames.
    unsafe {
        ffi::luaL_checkstack(state, 16, std::ptr::null());
        let message = match tasks.refusal(&mut call(state), name) {
            Ok(text) => Text::new(&text),
            Err(fault) => fault.raise_raw(state),
        };
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_pushstring(state, c"lio.misuse".as_ptr());
        if ffi::lua_rawget(state, -2) == ffi::LUA_TTABLE {
            ffi::lua_pushstring(state, c"raise".as_ptr());
            if ffi::lua_rawget(state, -2) == ffi::LUA_TFUNCTION {
                push_bytes(state, message.as_bytes());
                ffi::lua_call(state, 1, 0);
            }
        }
        raise(state, message)
    }
}
