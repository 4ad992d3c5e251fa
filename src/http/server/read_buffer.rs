//! The read buffer, into which all connections read, and the bytes that a connection keeps.
//!
//! Invariant: the bytes of a connection that were read and not consumed are in one place, in order: either in the
//! read buffer or in the connection's own input.

use super::transport::Transport;
use crate::stream::queue::Attempt;
use bytes::{Buf, BytesMut};
use std::io;

/// The size of the buffer in bytes. One read can return a message of 64 KiB; if free space remains, the read has
/// returned all available data.
const SIZE: usize = 64 * 1024 + 512;

/// The minimum free space for a read, in bytes.
const LEAST_SPACE: usize = 4 * 1024;

/// The owner of an empty buffer.
const NO_OWNER: usize = usize::MAX;

/// The buffer. It contains bytes of at most one connection.
pub(super) struct ReadBuffer {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
    owner: usize,
}

impl ReadBuffer {
    pub(super) fn new() -> Self {
        ReadBuffer { memory: Box::default(), start: 0, end: 0, owner: NO_OWNER }
    }

    /// Returns the slot of the connection that owns the buffer; `None` if the owner is `slot`, or if the buffer is
    /// empty.
    pub(super) fn other_owner(&self, slot: usize) -> Option<usize> {
        (self.owner != slot && self.owner != NO_OWNER).then_some(self.owner)
    }

    /// Returns the unread bytes of the connection at `slot`, whose own input is `input`.
    pub(super) fn bytes<'b>(&'b self, slot: usize, input: &'b BytesMut) -> &'b [u8] {
        if self.owner == slot { &self.memory[self.start..self.end] } else { input }
    }

    /// Removes the first `count` unread bytes of the connection at `slot`, or all of them if there are fewer.
    #[inline]
    pub(super) fn consume(&mut self, slot: usize, input: &mut BytesMut, count: usize) {
        if self.owner == slot {
            if count < self.end - self.start {
                self.start += count
            } else {
                self.clear()
            }
            return;
        }
        if count > 0 {
            consume_input(input, count);
        }
    }

    fn clear(&mut self) {
        (self.start, self.end, self.owner) = (0, 0, NO_OWNER);
    }

    /// Moves the bytes to `input`, which must belong to the owner of the buffer.
    #[cold]
    pub(super) fn move_to_owner(&mut self, input: &mut BytesMut) {
        input.extend_from_slice(&self.memory[self.start..self.end]);
        self.clear();
    }

    /// Discards the bytes of the connection at `slot`, which is being removed.
    pub(super) fn discard(&mut self, slot: usize) {
        if self.owner == slot {
            self.clear();
        }
    }

    /// Reads once for the connection at `slot`; no other connection may own the buffer. Returns the result of
    /// [`Transport::receive`].
    #[inline]
    pub(super) fn fill<T: Transport>(
        &mut self, slot: usize, input: &mut BytesMut, from: &mut T,
    ) -> io::Result<Attempt<usize>> {
        if self.memory.len() - self.end < LEAST_SPACE {
            self.make_space(input);
        }
        let moved = from.receive(&mut self.memory[self.end..])?;
        if let Attempt::Done(count @ 1..) = moved {
            self.end += count;
            self.owner = slot;
            if !input.is_empty() {
                self.move_to_owner(input);
            }
        }
        Ok(moved)
    }

    #[cold]
    fn make_space(&mut self, input: &mut BytesMut) {
        if self.memory.is_empty() {
            self.memory = vec![0; SIZE].into();
        }
        if self.owner != NO_OWNER {
            self.move_to_owner(input);
        }
    }
}

#[cold]
fn consume_input(input: &mut BytesMut, count: usize) {
    match count < input.len() {
        true => input.advance(count),
        // A connection without unread bytes keeps no memory.
        false => *input = BytesMut::new(),
    }
}
