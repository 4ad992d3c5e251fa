//! Moving values between a step and a coroutine, or between two coroutines.

use super::anchors::Coroutine;
use super::places::{Full, Threads};
use crate::lua::stack::Stack;
use crate::lua::state::State;
use crate::lua::values::Plain;
use crate::lua::walk::Walk;
use mlua::ffi;
use std::ffi::c_int;

impl Threads {
    /// Moves the topmost `count` values of the step's stack to a coroutine that is suspended or has not started.
    #[inline(always)]
    pub(crate) fn move_to(&self, stack: &mut Stack, co: Coroutine, count: c_int) -> Result<(), Full> {
        let mut to = self.other_state(stack, co);
        try_move(stack, &mut to, count)
    }

    /// Pushes a value onto the stack of a coroutine that is suspended by a yield. Returns false if the coroutine is in
    /// another state, or its stack is full.
    #[inline]
    pub(crate) fn push_to(&self, co: Coroutine, value: impl Plain) -> bool {
        let mut state = self.state(co);
        // A C function that has yielded has room for 20 values. If a native hook has yielded in a Lua function, five
        // slots are free; the callers use two of them.
        let fits = state.status() == ffi::LUA_YIELD && (state.count() <= 10 || state.has_room(1));
        if fits {
            value.push_plain(&mut state);
        }
        fits
    }

    /// Moves the topmost `count` values of one coroutine to another coroutine.
    pub(crate) fn move_between(&self, from: Coroutine, to: Coroutine, count: c_int) -> Result<(), Full> {
        assert!(from != to);
        try_move(&mut self.state(from), &mut self.state(to), count)
    }

    /// Moves the topmost `count` values of a coroutine to the step's stack. Returns the index of the first value.
    #[inline]
    pub(crate) fn move_from(&self, stack: &mut Stack, co: Coroutine, count: c_int) -> Result<c_int, Full> {
        let mut state = self.other_state(stack, co);
        stack.reserve(count).map_err(|_| Full)?;
        assert!((0..=state.count()).contains(&count), "the stack has fewer values than `count`");
        state.move_to(stack, count);
        Ok(stack.count() - count + 1)
    }

    /// Calls `read` with a walk over the stack of a coroutine that has returned, and with the index of the first of its
    /// topmost `count` values. Returns `None` if the coroutine's stack is full.
    #[inline]
    pub(crate) fn walk<R>(
        &self, stack: &mut Stack, co: Coroutine, count: c_int, read: impl FnOnce(&mut Walk, c_int) -> R,
    ) -> Option<R> {
        let mut state = self.other_state(stack, co);
        let top = state.count();
        assert!((0..=top).contains(&count), "the stack has fewer values than `count`");
        // Lua has reserved room for 20 values on this stack.
        if top > 10 && !state.has_room(10) {
            return None;
        }
        Some(stack.walk_in(state, 10, |walk| read(walk, top - count + 1)))
    }

    /// Drops the topmost `count` values of a coroutine.
    #[inline]
    pub(crate) fn drop_values(&self, co: Coroutine, count: c_int) {
        let mut state = self.state(co);
        state.drop_to((state.count() - count).max(0));
    }

    /// Empties the stack of a coroutine that has returned or has not started. Does nothing to other coroutines.
    #[inline]
    pub(crate) fn clear(&self, co: Coroutine) {
        let mut state = self.state(co);
        if state.status() == ffi::LUA_OK {
            state.drop_to(0);
        }
    }

    /// Pushes the first value in the current frame of a suspended coroutine; nil if the frame is empty. Returns the
    /// index of the pushed value.
    pub(crate) fn first_value(&self, stack: &mut Stack, co: Coroutine) -> Result<c_int, Full> {
        let mut state = self.other_state(stack, co);
        stack.reserve(1).map_err(|_| Full)?;
        if !state.has_room(1) {
            return Err(Full);
        }
        match state.count() {
            0 => state.push_nil(),
            _ => state.push_copy(1),
        }
        state.move_to(stack, 1);
        Ok(stack.count())
    }
}

/// Moves the topmost `count` values of a stack to another stack of the same VM.
#[inline(always)]
pub(super) fn try_move(from: &mut State, to: &mut State, count: c_int) -> Result<(), Full> {
    assert!((0..=from.count()).contains(&count), "the stack has fewer values than `count`");
    match to.has_room(count) {
        true => Ok(from.move_to(to, count)),
        false => Err(Full),
    }
}
