//! Wakers as Lua sees them: what makes a selector's wait return, from any thread, see `event/waker.rs`.

use super::lua::{Selector, open_core};
use crate::event;
use crate::event::waker::{handle_of, of_handle};
use crate::lua::{self, Call};
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, functions, guard, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::sync::Arc;

struct Waker(Arc<event::Waker>);

impl Object for Waker {
    const NAME: &'static CStr = c"lio.waker";
    const METHODS: &'static [(&'static CStr, Function)] =
        functions![(c"wake", wake), (c"handle", waker_handle)];
}

/// `sel:waker()` → an object whose `wake()` makes a blocked or the next wait return, from any thread.
pub(super) unsafe extern "C-unwind" fn waker(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what `push_new` makes is owned by Lua before anything can raise.
    unsafe {
        open_core(state);
        let selector = object::check::<Selector>(state, 1);
        // Looked at again: making the userdata may run a finalizer that closes the selector.
        let made = object::push_new(state, || match &(*selector).core {
            Some(core) => core
                .waker()
                .map(Waker)
                .map_err(|error| Fault::io("waker", &error)),
            None => Err(Fault::word("waker", "selector is closed", "closed")),
        });
        match made {
            Ok(_) => 1,
            Err(fault) => fault.push(state),
        }
    }
}

/// The waker at argument `index`.
pub(crate) fn waker_argument(
    call: &Call<'_>,
    index: c_int,
) -> Result<Arc<event::Waker>, lua::Fault> {
    Ok(call.object::<Waker>(index)?.0.clone())
}

/// `waker:wake()` → `true`. Many wakes in a row cost one system call.
unsafe extern "C-unwind" fn wake(state: *mut lua_State) -> c_int {
    // SAFETY: as for `waker`.
    unsafe {
        let waker = object::check::<Waker>(state, 1);
        let woken = (*waker).0.wake().map_err(|error| Fault::io("wake", &error));
        match woken {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `waker:handle()` → a lightuserdata that `lio.waker` in any VM of the process turns into a waker.
unsafe extern "C-unwind" fn waker_handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `waker`; the handle is a number, never followed.
    unsafe {
        let waker = object::check::<Waker>(state, 1);
        let handle = settle(state, guard(|| Ok(handle_of(&(*waker).0))));
        ffi::lua_pushlightuserdata(state, handle as *mut c_void);
        1
    }
}

/// `lio.waker(handle)` → a waker of another VM's selector, or `nil, message, code` when that is gone.
pub(super) unsafe extern "C-unwind" fn take(state: *mut lua_State) -> c_int {
    // SAFETY: as for `waker`.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TLIGHTUSERDATA);
        let handle = ffi::lua_touserdata(state, 1) as usize;
        let made = object::push_new(state, || of_handle(handle).map(Waker).ok_or(()));
        match made {
            Ok(_) => 1,
            Err(()) => Fault::word("waker", "its selector is gone", "closed").push(state),
        }
    }
}
