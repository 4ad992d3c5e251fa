//! The debug hook of a coroutine, as a value.

use super::state::{State, ffi_methods};
use mlua::ffi;
use std::ffi::c_int;
use std::ptr;

/// The values that `lua_sethook` sets. If no hook is set, the sum of events is 0.
#[derive(Clone, Copy, Default)]
pub(super) struct Hook {
    pub(super) function: Option<ffi::lua_Hook>,
    /// A sum of `LUA_MASK…`.
    pub(super) events: c_int,
    pub(super) count: c_int,
}

impl Hook {
    pub(super) const NONE: Hook = Hook { function: None, events: 0, count: 0 };

    /// Whether this hook calls the function.
    pub(super) fn calls(self, function: ffi::lua_Hook) -> bool {
        self.function.is_some_and(|own| ptr::fn_addr_eq(own, function))
    }

    /// Sets the hook in the new coroutine `thread`, if there is a hook. Lua itself copies the hook of the creator, but
    /// the creator's hooks are off during an allocation in the middle of a step.
    pub(super) fn set_in_new(self, thread: &State) {
        if self.events != 0 {
            thread.set_debug_hook(self);
        }
    }
}

impl State {
    ffi_methods! {
        /// Whether a hook is set in this stack's coroutine.
        pub(super) fn has_debug_hook[]() -> bool = |state| ffi::lua_gethookmask(state) != 0;

        /// Returns the hook of this stack's coroutine. The caller guarantees that no signal changes it in the meantime.
        pub(super) fn debug_hook[]() -> Hook = |state| Hook {
            function: ffi::lua_gethook(state),
            events: ffi::lua_gethookmask(state),
            count: ffi::lua_gethookcount(state),
        };

        /// Sets the hook of this stack's coroutine. The caller guarantees that no signal changes it in the meantime.
        pub(super) fn set_debug_hook[](hook: Hook) = |state| ffi::lua_sethook(state, hook.function, hook.events, hook.count);
    }
}
