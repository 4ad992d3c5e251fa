//! Functions that Lua can call. `step` describes how a step becomes a function.

use super::fault::Fault;
use super::pusher::Pusher;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A function for Lua. A panic in it is raised as a Lua error.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(pub(super) ffi::lua_CFunction);

impl Function {
    /// Returns a function of the core itself, without the overhead of a step. The closure returns the number of results
    /// that it has pushed.
    pub(super) const fn native<F>(_: F) -> Function
    where
        F: Fn(Pusher<'_>) -> c_int + Copy + 'static,
    {
        Function(call_native::<F>)
    }

    /// Pushes the function. Its upvalues are the topmost `upvalues` values, which are popped.
    ///
    /// # Safety
    /// `state` is valid and has a free stack slot, and the upvalues are on its stack. If there are upvalues, a memory
    /// error can be raised.
    pub unsafe fn push(self, state: *mut lua_State, upvalues: c_int) {
        // SAFETY: by this method's contract there is a free slot, and the upvalues are on the stack.
        unsafe { ffi::lua_pushcclosure(state, self.0, upvalues) }
    }

    /// Returns the address of the function, as `lua_tocfunction` does.
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

/// Functions by their names in Lua.
pub(crate) type FunctionTable = &'static [(&'static CStr, Function)];

/// `functions! { size, read::piece, open = open_folder, touch: TOUCH }`: functions by their names in Lua. In Lua, a
/// step has its Rust name, or the name before `=`. A [`Function`] is given after a colon.
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

/// Returns the name after the last colon or space of a path that ends with a NUL.
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
        Err(_) => panic!("the name does not end with a NUL"),
    }
}

/// Returns the only value of a zero-sized type.
#[inline(always)]
pub(super) fn zero_sized<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "the closure has captures") };
    // SAFETY: the type has no size, and a closure without captures has no invariant.
    unsafe { NonNull::<F>::dangling().read() }
}

/// Calls `f`. A panic in `f` is raised as a Lua error.
#[inline(always)]
pub(super) fn guarded(mut to: Pusher<'_>, f: impl FnOnce(Pusher<'_>) -> c_int) -> c_int {
    let own = to.reborrow();
    match catch_unwind(AssertUnwindSafe(move || f(own))) {
        Ok(count) => count,
        Err(panic) => Fault::panic(panic).raise(&mut to),
    }
}

impl Pusher<'_> {
    /// Pushes a new table with these functions and with room for `more` fields.
    pub(super) fn push_functions(&mut self, functions: FunctionTable, more: usize) {
        self.push_table(0, (functions.len() + more) as c_int);
        for (name, function) in functions {
            self.push_closure(function.0, 0);
            self.set_field(name);
        }
    }
}

/// Lua calls this for the native function `F`.
unsafe extern "C-unwind" fn call_native<F: Fn(Pusher<'_>) -> c_int + Copy>(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with room for 20 values, and no frame owns anything yet.
    guarded(unsafe { Pusher::new(state) }, zero_sized::<F>())
}
