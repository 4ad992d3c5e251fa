//! Values that are moved between a step and a coroutine, or two coroutines.

use super::anchors::Coroutine;
use super::places::{Full, Threads};
use crate::lua::stack::Stack;
use crate::lua::state::State;
use crate::lua::values::Plain;
use mlua::ffi;
use std::ffi::c_int;

impl Threads {
    /// Moves the topmost `count` values of the step's stack to a coroutine that is suspended or has not begun.
    #[inline(always)]
    pub(crate) fn hand_over(&self, stack: &mut Stack, co: Coroutine, count: c_int) -> Result<(), Full> {
        let state = self.beside(stack, co);
        assert!((0..=stack.count()).contains(&count), "no such values");
        // SAFETY: the values are there, and there is room for them; both stacks are of one VM.
        unsafe {
            if ffi::lua_checkstack(state, count) == 0 {
                return Err(Full);
            }
            ffi::lua_xmove(stack.state, state, count);
        }
        Ok(())
    }

    /// Pushes a value to a coroutine that is suspended.
    #[inline]
    pub(crate) fn hand_over_plain(&self, co: Coroutine, value: impl Plain) -> Result<(), Full> {
        let state = self.state(co);
        // SAFETY: there is room, and such a value takes no memory.
        unsafe {
            if ffi::lua_checkstack(state, 1) == 0 {
                return Err(Full);
            }
            value.push_plain(&mut State::new(state));
        }
        Ok(())
    }

    /// Moves the topmost `count` values of one coroutine to another one.
    pub(crate) fn pass(&self, from: Coroutine, to: Coroutine, count: c_int) -> Result<(), Full> {
        let (from, to) = (self.state(from), self.state(to));
        // SAFETY: both are anchored, so that both live and are of one VM; there is room for so many values.
        unsafe {
            assert!(from != to && (0..=ffi::lua_gettop(from)).contains(&count));
            if ffi::lua_checkstack(to, count) == 0 {
                return Err(Full);
            }
            ffi::lua_xmove(from, to, count);
        }
        Ok(())
    }

    /// Moves the topmost `count` values of a coroutine to the step's stack. → the index of the first
    #[inline]
    pub(crate) fn take(&self, stack: &mut Stack, co: Coroutine, count: c_int) -> Result<c_int, Full> {
        let state = self.beside(stack, co);
        stack.reserve(count).map_err(|_| Full)?;
        // SAFETY: moved are values that are there, counted just before; the step's stack has room for them.
        unsafe {
            assert!((0..=ffi::lua_gettop(state)).contains(&count), "no such values");
            ffi::lua_xmove(state, stack.state, count);
            Ok(ffi::lua_gettop(stack.state) - count + 1)
        }
    }

    /// Drops the topmost `count` values of a coroutine.
    #[inline]
    pub(crate) fn drop_values(&self, co: Coroutine, count: c_int) {
        let state = self.state(co);
        // SAFETY: a coroutine's height shrinks, to none at the least; it does not run.
        unsafe { ffi::lua_settop(state, (ffi::lua_gettop(state) - count.max(0)).max(0)) }
    }

    /// Empties the stack of a coroutine that has returned or not begun. Any other is left as it is.
    #[inline]
    pub(crate) fn clear(&self, co: Coroutine) {
        let state = self.state(co);
        // SAFETY: nothing runs on it, so its stack holds only values that nobody closes.
        unsafe {
            if ffi::lua_status(state) == ffi::LUA_OK {
                ffi::lua_settop(state, 0);
            }
        }
    }

    /// Pushes the first value in the frame that a suspended coroutine waits in. → its index
    pub(crate) fn first_value(&self, stack: &mut Stack, co: Coroutine) -> Result<c_int, Full> {
        let state = self.beside(stack, co);
        stack.reserve(1).map_err(|_| Full)?;
        // SAFETY: there is room on both stacks; a frame without values has no first one.
        unsafe {
            if ffi::lua_checkstack(state, 1) == 0 {
                return Err(Full);
            }
            match ffi::lua_gettop(state) {
                0 => ffi::lua_pushnil(state),
                _ => ffi::lua_pushvalue(state, 1),
            }
            ffi::lua_xmove(state, stack.state, 1);
            Ok(ffi::lua_gettop(stack.state))
        }
    }
}
