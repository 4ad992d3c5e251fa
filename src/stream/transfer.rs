//! `take` and `put`: the two calls of a stream that move bytes, and the hottest ones. `lua.rs` lists them
//! among the methods; the waiting around them is `lualib/lio/net.lua`'s.
//!
//! The bytes are never copied on their way: results are made from the read buffer, what is sent is read
//! from the Lua strings, which stay on the stack.
//!
//! Invariant: each byte is handed out once. What is handed over counts as consumed before Lua allocates, so that a
//! finalizer that reads the same stream finds what follows; and no reference to the stream is held meanwhile.

use super::Stream;
use super::lua::check;
use super::receive::{Form, Received};
use crate::raw::{Fault, Text, args, guard, may_be_finalizer, object, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::os::raw::c_int;

/// So many strings of one `put` are gathered on the stack.
const FEW: usize = 8;

/// What is wrong with an argument, and its number.
pub(super) type Misuse = (c_int, Text);

/// The integer at `index`, within `0..=high`.
unsafe fn whole(
    state: *mut lua_State,
    index: c_int,
    high: i64,
    what: &str,
) -> Result<usize, Misuse> {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let mut exact = 0;
        let value = ffi::lua_tointegerx(state, index, &mut exact);
        if (0..=high).contains(&value) && exact != 0 {
            return Ok(value as usize);
        }
        let message = if exact != 0 {
            Text::format(format_args!("{what} must be 0 to {high}, not {value}"))
        } else if ffi::lua_isnumber(state, index) != 0 {
            Text::new("number has no integer representation")
        } else {
            args::expected(state, index, c"number")
        };
        Err((index, message))
    }
}

unsafe fn limit(state: *mut lua_State, index: c_int) -> Result<usize, Misuse> {
    // SAFETY: as for `whole`.
    unsafe {
        match args::is_none(state, index) {
            true => Ok(usize::MAX),
            false => whole(state, index, i64::MAX, "limit"),
        }
    }
}

unsafe fn text<'a>(state: *mut lua_State, index: c_int) -> Result<&'a [u8], Misuse> {
    // SAFETY: as for `whole`; the bytes are of an argument, which stays on the stack.
    unsafe {
        match ffi::lua_type(state, index) {
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => Ok(args::bytes(state, index)),
            _ => Err((index, args::expected(state, index, c"string"))),
        }
    }
}

/// What the arguments from the second on ask for.
pub(super) unsafe fn form_of<'a>(state: *mut lua_State) -> Result<Form<'a>, Misuse> {
    // SAFETY: as for `text`.
    unsafe {
        match ffi::lua_type(state, 2) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => return Ok(Form::Any),
            ffi::LUA_TNUMBER => {
                return Ok(Form::Exactly(whole(state, 2, i64::MAX / 2, "size")?));
            }
            _ => {}
        }
        match text(state, 2)? {
            b"line" => Ok(Form::Line {
                limit: limit(state, 3)?,
            }),
            b"all" => Ok(Form::All {
                limit: limit(state, 3)?,
            }),
            b"until" => {
                let delimiter = text(state, 3)?;
                if delimiter.is_empty() {
                    return Err((3, Text::new("the delimiter is empty")));
                }
                let limit = limit(state, 4)?;
                Ok(Form::Until { delimiter, limit })
            }
            _ => {
                let message = "a size, 'line', 'until' or 'all' expected";
                Err((2, Text::new(message)))
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
    // SAFETY: as for `whole`.
    unsafe {
        check(state, 1);
        let form = match form_of(state) {
            Ok(form) => form,
            Err((index, message)) => args::argument_error(state, index, message),
        };
        // A number among the arguments was made a string: only now is it sure that the stream is there.
        let stream = check(state, 1);
        push_taken(state, stream, form).unwrap_or_else(|| {
            ffi::lua_pushboolean(state, 0);
            1
        })
    }
}

/// Pushes the buffered bytes `from..to` and drops the first `consume`. A raise for want of memory loses them, unless
/// the next call is one of [`push_taken`].
///
/// # Safety
/// The stream's userdata is on the stack, and the range is buffered; no reference to the stream may be in use, and
/// nothing that needs `Drop` be alive.
pub(crate) unsafe fn hand_over(
    state: *mut lua_State,
    stream: *mut Stream,
    from: usize,
    to: usize,
    consume: usize,
) {
    // SAFETY: what is lent lies still until Lua has copied it; finalizers, which may use or drop the stream, run
    // after that.
    unsafe {
        let start = (*stream).buffered()[from..to].as_ptr();
        (*stream).lend(consume);
        ffi::lua_pushlstring(state, start.cast(), to - from);
        if object::is_alive(stream) {
            (*stream).handed_over();
        }
    }
}

/// What was to be handed over when memory was short is there again; what a call is handing over, in which a
/// finalizer calls this, is not.
unsafe fn end_loan(state: *mut lua_State, stream: *mut Stream) {
    // SAFETY: as for `hand_over`.
    unsafe {
        if (*stream).input.has_lent() && !may_be_finalizer(state) {
            (*stream).input.end_loan(true);
        }
    }
}

/// Receives what is asked for and pushes the results, whose number it returns; `None` when it would block.
///
/// # Safety
/// As for [`hand_over`].
pub(super) unsafe fn push_taken(
    state: *mut lua_State,
    stream: *mut Stream,
    form: Form<'_>,
) -> Option<c_int> {
    // SAFETY: as for `whole`; the buffer belongs to the userdata, so nothing is lost when pushing raises.
    unsafe {
        if (*stream).is_closed() {
            ffi::lua_pushnil(state);
            return Some(failed(state, b"closed", b"closed"));
        }
        end_loan(state, stream);
        let result = guard(|| {
            Ok((*stream)
                .receive(form)
                .map_err(|error| Fault::io("recv", &error)))
        });
        Some(match settle(state, result) {
            Ok(Received::Ready { length, consume }) => {
                hand_over(state, stream, 0, length, consume);
                1
            }
            Ok(Received::WouldBlock) => return None,
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
        })
    }
}

/// Pushes and consumes what is buffered.
unsafe fn push_rest(state: *mut lua_State, stream: *mut Stream) {
    // SAFETY: as for `hand_over`.
    unsafe {
        let length = (*stream).buffered().len();
        hand_over(state, stream, 0, length, length);
    }
}

/// Whether the arguments from `first` to `last` are strings; numbers become strings. A misuse has the number that
/// the caller of `net.send` counts, where `first` is the second.
pub(super) unsafe fn check_strings(
    state: *mut lua_State,
    first: c_int,
    last: c_int,
) -> Result<(), Misuse> {
    // SAFETY: as for `whole`.
    unsafe {
        for index in first..=last {
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
                    return Err((index - first + 2, message));
                }
            }
        }
        Ok(())
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

/// Sends the strings from index `first` to `last`. Never raises.
unsafe fn send_strings(
    state: *mut lua_State,
    first: c_int,
    last: c_int,
    stream: &mut Stream,
    sent: &mut usize,
) -> io::Result<bool> {
    // SAFETY: as for `string`.
    unsafe {
        let count = (last + 1 - first) as usize;
        if count == 1 {
            return stream.send(&[string(state, first)], sent);
        }
        if count > FEW {
            let pieces: Vec<&[u8]> = (first..=last).map(|index| string(state, index)).collect();
            return stream.send(&pieces, sent);
        }
        let mut pieces: [&[u8]; FEW] = [&[]; FEW];
        for (piece, index) in pieces.iter_mut().zip(first..=last) {
            *piece = string(state, index);
        }
        stream.send(&pieces[..count], sent)
    }
}

/// What became of strings that were to be sent.
pub(super) enum Put {
    /// All is taken by the system.
    Done,
    /// So many bytes are gone; the stream is armed.
    Part(usize),
    /// So many results tell of the failure.
    Failed(c_int),
}

/// Sends what is queued and the strings from index `first` to the top, of which `sent` bytes are gone.
///
/// # Safety
/// As for [`hand_over`].
pub(super) unsafe fn put_strings(
    state: *mut lua_State,
    stream: *mut Stream,
    first: c_int,
    mut sent: usize,
) -> Put {
    // SAFETY: as for `whole`; the slices point into arguments, which stay on the stack.
    unsafe {
        let last = ffi::lua_gettop(state);
        if (*stream).is_closed() {
            ffi::lua_pushinteger(state, sent as i64);
            return Put::Failed(failed(state, b"closed", b"closed"));
        }
        let result = guard(|| {
            // Nothing to add means that somebody only flushes, and may not come back.
            if sent == 0 && last >= first {
                match (*stream).begin_message() {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ok(false)),
                    Err(error) => return Ok(Err(Fault::io("send", &error))),
                }
            }
            let done = send_strings(state, first, last, &mut *stream, &mut sent);
            Ok(done.map_err(|error| Fault::io("send", &error)))
        });
        match settle(state, result) {
            Ok(true) => Put::Done,
            Ok(false) => Put::Part(sent),
            Err(fault) => {
                ffi::lua_pushinteger(state, sent as i64);
                let message = fault.message();
                Put::Failed(failed(state, message.as_bytes(), fault.code().as_bytes()))
            }
        }
    }
}

/// `s:put(sent, data, …)`: sends what is queued and the strings, of which `sent` bytes are gone already.
/// `true` when all is taken by the system; the new `sent` when it would block, or when others have to
/// get their turn, the stream being armed; `nil, message, sent, code` on failure.
pub(super) unsafe extern "C-unwind" fn put(state: *mut lua_State) -> c_int {
    // SAFETY: as for `whole`.
    unsafe {
        check(state, 1);
        let sent = args::integer_in(state, 2, 0, i64::MAX, "sent") as usize;
        if let Err((index, message)) = check_strings(state, 3, ffi::lua_gettop(state)) {
            args::argument_error(state, index, message);
        }
        let stream = check(state, 1);
        match put_strings(state, stream, 3, sent) {
            Put::Done => ffi::lua_pushboolean(state, 1),
            Put::Part(sent) => ffi::lua_pushinteger(state, sent as i64),
            Put::Failed(results) => return results,
        }
        1
    }
}
