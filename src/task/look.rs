//! What can be learned of tasks from outside: `lio.tasks` is made of it.

use super::core::{Core, Errand, Phase, Slot};
use super::ends::push_members;
use super::lua::{living, this};
use super::pool::push_coroutine;
use super::token::Token;
use crate::event::clock::thread_nanos;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// `lio.tasks`. // bridge
pub(crate) const TASKS: crate::raw::Function = crate::raw::function!(tasks);

/// `lio.tasks()` → what each task of this VM is doing: see lualib/lio/tasks.lua.
unsafe extern "C-unwind" fn tasks(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 0);
        ffi::lua_getglobal(state, c"require".as_ptr());
        ffi::lua_pushstring(state, c"lio.tasks".as_ptr());
        ffi::lua_call(state, 1, 1);
        ffi::lua_call(state, 0, 1);
        1
    }
}

/// `task.current()` → the running task's own coroutine; nil outside of tasks.
pub(super) unsafe extern "C-unwind" fn current(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        match (*this(state)).current() {
            Some(slot) => push_coroutine(state, slot),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `task.is_idle(co)` → whether the coroutine is a living task's own, and that neither runs nor is in the
/// middle of a call.
pub(super) unsafe extern "C-unwind" fn is_idle(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        let idle = living(core, state, 1).is_some_and(|slot| (*core).is_idle(slot));
        ffi::lua_pushboolean(state, idle.into());
        1
    }
}

/// Adds what the present resume of a slot's task has taken so far.
pub(super) fn book(core: &mut Core, slot: Slot) {
    let now = thread_nanos();
    let task = core.task(slot);
    // 0: it was resumed before the measuring began.
    if task.since != 0 {
        task.spent += now.saturating_sub(task.since);
    }
    task.since = now;
}

/// `task.busy()` → seconds of CPU time that the running task has taken, from some point on: differences are
/// what counts. nil outside of tasks. From the first call on, each resume of a task is measured.
pub(super) unsafe extern "C-unwind" fn busy(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        let Some(slot) = (*core).current() else {
            ffi::lua_pushnil(state);
            return 1;
        };
        (*core).metering = true;
        book(&mut *core, slot);
        ffi::lua_pushnumber(state, (*core).task(slot).spent as f64 / 1e9);
        1
    }
}

/// `task.look(co)` → of the living task of that coroutine: its age in seconds; "running", "ready" or
/// "waiting"; the coroutines that are resuming each other, from the innermost outwards; and when it waits,
/// "token" and the token, or "answer" and the service asked, "timer", "session", and the session. nil for
/// any other.
pub(super) unsafe extern "C-unwind" fn look(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; a member's state is valid, and has room for itself.
    unsafe {
        ffi::luaL_checkstack(state, 8, std::ptr::null());
        let core = this(state);
        let Some(slot) = living(core, state, 1) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        let task = (*core).task(slot);
        let (phase, token, errand) = (task.phase, task.token, task.errand);
        let age = crate::event::clock::monotonic_nanos().saturating_sub(task.born);
        ffi::lua_pushnumber(state, age as f64 / 1e9);
        let status = match phase {
            Phase::Running => c"running",
            Phase::Waiting | Phase::Lost | Phase::Buried => c"waiting",
            _ => c"ready",
        };
        ffi::lua_pushstring(state, status.as_ptr());
        let base = ffi::lua_gettop(state);
        // The wait first: what is allocated later may run code that ends it.
        let wait = match status == c"waiting" {
            true => push_wait(state, (*core).thread(slot), token, errand),
            false => 0,
        };
        push_running(core, state, slot);
        let inner = ffi::lua_gettop(state);
        push_members(core, state, slot, 0);
        let end = ffi::lua_gettop(state) - 1;
        ffi::lua_createtable(state, end - base - wait, 0);
        let mut place = 0;
        // The running ones come innermost first, the chain's from the task's own inwards.
        for at in (base + wait + 1..=inner).chain((inner + 1..=end).rev()) {
            place += 1;
            ffi::lua_pushvalue(state, at);
            ffi::lua_rawseti(state, -2, place);
        }
        ffi::lua_replace(state, base + wait + 1);
        ffi::lua_settop(state, base + wait + 1);
        // In front of the wait.
        ffi::lua_rotate(state, base + 1, 1);
        3 + wait
    }
}

/// Pushes the coroutines that the running task's front is resuming, from the innermost outwards.
unsafe fn push_running(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: each is running or resuming another, so it is alive and has room for itself or makes it.
    unsafe {
        if (*core).current() != Some(slot) {
            return;
        }
        let mut links = 0;
        (*core).for_each_link(|_, _| links += 1);
        ffi::luaL_checkstack(state, links + 8, std::ptr::null());
        (*core).for_each_link(|_, to| {
            if ffi::lua_checkstack(to, 1) != 0 {
                ffi::lua_pushthread(to);
                ffi::lua_xmove(to, state, 1);
            }
        });
    }
}

unsafe fn push_wait(
    state: *mut lua_State,
    front: *mut lua_State,
    token: Token,
    errand: Errand,
) -> c_int {
    // SAFETY: the token is in the first slot of the wait's frame.
    unsafe {
        let word = match (token, errand) {
            (Token::Session(_), Errand::Call(_)) => c"answer",
            (Token::Session(_), Errand::Timer(_)) => c"timer",
            (Token::Session(_), Errand::Other) => c"session",
            _ => c"token",
        };
        ffi::lua_pushstring(state, word.as_ptr());
        match (token, errand) {
            (Token::Session(session), _) => {
                match errand {
                    Errand::Call(service) => ffi::lua_pushinteger(state, service.into()),
                    _ => ffi::lua_pushnil(state),
                }
                ffi::lua_pushinteger(state, session);
                3
            }
            _ if ffi::lua_checkstack(front, 1) != 0 => {
                ffi::lua_pushvalue(front, 1);
                ffi::lua_xmove(front, state, 1);
                2
            }
            _ => 1,
        }
    }
}
