//! An event loop, networking, HTTP servers and an actor scheduler for Lua 5.4 and 5.5.
//!
//! lio is used in three ways: as the `lio` executable, which has Lua built in; as a shared object that the stock
//! interpreter loads with `require "lio"`; and as this crate, in Rust programs that embed Lua with [mlua]. The Lua API
//! is the same in all three cases; `docs/` in the repository describes it. A Rust program calls one function,
//! [`install`]:
//!
//! ```no_run
//! # #[cfg(feature = "vendored")]
//! # fn main() -> mlua::Result<()> {
//! let lua = mlua::Lua::new();
//! lio::install(&lua)?;
//! lua.load(
//!     r#"
//!     local app = require "lio.webserver".new()
//!     app:get("/", function() return "Hello from Lua in Rust!\n" end)
//!     app:run(8080)
//!     "#,
//! )
//! .exec()
//! # }
//! # #[cfg(not(feature = "vendored"))]
//! # fn main() {}
//! ```
//!
//! ```toml
//! [dependencies]
//! lio = { path = "lio", default-features = false, features = ["lua54"] }
//! mlua = { version = "0.12", features = ["lua54", "vendored"] }
//! ```
//!
//! `examples/embed.rs` is a complete program.
//!
//! # What to consider
//!
//! - A VM runs on one thread at a time. `loop.run` and `app:run` block the calling thread until the loop ends: give
//!   each such VM its own thread, and use as many VMs as you need. The VM's memory limit and its hooks stay in effect
//!   meanwhile.
//! - Rust functions that handlers call cannot wait for lio's I/O: they run without interruption until they return.
//! - SIGINT and SIGTERM end a running loop gracefully, as `loop.stop()` does. A VM that is dropped closes its open
//!   sockets and files.
//! - Lua's `debug` library is not needed, nor are C modules: `Lua::new()` is enough.
//!
//! # Features
//!
//! | feature | what it does |
//! |---|---|
//! | `lua54` (default), `lua55` | the version of Lua; choose one |
//! | `vendored` (default) | the executable, and Lua built from source |
//! | `module` | a shared object without Lua inside, for the stock interpreter |
//!
//! A program that embeds Lua needs neither `vendored` nor `module`: mlua's own features determine how mlua finds Lua.
//!
//! # For contributors
//!
//! `docs/architecture.md` describes the layers of `src/`, and lists the files that may contain `unsafe`.

#![deny(unsafe_code)]

#[cfg(not(any(feature = "lua54", feature = "lua55")))]
compile_error!("choose one of the features `lua54` and `lua55`");

#[cfg(feature = "vendored")]
#[doc(hidden)]
pub mod cli;
mod codec;
mod event;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
#[allow(unsafe_code)]
mod ltask;
#[allow(unsafe_code)]
mod lua;
mod memory;
mod modules;
mod socket;
mod stream;
mod task;
#[cfg(feature = "vendored")]
mod terminal;
mod tls;

#[doc(hidden)]
pub use lua::Function;

/// Makes every module of lio loadable with `require` in `lua`, the VM of a program that embeds Lua with mlua. A file on
/// `package.path` takes precedence. A second call does nothing.
///
/// # Errors
/// Fails if there is not enough memory, or if lio was built for another version of Lua.
pub fn install(lua: &mlua::Lua) -> mlua::Result<()> {
    lua::library::install_in::<modules::Builtin>(lua)
}

/// The functions that the tests need in addition to [`install`]. Other programs must not use this module, which changes
/// without notice.
#[doc(hidden)]
pub mod private {
    /// The functions that prepare the VM of a program, in the order in which they must be called.
    pub const PROGRAM: &[crate::Function] = crate::modules::PROGRAM;
}
