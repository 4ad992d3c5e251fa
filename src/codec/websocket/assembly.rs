//! The incomplete message of a reader: its fragments are joined, decompressed and checked as they arrive.
//!
//! Invariant: the memory grows with the bytes received, not with the lengths that heads announce, and is freed when a
//! message is complete. Each byte is examined a bounded number of times. A text is checked as far as it has arrived,
//! except for an incomplete character at its end.

use super::inflate::{Inflater, Next, TRAILER};
use super::{Kind, Refusal, close};

/// Below this number of decompressed bytes, the ratio is not checked.
const RATIO_FLOOR: usize = 1 << 20;
/// The compressed form of a message may exceed the limit of messages by this factor and this number of bytes. Without
/// this limit, a message of empty blocks would never end.
const COMPRESSED_FACTOR: u64 = 2;
const COMPRESSED_ALLOWANCE: u64 = 4096;
/// The compressed form of a message may have at most this number of bytes for each byte of data, and
/// [`COMPRESSED_ALLOWANCE`] more. A peer that flushes after every byte needs 11 at most; blocks without data take much
/// time. This is checked after each [`CHECKED`] bytes, so that it does not depend on how the bytes are split.
const EXPANSION_FACTOR: u64 = 12;
const CHECKED: u64 = COMPRESSED_ALLOWANCE;

const NOT_UTF8: Refusal = Refusal::new(close::INVALID_DATA, "text that is not UTF-8");
const TOO_LONG: Refusal = Refusal::new(close::MESSAGE_TOO_BIG, "message exceeds the limit");
const RATIO: Refusal = Refusal::new(close::MESSAGE_TOO_BIG, "message exceeds the limit of the compression ratio");
const EMPTY: Refusal = Refusal::new(close::POLICY_VIOLATION, "compressed message with too little data");
const CORRUPT: Refusal = Refusal::protocol("message with corrupt compressed data");

/// The limits of one reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// The maximum size of a message after decompression, in bytes.
    pub(crate) message: u64,
    /// The maximum size of a frame's payload before decompression, in bytes.
    pub(crate) frame: u64,
    /// The maximum number of fragments of one message that add no data.
    pub(crate) empty_fragments: u32,
    /// The maximum of decompressed size / compressed size of a message above 1 MiB; at least 1. Deflate reaches 1032.
    pub(crate) ratio: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { message: 1 << 20, frame: 1 << 20, empty_fragments: 128, ratio: 200 }
    }
}

/// The message whose fragments arrive.
#[derive(Default)]
pub(super) struct Assembly {
    /// The type of the message; `None` between messages.
    kind: Option<Kind>,
    is_compressed: bool,
    data: Vec<u8>,
    /// The number of bytes of `data` at the start of the current fragment.
    start: usize,
    /// The number of bytes of a text that are known to be UTF-8.
    checked: usize,
    /// The number of fragments that have added no data.
    empty_fragments: u32,
    /// The number of bytes of a compressed message before decompression.
    compressed: u64,
    /// The number of bytes that were decompressed since [`Assembly::take_work`].
    work: u64,
    /// Exists while a compressed message arrives, and, with context takeover, between messages.
    inflater: Option<Box<Inflater>>,
}

impl Assembly {
    /// Whether a message has started that has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.kind.is_some()
    }

    /// Whether no buffer is allocated.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn owns_no_memory(&self) -> bool {
        self.data.capacity() == 0 && self.inflater.is_none()
    }

    /// Returns the number of bytes that were decompressed since the last call.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Starts a message.
    pub(super) fn open(&mut self, kind: Kind, is_compressed: bool) {
        self.kind = Some(kind);
        self.is_compressed = is_compressed;
    }

    /// Starts a fragment with `length` bytes.
    ///
    /// # Errors
    /// 1009 if the message would exceed the limit.
    pub(super) fn begin(&mut self, length: u64, limits: &Limits) -> Result<(), Refusal> {
        self.start = self.data.len();
        let (known, limit) = match self.is_compressed {
            true => {
                (self.compressed, limits.message.saturating_mul(COMPRESSED_FACTOR).saturating_add(COMPRESSED_ALLOWANCE))
            }
            false => (self.data.len() as u64, limits.message),
        };
        if known.saturating_add(length) > limit { Err(TOO_LONG) } else { Ok(()) }
    }

    /// Whether `piece`, the whole payload of a final fragment, is a whole message that needs no copy. If so, the message
    /// is complete.
    ///
    /// # Errors
    /// 1007 if a text is not UTF-8.
    #[inline]
    pub(super) fn complete(&mut self, piece: &[u8]) -> Result<Option<Kind>, Refusal> {
        let Some(kind) = self.kind else { return Ok(None) };
        if self.is_compressed || !self.data.is_empty() {
            return Ok(None);
        }
        if kind == Kind::Text && simdutf8::basic::from_utf8(piece).is_err() {
            return Err(NOT_UTF8);
        }
        self.close();
        Ok(Some(kind))
    }

    /// Adds an unmasked piece of a payload.
    ///
    /// # Errors
    /// 1007 for a text that is not UTF-8, 1009 for a message that exceeds a limit, 1008 for a compressed message with too
    /// little data, 1002 for corrupt compressed data.
    pub(super) fn push(&mut self, piece: &[u8], limits: &Limits) -> Result<(), Refusal> {
        if !self.is_compressed {
            self.data.extend_from_slice(piece);
            return self.check_text();
        }
        self.work += piece.len() as u64;
        let inflated = self.inflate_piece(piece, limits);
        // An invalid text is refused for that reason, even if corrupt data follows it in the same piece.
        self.check_text()?;
        inflated
    }

    /// Ends a fragment that is not the last one.
    ///
    /// # Errors
    /// 1008 if too many fragments add nothing to the message.
    pub(super) fn end_fragment(&mut self, limits: &Limits) -> Result<(), Refusal> {
        if self.data.len() == self.start {
            self.empty_fragments += 1;
        }
        match self.empty_fragments > limits.empty_fragments {
            true => Err(Refusal::new(close::POLICY_VIOLATION, "message with too many empty fragments")),
            false => Ok(()),
        }
    }

    /// Ends the message after its last fragment. Returns the type and the data.
    ///
    /// # Errors
    /// Those of [`Assembly::push`]; a text whose last character is incomplete.
    pub(super) fn end(&mut self, keeps_context: bool, limits: &Limits) -> Result<(Kind, Vec<u8>), Refusal> {
        if self.is_compressed {
            self.end_compressed(limits)?;
        }
        let is_text = self.kind == Some(Kind::Text);
        if is_text && self.checked < self.data.len() {
            return Err(NOT_UTF8);
        }
        if !keeps_context {
            self.inflater = None;
        }
        self.close();
        let kind = if is_text { Kind::Text } else { Kind::Binary };
        Ok((kind, std::mem::take(&mut self.data)))
    }

    /// Sets the state between messages. The data has been taken, or is empty.
    #[inline]
    fn close(&mut self) {
        self.kind = None;
        self.checked = 0;
        self.empty_fragments = 0;
        self.compressed = 0;
    }

    fn end_compressed(&mut self, limits: &Limits) -> Result<(), Refusal> {
        // Some senders encode an empty message as no bytes, because their compressor has nothing to flush.
        if self.compressed == 0 {
            return Ok(());
        }
        let inflated = self.inflate(&TRAILER, limits);
        self.check_text()?;
        inflated?;
        match self.inflater.as_ref().is_some_and(|inflater| inflater.is_at_end()) {
            true => Ok(()),
            false => Err(CORRUPT),
        }
    }

    fn inflate_piece(&mut self, mut piece: &[u8], limits: &Limits) -> Result<(), Refusal> {
        while !piece.is_empty() {
            let length = (CHECKED - self.compressed % CHECKED).min(piece.len() as u64);
            let (slice, rest) = piece.split_at(length as usize);
            self.compressed += length;
            self.inflate(slice, limits)?;
            let most = COMPRESSED_ALLOWANCE + EXPANSION_FACTOR * self.data.len() as u64;
            if self.compressed.is_multiple_of(CHECKED) && self.compressed > most {
                return Err(EMPTY);
            }
            piece = rest;
        }
        Ok(())
    }

    fn inflate(&mut self, mut input: &[u8], limits: &Limits) -> Result<(), Refusal> {
        let inflater = self.inflater.get_or_insert_with(Inflater::new);
        loop {
            let step = inflater.step(input);
            let space = limits.message - self.data.len() as u64;
            if step.output.len() as u64 > space {
                // The bytes within the limit are added, because they may contain an earlier fault.
                self.data.extend_from_slice(&step.output[..space as usize]);
                return Err(TOO_LONG);
            }
            self.data.extend_from_slice(step.output);
            let total = self.data.len();
            if total > RATIO_FLOOR && total as u64 / u64::from(limits.ratio.max(1)) > self.compressed {
                return Err(RATIO);
            }
            input = &input[step.consumed..];
            match step.next {
                Next::Input => return Ok(()),
                Next::Output => (),
                Next::Corrupt => return Err(CORRUPT),
            }
        }
    }

    /// Checks the new bytes of a text.
    fn check_text(&mut self) -> Result<(), Refusal> {
        if self.kind != Some(Kind::Text) {
            return Ok(());
        }
        match simdutf8::compat::from_utf8(&self.data[self.checked..]) {
            Ok(_) => self.checked = self.data.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(NOT_UTF8),
        }
        Ok(())
    }
}
