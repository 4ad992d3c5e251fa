//! VMs for the tests of other folders.

use super::{Function, Pusher, library, registry};
use mlua::{Lua, Table, ffi};
use std::ffi::c_int;

/// A VM with the standard library and a store, and the module that `open` gives.
pub(crate) fn vm(open: Function) -> (Lua, Table) {
    // SAFETY: only to test; Lua code of tests is ours.
    let lua = unsafe { Lua::unsafe_new() };
    // SAFETY: there is room on the stack of a new state, and nothing is owned in between.
    let module = unsafe {
        lua.exec_raw::<Table>((), |state| {
            registry::ensure(&mut Pusher::new(state));
            open.push(state, 0);
            mlua::ffi::lua_call(state, 0, 1 as c_int);
        })
    };
    (lua, module.expect("the module opens"))
}

/// What a chunk returns or raises, as text; its argument is the module that `open` gives. The modules of `L` are loadable.
pub(crate) fn run<L: library::Library>(open: Function, code: &str) -> String {
    // SAFETY: a state of its own; what may raise is called protected.
    unsafe {
        let state = ffi::luaL_newstate();
        ffi::luaL_openlibs(state);
        library::install::<L>(&mut Pusher::new(state), library::Place::Last);
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
