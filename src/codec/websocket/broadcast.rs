//! One message of a server for many connections: its frame is built once, and compressed once for each size of window.
//!
//! Invariant: a frame depends on no connection: it refers to no earlier message, and only to bytes within the window. So
//! it is valid for each connection with that window, even with context takeover. [`super::writer::Writer::broadcast`]
//! keeps the connection's compressor consistent with the peer.

use bytes::Bytes;

use super::Kind;
use super::encoded_frame::{SharedCompressor, plain_frame};
use super::negotiation::MAX_WINDOW_BITS;

/// The smallest window, as a power of two.
const MIN_WINDOW_BITS: u8 = 8;

const SIZES: usize = (MAX_WINDOW_BITS - MIN_WINDOW_BITS) as usize + 1;

/// A message and its frames.
pub(crate) struct Broadcast {
    kind: Kind,
    message: Bytes,
    plain: Option<Bytes>,
    /// For each size of window: `None` before the first use, `Some(None)` if the message cannot be compressed.
    compressed: [Option<Option<Bytes>>; SIZES],
}

impl Broadcast {
    /// The caller guarantees that a text is UTF-8.
    pub(crate) fn new(kind: Kind, message: Bytes) -> Broadcast {
        Broadcast { kind, message, plain: None, compressed: [const { None }; SIZES] }
    }

    pub(super) fn message(&self) -> &Bytes {
        &self.message
    }

    /// Returns the frame without compression.
    pub(super) fn plain(&mut self) -> Bytes {
        self.plain.get_or_insert_with(|| plain_frame(self.kind.into(), &self.message, None)).clone()
    }

    /// Returns the compressed frame for a window; `None` if it would not be smaller.
    pub(super) fn compressed(&mut self, window_bits: u8, level: u32, shared: &mut SharedCompressor) -> Option<Bytes> {
        // A message refers at most to its first byte, so that windows that are larger than the message share a frame.
        let sufficient = (MIN_WINDOW_BITS..MAX_WINDOW_BITS).find(|bits| self.message.len() <= 1 << bits);
        let bits = window_bits.clamp(MIN_WINDOW_BITS, sufficient.unwrap_or(MAX_WINDOW_BITS));
        let slot = &mut self.compressed[usize::from(bits - MIN_WINDOW_BITS)];
        slot.get_or_insert_with(|| shared.frame(self.kind, &self.message, bits, level, None)).clone()
    }
}
