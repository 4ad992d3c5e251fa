//! Decoder of the chunked transfer coding, RFC 9112 section 7.1.
//!
//! The glue keeps one [`Chunked`] per message, hands over what is buffered, passes the data on as
//! a sub-slice of that very buffer, consumes, and asks again. Invariant: each byte is looked at a
//! bounded number of times, and a length is never guessed: what is not exactly the grammar is 400.

use std::ops::Range;

use super::fields::{self, Field, Section};
use super::status::Reject;

/// The most bytes of extensions in one chunk line.
const MAX_EXTENSION: u32 = 4096;

/// Extensions of all chunks together may exceed the data by so many bytes, so that nobody makes
/// the server read for ever without a body limit ever being reached.
const EXTENSION_ALLOWANCE: u64 = 16 * 1024;

/// The most bytes of a trailer section, its blank line included.
const MAX_TRAILERS: usize = 8192;

/// The most fields of a trailer section.
const MAX_TRAILER_FIELDS: usize = 64;

/// The most digits of a chunk size.
const MAX_DIGITS: u8 = 16;

/// What one call found. Ranges are offsets into the slice that was handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// So many bytes are done with; hand over the rest, and what comes in, at the next call.
    pub(crate) consumed: usize,
    /// A run of body data, never empty; it ends at or before `consumed`.
    pub(crate) data: Option<Range<usize>>,
    /// The trailer section up to and with its blank line, only when `done`. Its fields are data for the
    /// handler, and never merged into those of the head (RFC 9110 section 6.5.1).
    pub(crate) trailers: Option<Range<usize>>,
    /// The body is complete; what lies behind `consumed` is the next request.
    pub(crate) done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Within the digits of a size.
    Size { value: u64, digits: u8 },
    /// White space before an extension, which needs a `;` behind it.
    BeforeExtension { value: u64, length: u32 },
    /// Within the extensions.
    Extension { value: u64, length: u32, place: Place },
    /// The line feed of a chunk line is due.
    SizeFeed { value: u64 },
    /// So many bytes of data are due, at least one.
    Data { left: u64 },
    /// The carriage return behind the data is due.
    DataReturn,
    /// The line feed behind the data is due.
    DataFeed,
    /// The trailer section, of which so many bytes were searched for the blank line.
    Trailers { searched: usize },
    /// Complete.
    Done,
}

/// Where in an extension (RFC 9112 section 7.1.1): `;name`, `;name=value` or `;name="value"`, with white space around `;`
/// and `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the `;`: a name is due.
    Start,
    Name,
    /// White space behind a name.
    AfterName,
    /// Behind the `=`: a value is due.
    BeforeValue,
    Value,
    Quoted,
    /// Behind a backslash within quotes.
    Escaped,
    /// Behind the closing quote.
    Closed,
    /// White space behind a value.
    AfterValue,
}

impl Place {
    /// The place behind `byte`; `None` where that may not stand.
    fn behind(self, byte: u8) -> Option<Place> {
        // What is not ASCII means nothing, and harms nothing.
        let is_token = fields::is_token_byte(byte) || byte >= 0x80;
        Some(match (self, byte) {
            (Place::Quoted, b'"') => Place::Closed,
            (Place::Quoted, b'\\') => Place::Escaped,
            (Place::Quoted | Place::Escaped, b'\t' | 0x20..=0x7e | 0x80..) => Place::Quoted,
            (Place::Quoted | Place::Escaped, _) => return None,
            (Place::Start, b' ' | b'\t') => Place::Start,
            (Place::BeforeValue, b' ' | b'\t') => Place::BeforeValue,
            (Place::Name | Place::AfterName, b' ' | b'\t') => Place::AfterName,
            (_, b' ' | b'\t') => Place::AfterValue,
            (Place::Start | Place::Name, _) if is_token => Place::Name,
            (Place::BeforeValue | Place::Value, _) if is_token => Place::Value,
            (Place::BeforeValue, b'"') => Place::Quoted,
            (Place::Name | Place::AfterName, b'=') => Place::BeforeValue,
            (Place::Start | Place::BeforeValue, _) => return None,
            (_, b';') => Place::Start,
            _ => return None,
        })
    }

    /// Whether the line may end here.
    fn is_whole(self) -> bool {
        matches!(self, Place::Name | Place::Value | Place::Closed)
    }
}

const NEXT_SIZE: State = State::Size { value: 0, digits: 0 };

/// The state of one chunked body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunked {
    state: State,
    /// Sum of the sizes announced so far.
    total: u64,
    /// Bytes of extensions so far.
    extensions: u64,
}

impl Chunked {
    /// A decoder at the start of a body.
    pub(crate) fn new() -> Self {
        Self { state: NEXT_SIZE, total: 0, extensions: 0 }
    }

    /// The bytes of data announced so far: what has been handed out and the rest of the chunk
    /// that is coming in. Compare it with the body limit after each call.
    pub(crate) fn announced(&self) -> u64 {
        self.total
    }

    /// Takes the next step on `buf`, which starts behind what earlier calls consumed. When a step
    /// has no data and is not done, the next call needs more bytes than this one had.
    ///
    /// # Errors
    /// 400 for anything but the grammar, 431 for trailers beyond 8 KiB or 64 fields. The decoder
    /// must not be asked again after an error.
    pub(crate) fn next(&mut self, buf: &[u8]) -> Result<Step, Reject> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data { left } => return Ok(self.data(buf, at, left)),
                State::Trailers { searched } => return self.trailer(buf, at, searched),
                State::Done => return Ok(Step { consumed: at, done: true, ..Step::default() }),
                _ => (),
            }
            let Some(&byte) = buf.get(at) else {
                return Ok(Step { consumed: at, ..Step::default() });
            };
            self.state = self.framing_byte(byte)?;
            at += 1;
        }
    }

    fn data(&mut self, buf: &[u8], at: usize, left: u64) -> Step {
        let there = (buf.len() - at) as u64;
        let run = there.min(left);
        self.state = match left - run {
            0 => State::DataReturn,
            left => State::Data { left },
        };
        let end = at + run as usize;
        Step { consumed: end, data: (run > 0).then_some(at..end), ..Step::default() }
    }

    /// The state behind `byte`, which belongs to a chunk line or to the end of a chunk.
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
            (State::Extension { value, place, .. }, b'\r') if place.is_whole() => self.announce(value),
            (State::Size { value, .. }, b';') => self.extension(value, 0, Place::Start),
            (State::Size { value, .. }, b' ' | b'\t') => Ok(State::BeforeExtension { value, length: 1 }),
            (State::BeforeExtension { value, length }, b';') => self.extension(value, length, Place::Start),
            (State::BeforeExtension { value, length }, b' ' | b'\t') if length < MAX_EXTENSION => {
                Ok(State::BeforeExtension { value, length: length + 1 })
            }
            (State::Extension { value, length, place }, _) => match place.behind(byte) {
                Some(place) => self.extension(value, length, place),
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

    /// One more byte of extension, behind which is `place`.
    fn extension(&mut self, value: u64, length: u32, place: Place) -> Result<State, Reject> {
        self.extensions += 1;
        let allowed = self.total.saturating_add(EXTENSION_ALLOWANCE);
        if length >= MAX_EXTENSION || self.extensions > allowed {
            return Err(Reject::bad("chunk extensions too long"));
        }
        Ok(State::Extension { value, length: length + 1, place })
    }

    /// The state behind a chunk line. Its size adds to the total, which stays within Lua's integers.
    fn announce(&mut self, value: u64) -> Result<State, Reject> {
        let total = self.total.checked_add(value);
        self.total = total.filter(|&t| t <= i64::MAX as u64).ok_or(Reject::bad("chunk size too large"))?;
        Ok(State::SizeFeed { value })
    }

    /// The trailer section stays in the buffer until it is complete: it is small, and the caller
    /// gets it in one piece.
    fn trailer(&mut self, buf: &[u8], at: usize, searched: usize) -> Result<Step, Reject> {
        let text = &buf[at..];
        let mut found = [Field::default(); MAX_TRAILER_FIELDS];
        let section = fields::parse_grown(text, searched, MAX_TRAILERS, MAX_TRAILER_FIELDS, &mut found)?;
        let Section::Complete { end, .. } = section else {
            self.state = State::Trailers { searched: text.len() };
            return Ok(Step { consumed: at, ..Step::default() });
        };
        self.state = State::Done;
        Ok(Step { consumed: at + end, data: None, trailers: Some(at..at + end), done: true })
    }
}
