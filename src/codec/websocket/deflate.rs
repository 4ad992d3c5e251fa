//! Compression of messages (RFC 7692 section 7.2.1). The writer and broadcasts use it.
//!
//! The compressor has a window of 32 KiB. A smaller window is kept by forgetting the history before more bytes than the
//! window have been compressed. Invariant: no compressed byte refers to a byte before the last [`Compressor::forget`]
//! or to a byte farther away than the window.

use flate2::{Compress, Compression, FlushCompress};

use super::negotiation::{Direction, MAX_WINDOW_BITS};

/// The end of the empty stored block that a flush outputs; the sender removes it.
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];

/// The compressor has failed to flush. It must not be used again; the message can be sent without compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failed;

/// A compressor with its history, over 300 KiB.
pub(crate) struct Compressor {
    state: Compress,
    /// The number of bytes that have been compressed since the history was forgotten.
    history: usize,
}

impl Compressor {
    /// `level`: 1 (fast) to 9 (small).
    pub(crate) fn new(level: u32) -> Compressor {
        Compressor { state: Compress::new(Compression::new(level), false), history: 0 }
    }

    /// Appends the compressed form of a message to `out`. Without context takeover, each message is compressed
    /// independently.
    ///
    /// # Errors
    /// The compressor has failed; `out` then contains a part of the message.
    pub(crate) fn compress(&mut self, mut message: &[u8], with: Direction, out: &mut Vec<u8>) -> Result<(), Failed> {
        if message.is_empty() {
            // An empty block without its end (RFC 7692 section 7.2.3.6).
            out.push(0);
            return Ok(());
        }
        let window = 1 << with.window_bits;
        while !message.is_empty() {
            let space = match with.window_bits >= MAX_WINDOW_BITS {
                true => usize::MAX,
                false => window - self.history,
            };
            let (segment, rest) = message.split_at(message.len().min(space));
            message = rest;
            self.history = self.history.saturating_add(segment.len());
            let forgets = segment.len() == space || rest.is_empty() && !with.keeps_context;
            self.flush(segment, if forgets { FlushCompress::Full } else { FlushCompress::Sync }, out)?;
            if forgets {
                self.history = 0;
            }
        }
        match out.ends_with(&FLUSHED) {
            true => Ok(out.truncate(out.len() - FLUSHED.len())),
            false => Err(Failed),
        }
    }

    /// Compresses a segment and flushes all output. A full flush also forgets the history.
    fn flush(&mut self, mut segment: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), Failed> {
        loop {
            out.reserve(segment.len() / 2 + 64);
            let before = self.state.total_in();
            self.state.compress_vec(segment, out, flush).map_err(|_| Failed)?;
            segment = &segment[(self.state.total_in() - before) as usize..];
            // If the output is full, the compressor may have more.
            if segment.is_empty() && out.len() < out.capacity() {
                return Ok(());
            }
        }
    }
}
