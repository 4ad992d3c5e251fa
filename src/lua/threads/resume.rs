//! Resuming coroutines in the middle of a step.
//!
//! Only `resume` and `call` run Lua code in the middle of a step. They borrow the call mutably, so no reference to an
//! object or a string outlives them. They run code on a Lua thread other than the step's, so an error, or in Lua 5.5 a
//! coroutine that closes itself, never skips the step's frames. The values of the step's own function stay at their
//! indexes, but `debug.setlocal` may have changed them.

use super::anchors::Coroutine;
use super::places::{Full, Link, NO_COROUTINE, Threads, coroutine_identity};
use super::status::{Status, status};
use super::values::try_move;
use crate::lua::call::Call;
use crate::lua::stack::Stack;
use crate::lua::state::State;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ptr::null;
use std::sync::atomic::{Ordering, compiler_fence};

/// How a resumed coroutine stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resumed {
    /// The coroutine yielded this number of values, which are on top of its stack.
    Yielded(c_int),
    /// The coroutine returned this number of values, which are on top of its stack.
    Returned(c_int),
    /// The coroutine failed. The error is on top of its stack, and its frames still exist.
    Failed,
}

/// How a coroutine that a program has resumed stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResumeResult {
    /// The coroutine yielded or returned. This number of values was moved to the step's stack.
    Values(c_int),
    /// The coroutine failed. The error was moved to the step's stack.
    Failed,
    /// A function in the coroutine waits, so the coroutine that has resumed it must yield, too.
    Waits,
}

impl Threads {
    /// Resumes a coroutine with the `count` values that were moved to it.
    #[inline]
    pub(crate) fn resume(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Resumed {
        call.resume_collector();
        let state = self.other_state(call, co);
        // A coroutine that has not started has its function below the values.
        let below = c_int::from(state.status() != ffi::LUA_YIELD);
        assert!(count >= 0 && count + below <= state.count(), "the stack has fewer values than `count`");
        self.run(call, &state, count)
    }

    /// If a coroutine is suspended by a yield, resumes it with the `count` values that were moved to it. Otherwise does
    /// nothing and returns `None`.
    #[inline(always)]
    pub(crate) fn resume_suspended(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Option<Resumed> {
        let state = self.other_state(call, co);
        if state.status() != ffi::LUA_YIELD {
            return None;
        }
        assert!((0..=state.count()).contains(&count), "the stack has fewer values than `count`");
        Some(self.run(call, &state, count))
    }

    /// Resumes a coroutine with the topmost `count` values of the step's stack. If the coroutine has not started, the
    /// first value is its function. If the coroutine's stack is full, the values stay where they are.
    #[inline(always)]
    pub(crate) fn resume_with(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Result<Resumed, Full> {
        call.resume_collector();
        let mut state = self.other_state(call, co);
        let function = c_int::from(state.status() != ffi::LUA_YIELD);
        assert!(count >= function, "the function is missing");
        try_move(call, &mut state, count)?;
        Ok(self.run(call, &state, count - function))
    }

    /// Resumes a coroutine with the topmost `count` values of its stack. The values must exist.
    #[inline(always)]
    fn run(&self, call: &Call<'_>, state: &State, count: c_int) -> Resumed {
        // The coroutine that runs this step continues afterwards, so `running` and `links` are restored then.
        let outer = (self.running.load(Ordering::Relaxed), self.links.load(Ordering::Relaxed));
        self.set_running(state.state, null());
        self.last_resumed.set(coroutine_identity(state));
        let mut results = 0;
        // SAFETY: these are two stacks of one VM. The callers have checked that the values exist, and that a coroutine
        // that has not started has a function. If the coroutine cannot be resumed, Lua returns an error status.
        let status = unsafe { ffi::lua_resume(state.state, call.state, count, &mut results) };
        self.set_running(outer.0, outer.1);
        self.last_resumed.set(NO_COROUTINE);
        resumed_with(status, results)
    }

    /// Sets the running coroutine and the innermost link.
    #[inline]
    pub(super) fn set_running(&self, running: *mut lua_State, links: *const Link) {
        // The fences order the stores for the signal handler, which follows the links.
        compiler_fence(Ordering::SeqCst);
        self.links.store(links.cast_mut(), Ordering::Relaxed);
        self.running.store(running, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Resumes the coroutine at `index`, which has no place, with the topmost `count` values of the step's stack. Its
    /// results, or its error, are moved to that stack. If `status_first` is true, a boolean precedes them, which is
    /// false if the coroutine failed. Returns a message as the error if the coroutine cannot be resumed, or if its
    /// results do not fit on the step's stack.
    #[inline]
    pub(crate) fn resume_at(
        &self, call: &mut Call<'_>, index: c_int, count: c_int, status_first: bool,
    ) -> Result<ResumeResult, &'static str> {
        call.resume_collector();
        assert!((0..=call.count()).contains(&count), "the stack has fewer values than `count`");
        // The value at the index keeps the coroutine alive, as it does during Lua's own `resume`.
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
        call.move_to(&mut co, count);
        let outer = self.running.load(Ordering::Relaxed);
        // The link is removed before its frame ends: `co.resume` cannot raise, because everything that it would refuse
        // has been checked.
        let link = Link { outer: self.links.load(Ordering::Relaxed), from: call.state, to: co.state };
        self.set_running(co.state, &raw const link);
        let (status, results) = co.resume(call, count);
        self.set_running(outer, link.outer);
        if status == ffi::LUA_YIELD && self.unwinding.get() {
            return Ok(ResumeResult::Waits);
        }
        let (moved, result) = match resumed_with(status, results) {
            Resumed::Failed => (1, ResumeResult::Failed),
            _ => (results, ResumeResult::Values(results)),
        };
        if call.reserve(moved + 1).is_err() {
            co.pop(moved);
            return Err("too many results to resume");
        }
        if status_first {
            call.push_boolean(result != ResumeResult::Failed);
        }
        co.move_to(call, moved);
        Ok(result)
    }

    /// Clears the record of the last resumed coroutine. Called before the step's coroutine yields.
    #[inline]
    pub(crate) fn forget_last_resumed(&self) {
        self.last_resumed.set(NO_COROUTINE);
    }

    /// Returns whether `Threads::resume`, and not another library, has resumed the step's coroutine, and clears the
    /// record. Called by a step after a yield.
    #[inline]
    pub(crate) fn take_last_resumed(&self, stack: &Stack) -> bool {
        let last_resumed = self.last_resumed.get() == stack.running();
        self.last_resumed.set(NO_COROUTINE);
        last_resumed
    }
}

/// Converts the results of `lua_resume`.
#[inline]
fn resumed_with(status: c_int, results: c_int) -> Resumed {
    match status {
        ffi::LUA_YIELD => Resumed::Yielded(results),
        ffi::LUA_OK => Resumed::Returned(results),
        _ => Resumed::Failed,
    }
}
