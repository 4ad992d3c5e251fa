//! What the Lua side asks and tells of a connection's state, as methods of its exchange: whether a request is
//! worked on, what it waits for and until when, what becomes of it after the answer. Used by
//! lualib/lio/web/connection.lua and response.lua. Nothing here waits.

use super::connection::check;
use crate::codec::http1::status::reason;
use crate::raw::{args, guard, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

unsafe fn push_flag(state: *mut lua_State, flag: bool) -> c_int {
    // SAFETY: a free stack slot is guaranteed to a C function.
    unsafe { ffi::lua_pushboolean(state, flag.into()) };
    1
}

/// `x:touch([special])` → whether the answer to the current request has begun: the handler sets something of it.
/// With `special`: it does something that only Lua knows how to conclude.
pub(super) unsafe extern "C-unwind" fn touch(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let connection = check(state);
        connection.touched = true;
        connection.special |= ffi::lua_toboolean(state, 2) != 0;
        push_flag(state, connection.exchange.answered)
    }
}

/// `x:work()`: whatever comes is not looked at until `rest`.
pub(super) unsafe extern "C-unwind" fn work(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        check(state).busy = true;
        0
    }
}

/// `x:refuse(status [, message])`: queues a plain answer after which the connection closes.
pub(super) unsafe extern "C-unwind" fn refuse(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let status = args::integer_in(state, 2, 400, 599, "status") as u16;
        let message = match args::is_none(state, 3) {
            true => reason(status),
            false => args::utf8(state, 3),
        };
        let connection = check(state);
        let space = connection.space();
        let queued = guard(|| {
            let (exchange, stream) = connection.parts();
            exchange.refuse(stream, &mut *space, status, message);
            Ok(())
        });
        settle(state, queued);
        0
    }
}

/// `x:body_sent(gone)` → bytes of the current answer behind its head, framing included. With `gone`, what
/// the system took of them; else what is queued counts as well.
pub(super) unsafe extern "C-unwind" fn body_sent(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let gone = ffi::lua_toboolean(state, 2) != 0;
        let (exchange, stream) = check(state).parts();
        let queued = if gone { 0 } else { stream.queued() as u64 };
        let end = stream.written + queued;
        let from = exchange.body_from.unwrap_or(end);
        ffi::lua_pushinteger(state, end.saturating_sub(from) as i64);
        1
    }
}

/// `x:close_after()`: the connection closes after the current answer.
pub(super) unsafe extern "C-unwind" fn close_after(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        check(state).exchange.close_after();
        0
    }
}

/// `x:is_closing()` → whether no request follows the current one.
pub(super) unsafe extern "C-unwind" fn is_closing(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { push_flag(state, check(state).exchange.closing) }
}

/// `x:is_answered()` → whether the answer to the current request has begun.
pub(super) unsafe extern "C-unwind" fn is_answered(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { push_flag(state, check(state).exchange.answered) }
}

/// `x:is_head()` → whether the current request is HEAD.
pub(super) unsafe extern "C-unwind" fn is_head(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { push_flag(state, check(state).exchange.is_head()) }
}

/// `x:leaves_unread()` → whether the peer may still be sending, so that closing now would reset the
/// connection under the answer.
pub(super) unsafe extern "C-unwind" fn leaves_unread(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let (exchange, stream) = check(state).parts();
        push_flag(state, exchange.leaves_unread(stream))
    }
}

/// `x:is_last_arrived()` → whether nothing has come behind the current request and its body.
pub(super) unsafe extern "C-unwind" fn is_last_arrived(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let (exchange, stream) = check(state).parts();
        push_flag(state, exchange.is_last_arrived(stream))
    }
}

/// `x:hand_over()`: the stream is somebody else's from now on.
pub(super) unsafe extern "C-unwind" fn hand_over(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let connection = check(state);
        connection.special = true;
        connection.exchange.hand_over();
        0
    }
}
