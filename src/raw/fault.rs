//! I/O failures as Lua sees them: `nil, message, code`.
//!
//! The message names the call and the system's text, the code is one short word a program can test.

use super::{Text, push_bytes};
use crate::lua::code_of;
use mlua::ffi::{self, lua_State};
use rustix::io::Errno;
use std::io;
use std::os::raw::c_int;

/// One failed call: plain data, so that it may be alive when Lua raises.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    call: &'static str,
    cause: Cause,
}

#[derive(Clone, Copy)]
enum Cause {
    Os(i32),
    Word(&'static str, &'static str),
}

impl Fault {
    /// A failure of the operating system, by its errno.
    pub(crate) fn os(call: &'static str, errno: i32) -> Self {
        Fault {
            call,
            cause: Cause::Os(errno),
        }
    }

    /// An `io::Error`; one without an errno keeps its kind's description.
    pub(crate) fn io(call: &'static str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Fault::os(call, errno),
            None => Fault::word(call, "unexpected failure", "failed"),
        }
    }

    /// A failure that is ours, with its message and code.
    pub(crate) const fn word(
        call: &'static str,
        message: &'static str,
        code: &'static str,
    ) -> Self {
        Fault {
            call,
            cause: Cause::Word(message, code),
        }
    }

    /// `call: what happened`.
    pub(crate) fn message(&self) -> Text {
        match self.cause {
            Cause::Os(errno) => Text::format(format_args!(
                "{}: {}",
                self.call,
                io::Error::from_raw_os_error(errno)
            )),
            Cause::Word(message, _) => Text::format(format_args!("{}: {}", self.call, message)),
        }
    }

    /// Short word for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self.cause {
            Cause::Os(errno) => code_of(Errno::from_raw_os_error(errno)),
            Cause::Word(_, code) => code,
        }
    }

    /// Pushes `nil, message, code`; returns 3.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push(&self, state: *mut lua_State) -> c_int {
        let message = self.message();
        // SAFETY: `message` is plain data.
        unsafe {
            ffi::lua_pushnil(state);
            push_bytes(state, message.as_bytes());
            push_bytes(state, self.code().as_bytes());
        }
        3
    }
}
