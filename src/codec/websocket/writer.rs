//! The encoder of one direction of a connection: messages and control frames to bytes.
//!
//! Invariant: the history of the connection's compressor is always the end of what the peer's decompressor has output
//! since the compressor was created. So a compressed frame from elsewhere (a broadcast) drops the compressor: the next
//! message begins a new history, and refers to no byte before it.

use bytes::Bytes;

use super::Kind;
use super::broadcast::Broadcast;
use super::deflate::{Compressor, Failed};
use super::encoded_frame::{SharedCompressor, compressed_frame, plain_frame};
use super::frame::MAX_HEAD;
use super::mask::Key;
use super::negotiation::Direction;

/// How messages are compressed, if compression was negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// 1 (fast) to 9 (small).
    pub(crate) level: u32,
    /// Messages with fewer bytes are not compressed.
    pub(crate) threshold: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { level: 5, threshold: 256 }
    }
}

/// The encoder of the messages to one peer.
pub(crate) struct Writer {
    deflate: Option<Direction>,
    settings: Settings,
    /// With context takeover: exists after the first compressed message.
    compressor: Option<Box<Compressor>>,
}

impl Writer {
    /// `deflate`: the parameters of this endpoint's messages, if compression was negotiated.
    pub(crate) fn new(deflate: Option<Direction>, settings: Settings) -> Writer {
        Writer { deflate, settings, compressor: None }
    }

    /// Whether a message of this length, in bytes, is compressed.
    pub(crate) fn compresses(&self, length: usize) -> bool {
        self.deflate.is_some() && length >= self.settings.threshold
    }

    /// Encodes a message as one frame. The caller guarantees that a text is UTF-8. `key`: a new random key for a client,
    /// `None` for a server. The frames of one connection must be sent in the order of the calls.
    pub(crate) fn message(
        &mut self, kind: Kind, message: &[u8], key: Option<Key>, shared: &mut SharedCompressor,
    ) -> Bytes {
        let deflate = self.deflate.filter(|_| message.len() >= self.settings.threshold);
        let compressed = deflate.and_then(|with| match with.keeps_context {
            true => self.compressed(kind, message, with, key),
            false => shared.frame(kind, message, with.window_bits, self.settings.level, key),
        });
        compressed.unwrap_or_else(|| plain_frame(kind.into(), message, key))
    }

    /// Returns the frame of a broadcast for this connection, which must be one of a server.
    pub(crate) fn broadcast(&mut self, broadcast: &mut Broadcast, shared: &mut SharedCompressor) -> Bytes {
        let deflate = self.deflate.filter(|_| broadcast.message().len() >= self.settings.threshold);
        let compressed = deflate.and_then(|with| broadcast.compressed(with.window_bits, self.settings.level, shared));
        if compressed.is_some() {
            self.compressor = None;
        }
        compressed.unwrap_or_else(|| broadcast.plain())
    }

    /// Compresses with the history of the connection. The frame is used even if it is not smaller, because otherwise the
    /// history would differ from the peer's.
    fn compressed(&mut self, kind: Kind, message: &[u8], with: Direction, key: Option<Key>) -> Option<Bytes> {
        let level = self.settings.level;
        let compressor = self.compressor.get_or_insert_with(|| Box::new(Compressor::new(level)));
        let mut out = vec![0; MAX_HEAD];
        match compressor.compress(message, with, &mut out) {
            Ok(()) => Some(compressed_frame(kind, out, key)),
            Err(Failed) => {
                self.compressor = None;
                None
            }
        }
    }
}
