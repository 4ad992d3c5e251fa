//! The few helpers that every raw Lua function of this crate uses.
//!
//! Raw functions are thin shells over `mlua::ffi`: they read arguments, call a safe inner function
//! through [`guard`], and push or raise as their last act. `lua_error` and memory errors longjmp, so
//! whatever is alive in a frame at that moment must not need `Drop`; [`Text`] is plain data for that reason.
//!
//! - `barrier.rs`: functions as Lua gets them, which let no panic pass
//! - `text.rs`: bounded message on the stack

#[allow(dead_code, unused_macros, unused_imports)] // bridge
pub(crate) mod barrier;
pub(crate) mod selector;
pub(crate) mod tasks;
pub(crate) mod text;

use mlua::ffi::{self, lua_State};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use crate::function;
#[cfg(test)]
pub(crate) use crate::lua::Function;
pub(crate) use crate::lua::object;
pub(crate) use barrier::text_of;
pub(crate) use text::Text;

/// Runs `inner` so that no panic leaves it: a panic becomes a message to be raised.
///
/// `inner` must not call anything of Lua that can raise.
pub(crate) fn guard<T>(inner: impl FnOnce() -> Result<T, Text>) -> Result<T, Text> {
    match catch_unwind(AssertUnwindSafe(inner)) {
        Ok(result) => result,
        Err(panic) => Err(text_of(panic)),
    }
}

/// Raises `message`, with the position of the Lua caller before it. Never returns.
///
/// # Safety
/// No frame between here and the Lua caller may own a value that needs `Drop`.
pub(crate) unsafe fn raise(state: *mut lua_State, message: Text) -> ! {
    // SAFETY: `message` is plain data; the caller vouches for the frames that are skipped.
    unsafe {
        ffi::luaL_where(state, 1);
        push_bytes(state, message.as_bytes());
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}

/// Pushes a Lua string.
///
/// # Safety
/// `state` is a valid Lua state with a free stack slot; may raise a memory error.
pub(crate) unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: pointer and length come from one slice.
    unsafe {
        ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len());
    }
}

/// Unwraps the result of [`guard`], raising its message.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn settle<T: Copy>(state: *mut lua_State, result: Result<T, Text>) -> T {
    match result {
        Ok(value) => value,
        // SAFETY: the caller's promise; `T` is `Copy`, so nothing is dropped here either.
        Err(message) => unsafe { raise(state, message) },
    }
}
