//! Parser of response heads at the start of a connection's read buffer.
//!
//! Called by `http/client` whenever bytes arrive. Invariants: the result does not depend on how the bytes were split,
//! and two readers that follow RFC 9112 section 6.3 cannot disagree on where the body ends.

use super::body::Framing;
use super::fields::{self, Fields, Section, Span};
use super::head::{Coding, MessageFields, Progress};
use super::reject::Reject;

/// The maximum number of bytes of a status line.
const MAX_LINE: usize = 8192;

/// The property of the request that affects the framing of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// HEAD: the response has no body.
    Head,
    /// Any other method.
    Other,
}

/// A complete head. Spans are offsets into the parsed buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status code: 100 to 999.
    pub(crate) status: u16,
    /// The reason phrase; may be empty.
    pub(crate) reason: Span,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(crate) version: u8,
    /// The number of fields written to the table.
    pub(crate) field_count: usize,
    /// The number of bytes up to and including the blank line.
    pub(crate) head_len: usize,
    /// How the end of the body is determined.
    pub(crate) framing: Framing,
    /// Whether another request may be sent on the connection.
    pub(crate) keep_alive: bool,
}

/// Parses the head at the start of `buf`; `None` if more bytes are needed. `limit`: the maximum size of the header
/// section in bytes. `max`: the maximum number of fields.
///
/// # Errors
/// The reason why the response cannot be read. The status distinguishes an exceeded limit (431) from a malformed head.
pub(crate) fn parse(
    buf: &[u8], request: RequestKind, (limit, max): (usize, usize), progress: &mut Progress, table: &mut Fields,
) -> Result<Option<Head>, Reject> {
    if !progress.needs_parse(buf) {
        return Ok(None);
    }
    let Some(line) = parse_line(buf)? else {
        progress.postpone(buf.len(), MAX_LINE);
        return Ok(None);
    };
    progress.has_line = true;
    let section = fields::parse_section(buf, line.end, limit, max, table)?;
    let Section::Complete { end, count } = section else {
        progress.postpone(buf.len(), line.end + limit);
        return Ok(None);
    };
    let mut message = MessageFields::default();
    for field in &table[..count] {
        message.read(field.name.of(buf), field.value.of(buf))?;
    }
    let framing = message.framing(request, &line)?;
    Ok(Some(Head {
        status: line.status,
        reason: line.reason,
        version: line.version,
        field_count: count,
        head_len: end,
        framing,
        keep_alive: message.persists(&line, framing),
    }))
}

#[derive(Clone, Copy)]
struct Line {
    status: u16,
    reason: Span,
    version: u8,
    end: usize,
}

impl MessageFields {
    /// Determines the framing of the body (RFC 9112 section 6.3).
    fn framing(&self, request: RequestKind, line: &Line) -> Result<Framing, Reject> {
        if self.coding != Coding::Absent {
            if self.length.is_some() {
                return Err(Reject::bad("Content-Length with Transfer-Encoding"));
            }
            if line.version == 10 {
                return Err(Reject::bad("Transfer-Encoding in an HTTP/1.0 response"));
            }
            if self.coding != Coding::Chunked {
                return Err(Reject::bad("unknown transfer coding"));
            }
        }
        let is_bare = request == RequestKind::Head || matches!(line.status, 100..=199 | 204 | 304);
        Ok(match (is_bare, self.coding, self.length) {
            (true, _, _) => Framing::None,
            (false, Coding::Chunked, _) => Framing::Chunked,
            (false, _, Some(0)) => Framing::None,
            (false, _, Some(length)) => Framing::Length(length),
            (false, _, None) => Framing::UntilClose,
        })
    }

    fn persists(&self, line: &Line, framing: Framing) -> bool {
        // A server that announces a body in a 204 response might send this body.
        let announces_body =
            line.status == 204 && (self.coding != Coding::Absent || self.length.is_some_and(|length| length > 0));
        let persists = line.version == 11 || self.is_keep_alive;
        persists && !self.is_close && framing != Framing::UntilClose && !announces_body
    }
}

/// Parses `HTTP/1.x NNN reason`. The space after the status may be missing if there is no reason phrase: many servers
/// send such lines, and they are not ambiguous.
fn parse_line(buf: &[u8]) -> Result<Option<Line>, Reject> {
    let bad = Err(Reject::bad("malformed status line"));
    let start = b"HTTP/1.";
    let available = buf.len().min(start.len());
    if buf[..available] != start[..available] {
        let is_http = buf.starts_with(b"HTTP/") && buf.len() > 5 && buf[5].is_ascii_digit();
        return if is_http { Err(Reject::bad("unknown HTTP version")) } else { bad };
    }
    let Some(feed) = memchr::memchr(b'\n', &buf[..buf.len().min(MAX_LINE + 2)]) else {
        return if buf.len() > MAX_LINE { Err(Reject::new(431, "status line too long")) } else { Ok(None) };
    };
    let [line @ .., b'\r'] = &buf[..feed] else {
        return Err(Reject::bad("line feed without carriage return"));
    };
    let (Some(minor), Some(b' '), Some(digits)) = (line.get(7), line.get(8), line.get(9..12)) else {
        return bad;
    };
    if !minor.is_ascii_digit() || !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return bad;
    }
    let from = match line.get(12) {
        None => 12,
        Some(b' ') => 13,
        Some(_) => return bad,
    };
    let is_text = |&b: &u8| b == b'\t' || b >= 0x20 && b != 0x7f;
    if !line[from..].iter().all(is_text) {
        return bad;
    }
    Ok(Some(Line {
        status: digits.iter().fold(0, |value, b| value * 10 + u16::from(b - b'0')),
        reason: Span::new(from, line.len()),
        version: if *minor == b'0' { 10 } else { 11 },
        end: feed + 1,
    }))
}
