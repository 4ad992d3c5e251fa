//! Ends of tasks that are not a return: kills, and coroutines that are closed. A chain is closed from the
//! innermost outwards, as a stack would be unwound.

use super::core::{Core, Phase, Slot};
use super::hooks::{abandon, call_end, complain_and_pop, push_close};
use super::lua::{living, this};
use super::pool;
use super::run::tell_killed;
use super::token::Token;
use crate::raw::{Text, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ptr::null_mut;

/// What became of a task that was to be ended.
#[derive(PartialEq, Eq)]
pub(super) enum Ended {
    Yes,
    /// It runs, or is in the middle of a call.
    Running,
    /// It was none.
    NoTask,
}

/// Ends the task whose coroutine is at `index`: takes it out of the books, then closes its chain from
/// the innermost outwards, which runs the `<close>` variables. An error of the task's own coroutine in
/// that is left on top of the stack when `hear`, else written to standard error.
pub(super) unsafe fn end_task(
    core: *mut Core,
    state: *mut lua_State,
    index: c_int,
    hear: bool,
) -> Ended {
    // SAFETY: the coroutines stay on the stack; the books are done with before code of Lua's runs.
    unsafe {
        let index = ffi::lua_absindex(state, index);
        let Some(slot) = living(core, state, index) else {
            return Ended::NoTask;
        };
        if (*core).task(slot).phase == Phase::Running {
            return Ended::Running;
        }
        let top = ffi::lua_gettop(state);
        let tag = (*core).tag(slot);
        let own = (*core).task(slot).thread;
        let token = push_members(core, state, slot, 0);
        let members = ffi::lua_gettop(state) - 1;
        forget_wait(core, slot);
        (*core).uncount(slot);
        let watched = (*core).task(slot).watched;
        pool::discard(core, state, slot);
        tell_killed(core, state, slot, tag);
        if token {
            abandon(state, members + 1);
        }
        ffi::lua_pop(state, 1);
        // What is innermost was pushed last.
        let problem = close_members(
            core,
            state,
            top + 1,
            members,
            if hear { own } else { null_mut() },
        );
        if watched {
            call_end(state, index);
        }
        if problem {
            ffi::lua_replace(state, top + 1);
        }
        ffi::lua_settop(state, top + c_int::from(problem));
        Ended::Yes
    }
}

/// Closes the coroutines at `first..=last`, the last one first. An error of `own` in that is left on top of
/// the stack, and the result is true; others are written to standard error.
unsafe fn close_members(
    core: *mut Core,
    state: *mut lua_State,
    first: c_int,
    last: c_int,
    own: *mut lua_State,
) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        let mut problem = false;
        for member in (first..=last).rev() {
            if close_any(core, state, member) {
                continue;
            }
            if ffi::lua_tothread(state, member) == own {
                problem = true;
            } else {
                complain_and_pop(state, c"error while closing a task: ");
            }
        }
        problem
    }
}

/// Closes the coroutine at `index`, also one that is in a chain, as `coroutine.close` does; false when there
/// was an error: then that is pushed.
///
/// # Safety
/// `state` is the running state; may raise.
pub(super) unsafe fn close_any(core: *mut Core, state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: a thin shell.
    unsafe {
        ffi::luaL_checkstack(state, 8, std::ptr::null());
        let index = ffi::lua_absindex(state, index);
        let Some(slot) = (*core).member_of(ffi::lua_tothread(state, index)) else {
            return close(state, index);
        };
        let top = ffi::lua_gettop(state);
        match end_task(core, state, index, true) {
            Ended::Yes => ffi::lua_gettop(state) == top,
            Ended::NoTask if (*core).is_idle(slot) => close_member(core, state, slot, index),
            _ => {
                ffi::luaL_where(state, 1);
                ffi::lua_pushstring(state, c"cannot close a normal coroutine".as_ptr());
                ffi::lua_concat(state, 2);
                false
            }
        }
    }
}

/// Closes a member of a waiting task's chain, at `index`, and what it is resuming: the wait is off, and who
/// was resuming it goes on with an error. False when a `<close>` variable of its own raised: then the
/// error is pushed.
///
/// # Safety
/// `state` is the running state; the coroutine is a member, and not the task's own. May raise.
pub(super) unsafe fn close_member(
    core: *mut Core,
    state: *mut lua_State,
    slot: Slot,
    index: c_int,
) -> bool {
    // SAFETY: as for `end_task`.
    unsafe {
        let index = ffi::lua_absindex(state, index);
        let top = ffi::lua_gettop(state);
        let thread = ffi::lua_tothread(state, index);
        let parents = &(*core).task(slot).parents;
        let place = parents.iter().position(|&parent| parent == thread);
        let place = place.unwrap_or(parents.len());
        let token = push_members(core, state, slot, place);
        let members = ffi::lua_gettop(state) - 1;
        forget_wait(core, slot);
        (*core).sever(slot, place);
        if token {
            abandon(state, members + 1);
        }
        ffi::lua_pop(state, 1);
        if close_members(core, state, top + 1, members, thread) {
            return false;
        }
        ffi::lua_settop(state, top);
        true
    }
}

/// Pushes the coroutines of a task's chain from the number `first` inwards, then what its wait's token is
/// to be abandoned, or nil: then false.
///
/// # Safety
/// `state` is the running state. May raise, before anything changes.
pub(super) unsafe fn push_members(
    core: *mut Core,
    state: *mut lua_State,
    slot: Slot,
    first: usize,
) -> bool {
    // SAFETY: a member's state is valid while it is in the chain; a suspended wait's token is in the
    // first slot of its frame.
    unsafe {
        let count = (*core).task(slot).parents.len() + 1;
        ffi::luaL_checkstack(state, (count - first) as c_int + 8, std::ptr::null());
        for at in first..count {
            let task = (*core).task(slot);
            let parent = task.parents.get(at).copied();
            let member = parent.unwrap_or(task.front);
            let gone = parent.is_none() && task.phase == Phase::Severed;
            if !gone && !member.is_null() {
                push_thread(state, member);
            }
        }
        let task = (*core).task(slot);
        let waits =
            matches!(task.phase, Phase::Waiting) || task.phase == Phase::Woken && !task.interrupted;
        if !waits || matches!(task.token, Token::Session(_)) {
            ffi::lua_pushnil(state);
            return false;
        }
        let front = task.front;
        if ffi::lua_checkstack(front, 1) == 0 {
            raise(state, Text::new("not enough memory"));
        }
        ffi::lua_pushvalue(front, 1);
        ffi::lua_xmove(front, state, 1);
        true
    }
}

/// Pushes a coroutine.
///
/// # Safety
/// Both states are valid, and `state` is the running one; may raise a memory error.
pub(super) unsafe fn push_thread(state: *mut lua_State, thread: *mut lua_State) {
    // SAFETY: it has room for itself.
    unsafe {
        if ffi::lua_checkstack(thread, 1) == 0 {
            raise(state, Text::new("not enough memory"));
        }
        ffi::lua_pushthread(thread);
        ffi::lua_xmove(thread, state, 1);
    }
}

/// A task that is about to be closed waits no more.
unsafe fn forget_wait(core: *mut Core, slot: Slot) {
    // SAFETY: a thin shell.
    unsafe {
        let task = (*core).task(slot);
        let (token, errand) = (task.token, task.errand);
        if task.phase == Phase::Waiting {
            (*core).waiting.remove(token);
            if matches!(token, Token::Session(_))
                && let Some(host) = (*core).host
            {
                (host.cancelled)(host.data, errand);
            }
        }
        if !(*core).task(slot).guard.is_null() {
            (*core).hold(slot);
        }
    }
}

/// Closes the coroutine at `index`; false when a `<close>` variable raised: then the error is pushed.
pub(super) unsafe fn close(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: 5 free stack slots are left in every caller.
    unsafe {
        let index = ffi::lua_absindex(state, index);
        push_close(state);
        if ffi::lua_type(state, -1) == ffi::LUA_TNIL {
            ffi::lua_pop(state, 1);
            return true;
        }
        ffi::lua_pushvalue(state, index);
        // It raises where calls of C are too deep.
        if ffi::lua_pcall(state, 1, 2, 0) != ffi::LUA_OK {
            return false;
        }
        if ffi::lua_toboolean(state, -2) != 0 {
            ffi::lua_pop(state, 2);
            return true;
        }
        ffi::lua_rotate(state, -2, -1);
        ffi::lua_pop(state, 1);
        false
    }
}

/// `task.kill(co)` → true; nil when it is no living task. Closes it at its wait; its `<close>` variables
/// run. A task that runs, or is in the middle of a call, cannot be killed.
pub(super) unsafe extern "C-unwind" fn kill(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        let core = this(state);
        match end_task(core, state, 1, false) {
            Ended::Yes => ffi::lua_pushboolean(state, 1),
            Ended::NoTask => ffi::lua_pushnil(state),
            Ended::Running => {
                let own = (*core).current() == (*core).slot_of(ffi::lua_tothread(state, 1));
                raise(
                    state,
                    Text::new(match own {
                        true => "kill: a task cannot kill itself",
                        false => "kill: the task is in the middle of a call",
                    }),
                )
            }
        }
        1
    }
}

/// `task.kill_all()`: kills every task (but the running one, if any), and those that they fork while they
/// end.
pub(super) unsafe extern "C-unwind" fn kill_all(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what the tasks' ends run may change the books, so each step looks anew.
    unsafe {
        let core = this(state);
        loop {
            let mut again = false;
            let mut slot = 0;
            while (slot as usize) < (*core).tasks.len() {
                if (*core).is_living(slot) {
                    push_thread(state, (*core).task(slot).thread);
                    again |= end_task(core, state, -1, false) == Ended::Yes;
                    ffi::lua_pop(state, 1);
                }
                slot += 1;
            }
            if !again {
                return 0;
            }
        }
    }
}
