//! A service's start: what root asks of it first. In Rust, since it runs in each service once and would
//! otherwise be most of the Lua code there.

use super::library::{add_handlers, push_module};
use super::service;
use crate::file::reload;
use crate::lua::vm::restart_collector;
use crate::raw::{Text, continuation, embed, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

/// The system message `init`. Argument: a table with `name`, `args` (a list, with `n` or without), and where
/// the service's file is found: `source` and `chunkname`, or `service_path`; also `lua_path`, `lua_cpath`,
/// `preload` (Lua text), `generation`. Runs the file; the table that it returns are the request handlers.
pub(super) unsafe extern "C-unwind" fn init(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the call is the last act, and may yield.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        restart_collector(state);
        ffi::lua_settop(state, 1);
        set_path(state, c"lua_path", c"path");
        set_path(state, c"lua_cpath", c"cpath");
        if ffi::lua_getfield(state, 1, c"generation".as_ptr()) == ffi::LUA_TNUMBER {
            let generation = ffi::lua_tointeger(state, -1);
            service(state).fast.generation = generation.clamp(1, 2) as u8;
        }
        if ffi::lua_getfield(state, 1, c"preload".as_ptr()) == ffi::LUA_TSTRING {
            load(state, -1, c"=preload".as_ptr());
            ffi::lua_callk(state, 0, 0, 0, Some(continuation!(preloaded)));
        }
        preloaded(state, ffi::LUA_OK, 0)
    }
}

/// What is to be loaded before the service's file has run.
unsafe extern "C-unwind" fn preloaded(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: as for `init`.
    unsafe {
        ffi::lua_settop(state, 1);
        find(state);
        let count = push_arguments(state);
        ffi::lua_callk(state, count, 1, 0, Some(continuation!(started)));
        started(state, ffi::LUA_OK, 0)
    }
}

/// The service's file has run.
unsafe extern "C-unwind" fn started(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the file's result lies on top.
    unsafe {
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            ffi::lua_replace(state, 1);
            ffi::lua_settop(state, 1);
            add_handlers(state);
        }
        service(state).fast.starting = false;
        0
    }
}

/// `package[field]` becomes what the table has under `name`, if anything.
unsafe fn set_path(state: *mut lua_State, name: &CStr, field: &CStr) {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_getfield(state, 1, name.as_ptr()) == ffi::LUA_TSTRING {
            ffi::lua_getglobal(state, c"package".as_ptr());
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_setfield(state, -2, field.as_ptr());
        }
        ffi::lua_settop(state, 1);
    }
}

/// Pushes the function of Lua text at `index`; raises when there is a mistake in it.
unsafe fn load(state: *mut lua_State, index: c_int, name: *const c_char) {
    // SAFETY: the text stays on the stack meanwhile.
    unsafe {
        let mut length = 0;
        let text = ffi::lua_tolstring(state, index, &mut length);
        if ffi::luaL_loadbufferx(state, text, length, name, std::ptr::null()) != ffi::LUA_OK {
            ffi::lua_error(state);
        }
    }
}

/// Pushes the service's main chunk, or raises, saying where it was looked for.
unsafe fn find(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getfield(state, 1, c"chunkname".as_ptr());
        ffi::lua_getfield(state, 1, c"name".as_ptr());
        if ffi::lua_getfield(state, 1, c"source".as_ptr()) == ffi::LUA_TSTRING {
            let chunk = ffi::lua_tostring(state, 2);
            let name = ffi::lua_tostring(state, 3);
            let shown = if chunk.is_null() { name } else { chunk };
            return load(state, 4, shown);
        }
        ffi::luaL_checktype(state, 3, ffi::LUA_TSTRING);
        let mut length = 0;
        let bytes = ffi::lua_tolstring(state, 3, &mut length);
        let name = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
        if name.contains(&0) {
            raise(state, Text::new("a service's name with a zero byte"));
        }
        ffi::luaL_gsub(state, bytes, c".".as_ptr(), c"/".as_ptr());
        // 1 table, 2 chunk name, 3 name, 4 source, 5 name as a path
        if search(state) || built_in(state, name) {
            return;
        }
        push_not_found(state);
        ffi::lua_error(state);
    }
}

/// Tries each template of the service path. Opens a file once: whether it is there, loading it tells.
unsafe fn search(state: *mut lua_State) -> bool {
    // SAFETY: the path stays on the stack at 6; each template is copied to it before it is used.
    unsafe {
        if ffi::lua_getfield(state, 1, c"service_path".as_ptr()) != ffi::LUA_TSTRING {
            return false;
        }
        let mut length = 0;
        let bytes = ffi::lua_tolstring(state, 6, &mut length);
        let path = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
        for template in path.split(|&byte| byte == b';') {
            ffi::lua_settop(state, 6);
            crate::raw::push_bytes(state, template);
            let file = ffi::lua_tostring(state, 5);
            let file = ffi::luaL_gsub(state, ffi::lua_tostring(state, 7), c"?".as_ptr(), file);
            if reload::is_watched() && is_there(file) {
                reload::loads(CStr::from_ptr(file).to_bytes());
            }
            match ffi::luaL_loadfilex(state, file, std::ptr::null()) {
                ffi::LUA_OK => return true,
                status if status == ffi::LUA_ERRFILE && !is_there(file) => {}
                _ => {
                    ffi::lua_error(state);
                }
            }
        }
        false
    }
}

unsafe fn is_there(file: *const c_char) -> bool {
    // SAFETY: a path that ends with a zero byte.
    unsafe { libc::access(file, libc::F_OK) == 0 }
}

/// Pushes the main chunk of a service that comes with lio: `ltask.NAME`, or `NAME.service`.
unsafe fn built_in(state: *mut lua_State, name: &[u8]) -> bool {
    // SAFETY: the buffer is on the stack.
    unsafe {
        let mut buffer = [0u8; 64];
        for (before, after) in [("ltask.", ""), ("", ".service")] {
            let length = before.len() + name.len() + after.len();
            if length > buffer.len() {
                return false;
            }
            buffer[..before.len()].copy_from_slice(before.as_bytes());
            buffer[before.len()..before.len() + name.len()].copy_from_slice(name);
            buffer[length - after.len()..length].copy_from_slice(after.as_bytes());
            let Some((text, chunk)) = embed::text(&buffer[..length]) else {
                continue;
            };
            crate::raw::push_bytes(state, text);
            let text = ffi::lua_gettop(state);
            crate::raw::push_bytes(state, chunk.as_bytes());
            load(state, text, ffi::lua_tostring(state, -1));
            return true;
        }
        false
    }
}

unsafe fn push_not_found(state: *mut lua_State) {
    // SAFETY: as for `find`.
    unsafe {
        ffi::lua_settop(state, 6);
        push_module(state, c"package");
        ffi::lua_getfield(state, -1, c"searchpath".as_ptr());
        ffi::lua_pushvalue(state, 3);
        match ffi::lua_type(state, 6) {
            ffi::LUA_TSTRING => ffi::lua_pushvalue(state, 6),
            _ => crate::raw::push_bytes(state, b""),
        }
        ffi::lua_call(state, 2, 2);
        let tried = match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => ffi::lua_tostring(state, -1),
            _ => c"".as_ptr(),
        };
        let name = ffi::lua_tostring(state, 3);
        let format = c"cannot find service '%s':%s".as_ptr();
        ffi::lua_pushfstring(state, format, name, tried);
    }
}

/// Pushes the list `args` as arguments; how many.
unsafe fn push_arguments(state: *mut lua_State) -> c_int {
    // SAFETY: what is pushed was made room for.
    unsafe {
        if ffi::lua_getfield(state, 1, c"args".as_ptr()) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, -2);
            return 0;
        }
        let list = ffi::lua_gettop(state);
        let count = match ffi::lua_getfield(state, list, c"n".as_ptr()) {
            ffi::LUA_TNUMBER => ffi::lua_tointeger(state, -1),
            _ => ffi::luaL_len(state, list),
        };
        ffi::lua_settop(state, list);
        let count = count.clamp(0, 1_000_000) as c_int;
        ffi::luaL_checkstack(state, count + 4, c"too many arguments".as_ptr());
        for index in 1..=count {
            ffi::lua_rawgeti(state, list, index.into());
        }
        ffi::lua_rotate(state, list, -1);
        ffi::lua_settop(state, -2);
        count
    }
}
