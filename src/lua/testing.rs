//! VMs for the tests of other folders.

use super::tests::run_in;
use super::{Function, Pusher, library, registry};
use mlua::{Lua, Table};
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

/// Runs a chunk in a new VM that can load the modules of `L`. The chunk's argument is the module that `open` returns.
/// Returns the chunk's result or its error as a string.
pub(crate) fn run<L: library::Library>(open: Function, code: &str) -> String {
    run_in(code, open, |to| library::install::<L>(to, library::SearcherPosition::Last))
}
