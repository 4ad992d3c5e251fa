//! The fields that a handler sets, as `res:header` keeps them: a flat list of names and values, which
//! `answer.rs` writes. Called by lualib/lio/web/response.lua.

use super::answer::fault_of;
use crate::lua::args;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// `http.put_field(list, name, value)` → true: `value` stands in the place of all that was under the name. False,
/// with the list as it was, for what cannot be sent: the name must be a string, the value a string or a number.
pub(super) unsafe extern "C-unwind" fn put_field(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; name and value stay on the stack, so their bytes do.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 3);
        let kind = ffi::lua_type(state, 3);
        let sendable = ffi::lua_type(state, 2) == ffi::LUA_TSTRING
            && (kind == ffi::LUA_TSTRING || kind == ffi::LUA_TNUMBER)
            && fault_of(args::bytes(state, 2), args::bytes(state, 3)).is_none();
        if sendable {
            let name = args::bytes(state, 2);
            let end = remove(state, name);
            ffi::lua_pushvalue(state, 2);
            ffi::lua_rawseti(state, 1, end + 1);
            // A number has become its text by `args::bytes`.
            ffi::lua_pushvalue(state, 3);
            ffi::lua_rawseti(state, 1, end + 2);
        }
        ffi::lua_pushboolean(state, sendable.into());
        1
    }
}

/// Takes the fields of that name out of the list at argument 1. Returns how long it is then.
unsafe fn remove(state: *mut lua_State, name: &[u8]) -> i64 {
    // SAFETY: plain stack work; nothing is added to the list.
    unsafe {
        let length = ffi::lua_rawlen(state, 1) as i64;
        let mut kept = 0;
        for at in (1..length).step_by(2) {
            ffi::lua_rawgeti(state, 1, at);
            let same = ffi::lua_type(state, -1) == ffi::LUA_TSTRING
                && args::bytes(state, -1).eq_ignore_ascii_case(name);
            if same {
                ffi::lua_pop(state, 1);
                continue;
            }
            if kept + 1 == at {
                ffi::lua_pop(state, 1);
            } else {
                ffi::lua_rawseti(state, 1, kept + 1);
                ffi::lua_rawgeti(state, 1, at + 1);
                ffi::lua_rawseti(state, 1, kept + 2);
            }
            kept += 2;
        }
        for at in (kept + 1..=length).rev() {
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, 1, at);
        }
        kept
    }
}
