//! The events of a selector's wait for `lualib/lio/net.lua`: requests of the web server are taken here, and where the
//! tasks are those of `lio.task` who waits to read is woken, a whole batch in one call from Lua. What else there
//! is goes to Lua, in order.

use crate::event::READ;
use crate::http::due;
use crate::raw::function;
use crate::raw::object::{self, Block};
use crate::raw::selector::{Loop, Selector, next_ready, push_guard, push_udatas};
use crate::stream::Stream;
use crate::task::{Core, How, Token, this};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// `stream.pump(selector, wakes)` → an iterator, in the place of the one of `selector:wait`, and the closing value of the
/// `for` over it. `wakes`: whether the
/// userdata registered are what tasks of `lio.task` wait on.
pub(super) unsafe extern "C-unwind" fn pump(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        object::check::<Selector>(state, 1);
        let core = match ffi::lua_toboolean(state, 2) != 0 {
            true => Core::of(state),
            false => std::ptr::null_mut(),
        };
        ffi::lua_pushlightuserdata(state, core.cast());
        ffi::lua_pushvalue(state, 1);
        function!(next).push(state, 2);
        push_guard(state, 1);
        2
    }
}

unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; no reference into the core is held across a call of Lua's.
    unsafe {
        let wakes = !ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).is_null();
        let core = if wakes {
            this(state)
        } else {
            std::ptr::null_mut()
        };
        let selector = ffi::lua_upvalueindex(2);
        push_udatas(state, selector);
        let udatas = ffi::lua_gettop(state);
        let mut list = 0;
        while let Some(event) = next_ready(state, selector, udatas - 1, Loop::Guarded) {
            let kind = ffi::lua_rawgeti(state, udatas, event.place as i64);
            if kind == ffi::LUA_TNIL {
                ffi::lua_pop(state, 1);
                continue;
            }
            let block = Block::at(state, -1);
            let address = match block.get::<Stream>() {
                Some(_) => block.address(),
                None if due::ready(state, selector, block, &mut list) == Some(true) => continue,
                // What is on top now.
                None => ffi::lua_touserdata(state, -1).addr(),
            };
            if event.events == i64::from(READ)
                && wakes
                && kind == ffi::LUA_TUSERDATA
                && wake(core, address)
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
unsafe fn wake(core: *mut Core, address: usize) -> bool {
    // SAFETY: who waits has room for a value; a boolean allocates nothing.
    unsafe {
        let token = Token::Object(ffi::LUA_TUSERDATA, address);
        let Some(slot) = (*core).take_waiter(token) else {
            return false;
        };
        ffi::lua_pushboolean((*core).thread(slot), 1);
        Core::wake(core, slot, 1, How::Woken);
        true
    }
}
