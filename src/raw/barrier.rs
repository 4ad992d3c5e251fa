//! The barrier between Lua and the functions of this crate: no panic passes it into C, where frames would be
//! unwound that do not expect it. A panic becomes the Lua error `internal error: …`.
//!
//! Each function that Lua gets is a [`Function`], which only [`function!`](crate::raw::function) makes: it wraps what
//! it is given, a type without a size, in an entry point of its own. Continuations have the same by
//! `continuation!`. The good path pays nothing.
//!
//! Invariant: `lua_error` and `lua_yieldk` longjmp through an entry point, so its frame owns nothing that needs
//! `Drop` while the inner function runs; a caught panic is dropped before its message is raised.

use super::{Text, raise};
use crate::lua::Function;
use mlua::ffi::{self, lua_KContext, lua_State};
use std::any::Any;
use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

impl Function {
    /// Wraps a closure that has no captures; see `function!`.
    #[doc(hidden)]
    pub const fn barred<F: Fn(*mut lua_State) -> c_int + Copy>(_: F) -> Function {
        // SAFETY: `enter` catches panics.
        unsafe { Function::foreign(enter::<F>) }
    }
}

/// A value of a type that has only one.
fn only<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a function with captures") };
    // SAFETY: a type without a size; a closure without captures has no invariant of its own.
    unsafe { NonNull::<F>::dangling().read() }
}

/// Runs `f`, which counts for the switch of `make panics`.
#[inline(always)]
fn counted<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(feature = "panics")]
    crate::lua::panics::count();
    f()
}

/// What Lua calls for the function `F`.
unsafe extern "C-unwind" fn enter<F: Fn(*mut lua_State) -> c_int + Copy>(
    state: *mut lua_State,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| counted(|| only::<F>()(state)))) {
        Ok(results) => results,
        // SAFETY: the stack is that of this function, which is over.
        Err(panic) => unsafe { raise_panic(state, panic) },
    }
}

/// What Lua calls for the continuation `F`.
#[doc(hidden)]
pub(crate) unsafe extern "C-unwind" fn go_on<F>(
    state: *mut lua_State,
    status: c_int,
    context: lua_KContext,
) -> c_int
where
    F: Fn(*mut lua_State, c_int, lua_KContext) -> c_int + Copy,
{
    match catch_unwind(AssertUnwindSafe(|| {
        counted(|| only::<F>()(state, status, context))
    })) {
        Ok(results) => results,
        // SAFETY: as for `enter`.
        Err(panic) => unsafe { raise_panic(state, panic) },
    }
}

/// The continuation that is `F`; see `continuation!`.
pub(crate) const fn continuation_of<F>(_: F) -> ffi::lua_KFunction
where
    F: Fn(*mut lua_State, c_int, lua_KContext) -> c_int + Copy,
{
    go_on::<F>
}

/// Raises the message of a panic in a function, whose stack is cleared.
#[cold]
unsafe fn raise_panic(state: *mut lua_State, panic: Box<dyn Any + Send>) -> ! {
    let message = text_of(panic);
    // SAFETY: an empty frame of a C function has room; the message is plain data.
    unsafe {
        ffi::lua_settop(state, 0);
        raise(state, message)
    }
}

/// The message of a panic, which ends here.
#[cold]
pub(crate) fn text_of(panic: Box<dyn Any + Send>) -> Text {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause");
    let text = Text::format(format_args!("internal error: {what}"));
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // A payload that panics when it is dropped.
        std::mem::forget(another);
    }
    text
}

/// `function!(f)`: the [`Function`] that runs `f`, an `unsafe extern "C-unwind" fn(*mut lua_State) -> c_int`. Each
/// use makes another one: a function whose address counts has a constant.
#[doc(hidden)]
#[macro_export]
macro_rules! function {
    ($function:expr) => {{
        // SAFETY: Lua calls it with a valid state.
        #[allow(unused_unsafe)]
        let call = |state: *mut ::mlua::ffi::lua_State| unsafe { $function(state) };
        $crate::Function::barred(call)
    }};
}

/// `functions![(name, f), …]`: a list of names with a [`Function`] each.
macro_rules! functions {
    ($(($name:expr, $function:expr)),* $(,)?) => {
        &[$(($name, $crate::function!($function))),*]
    };
}

/// `continuation!(f)`: what `lua_yieldk`, `lua_callk` and `lua_pcallk` take, for the function `f` of that kind.
macro_rules! continuation {
    ($function:expr) => {{
        // SAFETY: Lua calls it in the frame of the function that gave it.
        #[allow(unused_unsafe)]
        let call = |state: *mut ::mlua::ffi::lua_State, status, context| unsafe {
            $function(state, status, context)
        };
        $crate::raw::barrier::continuation_of(call)
    }};
}

pub(crate) use {continuation, functions};

#[cfg(test)]
#[path = "barrier_tests.rs"]
mod tests;
