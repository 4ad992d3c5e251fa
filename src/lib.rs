//! lio: an event loop, sockets, streams and HTTP for Lua 5.4 and 5.5.
//!
//! This crate is used in two ways: as a shared object that a stock Lua loads by `require "lio"`, and as
//! the `lio` executable, which has Lua built in. A folder is a topic:
//!
//! - `raw`: the few helpers for raw Lua functions; the modules that are built in
//! - `selector`: mio's poll, with readiness kept level-triggered
//! - `socket`: sockets, endpoints, options
//! - `file`: files for serving
//! - `stream`: one connection's buffers
//! - `http`: request head and body framing, response writer, routes
//! - `compress`: content codings
//! - `timer`: the timer queue
//! - `ltask`: the scheduler
//! - `task`: the task core: coroutines that wait on tokens
//! - `watched`: what a program and the `lio --watch` that runs it tell each other
//!
//! Dependencies run one way: selector ← socket, file ← stream ← http; the files of `lualib/` tie them.
//!
//! Public here are only Lua's entry points, which the C side of Lua calls, and what the executable needs.

#![deny(unsafe_code)]

#[cfg(not(any(feature = "lua54", feature = "lua55")))]
compile_error!("choose one of the features `lua54` and `lua55`");
#[cfg(not(any(feature = "vendored", feature = "module")))]
compile_error!("choose one of the features `vendored` (executable) and `module` (shared object)");

mod codec;
mod event;
mod file;
#[allow(unsafe_code)]
mod http;
#[allow(unsafe_code)]
mod ltask;
// The folders move onto it one by one.
#[allow(dead_code, unused_imports, unsafe_code)]
mod lua;
mod modules;
#[allow(unsafe_code)]
mod raw;
#[allow(unsafe_code)]
mod selector;
mod socket;
mod stream;
#[allow(unsafe_code)]
mod task;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod watched;

#[doc(hidden)]
pub use lua::Function;

/// Makes every module of lio loadable by `require` in `lua`, the VM of a program that embeds Lua by mlua. A file that is
/// found on `package.path` takes precedence. A second call does nothing.
///
/// # Errors
/// When memory runs out, or when the program's Lua is of another version than lio was built for.
pub fn install(lua: &mlua::Lua) -> mlua::Result<()> {
    lua::library::install_in::<modules::Builtin>(lua)
}

/// What the executable and the tests need beside [`install`]. Not for other programs: it changes without notice.
#[doc(hidden)]
pub mod private {
    use crate::watched;
    use mlua::ffi::lua_State;

    /// Makes the built-in modules loadable in a VM of the executable. The global `coroutine` becomes that of
    /// `lio.coroutine`.
    ///
    /// # Safety
    /// `state` is valid, with its standard library open and 10 free stack slots; may raise.
    #[allow(unsafe_code)]
    pub unsafe fn install(state: *mut lua_State) {
        // SAFETY: the state is as these ask for; they own nothing when they raise.
        unsafe {
            crate::raw::embed::install(state, Some(3));
            crate::task::coroutine::install(state);
            watched::lua::install(state);
        }
    }
}
