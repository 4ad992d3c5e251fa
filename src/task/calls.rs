//! The calls of `lio.task` that make, suspend, wake and run tasks.
//!
//! What may raise comes before the books are touched, and values reach a coroutine that does not run by
//! `lua_xmove` alone.

use super::core::{Core, How, Slot, Tag};
use super::hooks::abandon;
use super::lua::this;
use super::refuse::raise_cannot_wait;
use super::token::Token;
use crate::event::clock::monotonic_nanos;
use crate::raw::{Text, continuation, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// So many values fit on the stack of a fresh or waiting coroutine without asking.
const ROOM: c_int = 16;
/// So many tasks are started inside each other; Lua allows 200 levels of C calls, of which one needs two
/// or three.
const DEEPEST: u32 = 32;

/// A coroutine with the function and arguments that are on `state`'s stack, which they leave.
unsafe fn take_over(core: *mut Core, state: *mut lua_State) -> (Slot, *mut lua_State, c_int) {
    // SAFETY: a thin shell; the moved values have room.
    unsafe {
        let values = ffi::lua_gettop(state);
        let slot = Core::acquire(core, state);
        let thread = (*core).thread(slot);
        if values > ROOM && ffi::lua_checkstack(thread, values) == 0 {
            Core::release(core, slot);
            raise(state, Text::new("too many arguments for a task"));
        }
        (slot, thread, values)
    }
}

/// `task.fork(f, …)` → the task's coroutine. It runs after what is queued already.
pub(super) unsafe extern "C-unwind" fn fork(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if ffi::lua_type(state, 1) != ffi::LUA_TFUNCTION {
            check_callable(state);
        }
        let (slot, thread, values) = take_over(core, state);
        // The result: below the function and its arguments, which are moved off.
        ffi::lua_pushthread(thread);
        ffi::lua_xmove(thread, state, 1);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_xmove(state, thread, values);
        Core::enqueue(core, slot, values - 1, Tag::default());
        1
    }
}

#[cold]
unsafe fn check_callable(state: *mut lua_State) {
    // SAFETY: the type's name is a static string of Lua's.
    unsafe {
        if ffi::luaL_getmetafield(state, 1, c"__call".as_ptr()) != ffi::LUA_TNIL {
            ffi::lua_pop(state, 1);
            return;
        }
        let kind = CStr::from_ptr(ffi::luaL_typename(state, 1)).to_string_lossy();
        // A borrowed text: the names are ASCII.
        let message = Text::format(format_args!(
            "bad argument #1 to 'fork' (function expected, got {kind})"
        ));
        drop(kind);
        raise(state, message);
    }
}

/// `task.start(f, …)`: runs `f` as a task now, up to its first wait; inside a task it is as `fork`.
pub(super) unsafe extern "C-unwind" fn start(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; with no argument at all, nil is what cannot be called.
    unsafe {
        let core = this(state);
        if ffi::lua_gettop(state) == 0 {
            ffi::lua_pushnil(state);
        }
        if (*core).current().is_some() {
            return fork(state);
        }
        let (slot, thread, values) = take_over(core, state);
        ffi::lua_xmove(state, thread, values);
        Core::start(core, state, slot, values - 1, Tag::default());
        0
    }
}

/// `task.spawn(f, …)` → the task's coroutine. Runs `f` as a task now, up to its first wait, also inside a
/// task. Nested deeper than a stack of C allows, it is as `fork`.
pub(super) unsafe extern "C-unwind" fn spawn(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if (*core).depth >= DEEPEST {
            return fork(state);
        }
        if ffi::lua_type(state, 1) != ffi::LUA_TFUNCTION {
            check_callable(state);
        }
        let (slot, thread, values) = take_over(core, state);
        ffi::lua_pushthread(thread);
        ffi::lua_xmove(thread, state, 1);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_xmove(state, thread, values);
        (*core).depth += 1;
        Core::start(core, state, slot, values - 1, Tag::default());
        (*core).depth -= 1;
        1
    }
}

/// `task.wait([token])` → the values that `wakeup` was given. `token` is any value but nil, the running
/// coroutine when absent. Raises outside a task, where Lua cannot yield, and when somebody waits on the
/// token already.
pub(super) unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the token stays in the first stack slot while the task waits.
    unsafe {
        let core = this(state);
        if ffi::lua_type(state, 1) <= ffi::LUA_TNIL {
            ffi::lua_settop(state, 0);
            ffi::lua_pushthread(state);
        } else {
            ffi::lua_settop(state, 1);
        }
        let Some(slot) = Core::can_wait(core, state) else {
            return refuse(core, state);
        };
        let Some(token) = Token::read(state, 1, &(*core).keys) else {
            raise(state, Text::new("wait: the token is not a number"));
        };
        if (*core).park(slot, token).is_err() {
            raise(
                state,
                Text::new("wait: somebody waits on this token already"),
            );
        }
        ffi::lua_yieldk(state, 0, 0, Some(continuation!(waited)))
    }
}

/// The end of `wait`: behind the token lie the values, or the error of an interrupt.
unsafe extern "C-unwind" fn waited(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the continuation runs in the frame of `wait`, so its upvalue is at hand.
    unsafe {
        if (*this(state)).take_interrupt(state) {
            ffi::lua_error(state);
        }
        ffi::lua_gettop(state) - 1
    }
}

#[cold]
unsafe fn refuse(core: *mut Core, state: *mut lua_State) -> c_int {
    // SAFETY: the token is in the first stack slot.
    unsafe {
        abandon(state, 1);
        raise_cannot_wait(core, state, "wait")
    }
}

/// Takes out the waiter of the token in the first stack slot.
unsafe fn waiter(core: *mut Core, state: *mut lua_State) -> Option<Slot> {
    // SAFETY: a thin shell.
    unsafe { (*core).take_waiter(Token::read(state, 1, &(*core).keys)?) }
}

/// `task.wakeup(token, …)` → true; nil when nobody waits on the token. The values are what `wait` returns.
pub(super) unsafe extern "C-unwind" fn wakeup(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the moved values have room.
    unsafe {
        let core = this(state);
        let Some(slot) = waiter(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        let values = (ffi::lua_gettop(state) - 1).max(0);
        if values > 0 {
            let thread = (*core).thread(slot);
            if values > ROOM && ffi::lua_checkstack(thread, values) == 0 {
                (*core).put_back(slot);
                raise(state, Text::new("too many values for a wakeup"));
            }
            ffi::lua_xmove(state, thread, values);
        }
        Core::wake(core, slot, values, How::Woken);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `task.interrupt(token, err)` → true; nil when nobody waits. The wait raises `err`.
pub(super) unsafe extern "C-unwind" fn interrupt(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; one value has room.
    unsafe {
        let core = this(state);
        ffi::lua_settop(state, 2);
        let Some(slot) = waiter(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        ffi::lua_xmove(state, (*core).thread(slot), 1);
        Core::wake(core, slot, 1, How::Interrupted);
        abandon(state, 1);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `task.run_ready()`: runs what is queued now. What these tasks queue is left for the next call, so that
/// a caller can look after I/O in between. Returns whether there is more.
pub(super) unsafe extern "C-unwind" fn run_ready(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if (*core).current().is_some() {
            raise(state, Text::new("run_ready: called from inside a task"));
        }
        (*core).now = monotonic_nanos();
        Core::tend(core, state);
        let more = Core::run_ready(core, state);
        ffi::lua_pushboolean(state, more.into());
        1
    }
}
