//! Packing: Lua values as a block of bytes that travels from one VM to another.
//!
//! Called by the core modules and by the scheduler. A block is of libc's malloc and has one owner.
//! Packing leaks nothing when it raises, at whatever point; unpacking reads nothing outside.
//!
//! - `pack/format.rs`: the bytes; `encode.rs`, `decode.rs`: to them and back
//! - `pairs.rs`: packing what has a `__pairs`
//! - `buffer.rs`: bytes under construction; `seen.rs`: tables that come twice
//! - `functions.rs`: the Lua functions

mod buffer;
mod decode;
mod encode;
mod format;
mod functions;
mod pairs;
mod seen;
#[cfg(test)]
mod tests;

use super::memory;
use super::message::Payload;
use crate::raw::{Text, function, raise};
use buffer::{Buffer, Exhausted};
use decode::{Corrupt, Origin};
use encode::Failure;
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_int, c_void};
use std::ptr;

pub(crate) use functions::FUNCTIONS;

/// Packs the values at `first..=top` of `state` into a fresh block, which the caller frees; null and 0
/// for no values. Raises `Unsupport type X to serialize`, and what a `__pairs` raises.
///
/// # Safety
/// `state` is valid and `first` positive. Nothing that needs `Drop` may be alive in the frames up to Lua.
pub(crate) unsafe fn pack(state: *mut lua_State, first: c_int) -> (*mut c_void, usize) {
    // SAFETY: the caller's promise; a failure owns nothing.
    unsafe {
        match encode::encode(state, first) {
            Ok(packed) => packed,
            Err(Failure::Raised) => ffi::lua_error(state),
            Err(failure) => raise(state, explain(&failure)),
        }
    }
}

/// As [`pack`], for who must not raise: the error is a message.
///
/// # Safety
/// `state` is valid and `first` positive.
pub(crate) unsafe fn try_pack(
    state: *mut lua_State,
    first: c_int,
) -> Result<(*mut c_void, usize), Text> {
    // SAFETY: the caller's promise; the error that a `__pairs` raised lies on top of the stack.
    unsafe {
        encode::encode(state, first).map_err(|failure| match failure {
            Failure::Raised if ffi::lua_type(state, -1) == ffi::LUA_TSTRING => {
                let mut length = 0;
                let text = ffi::lua_tolstring(state, -1, &mut length);
                let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length);
                Text::format(format_args!("{}", String::from_utf8_lossy(bytes)))
            }
            other => explain(&other),
        })
    }
}

fn explain(failure: &Failure) -> Text {
    match failure {
        Failure::Raised => Text::new("error in a __pairs metamethod"),
        Failure::Unsupported(kind) => {
            let name = match *kind {
                ffi::LUA_TFUNCTION => "function",
                ffi::LUA_TTHREAD => "thread",
                _ => "userdata",
            };
            Text::format(format_args!("Unsupport type {name} to serialize"))
        }
        Failure::Key => Text::new("cannot pack NaN as a key"),
        Failure::Memory => Text::new("no memory for a message"),
        Failure::Stack => Text::new("stack overflow"),
    }
}

/// Pushes the values packed in `size` bytes and returns how many. Does not free. Raises on corrupt
/// bytes and when Lua has no memory.
///
/// # Safety
/// `state` is valid, and the bytes can be read. As for [`pack`] otherwise.
pub(crate) unsafe fn unpack(state: *mut lua_State, bytes: *const u8, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let result = decode::decode(state, bytes_of(bytes, size), Origin::Message);
        settle_unpacked(state, result)
    }
}

/// As [`unpack`], of a string, which anybody may have made: no item may hold an address.
///
/// # Safety
/// As for [`unpack`].
unsafe fn unpack_text(state: *mut lua_State, bytes: &[u8]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let result = decode::decode(state, bytes, Origin::Text);
        settle_unpacked(state, result)
    }
}

/// The bytes at a pointer, which may be null for none.
unsafe fn bytes_of<'a>(bytes: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes, size) }
}

unsafe fn settle_unpacked(state: *mut lua_State, result: Result<c_int, Corrupt>) -> c_int {
    match result {
        Ok(count) => count,
        // SAFETY: the caller owns nothing that needs `Drop`.
        Err(corrupt) => unsafe {
            raise(
                state,
                Text::format(format_args!("cannot unpack: {}", corrupt.text())),
            )
        },
    }
}

/// From this size on a protected call costs little beside the rest.
const LARGE: usize = 1024;

/// As [`unpack`], and frees the block, whatever happens.
///
/// A memory error leaves by longjmp, past whatever would free. So the call is a protected one; but a
/// service's VM has a place for one small block, which does as well and costs next to nothing. After
/// such an error it keeps the block until the VM ends, and is full for all that follow, as it is for
/// a finalizer that runs meanwhile.
///
/// # Safety
/// As for [`unpack`]; the block is libc's, and is the caller's no more.
pub(crate) unsafe fn unpack_owned(state: *mut lua_State, block: *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise; a service's memory outlives its VM.
    unsafe {
        if size >= LARGE {
            return unpack_protected(state, block, size);
        }
        match memory::of(state) {
            Some(memory) if (*memory).park(block) => {
                let result = decode::decode(state, bytes_of(block.cast(), size), Origin::Message);
                (*memory).unpark();
                libc::free(block);
                settle_unpacked(state, result)
            }
            _ => unpack_protected(state, block, size),
        }
    }
}

unsafe fn unpack_protected(state: *mut lua_State, block: *mut c_void, size: usize) -> c_int {
    // SAFETY: nothing can raise between here and `free` but inside the protected call.
    unsafe {
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, 4) == 0 {
            libc::free(block);
            raise(state, Text::new("stack overflow"));
        }
        function!(unpack_arguments).push(state, 0);
        ffi::lua_pushlightuserdata(state, block);
        ffi::lua_pushinteger(state, size as i64);
        let status = ffi::lua_pcall(state, 2, ffi::LUA_MULTRET, 0);
        libc::free(block);
        if status != ffi::LUA_OK {
            ffi::lua_error(state);
        }
        ffi::lua_gettop(state) - top
    }
}

unsafe extern "C-unwind" fn unpack_arguments(state: *mut lua_State) -> c_int {
    // SAFETY: called by `unpack_protected` with a block and its size.
    unsafe {
        let block = ffi::lua_touserdata(state, 1);
        let size = ffi::lua_tointegerx(state, 2, ptr::null_mut());
        unpack(state, block.cast(), size as usize)
    }
}

/// A value that the scheduler packs by itself.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub(crate) enum Value<'a> {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(&'a [u8]),
    /// A light userdata.
    Pointer(*mut c_void),
}

/// Packs values without a Lua state; null and 0 for none, or when there is no memory.
#[allow(dead_code)]
pub(crate) fn pack_values(values: &[Value<'_>]) -> (*mut c_void, usize) {
    let mut buffer = Buffer::new();
    let packed = values
        .iter()
        .try_for_each(|value| write(&mut buffer, *value))
        .and_then(|()| buffer.finish());
    packed.unwrap_or((ptr::null_mut(), 0))
}

/// The same as a message's payload.
pub(crate) fn payload(values: &[Value<'_>]) -> Payload {
    let (pointer, size) = pack_values(values);
    // SAFETY: a fresh block of libc's, or null.
    unsafe { Payload::from_raw(pointer, size) }
}

fn write(buffer: &mut Buffer, value: Value<'_>) -> Result<(), Exhausted> {
    match value {
        Value::Nil => buffer.byte(format::NIL),
        Value::Boolean(false) => buffer.byte(format::FALSE),
        Value::Boolean(true) => buffer.byte(format::TRUE),
        Value::Integer(value) => buffer::write_integer(buffer, value),
        Value::Float(value) => buffer.tagged(format::FLOAT, value.to_ne_bytes()),
        Value::String(bytes) => buffer::write_string(buffer, bytes),
        Value::Pointer(pointer) => buffer.tagged(format::POINTER, (pointer as usize).to_ne_bytes()),
    }
}
