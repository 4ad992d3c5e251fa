//! What raw functions that are left hand over of a stream.
//!
//! Invariant: each byte is handed out once. What is handed over counts as consumed before Lua allocates, so that a
//! finalizer that reads the same stream finds what follows; and no reference to the stream is held meanwhile.

use super::Stream;
use crate::raw::{object, push_bytes};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

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
