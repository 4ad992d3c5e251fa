//! Tasks for raw functions that are left. // bridge

use crate::lua::{Call, Fault};
use mlua::ffi::lua_State;

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
