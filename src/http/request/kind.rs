//! A head as handlers see it: what is known of a request by name, made when it is first read.
//!
//! `lualib/lio/web/request.lua` calls `kind` once for its VM. Invariant: what a handler stores under a name is what it
//! reads there, whatever else has that name.

use super::{KNOWN, Request, check};
use crate::raw::function;
use crate::raw::object;
use crate::raw::push_bytes;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Whether something is known of the head at `index` by name: a handler or middleware has looked at it before.
///
/// # Safety
/// A head is at `index`, and there is a free stack slot.
pub(in crate::http) unsafe fn is_known(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let kind = ffi::lua_getiuservalue(state, index, KNOWN);
        ffi::lua_pop(state, 1);
        kind != ffi::LUA_TNIL
    }
}

/// `http.kind(getters, methods)`: from now on heads of this VM are requests as handlers see them. A field is what
/// was stored under its name, else what `getters[name](req)` gives, which is stored unless it is nil, else
/// `methods[name]`.
pub(in crate::http) unsafe extern "C-unwind" fn kind(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, 2, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 2);
        object::push_metatable::<Request>(state);
        ffi::lua_rotate(state, 1, 1);
        function!(index).push(state, 2);
        ffi::lua_setfield(state, 1, c"__index".as_ptr());
        function!(new_index).push(state, 0);
        ffi::lua_setfield(state, 1, c"__newindex".as_ptr());
        push_bytes(state, b"lio.request");
        ffi::lua_setfield(state, 1, c"__name".as_ptr());
        0
    }
}

/// `req[key]`; upvalues 1 and 2 are `kind`'s arguments.
unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        check(state);
        ffi::lua_settop(state, 2);
        if ffi::lua_getiuservalue(state, 1, KNOWN) == ffi::LUA_TTABLE {
            ffi::lua_pushvalue(state, 2);
            if ffi::lua_rawget(state, 3) != ffi::LUA_TNIL {
                return 1;
            }
        }
        ffi::lua_settop(state, 2);
        ffi::lua_pushvalue(state, 2);
        if ffi::lua_rawget(state, ffi::lua_upvalueindex(1)) == ffi::LUA_TNIL {
            ffi::lua_settop(state, 2);
            ffi::lua_rawget(state, ffi::lua_upvalueindex(2));
            return 1;
        }
        ffi::lua_pushvalue(state, 1);
        ffi::lua_call(state, 1, 1);
        if ffi::lua_type(state, 3) != ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushvalue(state, 3);
            store(state);
        }
        1
    }
}

/// `req[key] = value`.
unsafe extern "C-unwind" fn new_index(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        check(state);
        ffi::lua_settop(state, 3);
        store(state);
        0
    }
}

/// Stores the value on top under the key below it (both popped) in what is known of the request at argument 1.
unsafe fn store(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_getiuservalue(state, 1, KNOWN) != ffi::LUA_TTABLE {
            ffi::lua_pop(state, 1);
            ffi::lua_createtable(state, 0, 2);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, KNOWN);
        }
        ffi::lua_rotate(state, -3, 1);
        // Not raw: a key that is nil or NaN is refused with the usual words.
        ffi::lua_settable(state, -3);
        ffi::lua_pop(state, 1);
    }
}
