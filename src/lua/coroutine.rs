//! The coroutine that runs, and others that lie on the stack: what can be asked about them.

use super::call::Call;
use super::fault::Fault;
use super::stack::{Stack, at};
use super::values::Plain;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// The coroutine that runs.
#[derive(Clone, Copy)]
pub(crate) struct Running;

impl super::returns::sealed::Sealed for Running {}
impl super::Push for Running {
    fn push(&mut self, to: super::Pusher<'_>) {
        // SAFETY: a pusher's promise.
        unsafe { self.push_plain(to.state()) }
    }
}
impl Plain for Running {
    unsafe fn push_plain(self, state: *mut lua_State) {
        // SAFETY: there is room for the coroutine, which takes no memory.
        unsafe { ffi::lua_pushthread(state) };
    }
}

impl Stack {
    /// What identifies the coroutine that runs, as long as it is not collected.
    #[inline]
    pub(crate) fn thread(&self) -> usize {
        self.state.addr()
    }

    /// What identifies the debug hook that is set; 0 without one.
    #[inline]
    pub(crate) fn hook(&self) -> usize {
        // SAFETY: asks for a pointer, which is not followed.
        unsafe { ffi::lua_gethook(self.state) }.map_or(0, |hook| hook as usize)
    }

    /// Whether the value at `index` is a coroutine that runs, or waits for one that it has resumed.
    pub(crate) fn is_active(&self, index: c_int) -> bool {
        // SAFETY: a coroutine on the stack is alive; its frames are only counted.
        unsafe {
            let thread = ffi::lua_tothread(self.state, at(index));
            let mut frame: ffi::lua_Debug = std::mem::zeroed();
            !thread.is_null()
                && ffi::lua_status(thread) == ffi::LUA_OK
                && ffi::lua_getstack(thread, 0, &mut frame) != 0
        }
    }

    /// Whether a `for` over the iterator at `iterator` is running in the active coroutine at `thread`. A `for` keeps its
    /// iterator in a variable without a name, which is there as long as the loop.
    #[cold]
    pub(crate) fn is_iterating(&self, thread: c_int, iterator: c_int) -> bool {
        if !self.is_active(thread) {
            return false;
        }
        // SAFETY: the coroutine is active, so that its frames can be looked at, and its stack can take one value more.
        unsafe {
            let thread = ffi::lua_tothread(self.state, thread);
            let iterator = ffi::lua_topointer(self.state, at(iterator));
            let mut frame: ffi::lua_Debug = std::mem::zeroed();
            let mut level = 0;
            if ffi::lua_checkstack(thread, 1) == 0 {
                return false;
            }
            while ffi::lua_getstack(thread, level, &mut frame) != 0 {
                level += 1;
                for variable in 1.. {
                    let name = ffi::lua_getlocal(thread, &frame, variable);
                    if name.is_null() {
                        break;
                    }
                    let found = ffi::lua_topointer(thread, -1) == iterator;
                    ffi::lua_pop(thread, 1);
                    // Without debug information nothing has a name but that of any value on the stack.
                    let name = CStr::from_ptr(name).to_bytes();
                    if found && matches!(name, b"(for state)" | b"(temporary)") {
                        return true;
                    }
                }
            }
        }
        false
    }
}

impl Call<'_> {
    /// Sets the n-th upvalue of the function at `function`, if it has that many, to the value at `value`.
    pub(crate) fn set_upvalue(
        &mut self,
        function: c_int,
        n: c_int,
        value: c_int,
    ) -> Result<(), Fault> {
        self.reserve(1)?;
        // SAFETY: there is room; the assignment takes no memory, and takes the value off if there is such an upvalue.
        unsafe {
            if ffi::lua_type(self.state, at(function)) == ffi::LUA_TFUNCTION {
                ffi::lua_pushvalue(self.state, at(value));
                if ffi::lua_setupvalue(self.state, function, n).is_null() {
                    ffi::lua_pop(self.state, 1);
                }
            }
        }
        self.room += 1;
        Ok(())
    }
}
