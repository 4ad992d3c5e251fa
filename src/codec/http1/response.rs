//! Writes response heads and chunks straight into a connection's write buffer.
//!
//! Called by the HTTP glue, in this order: [`start`], any number of the field functions,
//! [`finish`], body. Invariant: no name or value that comes from outside reaches the buffer before
//! it was checked, so that no response can be split in two.

use super::fields::is_token;
use super::status;
use crate::codec::date::DateCache;

/// The end of a chunked body without trailers.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What ends the data of a chunk.
pub(crate) const CHUNK_END: &[u8] = b"\r\n";

/// The interim answer that makes a waiting client send its body (RFC 9110 section 10.1.1).
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A field that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadField {
    /// The name is not a token (RFC 9110 section 5.1).
    Name,
    /// The value has a CR, an LF or a NUL.
    Value,
}

/// Appends the status line. It says HTTP/1.1 to every client: the version is the server's
/// highest, not an echo (RFC 9110 section 2.5). `status` has three digits: 100..=999.
#[inline]
pub(crate) fn start(out: &mut Vec<u8>, status: u16) {
    let line: &[u8] = match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        201 => b"HTTP/1.1 201 Created\r\n",
        204 => b"HTTP/1.1 204 No Content\r\n",
        206 => b"HTTP/1.1 206 Partial Content\r\n",
        301 => b"HTTP/1.1 301 Moved Permanently\r\n",
        302 => b"HTTP/1.1 302 Found\r\n",
        303 => b"HTTP/1.1 303 See Other\r\n",
        304 => b"HTTP/1.1 304 Not Modified\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        401 => b"HTTP/1.1 401 Unauthorized\r\n",
        403 => b"HTTP/1.1 403 Forbidden\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        500 => b"HTTP/1.1 500 Internal Server Error\r\n",
        _ => return start_uncommon(out, status),
    };
    out.extend_from_slice(line);
}

/// Appends `Content-Type`; `kind` was checked, or is the server's own.
pub(crate) fn content_type(out: &mut Vec<u8>, kind: &[u8]) {
    out.extend_from_slice(b"Content-Type: ");
    out.extend_from_slice(kind);
    out.extend_from_slice(b"\r\n");
}

#[cold]
fn start_uncommon(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..=999).contains(&status));
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(status::reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a field.
///
/// # Errors
/// [`BadField`], with `out` unchanged.
#[inline]
pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), BadField> {
    if !is_token(name) {
        return Err(BadField::Name);
    }
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        return Err(BadField::Value);
    }
    plain_field(out, name, value);
    Ok(())
}

/// Appends a field of the server's own, or one whose value was checked.
pub(crate) fn plain_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Range`: `length` bytes from `first` on, of `size`. `length` is not 0.
pub(crate) fn content_range(out: &mut Vec<u8>, first: u64, length: u64, size: u64) {
    out.extend_from_slice(b"Content-Range: bytes ");
    decimal(out, first);
    out.push(b'-');
    decimal(out, first + length - 1);
    out.push(b'/');
    decimal(out, size);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Length`; not for 1xx and 204 (RFC 9110 section 8.6).
#[inline]
pub(crate) fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Transfer-Encoding: chunked`; for HTTP/1.1 clients only.
#[inline]
pub(crate) fn chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
}

/// Appends `Date`; `now` is in seconds since the Unix epoch.
#[inline]
pub(crate) fn date(out: &mut Vec<u8>, cache: &mut DateCache, now: u64) {
    let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    line[6..35].copy_from_slice(cache.get(now));
    out.extend_from_slice(&line);
}

/// Appends `Connection` where the client would assume otherwise: `close` when the connection
/// ends here, `keep-alive` when it persists for a client of HTTP/1.0. `version` is the request's,
/// 10 or 11.
#[inline]
pub(crate) fn connection(out: &mut Vec<u8>, keep_alive: bool, version: u8) {
    match (keep_alive, version) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, 10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, _) => (),
    }
}

/// Appends the blank line.
#[inline]
pub(crate) fn finish(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// How an answer of its own ends the connection, or does not.
#[derive(Clone, Copy)]
pub(crate) struct Persistence {
    pub(crate) keep_alive: bool,
    /// The request's version, 10 or 11.
    pub(crate) version: u8,
}

/// Appends the head of an answer 200 as [`start`], [`content_type`] (not for an empty body), [`content_length`],
/// [`date`], [`connection`] and [`finish`] do together, and makes room for the body behind it. `kind` is the server's
/// own.
#[inline]
pub(crate) fn plain(
    out: &mut Vec<u8>,
    kind: Kind,
    length: usize,
    persists: Persistence,
    date: &[u8; 29],
) {
    let begin = match length {
        0 => EMPTY,
        _ => kind.head(),
    };
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(length).as_bytes();
    let mut line = *b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    line[8..37].copy_from_slice(date);
    out.reserve(begin.len() + digits.len() + line.len() + 64 + length);
    out.extend_from_slice(begin);
    out.extend_from_slice(digits);
    out.extend_from_slice(&line);
    connection(out, persists.keep_alive, persists.version);
    finish(out);
}

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: ";

/// What a handler's return is sent as, unless it says otherwise.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Json,
}

macro_rules! head_with {
    ($kind:literal) => {
        concat!(
            "HTTP/1.1 200 OK\r\nContent-Type: ",
            $kind,
            "\r\nContent-Length: "
        )
        .as_bytes()
    };
}

impl Kind {
    /// The head of an answer up to its length.
    fn head(self) -> &'static [u8] {
        match self {
            Kind::Text => head_with!("text/plain; charset=utf-8"),
            Kind::Json => head_with!("application/json"),
        }
    }

    /// The media type.
    pub(crate) fn name(self) -> &'static [u8] {
        let head = self.head();
        let end = head.len() - b"\r\nContent-Length: ".len();
        &head[b"HTTP/1.1 200 OK\r\nContent-Type: ".len()..end]
    }
}

/// Whether a response with this status may have a body: not 1xx, 204 and 304 (RFC 9112 section
/// 6.3). An answer to HEAD has none either, which only the caller knows.
pub(crate) const fn body_allowed(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// Whether an answer with this status has an empty body, and says so by its length (RFC 9110 section 15.3.6).
pub(crate) const fn body_is_empty(status: u16) -> bool {
    status == 205
}

/// Appends the line before a chunk of `length` bytes; the data and [`CHUNK_END`] follow. `length`
/// is not 0, since an empty chunk is the end of the body: see [`LAST_CHUNK`].
#[inline]
pub(crate) fn chunk_prefix(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0);
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    let mut line = [0; 18];
    for (i, place) in line.iter_mut().take(digits as usize).enumerate() {
        let nibble = length >> (4 * (digits as usize - 1 - i)) & 15;
        *place = b"0123456789abcdef"[nibble];
    }
    out.extend_from_slice(&line[..digits as usize]);
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole chunk; nothing for empty data, which would end the body.
pub(crate) fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    chunk_prefix(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(CHUNK_END);
}

/// Appends a whole plain-text answer, for errors that no handler sees: `message` and a line feed
/// as its body, if the status may have one. Returns where in `out` the body starts: cut it off
/// there for HEAD.
pub(crate) fn simple(
    out: &mut Vec<u8>,
    status: u16,
    message: &str,
    keep_alive: bool,
    version: u8,
    date_line: (&mut DateCache, u64),
) -> usize {
    start(out, status);
    date(out, date_line.0, date_line.1);
    connection(out, keep_alive, version);
    if body_allowed(status) {
        out.extend_from_slice(b"Content-Type: text/plain; charset=utf-8\r\n");
        content_length(out, message.len() as u64 + 1);
    }
    finish(out);
    let body = out.len();
    if body_allowed(status) {
        out.extend_from_slice(message.as_bytes());
        out.push(b'\n');
    }
    body
}
