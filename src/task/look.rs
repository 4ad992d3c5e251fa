//! What can be learned of tasks from outside: `lio.tasks` is made of it.

use super::core::{Errand, Phase};
use super::lua::{living, this};
use super::pool::push_coroutine;
use super::token::Token;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// `lio.tasks()` → what each task of this VM is doing: see lualib/lio/tasks.lua.
pub(crate) unsafe extern "C-unwind" fn tasks(state: *mut lua_State) -> c_int {
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

/// `task.look(co)` → of the living task of that coroutine: its age in seconds; "running", "ready" or
/// "waiting"; the coroutines that are resuming each other, from the innermost outwards; and when it waits,
/// "token" and the token, or "answer" and the service asked, "timer", "session". nil for any other.
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
        let age = crate::timer::monotonic_nanos().saturating_sub(task.born);
        ffi::lua_pushnumber(state, age as f64 / 1e9);
        let status = match phase {
            Phase::Running => c"running",
            Phase::Waiting | Phase::Lost => c"waiting",
            _ => c"ready",
        };
        ffi::lua_pushstring(state, status.as_ptr());
        ffi::lua_createtable(state, 1, 0);
        let count = (*core).task(slot).parents.len();
        for at in 0..=count {
            let task = (*core).task(slot);
            let member = match at {
                0 => task.front,
                _ => task.parents.get(count - at).copied().unwrap_or(task.thread),
            };
            if !member.is_null() && ffi::lua_checkstack(member, 1) != 0 {
                ffi::lua_pushthread(member);
                ffi::lua_xmove(member, state, 1);
                ffi::lua_rawseti(state, -2, ffi::lua_rawlen(state, -2) as i64 + 1);
            }
        }
        if status != c"waiting" {
            return 3;
        }
        3 + push_wait(state, (*core).thread(slot), token, errand)
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
            (Token::Session(_), Errand::Call(service)) => {
                ffi::lua_pushinteger(state, service.into());
                2
            }
            (Token::Session(_), _) => 1,
            _ if ffi::lua_checkstack(front, 1) != 0 => {
                ffi::lua_pushvalue(front, 1);
                ffi::lua_xmove(front, state, 1);
                2
            }
            _ => 1,
        }
    }
}
