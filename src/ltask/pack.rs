//! Packing for raw functions that are left. // bridge

use super::message::{Borrowed, Payload};
use crate::lua::{Call, Function};
use crate::modules::pack;
use crate::raw::{Text, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_int, c_void};

pub(crate) use crate::codec::pack::Value;

/// Packs the values from `first` on into a fresh block, which the caller frees; null and 0 for no values. Raises.
///
/// # Safety
/// `state` is valid and `first` positive. Nothing that needs `Drop` may be alive in the frames up to Lua.
pub(crate) unsafe fn pack(state: *mut lua_State, first: c_int) -> (*mut c_void, usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match Call::bridge(state, |call| pack::block(call, first)) {
            Ok(Some(payload)) => return payload.into_raw(),
            Ok(None) => {}
            Err(fault) => fault.raise_raw(state),
        }
        let top = ffi::lua_gettop(state);
        slow(state, first);
        ffi::lua_call(state, top - first + 1, 2);
        let raw = (
            ffi::lua_touserdata(state, -2),
            ffi::lua_tointegerx(state, -1, std::ptr::null_mut()) as usize,
        );
        ffi::lua_settop(state, top);
        raw
    }
}

unsafe fn slow(state: *mut lua_State, first: c_int) {
    // SAFETY: as for `pack`.
    unsafe {
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, top - first + 8) == 0 {
            raise(state, Text::new("stack overflow"));
        }
        let function: Function = pack::FUNCTIONS[0].1;
        function.push(state, 0);
        for index in first..=top {
            ffi::lua_pushvalue(state, index);
        }
    }
}

/// As [`pack`], for who must not raise: the error is a message.
///
/// # Safety
/// As for [`pack`].
pub(crate) unsafe fn try_pack(state: *mut lua_State, first: c_int) -> Result<Payload, String> {
    // SAFETY: the caller's promise.
    unsafe {
        match Call::bridge(state, |call| pack::block(call, first)) {
            Ok(Some(payload)) => return Ok(payload),
            Ok(None) => {}
            Err(fault) => return Err(fault.to_string()),
        }
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, top - first + 8) == 0 {
            return Err("stack overflow".into());
        }
        slow(state, first);
        if ffi::lua_pcall(state, top - first + 1, 2, 0) == ffi::LUA_OK {
            let size = ffi::lua_tointegerx(state, -1, std::ptr::null_mut()) as usize;
            return Ok(Payload::from_raw(ffi::lua_touserdata(state, -2), size));
        }
        if ffi::lua_type(state, -1) != ffi::LUA_TSTRING {
            return Err("error in a __pairs metamethod".into());
        }
        let mut length = 0;
        let text = ffi::lua_tolstring(state, -1, &mut length);
        let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length);
        Err(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Pushes the values packed in `size` bytes and returns how many. Does not free. Raises.
///
/// # Safety
/// `state` is valid, and the bytes can be read. As for [`pack`] otherwise.
pub(crate) unsafe fn unpack(state: *mut lua_State, bytes: *const u8, size: usize) -> c_int {
    let borrowed = Borrowed::new(bytes.expose_provenance(), size);
    // SAFETY: the caller's promise.
    unsafe { crate::lua::give(state, pack::borrowed(borrowed)) }
}
