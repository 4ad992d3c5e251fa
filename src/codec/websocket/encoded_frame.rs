//! Whole frames: of control frames, and of messages that depend on no connection.

use super::Kind;
use super::deflate::{Compressor, Failed};
use super::frame::{Head, MAX_HEAD, Opcode};
use super::mask::{self, Key};
use super::negotiation::Direction;
use bytes::{Buf, Bytes};

/// A compressor for messages that do not refer to earlier messages. All connections of a thread share one, with the same
/// level.
#[derive(Default)]
pub(crate) struct SharedCompressor(Option<Box<Compressor>>);

impl SharedCompressor {
    /// Returns the frame of a message that is compressed independently of others; `None` if it would not be smaller.
    pub(super) fn frame(
        &mut self, kind: Kind, message: &[u8], window_bits: u8, level: u32, key: Option<Key>,
    ) -> Option<Bytes> {
        let compressor = self.0.get_or_insert_with(|| Box::new(Compressor::new(level)));
        let mut out = vec![0; MAX_HEAD];
        let with = Direction { keeps_context: false, window_bits };
        match compressor.compress(message, with, &mut out) {
            Ok(()) if out.len() - MAX_HEAD < message.len() => Some(compressed_frame(kind, out, key)),
            Ok(()) => None,
            Err(Failed) => {
                self.0 = None;
                None
            }
        }
    }
}

/// Encodes a frame without compression: a control frame, whose payload must have at most 125 bytes, or a whole message.
pub(crate) fn plain_frame(opcode: Opcode, payload: &[u8], key: Option<Key>) -> Bytes {
    let length = payload.len() as u64;
    let head = Head { is_final: true, is_compressed: false, opcode, key, length }.encode();
    let mut frame = Vec::with_capacity(head.as_slice().len() + payload.len());
    frame.extend_from_slice(head.as_slice());
    frame.extend_from_slice(payload);
    if let Some(key) = key {
        mask::apply(&mut frame[head.as_slice().len()..], key);
    }
    Bytes::from(frame)
}

/// Encodes the frame of a compressed message, which starts after [`MAX_HEAD`] unused bytes.
pub(super) fn compressed_frame(kind: Kind, mut out: Vec<u8>, key: Option<Key>) -> Bytes {
    let length = (out.len() - MAX_HEAD) as u64;
    let head = Head { is_final: true, is_compressed: true, opcode: kind.into(), key, length }.encode();
    let start = MAX_HEAD - head.as_slice().len();
    out[start..MAX_HEAD].copy_from_slice(head.as_slice());
    if let Some(key) = key {
        mask::apply(&mut out[MAX_HEAD..], key);
    }
    // The frame may wait in a queue.
    out.shrink_to_fit();
    let mut frame = Bytes::from(out);
    frame.advance(start);
    frame
}
