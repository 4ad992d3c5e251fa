//! Packing as Lua functions of the module `ltask` and its siblings.

use super::{pack, unpack, unpack_owned, unpack_text};
use crate::raw::{Function, Text, args, functions};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

/// `pack`, `unpack`, `unpack_remove` and `remove`.
pub(crate) const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"pack", lua_pack),
    (c"unpack", lua_unpack),
    (c"unpack_remove", lua_unpack_remove),
    (c"remove", lua_remove),
];

/// `pack(...)` → pointer, size. The block is the caller's; none for no values.
unsafe extern "C-unwind" fn lua_pack(state: *mut lua_State) -> c_int {
    // SAFETY: nothing that needs `Drop` is alive when Lua may raise. The two values need no memory,
    // and a C function has room for them, so the block is not lost.
    unsafe {
        let (block, size) = pack(state, 1);
        ffi::lua_pushlightuserdata(state, block);
        ffi::lua_pushinteger(state, size as i64);
        2
    }
}

/// The block that arguments 1 and 2 name; nil, or a null pointer of size 0, is none.
unsafe fn block(state: *mut lua_State) -> Option<(*mut c_void, usize)> {
    // SAFETY: as for `lua_pack`.
    unsafe {
        if ffi::lua_type(state, 1) != ffi::LUA_TLIGHTUSERDATA {
            if args::is_none(state, 1) {
                return None;
            }
            args::type_error(state, 1, c"pointer");
        }
        let pointer = ffi::lua_touserdata(state, 1);
        let size = ffi::luaL_checkinteger(state, 2);
        if size < 0 || (pointer.is_null() && size != 0) {
            args::argument_error(state, 2, Text::new("wrong size"));
        }
        (!pointer.is_null()).then_some((pointer, size as usize))
    }
}

/// `unpack(pointer, size)` or `unpack(string)` → the values. Does not free. A string holds no light userdata and
/// no function.
unsafe extern "C-unwind" fn lua_unpack(state: *mut lua_State) -> c_int {
    // SAFETY: as for `lua_pack`; a string stays on the stack while it is read.
    unsafe {
        if ffi::lua_type(state, 1) == ffi::LUA_TSTRING {
            return unpack_text(state, args::bytes(state, 1));
        }
        match block(state) {
            Some((pointer, size)) => unpack(state, pointer.cast(), size),
            None => 0,
        }
    }
}

/// `unpack_remove(pointer, size)` → the values. Frees, even when it raises.
unsafe extern "C-unwind" fn lua_unpack_remove(state: *mut lua_State) -> c_int {
    // SAFETY: as for `lua_pack`.
    unsafe {
        match block(state) {
            Some((pointer, size)) => unpack_owned(state, pointer, size),
            None => 0,
        }
    }
}

/// `remove(pointer, size)`: frees; nil is fine.
unsafe extern "C-unwind" fn lua_remove(state: *mut lua_State) -> c_int {
    // SAFETY: the caller owns the block, as by contract.
    unsafe {
        if args::is_none(state, 1) {
            return 0;
        }
        if ffi::lua_type(state, 1) != ffi::LUA_TLIGHTUSERDATA {
            args::type_error(state, 1, c"pointer");
        }
        libc::free(ffi::lua_touserdata(state, 1));
        0
    }
}
