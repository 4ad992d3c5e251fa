//! The debug hook that a new coroutine has from its creator. Lua hands it on itself, but the creator's hooks are off while
//! the core makes something in the middle of a step.

use crate::lua::state::State;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// What `lua_sethook` sets.
#[derive(Clone, Copy)]
pub(super) struct Hook {
    function: Option<ffi::lua_Hook>,
    events: c_int,
    count: c_int,
}

impl Hook {
    /// The one that is set in the coroutine of this stack.
    pub(super) fn of(stack: &State) -> Hook {
        let state = stack.state;
        // SAFETY: reads three fields of a coroutine that runs.
        unsafe {
            Hook {
                function: ffi::lua_gethook(state),
                events: ffi::lua_gethookmask(state),
                count: ffi::lua_gethookcount(state),
            }
        }
    }

    /// # Safety
    /// `thread` is a live coroutine.
    pub(super) unsafe fn set(self, thread: *mut lua_State) {
        if self.events != 0 {
            // SAFETY: by the promise above; the function came from a coroutine of this process.
            unsafe { ffi::lua_sethook(thread, self.function, self.events, self.count) }
        }
    }
}
