//! Tests of the core through its API: steps of all kinds, called by Lua code.

mod objects;
mod steps;
mod values;

use super::{Call, Function, Module, Pusher, registry};
use mlua::ffi;

const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    let all = [objects::FUNCTIONS, steps::FUNCTIONS, values::FUNCTIONS];
    Ok(Module(all.concat().leak()))
});

/// Runs a chunk and returns its result or its error as a string. In the chunk, the table `b` contains the functions of
/// all topics. Asserts that no object outlives the chunk.
fn run(code: &str) -> String {
    let code = format!("local b = ... {code}");
    let text = run_in(&code, OPEN, registry::ensure_store).replace('\0', "|0");
    assert_eq!(objects::ALIVE.with(|alive| alive.get()), 0, "objects that were not dropped");
    text
}

/// Runs a chunk in a new VM with the standard library, after `prepare`. The chunk's argument is the module that `open`
/// returns. Returns the chunk's result or its error as a string.
pub(super) fn run_in(code: &str, open: Function, prepare: fn(&mut Pusher<'_>)) -> String {
    // SAFETY: only this function uses the state; the chunk runs in protected mode.
    unsafe {
        let state = ffi::luaL_newstate();
        ffi::luaL_openlibs(state);
        prepare(&mut Pusher::new(state));
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

/// Lua code that defines `show`, which converts its arguments to one string.
const SHOW: &str = "local function show(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    return table.concat(list, ' ', 1, list.n)
end ";

fn show(code: &str) -> String {
    run(&format!("{SHOW} return show({code})"))
}
