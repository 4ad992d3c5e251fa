//! The modules that are built in: native ones, and the Lua files of `lualib/`.
//!
//! Both hosts reach them by a searcher. It stands behind the one for `package.path`, so that a file the
//! user put there takes precedence.

use super::{Function, Text, args, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

const NATIVE: &[(&str, Function)] = &[
    ("lio", crate::selector::lua::open_module),
    ("lio.socket", crate::socket::lua::open_module),
    ("lio.signal", crate::selector::signal::open_module),
    ("lio.stream", crate::stream::lua::open_module),
    ("lio.http", crate::http::lua::open_module),
    ("lio.json", crate::http::json::open_module),
    ("lio.resolver", crate::socket::resolve::open_module),
    ("ltask", crate::ltask::lua::ltask::open_module),
    ("ltask.bootstrap", crate::ltask::lua::bootstrap::open_module),
    ("ltask.exclusive", crate::ltask::lua::exclusive::open_module),
    ("ltask.root", crate::ltask::lua::root::open_module),
    ("ltask.core", crate::ltask::lua::core::open_module),
    ("lio.task.core", crate::task::lua::open_module),
    ("lio.timer", crate::timer::lua::open_module),
];

/// Pushes the loader of a built-in module, and its name for error messages; false when there is none.
unsafe fn push_loader(state: *mut lua_State, name: &[u8]) -> bool {
    // SAFETY: plain stack work; the sources are static.
    unsafe {
        if let Some((_, open)) = NATIVE.iter().find(|(module, _)| module.as_bytes() == name) {
            ffi::lua_pushcclosure(state, *open, 0);
            push_bytes(state, b":built-in:");
            return true;
        }
        let found = SOURCES
            .iter()
            .find(|(module, _, _)| module.as_bytes() == name);
        let Some((_, path, source)) = found else {
            return false;
        };
        let mut chunk = [0u8; 128];
        let length = path.len().min(chunk.len() - 1);
        chunk[..length].copy_from_slice(&path.as_bytes()[..length]);
        let loaded = ffi::luaL_loadbufferx(
            state,
            source.as_ptr().cast(),
            source.len(),
            chunk.as_ptr().cast(),
            c"t".as_ptr(),
        );
        if loaded != ffi::LUA_OK {
            ffi::lua_error(state);
        }
        push_bytes(state, &path.as_bytes()[1..]);
        true
    }
}

unsafe extern "C-unwind" fn searcher(state: *mut lua_State) -> c_int {
    // SAFETY: called by `require` with the module's name.
    unsafe {
        let name = args::bytes(state, 1);
        if push_loader(state, name) {
            return 2;
        }
        if name.starts_with(b"lio") {
            ffi::lua_pushfstring(state, c"no built-in module '%s'".as_ptr(), name.as_ptr());
            return 1;
        }
        0
    }
}

/// Loads and runs an embedded Lua file; returns its value.
///
/// # Safety
/// Called by Lua's `require` through an entry point.
pub(crate) unsafe fn open_embedded(state: *mut lua_State, module: &str) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        install(state, None);
        if !push_loader(state, module.as_bytes()) {
            raise(state, Text::new("the module is not built in"));
        }
        push_bytes(state, module.as_bytes());
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_call(state, 2, 1);
        1
    }
}

static INSTALLED: super::object::Key = super::object::Key::new(3);

/// Adds the searcher to `package.searchers`, once per VM: at `position`, or at the end.
///
/// # Safety
/// `state` is valid, with its standard library open and 6 free stack slots.
pub(crate) unsafe fn install(state: *mut lua_State, position: Option<i64>) {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state);
        let mark = INSTALLED.pointer();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, mark) == ffi::LUA_TBOOLEAN {
            ffi::lua_settop(state, top);
            return;
        }
        ffi::lua_pushboolean(state, 1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, mark);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        let package = ffi::lua_getfield(state, -1, c"package".as_ptr()) == ffi::LUA_TTABLE;
        if !package || ffi::lua_getfield(state, -1, c"searchers".as_ptr()) != ffi::LUA_TTABLE {
            // A host without `package`: its own loader must know us.
            ffi::lua_settop(state, top);
            return;
        }
        let count = ffi::lua_rawlen(state, -1) as i64;
        let position = position.unwrap_or(count + 1).clamp(1, count + 1);
        for index in (position..=count).rev() {
            ffi::lua_rawgeti(state, -1, index);
            ffi::lua_rawseti(state, -2, index + 1);
        }
        ffi::lua_pushcclosure(state, searcher, 0);
        ffi::lua_rawseti(state, -2, position);
        ffi::lua_settop(state, top);
    }
}
