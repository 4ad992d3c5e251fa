//! `recv` and `send` as methods of connections in a VM whose tasks are those of `lio.task`: they move bytes at
//! once, or wait. What is rare is done by functions of `lualib/lio/net.lua`, which makes the two by
//! `stream.waiting`: a turn that somebody else has, the rest of a long message.
//!
//! Invariant: `Stream::turns` tells who has a turn. `HERE` is set from the wait of a `recv` of this file until that
//! call ends, and its token is the stream itself; the other turns stand in Lua's books, and `READING` and
//! `WRITING` say whether there is one.

use super::Stream;
use crate::raw::timer;
use crate::raw::{args, object};
use crate::task::Core;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// A turn to read, in Lua's books.
pub(crate) const READING: u8 = 1;
/// A turn to write, in Lua's books.
pub(crate) const WRITING: u8 = 2;
/// A task has the turn to read in a `recv` of this file.
pub(crate) const HERE: u8 = 4;
/// The same, and others queue for it.
pub(crate) const QUEUED: u8 = 8;
/// Waits for reading have a time limit, see [`Alarm`].
pub(crate) const LIMITED: u8 = 16;
/// Lua's books have, or had, an entry for it.
pub(crate) const BOOKED: u8 = 32;

/// How long a `recv` waits at most, and the timer that ends the wait. The timer is Lua's, which frees it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Alarm {
    pub(crate) nanos: u64,
    pub(crate) timer: u64,
}

/// `stream.waiting(timers, recv_in_turn, pass_on, send_in_turn, send_rest)` → `recv`, `send`. The functions get the
/// arguments of the call, `send_rest` with the bytes sent as second. `pass_on(c)` ends a turn to read. `timers`: a
/// `lio.timer` queue, see `stream.limit`.
pub(super) unsafe extern "C-unwind" fn waiting(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 5);
        let core = Core::of(state);
        use crate::modules::stream::transfer::{RECV, SEND};
        for (function, upvalues) in [(RECV, [2, 3, 1]), (SEND, [4, 5, 1])] {
            (*core).let_through(function);
            ffi::lua_pushlightuserdata(state, core.cast());
            for index in upvalues {
                ffi::lua_pushvalue(state, index);
            }
            function.push(state, 4);
        }
        2
    }
}

/// Sets or clears bits of the turns of the value at 1, if that is a connection.
unsafe fn change(state: *mut lua_State, clear: u8, set: u8) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        if let Some(stream) = object::test::<Stream>(state, 1) {
            (*stream).turns = (*stream).turns & !clear | set | BOOKED;
        }
        0
    }
}

/// `stream.book(x)`: Lua's books have an entry for it, as they have for what [`change`] is called for.
pub(super) unsafe extern "C-unwind" fn book(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { change(state, 0, 0) }
}

/// `stream.set_turn(x, writing, taken)`: somebody has the turn by Lua's books, or nobody has it.
pub(super) unsafe extern "C-unwind" fn set_turn(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let (all, bit) = match ffi::lua_toboolean(state, 2) != 0 {
            true => (WRITING, WRITING),
            false => (READING | HERE | QUEUED, READING),
        };
        let taken = ffi::lua_toboolean(state, 3) != 0;
        change(state, all, if taken { bit } else { 0 })
    }
}

/// `stream.has_turn(x)` → whether a `recv` of this file has the turn to read.
pub(super) unsafe extern "C-unwind" fn has_turn(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let stream = object::test::<Stream>(state, 1);
        let here = stream.is_some_and(|stream| (*stream).turns & HERE != 0);
        ffi::lua_pushboolean(state, here.into());
        1
    }
}

/// `stream.queue_up(x)`: others queue for the turn to read. No effect unless a `recv` of this file has it.
pub(super) unsafe extern "C-unwind" fn queue_up(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        match object::test::<Stream>(state, 1) {
            Some(stream) if (*stream).turns & HERE != 0 => change(state, 0, QUEUED),
            _ => 0,
        }
    }
}

/// `stream.limit(x, seconds, timer)`: how long a wait for reading may last from now on, and the timer for that, whose
/// value is `x`; nil: for ever.
pub(super) unsafe extern "C-unwind" fn limit(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        if args::is_none(state, 2) {
            return change(state, LIMITED, 0);
        }
        let nanos = timer::nanos(state, 2);
        let timer = ffi::luaL_checkinteger(state, 3) as u64;
        if let Some(stream) = object::test::<Stream>(state, 1) {
            (*stream).alarm = Alarm { nanos, timer };
        }
        change(state, 0, LIMITED)
    }
}
