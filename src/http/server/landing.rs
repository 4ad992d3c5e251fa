//! Where reads of all connections land, and what a connection keeps of them.
//!
//! Invariant: the bytes of a connection that were read and not consumed lie in one place, in order: in the landing
//! buffer, when that has them, else in the connection's own input.

use super::transport::Transport;
use crate::stream::queue::Moved;
use bytes::{Buf, BytesMut};
use std::io;

/// A message of 64 KiB comes in one read, and by what is left of the room is known to be all there is.
const ROOM: usize = 64 * 1024 + 512;

/// A read gets at least so much room.
const LEAST: usize = 4 * 1024;

/// The slot of nobody.
const NOBODY: usize = usize::MAX;

/// The buffer that reads land in. It holds bytes of one connection at most.
pub(super) struct Landing {
    room: Box<[u8]>,
    start: usize,
    end: usize,
    owner: usize,
}

impl Landing {
    pub(super) fn new() -> Self {
        Landing { room: Box::default(), start: 0, end: 0, owner: NOBODY }
    }

    /// The slot of the connection that it has bytes of, unless that is `slot`.
    pub(super) fn other_owner(&self, slot: usize) -> Option<usize> {
        (self.owner != slot && self.owner != NOBODY).then_some(self.owner)
    }

    /// What was read of the connection at `slot`, whose own bytes are `input`.
    pub(super) fn bytes<'b>(&'b self, slot: usize, input: &'b BytesMut) -> &'b [u8] {
        if self.owner == slot { &self.room[self.start..self.end] } else { input }
    }

    /// Drops the first `count` of these, or all when there are fewer.
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
        (self.start, self.end, self.owner) = (0, 0, NOBODY);
    }

    /// What it has goes to `input`, that of its owner.
    #[cold]
    pub(super) fn spill(&mut self, input: &mut BytesMut) {
        input.extend_from_slice(&self.room[self.start..self.end]);
        self.clear();
    }

    /// The connection at `slot` is gone.
    pub(super) fn forget(&mut self, slot: usize) {
        if self.owner == slot {
            self.clear();
        }
    }

    /// Reads once for the connection at `slot`; nobody else owns it. → as [`Transport::receive`]
    #[inline]
    pub(super) fn fill<T: Transport>(
        &mut self, slot: usize, input: &mut BytesMut, from: &mut T,
    ) -> io::Result<Moved<usize>> {
        if self.room.len() - self.end < LEAST {
            self.make_room(input);
        }
        let moved = from.receive(&mut self.room[self.end..])?;
        if let Moved::Done(count @ 1..) = moved {
            self.end += count;
            self.owner = slot;
            if !input.is_empty() {
                self.spill(input);
            }
        }
        Ok(moved)
    }

    #[cold]
    fn make_room(&mut self, input: &mut BytesMut) {
        if self.room.is_empty() {
            self.room = vec![0; ROOM].into();
        }
        if self.owner != NOBODY {
            self.spill(input);
        }
    }
}

#[cold]
fn consume_input(input: &mut BytesMut, count: usize) {
    match count < input.len() {
        true => input.advance(count),
        // A connection without bytes keeps no memory.
        false => *input = BytesMut::new(),
    }
}
