//! `take` and `put`: the two calls of a stream that move bytes, and the hottest ones. `lua.rs` lists them
//! among the methods; the waiting around them is `lualib/lio/net.lua`'s.
//!
//! The bytes are never copied on their way: results are made from the read buffer, what is sent is read
//! from the Lua strings, which stay on the stack.

use super::Stream;
use super::lua::check;
use super::receive::{Form, Received};
use crate::lua::{Fault, Text, args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::os::raw::c_int;

/// So many strings of one `put` are gathered on the stack.
const FEW: usize = 8;

unsafe fn limit(state: *mut lua_State, index: c_int) -> usize {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        match args::is_none(state, index) {
            true => usize::MAX,
            false => args::integer_in(state, index, 0, i64::MAX, "limit") as usize,
        }
    }
}

unsafe fn form<'a>(state: *mut lua_State) -> Form<'a> {
    // SAFETY: as for `limit`; the delimiter is an argument, which stays on the stack.
    unsafe {
        match ffi::lua_type(state, 2) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => return Form::Any,
            ffi::LUA_TNUMBER => {
                let count = args::integer_in(state, 2, 0, i64::MAX / 2, "size");
                return Form::Exactly(count as usize);
            }
            _ => {}
        }
        match args::bytes(state, 2) {
            b"line" => Form::Line {
                limit: limit(state, 3),
            },
            b"all" => Form::All {
                limit: limit(state, 3),
            },
            b"until" => {
                let delimiter = args::bytes(state, 3);
                if delimiter.is_empty() {
                    args::argument_error(state, 3, Text::new("the delimiter is empty"));
                }
                let limit = limit(state, 4);
                Form::Until { delimiter, limit }
            }
            _ => {
                let message = "a size, 'line', 'until' or 'all' expected";
                args::argument_error(state, 2, Text::new(message))
            }
        }
    }
}

/// Pushes `nil, message, partial, code`, with what is on top of the stack as `partial`.
pub(super) unsafe fn failed(state: *mut lua_State, message: &[u8], code: &[u8]) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushnil(state);
        push_bytes(state, message);
        ffi::lua_rotate(state, -3, 2);
        push_bytes(state, code);
        4
    }
}

/// `s:take([form …])` → a string; `false` would block, the stream is armed; `nil` at the end for the
/// form without arguments; else `nil, message, partial, code`. The forms are those of `net.recv`.
pub(super) unsafe extern "C-unwind" fn take(state: *mut lua_State) -> c_int {
    // SAFETY: as for `limit`; the buffer belongs to the userdata, so nothing is lost when pushing raises.
    unsafe {
        let stream = check(state, 1);
        let form = form(state);
        if stream.is_closed() {
            ffi::lua_pushnil(state);
            return failed(state, b"closed", b"closed");
        }
        let result = guard(|| {
            Ok(stream
                .receive(form)
                .map_err(|error| Fault::io("recv", &error)))
        });
        match settle(state, result) {
            Ok(Received::Ready { length, consume }) => {
                push_bytes(state, &stream.buffered()[..length]);
                stream.consume(consume);
                1
            }
            Ok(Received::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Ok(Received::Ended) if matches!(form, Form::Any) => {
                ffi::lua_pushnil(state);
                1
            }
            Ok(Received::Ended) => {
                push_rest(state, stream);
                failed(state, b"closed", b"closed")
            }
            Ok(Received::TooLong) => {
                ffi::lua_pushnil(state);
                failed(state, b"too long", b"too long")
            }
            Err(fault) => {
                push_rest(state, stream);
                let message = fault.message();
                failed(state, message.as_bytes(), fault.code().as_bytes())
            }
        }
    }
}

/// Pushes and consumes what is buffered.
unsafe fn push_rest(state: *mut lua_State, stream: &mut Stream) {
    // SAFETY: as for `take`.
    unsafe {
        push_bytes(state, stream.buffered());
        let length = stream.buffered().len();
        stream.consume(length);
    }
}

/// Whether `put` has been given strings only; numbers become strings. Raises for anything else, with the
/// argument's number as the caller of `net.send` counts, to whom `sent` is unknown.
unsafe fn check_strings(state: *mut lua_State, last: c_int) {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        for index in 3..=last {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING => {}
                ffi::LUA_TNUMBER => {
                    args::bytes(state, index);
                }
                _ => {
                    let actual = CStr::from_ptr(ffi::luaL_typename(state, index));
                    let message = Text::format(format_args!(
                        "string expected, got {}",
                        actual.to_str().unwrap_or("?")
                    ));
                    args::argument_error(state, index - 1, message)
                }
            }
        }
    }
}

/// The string at `index`; never raises.
unsafe fn string<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    // SAFETY: `check_strings` has made it a string, which stays on the stack.
    unsafe {
        let mut length = 0;
        let start = ffi::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// Sends the strings from index 3 to `last`. Never raises.
unsafe fn send_strings(
    state: *mut lua_State,
    last: c_int,
    stream: &mut Stream,
    sent: &mut usize,
) -> io::Result<bool> {
    // SAFETY: as for `string`.
    unsafe {
        let count = (last - 2) as usize;
        if count > FEW {
            let pieces: Vec<&[u8]> = (3..=last).map(|index| string(state, index)).collect();
            return stream.send(&pieces, sent);
        }
        let mut pieces: [&[u8]; FEW] = [&[]; FEW];
        for (piece, index) in pieces.iter_mut().zip(3..=last) {
            *piece = string(state, index);
        }
        stream.send(&pieces[..count], sent)
    }
}

/// `s:put(sent, data, …)`: sends what is queued and the strings, of which `sent` bytes are gone already.
/// `true` when all is taken by the system; the new `sent` when it would block, or when others have to
/// get their turn, the stream being armed; `nil, message, sent, code` on failure.
pub(super) unsafe extern "C-unwind" fn put(state: *mut lua_State) -> c_int {
    // SAFETY: as for `limit`; the slices point into arguments, which stay on the stack.
    unsafe {
        let stream = check(state, 1);
        let mut sent = args::integer_in(state, 2, 0, i64::MAX, "sent") as usize;
        let last = ffi::lua_gettop(state);
        check_strings(state, last);
        if stream.is_closed() {
            ffi::lua_pushinteger(state, sent as i64);
            return failed(state, b"closed", b"closed");
        }
        let result = guard(|| {
            // Nothing to add means that somebody only flushes, and may not come back.
            if sent == 0 && last > 2 && !stream.begin_message() {
                return Ok(Ok(false));
            }
            let done = send_strings(state, last, stream, &mut sent);
            Ok(done.map_err(|error| Fault::io("send", &error)))
        });
        match settle(state, result) {
            Ok(true) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Ok(false) => {
                ffi::lua_pushinteger(state, sent as i64);
                1
            }
            Err(fault) => {
                ffi::lua_pushinteger(state, sent as i64);
                let message = fault.message();
                failed(state, message.as_bytes(), fault.code().as_bytes())
            }
        }
    }
}
