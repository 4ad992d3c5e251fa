//! Field lines (`Name: value`) as strictly as RFC 9112 section 5 allows, for heads and trailers.
//!
//! Called by `head` and `body`; the tokenising is httparse's, this file adds what httparse is
//! lenient about: a line ends with CRLF, never with LF alone. Invariant: every span handed out
//! lies within the slice that was parsed, and its name is a non-empty token.

use super::status::Reject;
use crate::codec::byte_table;

/// The most fields a head or trailer section can have, whatever the limit says.
pub(crate) const MAX_FIELDS: usize = 256;

/// How many fields the usual, cheap attempt has room for.
const USUAL_FIELDS: usize = 32;

/// A part of the parsed slice, as byte offsets `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of the first byte.
    pub(crate) start: u32,
    /// Offset behind the last byte.
    pub(crate) end: u32,
}

impl Span {
    /// The span `start..end`; both are below 4 GiB because the size limits are.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self { start: start as u32, end: end as u32 }
    }

    /// Moves it by `by` bytes, modulo 2³².
    #[inline]
    pub(super) fn shift(&mut self, by: u32) {
        self.start = self.start.wrapping_add(by);
        self.end = self.end.wrapping_add(by);
    }

    /// The bytes of this span in the slice it was parsed from.
    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }
}

/// One field: its name as sent, its value without the white space around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name, in the sender's case.
    pub(crate) name: Span,
    /// The value; may be empty.
    pub(crate) value: Span,
}

/// A fixed table of fields, for one head at a time; keep one per loop, not one per connection.
pub(crate) type Fields = [Field; MAX_FIELDS];

/// An empty table.
pub(crate) const NO_FIELDS: Fields =
    [Field { name: Span { start: 0, end: 0 }, value: Span { start: 0, end: 0 } }; MAX_FIELDS];

/// How far a section of field lines got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// The blank line is there: the section ends at offset `end`, and has `count` fields.
    Complete {
        /// Offset behind the blank line.
        end: usize,
        /// Number of fields written to the table.
        count: usize,
    },
    /// All that is there is right so far.
    Partial,
}

/// Whether `byte` may be part of a token (RFC 9110 section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether `bytes` is a token: a method, a field name, a coding.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is_token_byte(b))
}

const TOKEN: [bool; 256] = byte_table!(|b| b.is_ascii_alphanumeric()
    || matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^')
    || matches!(b, b'_' | b'`' | b'|' | b'~'));

/// Whether the bytes from offset `from` on bring something that makes a parse worth while: the
/// end of a blank line, or a line feed that no line may end with.
pub(crate) fn is_worth_parsing(buf: &[u8], from: usize) -> bool {
    memchr::memchr_iter(b'\n', &buf[from..]).any(|found| {
        let line = &buf[..from + found];
        !line.ends_with(b"\r") || line == b"\r" || line.ends_with(b"\r\n\r")
    })
}

/// Parses the field lines of `buf[at..]` up to and with the blank line.
///
/// `limit` is the most bytes the section may have, `max` the most fields (at most
/// [`MAX_FIELDS`] and `out.len()`). Spans count from the start of `buf`.
///
/// # Errors
/// 431 when either limit is passed, also before the blank line has come; else 400.
pub(crate) fn parse_section(
    buf: &[u8], at: usize, limit: usize, max: usize, out: &mut [Field],
) -> Result<Section, Reject> {
    let whole = buf.len();
    let buf = &buf[..whole.min(at.saturating_add(limit))];
    let max = max.min(MAX_FIELDS).min(out.len());
    let mut usual = [httparse::EMPTY_HEADER; USUAL_FIELDS];
    let parsed = httparse::parse_headers(&buf[at..], &mut usual[..max.min(USUAL_FIELDS)]);
    let section = match parsed {
        Err(httparse::Error::TooManyHeaders) if max > USUAL_FIELDS => parse_many(buf, at, max, out)?,
        other => settle(buf, at, max, other, out)?,
    };
    if section == Section::Partial && buf.len() < whole {
        return Err(Reject::new(431, "header section too large"));
    }
    Ok(section)
}

/// As [`parse_section`] of a section that is all of `text`, whose first `searched` bytes brought nothing worth a parse.
pub(crate) fn parse_grown(
    text: &[u8], searched: usize, limit: usize, max: usize, out: &mut [Field],
) -> Result<Section, Reject> {
    let is_due = text.len() > limit || is_worth_parsing(text, searched);
    if is_due { parse_section(text, 0, limit, max, out) } else { Ok(Section::Partial) }
}

const BARE_LF: Reject = Reject::bad("line feed without carriage return");

/// The second attempt, for sections with more fields than usual: the big table costs more to
/// clear than a usual head costs to parse.
#[cold]
#[inline(never)]
fn parse_many(buf: &[u8], at: usize, max: usize, out: &mut [Field]) -> Result<Section, Reject> {
    let mut many = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let parsed = httparse::parse_headers(&buf[at..], &mut many[..max]);
    settle(buf, at, max, parsed, out)
}

type Parsed<'h, 'b> = httparse::Result<(usize, &'h [httparse::Header<'b>])>;

#[inline]
fn settle(buf: &[u8], at: usize, max: usize, parsed: Parsed<'_, '_>, out: &mut [Field]) -> Result<Section, Reject> {
    let Ok(httparse::Status::Complete((length, headers))) = parsed else {
        return unfinished(&buf[at..], max, parsed);
    };
    let end = at + length;
    if !buf[..end].ends_with(b"\r\n") {
        return Err(BARE_LF);
    }
    let base = buf.as_ptr().addr();
    for (header, field) in headers.iter().zip(out.iter_mut()) {
        let name = header.name.as_ptr().addr() - base;
        let value = header.value.as_ptr().addr() - base;
        let behind = value + header.value.len();
        if !ends_with_crlf(&buf[behind..]) {
            return Err(BARE_LF);
        }
        *field = Field { name: Span::new(name, name + header.name.len()), value: Span::new(value, behind) };
    }
    Ok(Section::Complete { end, count: headers.len() })
}

/// Whether what follows a trimmed value is white space and a carriage return; httparse has
/// already seen to it that a line feed follows that.
#[inline]
fn ends_with_crlf(behind: &[u8]) -> bool {
    let first = behind.iter().find(|b| !matches!(b, b' ' | b'\t'));
    first == Some(&b'\r')
}

/// The section has no end yet, or a fault. The fault that comes first decides, so that the
/// answer does not depend on how the bytes were split.
#[cold]
fn unfinished(text: &[u8], max: usize, parsed: Parsed<'_, '_>) -> Result<Section, Reject> {
    let too_many = parsed == Err(httparse::Error::TooManyHeaders);
    let lines = if too_many { max + 1 } else { usize::MAX };
    let bare = memchr::memchr_iter(b'\n', text).take(lines).any(|i| i == 0 || text[i - 1] != b'\r');
    if bare {
        return Err(BARE_LF);
    }
    match parsed {
        Ok(_) => Ok(Section::Partial),
        Err(httparse::Error::TooManyHeaders) => Err(Reject::new(431, "too many header fields")),
        Err(httparse::Error::HeaderName) => Err(Reject::bad("malformed header name")),
        Err(httparse::Error::HeaderValue) => Err(Reject::bad("malformed header value")),
        Err(_) => Err(Reject::bad("malformed header line")),
    }
}
