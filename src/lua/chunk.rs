//! Chunks of Lua code, as functions.

use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// Lua code, to be pushed as the function that runs it. A mistake in it is raised, in Lua's words.
#[derive(Clone, Copy)]
pub(crate) enum Chunk<'a> {
    /// Lua text or a precompiled chunk, with the name that errors show.
    Text(&'a [u8], &'a CStr),
    /// A file, by its path; standard input without one.
    File(Option<&'a CStr>),
}

impl Sealed for Chunk<'_> {}
impl Push for Chunk<'_> {
    fn push(&mut self, to: Pusher<'_>) {
        // SAFETY: the chunk outlives the call; what Lua's loader leaves is a function or an error.
        unsafe {
            let state = to.state();
            let any = std::ptr::null();
            let loaded = match self {
                Chunk::Text(text, name) => {
                    let start = text.as_ptr().cast();
                    ffi::luaL_loadbufferx(state, start, text.len(), name.as_ptr(), any)
                }
                Chunk::File(path) => {
                    let path = path.map_or(any, CStr::as_ptr);
                    ffi::luaL_loadfilex(state, path, any)
                }
            };
            if loaded != ffi::LUA_OK {
                ffi::lua_error(state);
            }
        }
    }
}

/// Pushes the chunk that the argument points to.
pub(super) unsafe extern "C-unwind" fn load_pointed(state: *mut lua_State) -> c_int {
    // SAFETY: only `Vm::load` calls it, whose frame has the chunk; the pointer is taken off, so that no Lua value keeps it.
    unsafe {
        let chunk: *mut Chunk<'static> = ffi::lua_touserdata(state, 1).cast();
        ffi::lua_settop(state, 0);
        (*chunk).push(Pusher::new(state));
        1
    }
}
