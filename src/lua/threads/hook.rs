//! The debug hook that a new coroutine gets from its creator. Lua itself copies the hook, but the creator's hooks are
//! off during an allocation in the middle of a step.

use crate::lua::state::{State, ffi_methods};
use mlua::ffi;
use std::ffi::c_int;

/// The values that `lua_sethook` sets.
#[derive(Clone, Copy)]
pub(super) struct Hook {
    function: Option<ffi::lua_Hook>,
    events: c_int,
    count: c_int,
}

impl Hook {
    /// Sets the hook in the new coroutine `thread`, if there is a hook.
    pub(super) fn set(self, thread: &mut State) {
        if self.events != 0 {
            thread.set_debug_hook(self);
        }
    }
}

impl State {
    ffi_methods! {
        /// Returns the hook of this stack's coroutine.
        pub(super) fn debug_hook[]() -> Hook = |state| Hook {
            function: ffi::lua_gethook(state),
            events: ffi::lua_gethookmask(state),
            count: ffi::lua_gethookcount(state),
        };

        fn set_debug_hook[mut](hook: Hook) = |state| ffi::lua_sethook(state, hook.function, hook.events, hook.count);
    }
}
