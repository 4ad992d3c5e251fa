//! Functions as Lua gets them. What makes one of a step is in `step`.

use super::fault::Fault;
use super::pusher::Pusher;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A function that may be given to Lua: a panic in it is raised as a Lua error.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(pub(super) ffi::lua_CFunction);

impl Function {
    /// One of the core's, without the price of a step: `f` says how many results it has pushed.
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

/// Functions by their names in Lua.
pub(crate) type FunctionTable = &'static [(&'static CStr, Function)];

/// `functions! { size, read::piece, open = open_folder, touch: TOUCH }`: functions by their names. A step is known by its own
/// name, or by the one before `=`; what follows a colon is a [`Function`] already.
macro_rules! functions {
    (@ $($name:ident)::+) => { $crate::lua::Function::new($($name)::+) };
    (@ $name:ident = $step:path) => { $crate::lua::Function::new($step) };
    (@ $name:ident : $function:path) => { $function };
    ($($($name:ident)::+ $(= $step:path)? $(: $function:path)?),* $(,)?) => {
        const { &[$((
            $crate::lua::last_name(concat!(stringify!($($name)::+), "\0")),
            $crate::lua::functions!(@ $($name)::+ $(= $step)? $(: $function)?),
        )),*] }
    };
}
pub(crate) use functions;

/// What follows the last colon of a path, which ends with a NUL.
pub(crate) const fn last_name(path: &'static str) -> &'static CStr {
    let mut name = path.as_bytes();
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if matches!(first, b':' | b' ') {
            name = behind;
        }
    }
    match CStr::from_bytes_with_nul(name) {
        Ok(name) => name,
        Err(_) => panic!("a name without its NUL"),
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
    guarded(unsafe { Pusher::new(state) }, only::<F>())
}

/// Calls `f`; a panic of it is raised.
#[inline(always)]
pub(super) fn guarded(mut to: Pusher<'_>, f: impl FnOnce(Pusher<'_>) -> c_int) -> c_int {
    let own = to.again();
    match catch_unwind(AssertUnwindSafe(move || f(own))) {
        Ok(count) => count,
        Err(panic) => Fault::panic(panic).raise(&mut to),
    }
}

impl Pusher<'_> {
    /// Pushes a new table with these functions, and room for `more` fields.
    pub(super) fn push_functions(&mut self, functions: FunctionTable, more: usize) {
        self.push_table(0, (functions.len() + more) as c_int);
        for (name, function) in functions {
            self.push_closure(function.0, 0);
            self.set_field(name);
        }
    }
}
