//! Decoder of the chunked transfer coding (RFC 9112 section 7.1).
//!
//! The caller keeps one [`Chunked`] per message, passes the buffered bytes, uses the data as a sub-slice of that
//! buffer, removes the consumed bytes, and calls again. Invariant: each byte is examined a bounded number of times, and
//! input that does not match the grammar exactly is refused with 400.

use std::ops::Range;

use super::fields::{self, Field, Section};
use super::reject::Reject;

/// The maximum number of bytes of the extensions in one chunk line.
const MAX_EXTENSION: u32 = 4096;

/// The extensions of all chunks together may exceed the data by this many bytes. Without this limit a client could make
/// the server read forever and never reach a body limit.
const EXTENSION_ALLOWANCE: u64 = 16 * 1024;

/// The maximum number of bytes of a trailer section including its blank line.
const MAX_TRAILERS: usize = 8192;

/// The maximum number of fields of a trailer section.
const MAX_TRAILER_FIELDS: usize = 64;

/// The maximum number of digits of a chunk size.
const MAX_DIGITS: u8 = 16;

/// The result of one call. Ranges are offsets into the slice that was passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The number of bytes that are no longer needed. Pass the rest, followed by new bytes, to the next call.
    pub(crate) consumed: usize,
    /// A run of body data, never empty. It ends at `consumed`.
    pub(crate) data: Option<Range<usize>>,
    /// The trailer section including its blank line; present only in the result that completes the body. The handler
    /// gets the trailer fields separately: they are never merged into the fields of the head (RFC 9110 section 6.5.1).
    pub(crate) trailers: Option<Range<usize>>,
    /// Whether the body is complete. If so, the bytes after `consumed` belong to the next message.
    pub(crate) done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Within the digits of a chunk size.
    Size { value: u64, digits: u8 },
    /// White space before an extension; a `;` must follow.
    BeforeExtension { value: u64, length: u32 },
    /// Within the extensions.
    Extension { value: u64, length: u32, position: Position },
    /// Before the line feed of a chunk line.
    SizeFeed { value: u64 },
    /// Before `left` bytes of data; `left` is at least 1.
    Data { left: u64 },
    /// Before the carriage return after the data.
    DataReturn,
    /// Before the line feed after the data.
    DataFeed,
    /// Within the trailer section; its first `searched` bytes contain no blank line.
    Trailers { searched: usize },
    /// Complete.
    Done,
}

/// A position in an extension (RFC 9112 section 7.1.1): `;name`, `;name=value` or `;name="value"`, with white space
/// around `;` and `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// After the `;`, before a name.
    Start,
    Name,
    /// White space after a name.
    AfterName,
    /// After the `=`, before a value.
    BeforeValue,
    Value,
    Quoted,
    /// After a backslash within quotes.
    Escaped,
    /// After the closing quote.
    Closed,
    /// White space after a value.
    AfterValue,
}

impl Position {
    /// Returns the position after `byte`, or `None` if `byte` is not allowed here.
    fn after(self, byte: u8) -> Option<Position> {
        // Bytes outside ASCII are accepted, because extensions are ignored.
        let is_token = fields::is_token_byte(byte) || byte >= 0x80;
        Some(match (self, byte) {
            (Position::Quoted, b'"') => Position::Closed,
            (Position::Quoted, b'\\') => Position::Escaped,
            (Position::Quoted | Position::Escaped, b'\t' | 0x20..=0x7e | 0x80..) => Position::Quoted,
            (Position::Quoted | Position::Escaped, _) => return None,
            (Position::Start, b' ' | b'\t') => Position::Start,
            (Position::BeforeValue, b' ' | b'\t') => Position::BeforeValue,
            (Position::Name | Position::AfterName, b' ' | b'\t') => Position::AfterName,
            (_, b' ' | b'\t') => Position::AfterValue,
            (Position::Start | Position::Name, _) if is_token => Position::Name,
            (Position::BeforeValue | Position::Value, _) if is_token => Position::Value,
            (Position::BeforeValue, b'"') => Position::Quoted,
            (Position::Name | Position::AfterName, b'=') => Position::BeforeValue,
            (Position::Start | Position::BeforeValue, _) => return None,
            (_, b';') => Position::Start,
            _ => return None,
        })
    }

    /// Whether the chunk line may end at this position.
    fn is_whole(self) -> bool {
        matches!(self, Position::Name | Position::Value | Position::Closed)
    }
}

const NEXT_SIZE: State = State::Size { value: 0, digits: 0 };

/// The state of one chunked body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunked {
    state: State,
    /// The sum of the chunk sizes so far.
    total: u64,
    /// The number of bytes of extensions so far.
    extensions: u64,
}

impl Chunked {
    /// Returns a decoder at the start of a body.
    pub(crate) fn new() -> Self {
        Self { state: NEXT_SIZE, total: 0, extensions: 0 }
    }

    /// The number of data bytes announced so far: the bytes returned, and the rest of the current chunk. The caller
    /// compares this number with the body limit after each call.
    pub(crate) fn announced(&self) -> u64 {
        self.total
    }

    /// Decodes `buf`, which starts after the bytes consumed so far. If the result has no data and is not `done`, the
    /// next call needs more bytes than this call had.
    ///
    /// # Errors
    /// 400 for malformed input, 431 for trailers of more than 8 KiB or 64 fields. The decoder must not be used after an
    /// error.
    pub(crate) fn next(&mut self, buf: &[u8]) -> Result<Decoded, Reject> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data { left } => return Ok(self.data(buf, at, left)),
                State::Trailers { searched } => return self.trailer(buf, at, searched),
                State::Done => return Ok(Decoded { consumed: at, done: true, ..Decoded::default() }),
                _ => (),
            }
            let Some(&byte) = buf.get(at) else {
                return Ok(Decoded { consumed: at, ..Decoded::default() });
            };
            self.state = self.framing_byte(byte)?;
            at += 1;
        }
    }

    fn data(&mut self, buf: &[u8], at: usize, left: u64) -> Decoded {
        let available = (buf.len() - at) as u64;
        let run = available.min(left);
        self.state = match left - run {
            0 => State::DataReturn,
            left => State::Data { left },
        };
        let end = at + run as usize;
        Decoded { consumed: end, data: (run > 0).then_some(at..end), ..Decoded::default() }
    }

    /// Returns the state after `byte`, which belongs to a chunk line or to the end of a chunk.
    #[inline]
    fn framing_byte(&mut self, byte: u8) -> Result<State, Reject> {
        match (self.state, byte) {
            (State::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MAX_DIGITS {
                    return Err(Reject::bad("chunk size too long"));
                }
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                Ok(State::Size { value: (value << 4) | digit, digits: digits + 1 })
            }
            (State::Size { digits: 0, .. }, _) => Err(Reject::bad("malformed chunk size")),
            (State::Size { value, .. }, b'\r') => self.announce(value),
            (State::Extension { value, position, .. }, b'\r') if position.is_whole() => self.announce(value),
            (State::Size { value, .. }, b';') => self.extension(value, 0, Position::Start),
            (State::Size { value, .. }, b' ' | b'\t') => Ok(State::BeforeExtension { value, length: 1 }),
            (State::BeforeExtension { value, length }, b';') => self.extension(value, length, Position::Start),
            (State::BeforeExtension { value, length }, b' ' | b'\t') if length < MAX_EXTENSION => {
                Ok(State::BeforeExtension { value, length: length + 1 })
            }
            (State::Extension { value, length, position }, _) => match position.after(byte) {
                Some(position) => self.extension(value, length, position),
                None => Err(Reject::bad("malformed chunk extension")),
            },
            (State::SizeFeed { value: 0 }, b'\n') => Ok(State::Trailers { searched: 0 }),
            (State::SizeFeed { value }, b'\n') => Ok(State::Data { left: value }),
            (State::DataReturn, b'\r') => Ok(State::DataFeed),
            (State::DataFeed, b'\n') => Ok(NEXT_SIZE),
            (State::DataReturn | State::DataFeed, _) => Err(Reject::bad("chunk without its CRLF")),
            _ => Err(Reject::bad("malformed chunk line")),
        }
    }

    /// Counts one byte of an extension. `position` is the position after the byte.
    fn extension(&mut self, value: u64, length: u32, position: Position) -> Result<State, Reject> {
        self.extensions += 1;
        let allowed = self.total.saturating_add(EXTENSION_ALLOWANCE);
        if length >= MAX_EXTENSION || self.extensions > allowed {
            return Err(Reject::bad("chunk extensions too long"));
        }
        Ok(State::Extension { value, length: length + 1, position })
    }

    /// Adds the chunk size `value` to the total, which must stay in the range of Lua integers. Returns the state before
    /// the line feed of the chunk line.
    fn announce(&mut self, value: u64) -> Result<State, Reject> {
        let total = self.total.checked_add(value);
        self.total = total.filter(|&t| t <= i64::MAX as u64).ok_or(Reject::bad("chunk size too large"))?;
        Ok(State::SizeFeed { value })
    }

    /// Parses the trailer section once it is complete. Until then the section stays in the buffer: it is small, and the
    /// caller gets it in one piece.
    fn trailer(&mut self, buf: &[u8], at: usize, searched: usize) -> Result<Decoded, Reject> {
        let text = &buf[at..];
        let mut found = [Field::default(); MAX_TRAILER_FIELDS];
        let section = fields::parse_grown(text, searched, MAX_TRAILERS, MAX_TRAILER_FIELDS, &mut found)?;
        let Section::Complete { end, .. } = section else {
            self.state = State::Trailers { searched: text.len() };
            return Ok(Decoded { consumed: at, ..Decoded::default() });
        };
        self.state = State::Done;
        Ok(Decoded { consumed: at + end, data: None, trailers: Some(at..at + end), done: true })
    }
}
