//! `recv` and `send` as methods of connections in a VM whose tasks are those of `lio.task`: they move bytes at
//! once, or wait. What is rare is done by functions of `lualib/lio/net.lua`, which makes the two by
//! `stream.waiting`: a turn that somebody else has, the rest of a long message.
//!
//! Invariant: `Stream::turns` tells who has a turn. `HERE` is set from the wait of a `recv` of this file until that
//! call ends, and its token is the stream itself; the other turns stand in Lua's books, and `READING` and
//! `WRITING` say whether there is one.

use super::Stream;
use super::transfer::{Put, check_strings, form_of, push_taken, put_strings};
use crate::raw::object::{self, Object};
use crate::raw::{Function, Text, args, continuation, function, raise};
use crate::task::{Core, Token, raise_cannot_wait, this};
use crate::timer;
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;

/// A turn to read, in Lua's books.
const READING: u8 = 1;
/// A turn to write, in Lua's books.
const WRITING: u8 = 2;
/// A task has the turn to read in a `recv` of this file.
const HERE: u8 = 4;
/// The same, and others queue for it.
const QUEUED: u8 = 8;
/// Waits for reading have a time limit, see [`Alarm`].
const LIMITED: u8 = 16;
/// Lua's books have, or had, an entry for it.
const BOOKED: u8 = 32;

// The upvalues, after the task core: of both functions, of `recv`, and of `send`.
const IN_TURN: c_int = 2;
const PASS_ON: c_int = 3;
const TIMERS: c_int = 4;
const REST: c_int = 3;

/// How long a `recv` waits at most, and the timer that ends the wait. The timer is Lua's, which frees it.
#[derive(Clone, Copy, Default)]
pub(super) struct Alarm {
    nanos: u64,
    timer: u64,
}

/// The connection at argument 1.
unsafe fn connection(state: *mut lua_State, call: &str) -> *mut Stream {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe {
        match object::test::<Stream>(state, 1) {
            Some(stream) => stream,
            None => {
                let message = args::expected(state, 1, Stream::NAME);
                args::misuse(state, call, 1, message)
            }
        }
    }
}

/// Calls one of the functions of Lua's with the arguments that lie on the stack; its results are the call's.
unsafe fn in_lua(state: *mut lua_State, function: c_int) -> c_int {
    // SAFETY: a C function has room for one value more.
    unsafe {
        let count = ffi::lua_gettop(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(function));
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_callk(
            state,
            count,
            ffi::LUA_MULTRET,
            0,
            Some(continuation!(returned)),
        );
        ffi::lua_gettop(state)
    }
}

unsafe extern "C-unwind" fn returned(
    state: *mut lua_State,
    _status: c_int,
    _context: lua_KContext,
) -> c_int {
    // SAFETY: the results of the call are all that lies on the stack.
    unsafe { ffi::lua_gettop(state) }
}

/// `c:recv([form …])`, as `net.recv`: a string; `nil` at the end; `nil, message, partial, code`.
unsafe extern "C-unwind" fn recv(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let stream = connection(state, "recv");
        if (*stream).turns & (READING | HERE) != 0 {
            return in_lua(state, IN_TURN);
        }
        // Mostly what came last was all there was.
        if ffi::lua_gettop(state) == 1 && (*stream).is_dry() {
            return wait(state, stream);
        }
        match take(state) {
            Some(count) => count,
            None => wait(state, stream),
        }
    }
}

unsafe fn take(state: *mut lua_State) -> Option<c_int> {
    // SAFETY: as for `recv`.
    unsafe {
        match form_of(state) {
            // Looked up behind the arguments, since making a number a string may run a finalizer.
            Ok(form) => push_taken(state, connection(state, "recv"), form),
            Err((index, message)) => args::misuse(state, "recv", index, message),
        }
    }
}

/// The running task, in `recv`, has the turn from now on, and waits until the stream is ready.
unsafe fn wait(state: *mut lua_State, stream: *mut Stream) -> c_int {
    // SAFETY: as for `recv`; the token is the value in the first stack slot.
    unsafe {
        let core = this(state);
        let token = Token::Object(ffi::LUA_TUSERDATA, ffi::lua_touserdata(state, 1).addr());
        let Some(slot) = Core::can_wait(core, state) else {
            end_turn(state, stream);
            raise_cannot_wait(core, state, "wait")
        };
        if (*core).park(slot, token).is_err() {
            end_turn(state, stream);
            raise(
                state,
                Text::new("wait: somebody waits on this token already"),
            );
        }
        (*stream).turns |= HERE;
        if (*stream).turns & LIMITED != 0 {
            let Alarm { nanos, timer } = (*stream).alarm;
            timer::lua::set_timer(state, ffi::lua_upvalueindex(TIMERS), timer, nanos);
        }
        let top = ffi::lua_gettop(state) as lua_KContext;
        ffi::lua_yieldk(state, 0, top, Some(continuation!(recv_on)))
    }
}

/// The rest of a `recv` that waited. Behind its arguments, `context` values, lies what the waker said.
unsafe extern "C-unwind" fn recv_on(
    state: *mut lua_State,
    _status: c_int,
    context: lua_KContext,
) -> c_int {
    // SAFETY: as for `recv`, in whose frame this runs.
    unsafe {
        // Also where the turn was handed on, as after an interrupt.
        if (*this(state)).take_interrupt(state) {
            ffi::lua_error(state);
        }
        let stream = connection(state, "recv");
        if (*stream).turns & LIMITED != 0 {
            let timers = ffi::lua_upvalueindex(TIMERS);
            timer::lua::clear_timer(state, timers, (*stream).alarm.timer);
        }
        let top = context as c_int;
        if ends_wait(state, top + 1) {
            end_turn(state, stream);
            ffi::lua_pushnil(state);
            ffi::lua_pushvalue(state, top + 1);
            ffi::lua_pushnil(state);
            ffi::lua_pushvalue(state, top + 1);
            return 4;
        }
        ffi::lua_settop(state, top);
        match take(state) {
            Some(count) => {
                end_turn(state, stream);
                count
            }
            None => wait(state, stream),
        }
    }
}

/// Whether what the waker said, at `index`, ends the wait without anything to read.
unsafe fn ends_wait(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: a string is not converted.
    unsafe {
        ffi::lua_type(state, index) == ffi::LUA_TSTRING
            && matches!(args::bytes(state, index), b"timeout" | b"closed")
    }
}

/// The turn to read ends, if it is that of a `recv` of this file: the next that queues has it.
unsafe fn end_turn(state: *mut lua_State, stream: *mut Stream) {
    // SAFETY: as for `recv`; the connection is argument 1, so its block is there even when a finalizer has dropped it.
    unsafe {
        if !object::is_alive(stream) {
            return;
        }
        let turns = (*stream).turns;
        if turns & HERE == 0 {
            return;
        }
        (*stream).turns = turns & !(HERE | QUEUED);
        if turns & QUEUED != 0 {
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(PASS_ON));
            ffi::lua_pushvalue(state, 1);
            ffi::lua_call(state, 1, 0);
        }
    }
}

/// `c:send(data, …)`, as `net.send`: `true`; `nil, message, sent, code`.
unsafe extern "C-unwind" fn send(state: *mut lua_State) -> c_int {
    // SAFETY: as for `recv`.
    unsafe {
        let stream = connection(state, "send");
        if (*stream).turns & WRITING != 0 {
            return in_lua(state, IN_TURN);
        }
        let last = ffi::lua_gettop(state);
        if let Err((index, message)) = check_strings(state, 2, last) {
            args::misuse(state, "send", index, message);
        }
        // Looked up again, since making a number a string may run a finalizer.
        match put_strings(state, connection(state, "send"), 2, 0) {
            Put::Done => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Put::Failed(results) => results,
            Put::Part(sent) => {
                ffi::lua_pushinteger(state, sent as i64);
                ffi::lua_rotate(state, 2, 1);
                in_lua(state, REST)
            }
        }
    }
}

/// As Lua gets them: they are known by their addresses.
const RECV: Function = function!(recv);
const SEND: Function = function!(send);

/// `stream.waiting(timers, recv_in_turn, pass_on, send_in_turn, send_rest)` → `recv`, `send`. The functions get the
/// arguments of the call, `send_rest` with the bytes sent as second. `pass_on(c)` ends a turn to read. `timers`: a
/// `lio.timer` queue, see `stream.limit`.
pub(super) unsafe extern "C-unwind" fn waiting(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 5);
        let core = Core::of(state);
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
        let nanos = timer::lua::nanos(state, 2);
        let timer = ffi::luaL_checkinteger(state, 3) as u64;
        if let Some(stream) = object::test::<Stream>(state, 1) {
            (*stream).alarm = Alarm { nanos, timer };
        }
        change(state, 0, LIMITED)
    }
}
