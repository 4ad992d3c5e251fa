//! lio: an event loop, sockets, streams and HTTP for Lua 5.4 and 5.5.
//!
//! This crate is used in two ways: as a shared object that a stock Lua loads by `require "lio"`, and as
//! the `lio` executable, which has Lua built in. A folder is a topic:
//!
//! - `raw`: the few helpers for raw Lua functions; the modules that are built in
//! - `selector`: mio's poll, with readiness kept level-triggered
//! - `socket`: sockets, endpoints, options
//! - `file`: files for serving, temporary files of uploads
//! - `stream`: one connection's buffers
//! - `http`: request head and body framing, response writer, routes
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
#[allow(unsafe_code)]
mod stream;
#[allow(unsafe_code)]
mod task;
#[allow(unsafe_code)]
pub mod watched;

pub use lua::Function;
use mlua::ffi::lua_State;
use std::os::raw::c_int;

/// Entry point of `require "lio"`; also makes the built-in modules loadable.
///
/// # Safety
/// Called by Lua's `require`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn luaopen_lio(state: *mut lua_State) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        function!(|state| {
            raw::embed::install(state, None);
            selector::lua::open_module(state)
        })
        .run(state)
    }
}

macro_rules! entry {
    ($(#[$doc:meta])* $symbol:ident, $open:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Called by Lua's `require`.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(state: *mut lua_State) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                function!(|state| {
                    raw::embed::install(state, None);
                    ($open)(state)
                })
                .run(state)
            }
        }
    };
}

entry!(
    /// Entry point of `require "lio.socket"`.
    luaopen_lio_socket,
    |state| modules::socket::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.timer"`.
    luaopen_lio_timer,
    |state| modules::timer::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.stream"`.
    luaopen_lio_stream,
    stream::lua::open_module
);
entry!(
    /// Entry point of `require "lio.http"`.
    luaopen_lio_http,
    http::lua::open_module
);
entry!(
    /// Entry point of `require "lio.compress"`.
    luaopen_lio_compress,
    |state| modules::compress::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.file"`.
    luaopen_lio_file,
    |state| modules::file::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.json"`.
    luaopen_lio_json,
    http::json::open_module
);
entry!(
    /// Entry point of `require "lio.outlet"`.
    luaopen_lio_outlet,
    |state| modules::outlet::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.resolver"`.
    luaopen_lio_resolver,
    |state| modules::resolver::OPEN.run(state)
);
entry!(
    /// Entry point of `require "lio.signal"`.
    luaopen_lio_signal,
    selector::signal::open_module
);

entry!(
    /// Entry point of `require "lio.task.core"`.
    luaopen_lio_task_core,
    task::lua::open_module
);

entry!(
    /// Entry point of `require "lio.coroutine"`.
    luaopen_lio_coroutine,
    task::coroutine::open_module
);

entry!(
    /// Entry point of `require "ltask"`.
    luaopen_ltask,
    ltask::lua::ltask::open_module
);
entry!(
    /// Entry point of `require "ltask.bootstrap"`.
    luaopen_ltask_bootstrap,
    ltask::lua::bootstrap::open_module
);
entry!(
    /// Entry point of `require "ltask.core"`.
    luaopen_ltask_core,
    ltask::lua::core::open_module
);

/// Makes the built-in modules loadable in a VM of the executable: right behind `package.path`, so that
/// a shared object on `package.cpath` does not shadow what is built in. The global `coroutine` becomes
/// that of `lio.coroutine`.
///
/// # Safety
/// `state` is valid, with its standard library open and 10 free stack slots; may raise.
#[allow(unsafe_code)]
pub unsafe fn install(state: *mut lua_State) {
    // SAFETY: the caller's promise.
    unsafe {
        raw::embed::install(state, Some(3));
        task::coroutine::install(state);
        watched::lua::install(state);
    }
}
