//! What services send each other. A message owns its payload, a block of libc's `malloc`, so that C code
//! and other service libraries can make and free it.

use crate::codec::pack::{Value, Writer};
use std::os::raw::c_void;

/// A service's number; 0 is the system, 1 is root.
pub(crate) type ServiceId = u32;

/// The system itself: never a service.
pub(crate) const SYSTEM: ServiceId = 0;
/// The root service.
pub(crate) const ROOT: ServiceId = 1;

/// Message types, as Lua code knows them.
pub(crate) mod kind {
    pub(crate) const SYSTEM: u8 = 0;
    pub(crate) const REQUEST: u8 = 1;
    pub(crate) const RESPONSE: u8 = 2;
    pub(crate) const ERROR: u8 = 3;
    pub(crate) const SIGNAL: u8 = 4;
    pub(crate) const IDLE: u8 = 5;
    /// Ours: a mailbox that was full (`from`'s) has room. No service library sees it.
    pub(crate) const ROOM: u8 = 255;
}

/// Types of schedule messages, which root sends to the system.
pub(crate) mod schedule {
    pub(crate) const NEW: u8 = 0;
    pub(crate) const DEL: u8 = 1;
}

/// Receipts of a send.
pub(crate) mod receipt {
    // 0 is NONE, which no send comes to here.
    pub(crate) const DONE: i64 = 1;
    pub(crate) const ERROR: i64 = 2;
    pub(crate) const BLOCK: i64 = 3;
    pub(crate) const RESPONSE: i64 = 4;
}

/// A block of libc's `malloc`, or nothing. Freed when dropped.
#[derive(Debug)]
pub(crate) struct Payload(Borrowed);

/// A block that another owner frees, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrowed {
    pointer: *mut c_void,
    size: usize,
}

// SAFETY: the block has one owner, which is this value.
unsafe impl Send for Payload {}

impl Borrowed {
    /// The block at an address that a Lua program gives. That there is one of this size, until the call is over, is the
    /// program's promise, as for all of `ltask` that takes pointers.
    pub(crate) fn new(address: usize, size: usize) -> Borrowed {
        let pointer = std::ptr::with_exposed_provenance_mut(address);
        Borrowed { pointer, size }
    }
}

impl AsRef<[u8]> for Borrowed {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: a block with at least `size` bytes, by the promise that it was made with; nobody writes to one.
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
    pub(crate) const EMPTY: Payload = Payload(Borrowed { pointer: std::ptr::null_mut(), size: 0 });

    /// A copy of the bytes; `None` without memory.
    #[inline]
    pub(crate) fn copy(bytes: &[u8]) -> Option<Payload> {
        let size = bytes.len();
        if size == 0 {
            return Some(Payload::EMPTY);
        }
        // SAFETY: a fresh block of that size, or none.
        unsafe {
            let pointer = libc::malloc(size);
            if pointer.is_null() {
                return None;
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.cast(), size);
            Some(Payload(Borrowed { pointer, size }))
        }
    }

    /// The values; nothing without memory.
    pub(crate) fn of(values: &[Value<'_>]) -> Payload {
        let mut writer = Writer::default();
        let written = values.iter().try_for_each(|value| writer.value(*value));
        let payload = written.ok().and_then(|()| Payload::copy(writer.bytes()));
        payload.unwrap_or(Payload::EMPTY)
    }

    /// The block at an address that a Lua program gives away: as for [`Borrowed::new`], and it is of `malloc`.
    pub(crate) fn adopt(address: usize, size: usize) -> Payload {
        Payload(Borrowed::new(address, size))
    }

    /// Gives the block away. → its address, to be freed by `free` or by [`Payload::adopt`], and its size
    pub(crate) fn give(self) -> (usize, usize) {
        let given = (self.0.pointer.expose_provenance(), self.0.size);
        std::mem::forget(self);
        given
    }

    /// The same block, for who keeps the payload until that is not used any more.
    pub(crate) fn lend(&self) -> Borrowed {
        self.0
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // SAFETY: null, or a block of `malloc` that is this value's.
        unsafe { libc::free(self.0.pointer) };
    }
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: ServiceId,
    pub(crate) to: ServiceId,
    /// 0: no task waits for an answer.
    pub(crate) session: i64,
    pub(crate) kind: u8,
    pub(crate) payload: Payload,
}

impl Message {
    /// A message without a payload.
    pub(crate) fn bare(from: ServiceId, to: ServiceId, session: i64, kind: u8) -> Message {
        Message { from, to, session, kind, payload: Payload::EMPTY }
    }

    /// A message with these values; with none of them without memory.
    pub(crate) fn of(from: ServiceId, to: ServiceId, session: i64, kind: u8, values: &[Value<'_>]) -> Message {
        Message { from, to, session, kind, payload: Payload::of(values) }
    }

    /// Whether its sender waits for an answer.
    pub(crate) fn wants_answer(&self) -> bool {
        self.session != 0 && matches!(self.kind, kind::REQUEST | kind::SYSTEM)
    }

    /// Whether it came from outside, by `external_sender`.
    pub(crate) fn is_external(&self) -> bool {
        self.from == SYSTEM && self.kind == kind::REQUEST
    }

    /// Whether the mailbox's bound holds for it. Answers are bounded by the requests they belong to, and
    /// must not get lost: they always find room.
    pub(crate) fn is_bounded(&self) -> bool {
        match self.kind {
            kind::RESPONSE | kind::ERROR | kind::SIGNAL | kind::IDLE | kind::ROOM => false,
            // Root's and the system's own are few, and must arrive.
            kind::SYSTEM => self.from > ROOT,
            // Those of outside have a bound of their own.
            _ => self.from != SYSTEM,
        }
    }
}
