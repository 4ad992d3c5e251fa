//! The few helpers that every raw Lua function of this crate uses.
//!
//! Raw functions are thin shells over `mlua::ffi`: they read arguments, call a safe inner function
//! through [`guard`], and push or raise as their last act. `lua_error` and memory errors longjmp, so
//! whatever is alive in a frame at that moment must not need `Drop`; [`Text`] and [`Fault`] are plain
//! data for that reason.
//!
//! - `barrier.rs`: functions as Lua gets them, which let no panic pass
//! - `text.rs`: bounded message on the stack
//! - `fault.rs`: I/O failures as `nil, message, code`
//! - `args.rs`: argument checks
//! - `module.rs`: tables of functions; `embed.rs`: the modules that are built in

pub(crate) mod args;
pub(crate) mod barrier;
pub(crate) mod fault;
pub(crate) mod file;
pub(crate) mod selector;
pub(crate) mod stream;
pub(crate) mod tasks;
pub(crate) mod text;
pub(crate) mod timer;

use mlua::ffi::{self, lua_State};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use crate::function;
pub use crate::lua::Function;
pub(crate) use crate::lua::object;
pub(crate) use barrier::text_of;
pub(crate) use barrier::{continuation, functions};
pub(crate) use fault::Fault;
pub(crate) use text::Text;

/// Runs `inner` so that no panic leaves it: a panic becomes a message to be raised.
///
/// `inner` must not call anything of Lua that can raise.
pub(crate) fn guard<T>(inner: impl FnOnce() -> Result<T, Text>) -> Result<T, Text> {
    match catch_unwind(AssertUnwindSafe(inner)) {
        Ok(result) => result,
        Err(panic) => Err(text_of(panic)),
    }
}

/// [`guard`] and [`settle`] in one, for what cannot fail but by a panic: a hot path carries no room for a message.
///
/// # Safety
/// As for [`raise`]; `inner` as for [`guard`].
#[inline]
pub(crate) unsafe fn shield<T: Copy>(state: *mut lua_State, inner: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(inner)) {
        Ok(value) => value,
        // SAFETY: the caller's promise; the panic is dropped before the message is raised.
        Err(panic) => unsafe { raise(state, text_of(panic)) },
    }
}

/// Raises `message`, with the position of the Lua caller before it. Never returns.
///
/// # Safety
/// No frame between here and the Lua caller may own a value that needs `Drop`.
pub(crate) unsafe fn raise(state: *mut lua_State, message: Text) -> ! {
    // SAFETY: `message` is plain data; the caller vouches for the frames that are skipped.
    unsafe {
        ffi::luaL_where(state, 1);
        push_bytes(state, message.as_bytes());
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}

/// Pushes a Lua string.
///
/// # Safety
/// `state` is a valid Lua state with a free stack slot; may raise a memory error.
pub(crate) unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: pointer and length come from one slice.
    unsafe {
        ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len());
    }
}

/// Pushes what a vector holds, and empties it before a finalizer can run, which may change or drop the vector. The
/// memory is kept. A raise for want of memory loses what it held.
///
/// # Safety
/// As for [`push_bytes`]; `bytes` is looked at for the last time when Lua has copied it.
pub(crate) unsafe fn push_emptied(state: *mut lua_State, bytes: *mut Vec<u8>) {
    // SAFETY: emptied, the memory stays as it is until Lua has copied it: finalizers run after that.
    unsafe {
        let (start, length) = ((*bytes).as_ptr(), (*bytes).len());
        (*bytes).clear();
        ffi::lua_pushlstring(state, start.cast(), length);
    }
}

/// Whether this may run inside a finalizer: the collector rests while one runs, and when a program has stopped it.
/// Tells a call that a finalizer makes on an object in the middle of another call from one that comes after a call
/// that was left by a memory error.
///
/// # Safety
/// `state` is valid.
pub(crate) unsafe fn may_be_finalizer(state: *mut lua_State) -> bool {
    // SAFETY: asks for a flag.
    unsafe { ffi::lua_gc(state, ffi::LUA_GCISRUNNING) != 1 }
}

/// Unwraps the result of [`guard`], raising its message.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn settle<T: Copy>(state: *mut lua_State, result: Result<T, Text>) -> T {
    match result {
        Ok(value) => value,
        // SAFETY: the caller's promise; `T` is `Copy`, so nothing is dropped here either.
        Err(message) => unsafe { raise(state, message) },
    }
}

/// The message for a call on something closed.
pub(crate) fn closed_text(what: &str) -> Text {
    Text::format(format_args!("{what} is already closed"))
}
