//! The functions that the core calls when something happens to a task: `on_abandon`, `on_end`, `on_error`; and
//! what it writes itself. They stand in the anchors' table, at the indices below 1, with what else must be
//! at hand without an allocation.

use super::core::{Core, Slot};
use super::ends::close;
use super::lua::this;
use super::pool::{push_anchors, push_coroutine};
use crate::raw::args;
use crate::raw::function;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::io::Write;

/// Lua's own `coroutine.close`, the function of `on_abandon`, and the module.
const CLOSE: i64 = 0;
const ABANDON: i64 = -1;
const MODULE: i64 = -2;
/// The function of `on_end`.
const END: i64 = -3;
/// The message about a lost task, made beforehand.
pub(super) const LOST: i64 = -4;
/// What `lost.rs` keeps: a token → the guard of the task that waits on it.
pub(super) const GUARDS: i64 = -5;

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

/// Pushes Lua's own `coroutine.close`.
///
/// # Safety
/// `state` is valid, with 2 free stack slots; the core has been made.
pub(super) unsafe fn push_close(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        push_anchors(state);
        ffi::lua_rawgeti(state, -1, CLOSE);
        ffi::lua_rotate(state, -2, -1);
        ffi::lua_pop(state, 1);
    }
}

/// Calls the function of `on_abandon` with the value at `index`.
///
/// # Safety
/// `state` is the running state, with 6 free stack slots.
pub(super) unsafe fn abandon(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        push_anchors(state);
        if ffi::lua_rawgeti(state, -1, ABANDON) == ffi::LUA_TNIL {
            ffi::lua_pop(state, 2);
            return;
        }
        ffi::lua_pushvalue(state, index);
        if ffi::lua_pcall(state, 1, 0, 0) != ffi::LUA_OK {
            complain_and_pop(state, c"error in on_abandon: ");
        }
        ffi::lua_pop(state, 1);
    }
}

/// `task.on_abandon(f)`: calls `f(token)` when a wait ends without what it waited for: by an interrupt, by
/// the task being killed, also between its wakeup and its run, or because the caller cannot wait at all.
/// For who hands turns round. One `f` at a time.
pub(super) unsafe extern "C-unwind" fn on_abandon(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        push_anchors(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_rawseti(state, 1, ABANDON);
        0
    }
}

/// `task.on_end(f)`: calls `f(co)` when a task fails, or one ends that `watch_end` was called in. One `f`
/// at a time.
pub(super) unsafe extern "C-unwind" fn on_end(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        push_anchors(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_rawseti(state, 1, END);
        0
    }
}

/// `task.watch_end()`: the function of `on_end` will hear of the running task's end.
pub(super) unsafe extern "C-unwind" fn watch_end(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if let Some(slot) = (*core).current() {
            (*core).task(slot).watched = true;
        }
        0
    }
}

/// Calls the function of `on_end`, if it is to hear of this task, whose coroutine is still there.
///
/// # Safety
/// `state` is the running state, with 5 free stack slots.
#[inline]
pub(super) unsafe fn tell_end(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: a thin shell.
    unsafe {
        if (*core).task(slot).watched {
            (*core).task(slot).watched = false;
            push_coroutine(state, slot);
            call_end(state, ffi::lua_gettop(state));
            ffi::lua_pop(state, 1);
        }
    }
}

/// The same for the coroutine at `index`.
#[cold]
pub(super) unsafe fn call_end(state: *mut lua_State, index: c_int) {
    // SAFETY: the call is protected; there is nobody to tell of an error in it but who reads the log.
    unsafe {
        let top = ffi::lua_gettop(state);
        push_anchors(state);
        if ffi::lua_rawgeti(state, -1, END) != ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, index);
            if ffi::lua_pcall(state, 1, 0, 0) != ffi::LUA_OK {
                complain_and_pop(state, c"error in on_end: ");
            }
        }
        ffi::lua_settop(state, top);
    }
}

/// Writes `what` and the value on top to standard error, if there is memory for that, and pops it.
///
/// # Safety
/// `state` is the running state, with 2 free stack slots.
pub(super) unsafe fn complain_and_pop(state: *mut lua_State, what: &'static CStr) {
    // SAFETY: pushing a light function allocates nothing, and the call is protected.
    unsafe {
        let top = ffi::lua_gettop(state);
        function!(complain_of).push(state, 0);
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_pushlightuserdata(state, what.as_ptr().cast_mut().cast());
        ffi::lua_pcall(state, 2, 0, 0);
        ffi::lua_settop(state, top - 1);
    }
}

/// (value, what)
unsafe extern "C-unwind" fn complain_of(state: *mut lua_State) -> c_int {
    // SAFETY: called by `complain_and_pop`.
    unsafe {
        let what = ffi::lua_touserdata(state, 2).cast_const().cast();
        ffi::lua_settop(state, 1);
        complain(state, CStr::from_ptr(what));
        0
    }
}

/// Enters the module's table, which is on top of the stack: its `on_error` is called with failures.
///
/// # Safety
/// `state` is the running state, with 2 free stack slots; may raise.
pub(super) unsafe fn enter_module(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        push_anchors(state);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, MODULE);
        ffi::lua_pop(state, 1);
    }
}

/// `task.on_error(message [, co])`: called with the error of a task that raised, and its coroutine, if that
/// still has its stack. Another function in its place logs elsewhere. This one writes message and
/// traceback to standard error.
pub(super) unsafe extern "C-unwind" fn on_error(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 2);
        if ffi::lua_type(state, 1) != ffi::LUA_TSTRING {
            if ffi::luaL_getmetafield(state, 1, c"__tostring".as_ptr()) != ffi::LUA_TNIL {
                ffi::luaL_tolstring(state, 1, std::ptr::null_mut());
            } else {
                let kind = ffi::luaL_typename(state, 1);
                ffi::lua_pushfstring(state, c"(error object is a %s value)".as_ptr(), kind);
            }
            ffi::lua_copy(state, -1, 1);
        }
        let thread = ffi::lua_tothread(state, 2);
        if thread.is_null() {
            ffi::lua_settop(state, 1);
        } else {
            ffi::luaL_traceback(state, thread, ffi::lua_tostring(state, 1), 0);
        }
        complain(state, c"");
        0
    }
}

/// Hands a failed task to `on_error`, unless a host was `told`, and closes the coroutine.
///
/// # Safety
/// `state` is the running state, with 5 free stack slots. The error is on top of the coroutine's stack.
pub(super) unsafe fn report(state: *mut lua_State, slot: Slot, thread: *mut lua_State, told: bool) {
    // SAFETY: pushing a light function allocates nothing, and the call is protected: an error out of it
    // is a lack of memory, and has no better place to go to.
    unsafe {
        let top = ffi::lua_gettop(state);
        function!(fail).push(state, 0);
        push_coroutine(state, slot);
        ffi::lua_xmove(thread, state, 1);
        ffi::lua_pushboolean(state, told.into());
        ffi::lua_pcall(state, 3, 0, 0);
        ffi::lua_settop(state, top);
    }
}

/// Calls `on_error` with the two values on top, a message and a coroutine.
///
/// # Safety
/// `state` is the running state, with 4 free stack slots; may raise.
pub(super) unsafe fn tell_error(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state) - 2;
        push_anchors(state);
        if ffi::lua_rawgeti(state, -1, MODULE) != ffi::LUA_TNIL {
            ffi::lua_getfield(state, -1, c"on_error".as_ptr());
            ffi::lua_pushvalue(state, top + 1);
            ffi::lua_pushvalue(state, top + 2);
            if ffi::lua_pcall(state, 2, 0, 0) != ffi::LUA_OK {
                complain(state, c"error in on_error: ");
            }
        }
        ffi::lua_settop(state, top);
    }
}

/// (coroutine, error, whether a host was told)
unsafe extern "C-unwind" fn fail(state: *mut lua_State) -> c_int {
    // SAFETY: called by `report`.
    unsafe {
        let told = ffi::lua_toboolean(state, 3) != 0;
        if !told {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushvalue(state, 1);
            tell_error(state);
        }
        if !close(state, 1) && ffi::lua_rawequal(state, -1, 2) == 0 {
            complain(state, c"error while closing a task: ");
        }
        0
    }
}

/// Writes `what` and the value on top to standard error.
pub(super) unsafe fn complain(state: *mut lua_State, what: &CStr) {
    // SAFETY: plain stack work; the value stays.
    unsafe {
        ffi::lua_pushstring(state, c"lio: ".as_ptr());
        ffi::lua_pushstring(state, what.as_ptr());
        ffi::luaL_tolstring(state, -3, std::ptr::null_mut());
        ffi::lua_pushstring(state, c"\n".as_ptr());
        ffi::lua_concat(state, 4);
        let line = args::bytes(state, -1);
        // There is nowhere to complain of this one.
        let _ = std::io::stderr().write_all(line);
        ffi::lua_pop(state, 1);
    }
}
