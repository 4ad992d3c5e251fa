//! An event loop, networking, HTTP servers and an actor scheduler for Lua 5.4 and 5.5.
//!
//! lio is used in three ways: as the `lio` executable, which has Lua built in; as a shared object that a stock Lua loads
//! by `require "lio"`; and as this crate, by Rust programs that embed Lua by [mlua]. What Lua gets is the same each time
//! and is described in the repository's `docs/`; a Rust program calls one function, [`install`]:
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
//! `examples/embed.rs` is a whole program.
//!
//! # What to know
//!
//! - A VM runs on one thread at a time. While `loop.run` or `app:run` runs, that thread is in it: give it a thread of its
//!   own, and as many VMs as you like. The VM's limits of memory and its hooks hold inside as well.
//! - Functions of Rust that handlers call run to their end: they cannot wait for I/O of lio.
//! - SIGINT and SIGTERM end a running loop gracefully, as `loop.stop()` does. A VM that is dropped closes what it has open.
//! - Lua's `debug` library is not needed, nor are C modules: `Lua::new()` is enough.
//!
//! # Features
//!
//! | feature | what it does |
//! |---|---|
//! | `lua54` (default), `lua55` | the version of Lua; one of them |
//! | `vendored` (default) | the executable, and Lua built from source |
//! | `module` | the shared object for a stock Lua, with no Lua inside |
//!
//! A program that embeds Lua needs neither of the last two: how mlua finds Lua is said by mlua's own features.
//!
//! # For those who change lio
//!
//! `docs/architecture.md` has the layers of `src/`, and which files may have `unsafe`.

#![deny(unsafe_code)]

#[cfg(not(any(feature = "lua54", feature = "lua55")))]
compile_error!("choose one of the features `lua54` and `lua55`");

#[cfg(feature = "vendored")]
#[doc(hidden)]
pub mod cli;
mod codec;
mod event;
mod file;
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

/// What the tests need beside [`install`]. Not for other programs: it changes without notice.
#[doc(hidden)]
pub mod private {
    /// What prepares the VM of a program, function by function.
    pub const PROGRAM: &[crate::Function] = crate::modules::PROGRAM;
}
