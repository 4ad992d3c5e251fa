//! Field lines (`Name: value`) of heads, trailers and parts of forms, parsed as strictly as RFC 9112 section 5 allows.
//!
//! The httparse crate splits the lines into names and values. This file adds a check that httparse lacks: a line ends
//! with CRLF, never with LF alone. Invariant: every returned span is within the parsed slice, and every name is a
//! non-empty token.

use super::reject::Reject;
use crate::codec::byte_table;

/// The maximum number of fields of a head or trailer section, independent of the configured limit.
pub(crate) const MAX_FIELDS: usize = 256;

/// The maximum number of fields in the first, cheap attempt to parse a section.
const USUAL_FIELDS: usize = 32;

/// A part of the parsed slice, as byte offsets `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The offset of the first byte.
    pub(crate) start: u32,
    /// The offset after the last byte.
    pub(crate) end: u32,
}

impl Span {
    /// Returns the span `start..end`. Both offsets are below 4 GiB, because the size limits are.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self { start: start as u32, end: end as u32 }
    }

    /// Moves the span by `by` bytes, modulo 2³².
    #[inline]
    pub(super) fn shift(&mut self, by: u32) {
        self.start = self.start.wrapping_add(by);
        self.end = self.end.wrapping_add(by);
    }

    /// Returns the bytes of this span in `buf`, the slice that the span was parsed from.
    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }
}

/// One field: its name as sent, and its value without surrounding white space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name, in the sender's case.
    pub(crate) name: Span,
    /// The value; may be empty.
    pub(crate) value: Span,
}

/// A table for the fields of one head. The table is large, so connections share one.
pub(crate) type Fields = [Field; MAX_FIELDS];

/// An empty table.
pub(crate) const NO_FIELDS: Fields =
    [Field { name: Span { start: 0, end: 0 }, value: Span { start: 0, end: 0 } }; MAX_FIELDS];

/// The state of a section of field lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// The section is complete.
    Complete {
        /// The offset after the blank line.
        end: usize,
        /// The number of fields written to the table.
        count: usize,
    },
    /// The section is incomplete, and valid so far.
    Partial,
}

/// Whether `byte` can be part of a token (RFC 9110 section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether `bytes` is a token, such as a method, a field name or a coding.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is_token_byte(b))
}

const TOKEN: [bool; 256] = byte_table!(|b| b.is_ascii_alphanumeric()
    || matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^')
    || matches!(b, b'_' | b'`' | b'|' | b'~'));

/// Whether the bytes from offset `from` on justify a parse: they contain the end of a blank line, or a line feed
/// without a carriage return.
pub(crate) fn is_worth_parsing(buf: &[u8], from: usize) -> bool {
    memchr::memchr_iter(b'\n', &buf[from..]).any(|found| {
        let line = &buf[..from + found];
        !line.ends_with(b"\r") || line == b"\r" || line.ends_with(b"\r\n\r")
    })
}

/// Parses the field lines of `buf[at..]` up to and including the blank line.
///
/// `limit`: the maximum size of the section in bytes. `max`: the maximum number of fields; values above [`MAX_FIELDS`]
/// or `out.len()` have no effect. Spans are relative to the start of `buf`.
///
/// # Errors
/// 431 if either limit is exceeded, even before the blank line arrives; 400 if the section is malformed.
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
        other => finish_section(buf, at, max, other, out)?,
    };
    if section == Section::Partial && buf.len() < whole {
        return Err(Reject::new(431, "header section too large"));
    }
    Ok(section)
}

/// Like [`parse_section`], but the section starts with `text`, whose first `searched` bytes did not justify a parse.
pub(crate) fn parse_grown(
    text: &[u8], searched: usize, limit: usize, max: usize, out: &mut [Field],
) -> Result<Section, Reject> {
    let needs_parse = text.len() > limit || is_worth_parsing(text, searched);
    if needs_parse { parse_section(text, 0, limit, max, out) } else { Ok(Section::Partial) }
}

const BARE_LF: Reject = Reject::bad("line feed without carriage return");

/// Parses a section with many fields again, with the large table. The first attempt does not use this table, because
/// clearing it costs more than parsing a usual head.
#[cold]
#[inline(never)]
fn parse_many(buf: &[u8], at: usize, max: usize, out: &mut [Field]) -> Result<Section, Reject> {
    let mut many = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let parsed = httparse::parse_headers(&buf[at..], &mut many[..max]);
    finish_section(buf, at, max, parsed, out)
}

type Parsed<'h, 'b> = httparse::Result<(usize, &'h [httparse::Header<'b>])>;

#[inline]
fn finish_section(
    buf: &[u8], at: usize, max: usize, parsed: Parsed<'_, '_>, out: &mut [Field],
) -> Result<Section, Reject> {
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

/// Whether the bytes after a trimmed value are white space and a carriage return. httparse has already verified that a
/// line feed follows.
#[inline]
fn ends_with_crlf(behind: &[u8]) -> bool {
    let first = behind.iter().find(|b| !matches!(b, b' ' | b'\t'));
    first == Some(&b'\r')
}

/// Handles a section that is incomplete or malformed. The first fault determines the result, so that it does not depend
/// on how the bytes were split.
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
