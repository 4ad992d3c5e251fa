//! Queued bytes that stand in other streams as well.

use bytes::Bytes;
use std::collections::VecDeque;

/// What a queued piece counts besides its bytes, so that many short ones are limited as well.
const PIECE: usize = 64;

/// Bytes that stand in other streams as well, in the order in which they go out.
#[derive(Default)]
pub(super) struct Shared {
    pieces: VecDeque<Bytes>,
    length: usize,
}

impl Shared {
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        self.pieces.push_back(piece);
    }

    /// The bytes, and what it takes to keep them.
    pub(super) fn weight(&self) -> usize {
        self.length + PIECE * self.pieces.len()
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &piece[..])
    }

    /// The first `count` bytes are gone.
    pub(super) fn took(&mut self, mut count: usize) {
        self.length -= count;
        while let Some(first) = self.pieces.front_mut()
            && count > 0
        {
            if count < first.len() {
                let _ = first.split_to(count);
                return;
            }
            count -= first.len();
            self.pieces.pop_front();
        }
    }
}
