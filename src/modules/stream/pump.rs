//! The events of a selector's wait for `lualib/lio/net.lua`: where the tasks are those of `lio.task` who waits to read is
//! woken here, a whole batch in one call from Lua. What else there is goes to Lua, in order.

use crate::event::READ;
use crate::lua::Kind;
use crate::modules::task::{push_handle, tasks};
use crate::raw::function;
use crate::raw::object;
use crate::raw::selector::{Loop, Selector, next_ready, push_guard, push_udatas};
use crate::raw::tasks::{call, settle};
use crate::task::Token;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// `stream.pump(selector, wakes)` → an iterator, in the place of the one of `selector:wait`, and the closing value of the
/// `for` over it. `wakes`: whether the
/// userdata registered are what tasks of `lio.task` wait on.
pub(super) unsafe extern "C-unwind" fn pump(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        object::check::<Selector>(state, 1);
        match ffi::lua_toboolean(state, 2) != 0 {
            true => {
                settle(state, push_handle(&mut call(state)));
            }
            false => ffi::lua_pushboolean(state, 0),
        }
        ffi::lua_pushvalue(state, 1);
        function!(next).push(state, 2);
        push_guard(state, 1);
        2
    }
}

unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; no reference into the core is held across a call of Lua's.
    unsafe {
        let wakes = ffi::lua_type(state, ffi::lua_upvalueindex(1)) == ffi::LUA_TUSERDATA;
        let selector = ffi::lua_upvalueindex(2);
        push_udatas(state, selector);
        let udatas = ffi::lua_gettop(state);
        while let Some(event) = next_ready(state, selector, udatas - 1, Loop::Guarded) {
            let kind = ffi::lua_rawgeti(state, udatas, event.place as i64);
            if kind == ffi::LUA_TNIL {
                ffi::lua_pop(state, 1);
                continue;
            }
            let address = ffi::lua_touserdata(state, -1).addr();
            if event.events == i64::from(READ)
                && wakes
                && kind == ffi::LUA_TUSERDATA
                && wake(state, address)
            {
                ffi::lua_pop(state, 1);
                continue;
            }
            ffi::lua_pushinteger(state, event.events);
            return 2;
        }
        0
    }
}

/// Wakes the task that waits on the userdata at this address with true; false when none does.
unsafe fn wake(state: *mut lua_State, address: usize) -> bool {
    // SAFETY: nothing of Lua's runs meanwhile. // bridge
    let call = unsafe { call(state) };
    let token = Token::Object(Kind::Userdata, address);
    tasks(&call).is_ok_and(|tasks| tasks.wakeup_with(token, true))
}
