//! Files for raw code that is not converted yet. // bridge

use super::object;
use super::{Fault, args};
use crate::file::{Facts, OpenFile, Refusal};
use mlua::ffi::{self, lua_State};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        let word = |message, code| Fault::word("open", message, code);
        match refusal {
            Refusal::NotAFile => word("not a regular file", "not a file"),
            Refusal::HasNul => word("the path has a NUL", "not found"),
            Refusal::NameTooLong => word("the name is too long", "not found"),
            Refusal::TooManyLinks => word("too many links", "not found"),
            Refusal::Outside => word("the path leaves the folder", "outside"),
            Refusal::Closed => word("the folder is closed", "closed"),
            Refusal::System(error) => Fault::io("open", &error),
        }
    }
}

/// What is known of the file at argument `index`.
///
/// # Safety
/// As for [`object::check`].
pub(crate) unsafe fn facts(state: *mut lua_State, index: c_int) -> Facts {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe { *(*object::check::<OpenFile>(state, index)).facts() }
}

/// How the standard library's files begin, in both versions of Lua.
#[repr(C)]
struct Handle {
    file: *mut libc::FILE,
    /// Null once it is closed.
    close: *const c_void,
}

/// What can be read by position: a file of ours, or one of `io.open`. Returns its descriptor.
///
/// # Safety
/// As for [`object::check`].
pub(crate) unsafe fn source(
    state: *mut lua_State,
    index: c_int,
    call: &'static str,
) -> Result<RawFd, Fault> {
    // SAFETY: the blocks are told by their metatables, and stay on the stack.
    unsafe {
        let closed = Fault::word(call, "the file is closed", "closed");
        if let Some(file) = object::test::<OpenFile>(state, index) {
            let descriptor = (*file).descriptor().ok_or(closed)?;
            return Ok(descriptor.as_raw_fd());
        }
        let handle: *const Handle = ffi::luaL_testudata(state, index, c"FILE*".as_ptr()).cast();
        if handle.is_null() {
            args::type_error(state, index, c"file");
        }
        if (*handle).close.is_null() || (*handle).file.is_null() {
            return Err(closed);
        }
        Ok(libc::fileno((*handle).file))
    }
}

/// pread(2) into `room`: how many bytes came, 0 at the end.
pub(crate) fn read_at(
    number: RawFd,
    room: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    // SAFETY: the caller's file is open for as long as it runs.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    loop {
        match rustix::io::pread(file, &mut *room, offset) {
            Ok((read, _)) => return Ok(read.len()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
