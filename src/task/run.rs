//! Runs tasks: resumes a coroutine and deals with how it came back.
//!
//! Called from `run_ready` and `start`, on the running `state`. Lua code that runs in between (a task, a
//! finalizer, a handler) calls the core itself, so no reference into it is held across such a call.

use super::chain;
use super::core::{Core, How, Phase, Slot, Tag};
use super::hooks::{report, tell_end};
use super::look;
use super::lost;
use super::pool;
use crate::event::clock::thread_nanos;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

impl Core {
    /// Runs a task that `acquire` gave, up to its first wait. Its function and `values` arguments lie on
    /// its stack.
    ///
    /// # Safety
    /// `state` is the running state, with 8 free stack slots: the main one, or that of a task, which then
    /// goes on when this one waits.
    #[inline]
    pub(crate) unsafe fn start(
        core: *mut Core,
        state: *mut lua_State,
        slot: Slot,
        values: c_int,
        tag: Tag,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            (*core).count += 1;
            (*core).requests += usize::from(tag.from != 0);
            let now = (*core).now;
            let task = (*core).task(slot);
            task.tag = tag;
            task.born = now;
            resume(core, state, slot, values);
        }
    }

    /// Resumes a task that `take_waiter` gave, with `values` values moved onto its stack.
    ///
    /// # Safety
    /// As for [`Core::start`].
    pub(crate) unsafe fn resume_now(
        core: *mut Core,
        state: *mut lua_State,
        slot: Slot,
        values: c_int,
        how: How,
    ) {
        // SAFETY: the caller's promise; `take_waiter` found it suspended.
        unsafe {
            (*core).task(slot).interrupted = how == How::Interrupted;
            resume(core, state, slot, values);
        }
    }

    /// Runs what is queued now. What these tasks queue is left for the next call. Returns whether there
    /// is more.
    ///
    /// # Safety
    /// As for [`Core::start`].
    pub(crate) unsafe fn run_ready(core: *mut Core, state: *mut lua_State) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let mut left = (*core).queue.len();
            while left > 0 {
                left -= 1;
                // A finalizer may call this function inside of a handler: then the queue is shorter.
                let Some(slot) = (*core).queue.pop_front() else {
                    break;
                };
                take_turn(core, state, slot);
            }
            pool::end_round(core, state);
            (*core).has_ready()
        }
    }
}

/// The turn of a queued slot.
unsafe fn take_turn(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: as for `start`.
    unsafe {
        if (*core).is_living(slot) {
            let values = match (*core).task(slot).phase {
                Phase::Severed => chain::cut(&mut *core, slot, chain::Refusal::Closed),
                Phase::Lost => return lost::bury(core, state, slot),
                _ => Some((*core).task(slot).values),
            };
            return match values {
                Some(values) => resume(core, state, slot, values),
                None => vanished(core, state, slot),
            };
        }
        let task = (*core).task(slot);
        if task.phase == Phase::Dead {
            return pool::vacate(&mut *core, slot);
        }
        end(core, state, slot);
    }
}

/// Nobody is left of a living task's chain.
#[cold]
unsafe fn vanished(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: as for `start`.
    unsafe {
        (*core).uncount(slot);
        end(core, state, slot);
    }
}

/// Lets the coroutine of a task go that somebody else ended.
unsafe fn end(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: as for `start`.
    unsafe {
        let task = (*core).task(slot);
        task.phase = Phase::Acquired;
        let tag = task.tag;
        tell_end(core, state, slot);
        pool::discard(core, state, slot);
        tell_killed(core, state, slot, tag);
    }
}

unsafe fn resume(core: *mut Core, state: *mut lua_State, slot: Slot, values: c_int) {
    // SAFETY: the front is suspended, or fresh with its function on the stack.
    unsafe {
        // A task that starts another at once is in the middle of a call.
        let outer = ((*core).current, (*core).running, (*core).links);
        let mut values = values;
        loop {
            let task = (*core).task(slot);
            task.phase = Phase::Running;
            let front = task.front;
            (*core).current = Some(slot);
            (*core).running = front;
            (*core).links = std::ptr::null();
            (*core).handed = front;
            let held = !task.parents.is_empty() && chain::hold_front(state, front);
            let mut results = 0;
            if (*core).metering {
                (*core).task(slot).since = thread_nanos();
            }
            let status = ffi::lua_resume(front, state, values, &mut results);
            if (*core).metering {
                look::book(&mut *core, slot);
            }
            ((*core).current, (*core).running, (*core).links) = outer;
            (*core).handed = std::ptr::null_mut();
            let task = (*core).task(slot);
            if task.parents.is_empty() || task.phase == Phase::Waiting {
                if held {
                    ffi::lua_pop(state, 1);
                }
                return match status {
                    ffi::LUA_YIELD => yielded(core, slot, results),
                    ffi::LUA_OK => finished(core, state, slot, results),
                    _ => failed(core, state, slot),
                };
            }
            let passed = chain::hand_up(&mut *core, slot, status, results);
            if held {
                ffi::lua_pop(state, 1);
            }
            match passed {
                Some(passed) => values = passed,
                None => return vanished(core, state, slot),
            }
        }
    }
}

unsafe fn yielded(core: *mut Core, slot: Slot, results: c_int) {
    // SAFETY: the results are on top of the coroutine's stack.
    unsafe {
        (*core).unwinding = false;
        let task = (*core).task(slot);
        if task.phase == Phase::Waiting {
            return;
        }
        if results != 0 {
            ffi::lua_pop(task.thread, results);
        }
        // A plain coroutine.yield gives way to the others.
        task.phase = Phase::Yielded;
        task.values = 0;
        (*core).queue.push_back(slot);
    }
}

unsafe fn finished(core: *mut Core, state: *mut lua_State, slot: Slot, results: c_int) {
    // SAFETY: the coroutine returned, so that its stack is ours.
    unsafe {
        (*core).uncount(slot);
        let task = (*core).task(slot);
        task.phase = Phase::Acquired;
        let thread = task.thread;
        let tag = task.tag;
        if tag.session != 0
            && let Some(host) = (*core).host
        {
            (host.finished)(host.data, state, thread, results, tag);
        }
        ffi::lua_settop(thread, 0);
        tell_end(core, state, slot);
        pool::keep(core, state, slot);
    }
}

#[cold]
unsafe fn failed(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: the error is on top of the coroutine's stack; the anchor holds the coroutine meanwhile.
    unsafe {
        (*core).uncount(slot);
        let task = (*core).task(slot);
        task.phase = Phase::Acquired;
        let thread = task.thread;
        let tag = task.tag;
        let host = (*core).host;
        if let Some(host) = host {
            (host.failed)(host.data, state, thread, tag);
        }
        report(state, slot, thread, host.is_some());
        // It may have failed at its very end, for want of memory: who waits for it is told by this function.
        (*core).task(slot).watched = true;
        let limit = host.map(|host| (host.set_limit)(host.data, 0));
        tell_end(core, state, slot);
        if let (Some(host), Some(limit)) = (host, limit) {
            (host.set_limit)(host.data, limit);
        }
        pool::discard(core, state, slot);
    }
}

/// Tells the host that a task with a session will not return.
///
/// # Safety
/// `state` is the running state, with 4 free stack slots.
pub(super) unsafe fn tell_killed(core: *mut Core, state: *mut lua_State, slot: Slot, tag: Tag) {
    // SAFETY: the caller's promise.
    unsafe {
        if tag.session != 0
            && let Some(host) = (*core).host
        {
            (host.killed)(host.data, state, slot, tag);
        }
    }
}
