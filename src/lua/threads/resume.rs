//! Coroutines resumed in the middle of a step.
//!
//! `resume` and `call` are the two that run Lua code in the middle of a step. They take the call as a whole, so that no
//! reference into an object or a string lives across them; what they run is on another thread than the step, so that an
//! error or, in Lua 5.5, a coroutine that closes itself never skips the step's frames. The values of the step's own
//! function stay at their indexes, but `debug.setlocal` may have changed them.

use super::anchors::Coroutine;
use super::places::{Full, Link, NOBODY, Threads, identity};
use super::status::{Status, status};
use super::values::give;
use crate::lua::call::Call;
use crate::lua::stack::Stack;
use crate::lua::state::State;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ptr::null;
use std::sync::atomic::{Ordering, compiler_fence};

/// How a coroutine came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resumed {
    /// So many values are on top of its stack.
    Yielded(c_int),
    Returned(c_int),
    /// The error is on top of its stack, whose frames are there still.
    Failed,
}

/// How one that a program resumes came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Back {
    /// So many values were moved over.
    Values(c_int),
    /// The error was moved over.
    Failed,
    /// A function inside waits: whoever resumed it has to yield.
    Waits,
}

impl Threads {
    /// Resumes a coroutine with the `count` values that were handed over.
    #[inline]
    pub(crate) fn resume(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Resumed {
        call.wake_collector();
        let state = self.beside(call, co);
        // One that has not begun has its function below the values.
        let below = c_int::from(state.status() != ffi::LUA_YIELD);
        assert!(count >= 0 && count + below <= state.count(), "no such values");
        self.run(call, &state, count)
    }

    /// Resumes a coroutine that is suspended by a yield with the `count` values that were handed over; any other is left as
    /// it is.
    #[inline(always)]
    pub(crate) fn resume_suspended(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Option<Resumed> {
        let state = self.beside(call, co);
        if state.status() != ffi::LUA_YIELD {
            return None;
        }
        assert!((0..=state.count()).contains(&count), "no such values");
        Some(self.run(call, &state, count))
    }

    /// Resumes a coroutine with the topmost `count` values of the step's stack; the first of them is the function of one that
    /// has not begun. When its stack cannot take them, they stay.
    #[inline(always)]
    pub(crate) fn resume_with(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Result<Resumed, Full> {
        call.wake_collector();
        let mut state = self.beside(call, co);
        let function = c_int::from(state.status() != ffi::LUA_YIELD);
        assert!(count >= function, "no function");
        give(call, &mut state, count)?;
        Ok(self.run(call, &state, count - function))
    }

    /// Resumes a coroutine with the topmost `count` values of its stack, which are there.
    #[inline(always)]
    fn run(&self, call: &Call<'_>, state: &State, count: c_int) -> Resumed {
        // One that resumes another in the middle of a step goes on afterwards.
        let outer = (self.running.load(Ordering::Relaxed), self.links.load(Ordering::Relaxed));
        self.set_running(state.state, null());
        self.handed.set(identity(state));
        let mut results = 0;
        // SAFETY: two stacks of one VM; so many values are there, as the callers have seen, above a function if this
        // has not begun. Lua refuses by the status to resume what cannot be.
        let status = unsafe { ffi::lua_resume(state.state, call.state, count, &mut results) };
        self.set_running(outer.0, outer.1);
        self.handed.set(NOBODY);
        came_back(status, results)
    }

    #[inline]
    pub(super) fn set_running(&self, running: *mut lua_State, links: *const Link) {
        // For the handler of a signal, which follows the links.
        compiler_fence(Ordering::SeqCst);
        self.links.store(links.cast_mut(), Ordering::Relaxed);
        self.running.store(running, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Resumes the coroutine at `index`, which is suspended and has no place, with the topmost `count` values of the
    /// step's stack. What it comes back with is moved there;
    /// `status_first`: behind whether it went well.
    #[inline]
    pub(crate) fn resume_at(
        &self, call: &mut Call<'_>, index: c_int, count: c_int, status_first: bool,
    ) -> Result<Back, &'static str> {
        call.wake_collector();
        assert!((0..=call.count()).contains(&count), "no such values");
        // The value at the index keeps it, as that of Lua's own `resume` does.
        let Some(mut co) = call.coroutine_at(index) else { return Err("cannot resume dead coroutine") };
        if co.status() != ffi::LUA_YIELD {
            match status(&co) {
                Status::Suspended if co.state != call.state => {}
                Status::Dead => return Err("cannot resume dead coroutine"),
                _ => return Err("cannot resume non-suspended coroutine"),
            }
        }
        if !co.has_room(count) {
            return Err("too many arguments to resume");
        }
        call.give(&mut co, count);
        let outer = self.running.load(Ordering::Relaxed);
        // It is taken off before its frame ends: what `lua_resume` would refuse is refused before, so it does not raise.
        let link = Link { up: self.links.load(Ordering::Relaxed), from: call.state, to: co.state };
        self.set_running(co.state, &raw const link);
        let (status, results) = co.resume(call, count);
        self.set_running(outer, link.up);
        if status == ffi::LUA_YIELD && self.unwinding.get() {
            return Ok(Back::Waits);
        }
        let (moved, back) = match came_back(status, results) {
            Resumed::Failed => (1, Back::Failed),
            _ => (results, Back::Values(results)),
        };
        if call.reserve(moved + 1).is_err() {
            co.pop(moved);
            return Err("too many results to resume");
        }
        if status_first {
            call.push_boolean(back != Back::Failed);
        }
        co.give(call, moved);
        Ok(back)
    }

    /// The step's coroutine is about to yield, and nobody has resumed it.
    #[inline]
    pub(crate) fn forget_handed(&self) {
        self.handed.set(NOBODY);
    }

    /// Whether the step, which follows a yield, was resumed by `resume`, and not by another library.
    #[inline]
    pub(crate) fn take_handed(&self, stack: &Stack) -> bool {
        let handed = self.handed.get() == stack.running();
        self.handed.set(NOBODY);
        handed
    }
}

#[inline]
pub(super) fn came_back(status: c_int, results: c_int) -> Resumed {
    match status {
        ffi::LUA_YIELD => Resumed::Yielded(results),
        ffi::LUA_OK => Resumed::Returned(results),
        _ => Resumed::Failed,
    }
}
