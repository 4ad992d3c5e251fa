//! The fields of an answer as Lua gives them: a flat list, or a table. Each is checked and written into the stream's
//! queue; what the server decides itself is left out and noted. Used by [`super`].
//!
//! Invariant: a field that is refused cuts the answer off, and raises.

use crate::codec::http1::fields::is_token;
use crate::codec::http1::write::{self, BadField};
use crate::http::connection::{Connection, GONE};
use crate::raw::{Text, args, guard, raise, settle};
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// What is wrong with a field, if anything.
pub(crate) fn fault_of(name: &[u8], value: &[u8]) -> Option<&'static str> {
    if !is_token(name) {
        return Some("the header name has characters that are not allowed");
    }
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        return Some("the header value contains CR, LF or NUL");
    }
    None
}

/// What the fields that a handler set tell.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) content_type: bool,
    pub(super) date: bool,
    pub(super) close: bool,
    /// A Content-Length, which only counts where there is no body to measure.
    pub(super) length: Option<u64>,
}

/// What is to be done with a field.
enum Role {
    Write,
    Skip,
    Forbidden(&'static str),
}

impl Seen {
    fn note(&mut self, name: &[u8], value: &[u8]) -> Role {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"date") => self.date = true,
            12 if name.eq_ignore_ascii_case(b"content-type") => self.content_type = true,
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close = self.close || value.eq_ignore_ascii_case(b"close");
                return Role::Skip;
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let text = std::str::from_utf8(value).ok();
                let length = text.and_then(|text| text.parse().ok());
                // Lua has to be able to count it.
                self.length = length.filter(|length| i64::try_from(*length).is_ok());
                return Role::Skip;
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                return Role::Forbidden("Transfer-Encoding is set by the server itself");
            }
            _ => {}
        }
        Role::Write
    }
}

/// One pass over a handler's fields.
pub(super) struct Writer {
    pub(super) state: *mut lua_State,
    /// Argument 1, which stays on the stack.
    pub(super) connection: *mut Connection,
    pub(super) stream: *mut Stream,
    /// Where the answer begins, as the stream counts what it sends.
    pub(super) begin: u64,
    pub(super) seen: Seen,
}

impl Writer {
    /// Cuts the answer off and raises.
    unsafe fn fail(&self, name: &[u8], problem: &str) -> ! {
        // SAFETY: the message is plain data, and the queue belongs to the userdata.
        unsafe {
            let (exchange, stream) = (*self.connection).parts();
            // Where part of it has gone out, the answer that follows finds that.
            if stream.unqueue(self.begin) {
                exchange.head_from = None;
            }
            let shown = std::str::from_utf8(name).unwrap_or("?");
            raise(
                self.state,
                Text::format(format_args!("header '{}': {problem}", shown.escape_debug())),
            )
        }
    }

    /// The string or number at `index`. A number is made a string, which may run a finalizer: raises when that has
    /// dropped what is written to.
    unsafe fn text<'a>(&self, index: c_int) -> &'a [u8] {
        // SAFETY: the value stays on the stack until it is written; the connection is argument 1.
        unsafe {
            if ffi::lua_type(self.state, index) == ffi::LUA_TSTRING {
                return args::bytes(self.state, index);
            }
            let text = args::bytes(self.state, index);
            if !(*self.connection).is_whole() {
                raise(self.state, Text::new(GONE));
            }
            text
        }
    }

    /// Writes the field whose value is on top of the stack (popped).
    unsafe fn field(&mut self, name: &[u8]) {
        // SAFETY: the value stays on the stack until it is written.
        unsafe {
            let kind = ffi::lua_type(self.state, -1);
            if kind != ffi::LUA_TSTRING && kind != ffi::LUA_TNUMBER {
                self.fail(name, "the value must be a string or a number");
            }
            let value = self.text(-1);
            match self.seen.note(name, value) {
                Role::Skip => {}
                Role::Forbidden(problem) => self.fail(name, problem),
                Role::Write => {
                    let stream = self.stream;
                    let written = guard(|| Ok(write::field((*stream).queue(), name, value)));
                    match settle(self.state, written) {
                        Ok(()) => {}
                        Err(BadField::Name) => self.fail(name, "not a header name"),
                        Err(BadField::Value) => {
                            self.fail(name, "the value contains CR, LF or NUL");
                        }
                    }
                }
            }
            ffi::lua_pop(self.state, 1);
        }
    }

    /// Writes a flat list: name, value, name, value …
    pub(super) unsafe fn list(&mut self, index: c_int) {
        // SAFETY: plain stack work.
        unsafe {
            let count = ffi::lua_rawlen(self.state, index) as i64;
            for at in (1..count).step_by(2) {
                ffi::lua_rawgeti(self.state, index, at);
                ffi::lua_rawgeti(self.state, index, at + 1);
                if ffi::lua_isstring(self.state, -2) == 0 {
                    self.fail(b"?", "header names must be strings");
                }
                let name = self.text(-2);
                self.field(name);
                ffi::lua_pop(self.state, 1);
            }
        }
    }

    /// Writes a table of name to value, or to a list of values.
    pub(super) unsafe fn map(&mut self, index: c_int) {
        // SAFETY: the key is not changed while the table is traversed.
        unsafe {
            ffi::lua_pushnil(self.state);
            while ffi::lua_next(self.state, index) != 0 {
                if ffi::lua_type(self.state, -2) != ffi::LUA_TSTRING {
                    self.fail(b"?", "header names must be strings");
                }
                let name = args::bytes(self.state, -2);
                if ffi::lua_type(self.state, -1) != ffi::LUA_TTABLE {
                    self.field(name);
                    continue;
                }
                let values = ffi::lua_gettop(self.state);
                for at in 1..=ffi::lua_rawlen(self.state, values) as i64 {
                    ffi::lua_rawgeti(self.state, values, at);
                    self.field(name);
                }
                ffi::lua_pop(self.state, 1);
            }
        }
    }
}
