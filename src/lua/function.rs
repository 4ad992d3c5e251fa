//! Functions as Lua gets them. What makes one of a step is in `step`.

use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// A function that may be given to Lua: a panic in it is raised as a Lua error.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(pub(super) ffi::lua_CFunction);

impl Function {
    /// A C function of somebody else's, which Lua has had already, or one with a barrier of its own.
    ///
    /// # Safety
    /// `raw` is a C function for this version of Lua, which lets no panic pass.
    pub(crate) const unsafe fn foreign(raw: ffi::lua_CFunction) -> Function {
        Function(raw)
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

    /// Runs it in the frame of the running function.
    ///
    /// # Safety
    /// As for the function itself.
    pub(crate) unsafe fn run(self, state: *mut lua_State) -> c_int {
        // SAFETY: the caller is a C function that Lua called with this state.
        unsafe { (self.0)(state) }
    }
}
