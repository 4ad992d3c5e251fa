//! VMs for the tests of other folders.

use super::{Function, Pusher, library, registry};
use mlua::{Lua, Table, ffi};
use std::ffi::c_int;

/// Returns a VM with the standard library and a store, and the module that `open` returns.
pub(crate) fn vm(open: Function) -> (Lua, Table) {
    // SAFETY: for tests only, which load no foreign Lua code.
    let lua = unsafe { Lua::unsafe_new() };
    // SAFETY: a new state has room on its stack, and the closure owns nothing when an error is raised.
    let module = unsafe {
        lua.exec_raw::<Table>((), |state| {
            registry::ensure_store(&mut Pusher::new(state));
            open.push(state, 0);
            mlua::ffi::lua_call(state, 0, 1 as c_int);
        })
    };
    (lua, module.expect("the module can be opened"))
}

/// Returns what a chunk returns or raises, as text. Its argument is the module that `open` returns. The modules of `L`
/// are loadable.
pub(crate) fn run<L: library::Library>(open: Function, code: &str) -> String {
    // SAFETY: the state is new and used here only; the code of the test runs in protected mode.
    unsafe {
        let state = ffi::luaL_newstate();
        ffi::luaL_openlibs(state);
        library::install::<L>(&mut Pusher::new(state), library::SearcherPosition::Last);
        let (data, name) = (code.as_ptr().cast(), c"=code".as_ptr());
        let loaded = ffi::luaL_loadbufferx(state, data, code.len(), name, c"t".as_ptr());
        if loaded == ffi::LUA_OK {
            open.push(state, 0);
            ffi::lua_call(state, 0, 1);
            ffi::lua_pcall(state, 1, 1, 0);
        }
        let mut length = 0;
        let text = ffi::luaL_tolstring(state, -1, &mut length);
        let text = std::slice::from_raw_parts(text.cast(), length);
        let text = String::from_utf8_lossy(text).into_owned();
        ffi::lua_close(state);
        text
    }
}
