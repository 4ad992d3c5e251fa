//! Ends of tasks that are not a return: kills, failures, and waits without their waker. The functions
//! to be called then stand in the anchors' table, at the indices below 1.

use super::core::{Phase, Slot};
use super::lua::{living, this};
use super::pool::{self, push_anchors};
use super::run::tell_killed;
use super::token::Token;
use crate::lua::{Text, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// Where the table holds `coroutine.close`, the function of `on_abandon`, and the handler of failed tasks.
const CLOSE: i64 = 0;
const ABANDON: i64 = -1;
const FAILURE: i64 = -2;

/// Puts `coroutine.close` into the new anchors' table on top of the stack.
///
/// # Safety
/// `state` is valid, with 4 free stack slots; may raise.
pub(super) unsafe fn enter_close(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        // A VM without that library cannot close: `<close>` variables are not run then.
        if ffi::lua_getfield(state, -1, c"coroutine".as_ptr()) == ffi::LUA_TTABLE {
            ffi::lua_getfield(state, -1, c"close".as_ptr());
            ffi::lua_rawseti(state, top, CLOSE);
        }
        ffi::lua_settop(state, top);
    }
}

/// Calls the function of `on_abandon` with the value at `index`.
///
/// # Safety
/// `state` is the running state, with 3 free stack slots; may raise.
pub(super) unsafe fn abandon(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        push_anchors(state);
        if ffi::lua_rawgeti(state, -1, ABANDON) == ffi::LUA_TNIL {
            ffi::lua_pop(state, 2);
            return;
        }
        ffi::lua_pushvalue(state, index);
        ffi::lua_call(state, 1, 0);
        ffi::lua_pop(state, 1);
    }
}

/// `core.drop(co)` → true: it is no task any more, and the caller must close it; nil when it was none;
/// false when it is the running one.
pub(super) unsafe extern "C-unwind" fn drop_task(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; a suspended wait's token is in the first slot of its frame.
    unsafe {
        let core = this(state);
        ffi::lua_settop(state, 1);
        let Some(slot) = living(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        if (*core).current() == Some(slot) {
            ffi::lua_pushboolean(state, 0);
            return 1;
        }
        let task = (*core).task(slot);
        let (phase, token, tag, thread) = (task.phase, task.token, task.tag, task.thread);
        let waits = phase == Phase::Waiting || phase == Phase::Woken && !task.interrupted;
        let heard = waits && !matches!(token, Token::Session(_));
        if heard {
            if ffi::lua_checkstack(thread, 1) == 0 {
                raise(state, Text::new("not enough memory"));
            }
            ffi::lua_pushvalue(thread, 1);
            ffi::lua_xmove(thread, state, 1);
        }
        if phase == Phase::Waiting {
            (*core).waiting.remove(&token);
        }
        (*core).count -= 1;
        pool::discard(core, state, slot);
        tell_killed(core, state, tag);
        if heard {
            abandon(state, 2);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

unsafe fn set_handler(state: *mut lua_State, at: i64) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        push_anchors(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_rawseti(state, 1, at);
        0
    }
}

/// `task.on_abandon(f)`: calls `f(token)` when a wait ends without what it waited for: by an interrupt, by
/// the task being killed, also between its wakeup and its run, or because the caller cannot wait at all.
/// For who hands turns round. One `f` at a time.
pub(super) unsafe extern "C-unwind" fn on_abandon(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { set_handler(state, ABANDON) }
}

/// `core.on_failure(f)`: calls `f(error, co)` for a task that raised, unless a host is told; `f` must
/// close the coroutine. Without an `f` the core closes it, and the error is lost.
pub(super) unsafe extern "C-unwind" fn on_failure(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { set_handler(state, FAILURE) }
}

/// Hands a failed task to the handler; when the host was `told`, or there is no handler, only closes the
/// coroutine.
///
/// # Safety
/// `state` is the running state, with 5 free stack slots. The error is on top of the coroutine's stack.
pub(super) unsafe fn report(state: *mut lua_State, slot: Slot, thread: *mut lua_State, told: bool) {
    // SAFETY: the calls are protected; an error out of them could only be a lack of memory.
    unsafe {
        let top = ffi::lua_gettop(state);
        push_anchors(state);
        let mut values = 1;
        if !told && ffi::lua_rawgeti(state, -1, FAILURE) != ffi::LUA_TNIL {
            ffi::lua_xmove(thread, state, 1);
            values = 2;
        } else if ffi::lua_rawgeti(state, top + 1, CLOSE) == ffi::LUA_TNIL {
            ffi::lua_settop(state, top);
            return;
        }
        ffi::lua_rawgeti(state, top + 1, i64::from(slot) + 1);
        ffi::lua_pcall(state, values, 0, 0);
        ffi::lua_settop(state, top);
    }
}
