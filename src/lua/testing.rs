//! VMs for the tests of other folders.

use super::{Function, store};
use mlua::{Lua, Table};
use std::ffi::c_int;

/// A VM with the standard library and a store, and the module that `open` gives.
pub(crate) fn vm(open: Function) -> (Lua, Table) {
    // SAFETY: only to test; Lua code of tests is ours.
    let lua = unsafe { Lua::unsafe_new() };
    // SAFETY: there is room on the stack of a new state, and nothing is owned in between.
    let module = unsafe {
        lua.exec_raw::<Table>((), |state| {
            store::ensure(state);
            open.push(state, 0);
            mlua::ffi::lua_call(state, 0, 1 as c_int);
        })
    };
    (lua, module.expect("the module opens"))
}
