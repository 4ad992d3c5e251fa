//! Messages between services. A message owns its payload, a block allocated with libc's `malloc`, so that C code and
//! other service libraries can create and free payloads.

use crate::codec::pack::{Value, Writer};
use std::os::raw::c_void;

/// A service's id. 0 is the system, 1 is root.
pub(crate) type ServiceId = u32;

/// The system itself, which is never a service.
pub(crate) const SYSTEM: ServiceId = 0;
/// The root service.
pub(crate) const ROOT: ServiceId = 1;

/// Message types, as Lua code uses them.
pub(crate) mod kind {
    pub(crate) const SYSTEM: u8 = 0;
    pub(crate) const REQUEST: u8 = 1;
    pub(crate) const RESPONSE: u8 = 2;
    pub(crate) const ERROR: u8 = 3;
    pub(crate) const SIGNAL: u8 = 4;
    pub(crate) const IDLE: u8 = 5;
    /// The service's selector has events, or, if the session is `IO_TIMER`, a timer of its loop is due. Messages of this
    /// type are lio's own; no service library receives them.
    pub(crate) const IO: u8 = 254;
    /// The mailbox of `from` was full, and has room again. Messages of this type are lio's own; no service library
    /// receives them.
    pub(crate) const ROOM: u8 = 255;
}

/// The session of a timer that makes the service run a round of its loop; see `service_io.rs`. No request has it.
pub(crate) const IO_TIMER: i64 = i64::MIN;

/// Types of the schedule messages that root sends to the system.
pub(crate) mod schedule {
    pub(crate) const NEW: u8 = 0;
    pub(crate) const DEL: u8 = 1;
}

/// Receipts of a send.
pub(crate) mod receipt {
    // 0 is NONE, which no send of this library returns.
    pub(crate) const DONE: i64 = 1;
    pub(crate) const ERROR: i64 = 2;
    pub(crate) const BLOCK: i64 = 3;
    pub(crate) const RESPONSE: i64 = 4;
}

/// A block allocated with libc's `malloc`, or nothing. Dropping the value frees the block.
#[derive(Debug)]
pub(crate) struct Payload(BorrowedPayload);

/// A block that another owner frees, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BorrowedPayload {
    pointer: *mut c_void,
    size: usize,
}

// SAFETY: this value is the only owner of the block, on any thread.
unsafe impl Send for Payload {}

impl BorrowedPayload {
    /// Returns the block of `size` bytes at `address`, which a Lua program has passed. The program promises, as for
    /// every function of `ltask` that takes pointers, that the block exists until the call returns.
    pub(crate) fn new(address: usize, size: usize) -> BorrowedPayload {
        let pointer = std::ptr::with_exposed_provenance_mut(address);
        BorrowedPayload { pointer, size }
    }
}

impl AsRef<[u8]> for BorrowedPayload {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: the caller of `new` has promised a block of at least `size` bytes, and no thread writes to it.
        unsafe { std::slice::from_raw_parts(self.pointer.cast_const().cast(), self.size) }
    }
}

impl AsRef<[u8]> for Payload {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Payload {
    pub(crate) const EMPTY: Payload = Payload(BorrowedPayload { pointer: std::ptr::null_mut(), size: 0 });

    /// Returns a copy of the bytes; None if there is not enough memory.
    #[inline]
    pub(crate) fn copy(bytes: &[u8]) -> Option<Payload> {
        let size = bytes.len();
        if size == 0 {
            return Some(Payload::EMPTY);
        }
        // SAFETY: `malloc` has returned a new block of `size` bytes, which cannot overlap `bytes`, or null, which is
        // checked.
        unsafe {
            let pointer = libc::malloc(size);
            if pointer.is_null() {
                return None;
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.cast(), size);
            Some(Payload(BorrowedPayload { pointer, size }))
        }
    }

    /// Returns the packed values; an empty payload if there is not enough memory.
    pub(crate) fn pack(values: &[Value<'_>]) -> Payload {
        let mut writer = Writer::default();
        let written = values.iter().try_for_each(|value| writer.value(*value));
        let payload = written.ok().and_then(|()| Payload::copy(writer.bytes()));
        payload.unwrap_or(Payload::EMPTY)
    }

    /// Takes ownership of the block of `size` bytes at `address`, which a Lua program has passed. The program promises
    /// the same as for [`BorrowedPayload::new`], and that the block was allocated with `malloc`.
    pub(crate) fn from_raw(address: usize, size: usize) -> Payload {
        Payload(BorrowedPayload::new(address, size))
    }

    /// Gives up ownership of the block. Returns its address and its size. The caller must free the block with `free` or
    /// [`Payload::from_raw`].
    pub(crate) fn into_raw(self) -> (usize, usize) {
        let raw = (self.0.pointer.expose_provenance(), self.0.size);
        std::mem::forget(self);
        raw
    }

    /// Returns the same block. The caller must keep the payload while it uses the result.
    pub(crate) fn borrow(&self) -> BorrowedPayload {
        self.0
    }

    /// Returns the bytes of the block.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // SAFETY: the pointer is null, or points to a block from `malloc` that only this value frees.
        unsafe { libc::free(self.0.pointer) };
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: ServiceId,
    pub(crate) to: ServiceId,
    /// The session of the response; 0 if no task waits for a response.
    pub(crate) session: i64,
    pub(crate) kind: u8,
    pub(crate) payload: Payload,
}

impl Message {
    /// Returns a message without a payload.
    pub(crate) fn without_payload(from: ServiceId, to: ServiceId, session: i64, kind: u8) -> Message {
        Message { from, to, session, kind, payload: Payload::EMPTY }
    }

    /// Returns a message whose payload contains these values; without a payload if there is not enough memory.
    pub(crate) fn with_values(from: ServiceId, to: ServiceId, session: i64, kind: u8, values: &[Value<'_>]) -> Message {
        Message { from, to, session, kind, payload: Payload::pack(values) }
    }

    /// Whether the sender of the message waits for a response.
    pub(crate) fn wants_response(&self) -> bool {
        self.session != 0 && matches!(self.kind, kind::REQUEST | kind::SYSTEM)
    }

    /// Whether C code has sent the message with the function that `external_sender` returns.
    pub(crate) fn is_external(&self) -> bool {
        self.from == SYSTEM && self.kind == kind::REQUEST
    }

    /// Whether the message counts against the capacity of a mailbox. Responses do not: they must not be lost, and the
    /// number of requests limits their number.
    pub(crate) fn is_bounded(&self) -> bool {
        match self.kind {
            kind::RESPONSE | kind::ERROR | kind::SIGNAL | kind::IDLE | kind::IO | kind::ROOM => false,
            // Messages from root and from the system are few, and must arrive.
            kind::SYSTEM => self.from > ROOT,
            // External messages have a separate limit.
            _ => self.from != SYSTEM,
        }
    }
}
