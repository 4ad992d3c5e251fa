//! Functions as Lua gets them. What makes one of a step is in `step`.

use super::pusher::Pusher;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

/// A function that may be given to Lua: a panic in it is raised as a Lua error.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(pub(super) ffi::lua_CFunction);

impl Function {
    /// One of the core's, without the price of a step: `f` says how many results it has pushed, and does not panic.
    pub(super) const fn native<F>(_: F) -> Function
    where
        F: Fn(Pusher<'_>) -> c_int + Copy + 'static,
    {
        Function(enter::<F>)
    }

    /// Pushes it with the topmost `upvalues` values, which it takes off.
    ///
    /// # Safety
    /// `state` is valid, with a free stack slot; may raise a memory error when there are upvalues.
    pub unsafe fn push(self, state: *mut lua_State, upvalues: c_int) {
        // SAFETY: the caller has made room, and pushed the upvalues.
        unsafe { ffi::lua_pushcclosure(state, self.0, upvalues) }
    }

    /// Where it begins, as `lua_tocfunction` tells it.
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

/// A value of a type that has only one.
#[inline(always)]
pub(super) fn only<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a function with captures") };
    // SAFETY: a type without a size; a closure without captures has no invariant of its own.
    unsafe { NonNull::<F>::dangling().read() }
}

/// What Lua calls for the native function `F`.
unsafe extern "C-unwind" fn enter<F: Fn(Pusher<'_>) -> c_int + Copy>(state: *mut lua_State) -> c_int {
    // SAFETY: Lua has called it, with room for 20 values, and no frame owns anything yet.
    only::<F>()(unsafe { Pusher::new(state) })
}

impl Pusher<'_> {
    /// Pushes a new table with these functions, and room for some fields more.
    pub(super) fn push_functions(&mut self, functions: &[(&'static CStr, Function)]) {
        self.push_table(0, functions.len() as c_int + 4);
        for (name, function) in functions {
            self.push_closure(function.0, 0);
            self.set_field(name);
        }
    }
}
