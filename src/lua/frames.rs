//! The active functions of a coroutine, for messages.

use super::fault::Fault;
use super::function::Function;
use super::stack::Stack;
use super::threads::Threads;
use mlua::ffi;
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// An active function.
pub(crate) struct Frame {
    /// The name by which the function was called; empty if the name is unknown.
    pub(crate) name: String,
    /// Whether the function is a debug hook.
    pub(crate) is_hook: bool,
    /// Whether the function is a C function.
    pub(crate) is_native: bool,
    /// The current position in a Lua function, as `file:line`; `None` if it is not known.
    pub(crate) position: Option<String>,
    /// The stack index of the function itself, which [`Threads::frame`] pushes; 0 if the function was not pushed,
    /// because the stack of its coroutine cannot grow.
    pub(crate) function: c_int,
}

impl Threads {
    /// Returns the active function at `level` (0: the innermost) of a coroutine. `depth` selects the coroutine: 0 is
    /// the running one, 1 the coroutine that has resumed it, and so on. Returns `None` if there is no such function or
    /// coroutine.
    pub(crate) fn frame(&self, stack: &mut Stack, depth: usize, level: c_int) -> Result<Option<Frame>, Fault> {
        stack.reserve(1)?;
        let Some(thread) = self.outwards(stack, depth) else { return Ok(None) };
        let mut record = MaybeUninit::<ffi::lua_Debug>::zeroed();
        let frame = record.as_mut_ptr();
        // SAFETY: the coroutine is on the C stack. The calls fill the record, whose strings belong to the frame, and
        // the function has a reserved slot.
        unsafe {
            if ffi::lua_getstack(thread, level, frame) == 0 {
                return Ok(None);
            }
            ffi::lua_getinfo(thread, c"Sln".as_ptr(), frame);
            let mut function = 0;
            if thread == stack.state || ffi::lua_checkstack(thread, 1) != 0 {
                ffi::lua_getinfo(thread, c"f".as_ptr(), frame);
                if thread != stack.state {
                    ffi::lua_xmove(thread, stack.state, 1);
                }
                function = stack.count();
            }
            let text = |pointer: *const c_char| match pointer.is_null() {
                true => String::new(),
                false => CStr::from_ptr(pointer).to_string_lossy().into_owned(),
            };
            let line = (*frame).currentline;
            let file = text((*frame).short_src.as_ptr());
            Ok(Some(Frame {
                name: text((*frame).name),
                is_hook: text((*frame).namewhat) == "hook",
                is_native: text((*frame).what) == "C",
                position: (line > 0).then(|| format!("{file}:{line}")),
                function,
            }))
        }
    }
}

impl Stack {
    /// Whether the value at `index` is `function`.
    pub(crate) fn is_function(&self, index: c_int, function: Function) -> bool {
        let found = self.c_function(index);
        found.is_some_and(|found| found as usize == function.address())
    }
}
