//! Queries about the running coroutine, and about coroutines on the stack.

use super::call::Call;
use super::fault::Fault;
use super::pusher::Pusher;
use super::returns::Push;
use super::stack::Stack;
use super::state::State;
use super::values::{Plain, plain};
use mlua::ffi;
use std::ffi::{CStr, c_int};

/// The running coroutine.
#[derive(Clone, Copy)]
pub(crate) struct Running;

plain!(Running, false, |_value, to| {
    to.push_thread();
});

impl Stack {
    /// Whether the value at `index` is a coroutine that is running, or that has resumed another coroutine and is
    /// waiting for it.
    pub(crate) fn is_active(&self, index: c_int) -> bool {
        self.coroutine_at(index).is_some_and(|thread| thread.status() == ffi::LUA_OK && thread.level(0).is_some())
    }

    /// Whether a `for` over the iterator at `iterator` is running in the active coroutine at `thread`. A `for` keeps
    /// its iterator in an internal variable, which exists as long as the loop runs.
    #[cold]
    pub(crate) fn is_iterating(&self, thread: c_int, iterator: c_int) -> bool {
        if !self.is_active(thread) {
            return false;
        }
        let Some(mut thread) = self.coroutine_at(thread) else { return false };
        if !thread.has_room(1) {
            return false;
        }
        let iterator = self.identity(iterator);
        let mut level = 0;
        while let Some(frame) = thread.level(level) {
            level += 1;
            for variable in 1.. {
                // SAFETY: the frame is active while no Lua code runs, and the stack has room for one of its values. A
                // name is static, or a string that the function owns.
                let name = unsafe {
                    let name = ffi::lua_getlocal(thread.state, &frame, variable);
                    (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes())
                };
                let Some(name) = name else { break };
                // Without debug information, Lua names every stack value `(temporary)`, including these variables.
                if thread.pop_identity() == iterator && matches!(name, b"(for state)" | b"(temporary)") {
                    return true;
                }
            }
        }
        false
    }
}

impl Call<'_> {
    /// Sets the `n`th upvalue of the function at `function` to the value at `value`, if the function has that many
    /// upvalues.
    pub(crate) fn set_upvalue(&mut self, function: c_int, n: c_int, value: c_int) -> Result<(), Fault> {
        self.reserve(1)?;
        self.assign_upvalue(function, n, value);
        self.room += 1;
        Ok(())
    }
}
