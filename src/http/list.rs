//! The fields that a handler sets, as `res:header` keeps them: a flat list of names and values, which
//! `answer.rs` writes. Called by lualib/lio/web/response.lua.

use super::answer::fault_of;
use super::connection::Connection;
use crate::raw::{args, object};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Where a response keeps the table of its connection.
const CONNECTION: i64 = 1;
/// How many fields a new list has room for.
const ROOM: c_int = 2;

/// `http.set_field(res, name, value)` → true: the response's field is set, in the place of all that was under the
/// name. False, with nothing done, when that is not so simple: no other three values, an answer that has begun, a
/// response that is not to have a type, or what cannot be sent.
pub(super) unsafe extern "C-unwind" fn set_field(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; name and value stay on the stack, so their bytes do.
    unsafe {
        let is_set = ffi::lua_gettop(state) == 3
            && ffi::lua_type(state, 1) == ffi::LUA_TTABLE
            && is_sendable(state)
            && is_open(state);
        if is_set {
            ffi::lua_pushstring(state, c"fields".as_ptr());
            if ffi::lua_rawget(state, 1) != ffi::LUA_TTABLE {
                ffi::lua_settop(state, 3);
                ffi::lua_createtable(state, 2 * ROOM, 0);
                ffi::lua_pushstring(state, c"fields".as_ptr());
                ffi::lua_pushvalue(state, 4);
                ffi::lua_rawset(state, 1);
            }
            put(state, 4);
        }
        ffi::lua_pushboolean(state, is_set.into());
        1
    }
}

/// Whether name and value at arguments 2 and 3 are a string, and a string or a number, that can be sent.
unsafe fn is_sendable(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        let kind = ffi::lua_type(state, 3);
        ffi::lua_type(state, 2) == ffi::LUA_TSTRING
            && (kind == ffi::LUA_TSTRING || kind == ffi::LUA_TNUMBER)
            && fault_of(args::bytes(state, 2), args::bytes(state, 3)).is_none()
    }
}

/// Whether the response at argument 1 can be set something of, and may have a type; its connection learns of it.
unsafe fn is_open(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work; the exchange's block is kept by the connection's table.
    unsafe {
        ffi::lua_pushstring(state, c"kind".as_ptr());
        if ffi::lua_rawget(state, 1) == ffi::LUA_TBOOLEAN
            || ffi::lua_rawgeti(state, 1, CONNECTION) != ffi::LUA_TTABLE
        {
            return false;
        }
        ffi::lua_pushstring(state, c"x".as_ptr());
        ffi::lua_rawget(state, -2);
        let connection = object::test::<Connection>(state, -1);
        ffi::lua_settop(state, 3);
        match connection {
            Some(connection) if !(*connection).exchange.answered => {
                (*connection).touched = true;
                true
            }
            _ => false,
        }
    }
}

/// Puts name and value at arguments 2 and 3 into the list at `list`, in the place of all that was under the name.
unsafe fn put(state: *mut lua_State, list: c_int) {
    // SAFETY: plain stack work; the name stays on the stack.
    unsafe {
        let end = remove(state, list, args::bytes(state, 2));
        ffi::lua_pushvalue(state, 2);
        ffi::lua_rawseti(state, list, end + 1);
        // A number has become its text by `args::bytes`.
        ffi::lua_pushvalue(state, 3);
        ffi::lua_rawseti(state, list, end + 2);
    }
}

/// Takes the fields of that name out of the list at `list`. Returns how long it is then.
unsafe fn remove(state: *mut lua_State, list: c_int, name: &[u8]) -> i64 {
    // SAFETY: plain stack work; nothing is added to the list.
    unsafe {
        let length = ffi::lua_rawlen(state, list) as i64;
        let mut kept = 0;
        for at in (1..length).step_by(2) {
            ffi::lua_rawgeti(state, list, at);
            let same = ffi::lua_type(state, -1) == ffi::LUA_TSTRING
                && args::bytes(state, -1).eq_ignore_ascii_case(name);
            if same {
                ffi::lua_pop(state, 1);
                continue;
            }
            if kept + 1 == at {
                ffi::lua_pop(state, 1);
            } else {
                ffi::lua_rawseti(state, list, kept + 1);
                ffi::lua_rawgeti(state, list, at + 1);
                ffi::lua_rawseti(state, list, kept + 2);
            }
            kept += 2;
        }
        for at in (kept + 1..=length).rev() {
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, list, at);
        }
        kept
    }
}
