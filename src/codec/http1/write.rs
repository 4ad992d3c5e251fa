//! Writes response heads and chunks straight into a connection's write buffer.
//!
//! [`ResponseHead`] writes a head with the fields that a handler has set; [`plain`] one without any, at once. Invariant:
//! no name or value that comes from outside reaches the buffer before it was checked, so that no response can be split
//! in two.

use super::body::Framing;
use super::fields::is_token;
use super::status;
use std::io::Write;

/// The interim answer that makes a waiting client send its body (RFC 9110 section 10.1.1).
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A field that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadField {
    /// The name is not a token (RFC 9110 section 5.1).
    Name,
    /// The value has a CR, an LF or a NUL.
    Value,
    /// Transfer-Encoding is the sender's own.
    Forbidden,
}

/// What a field that a handler sets is to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Plain,
    ContentType,
    Date,
    /// Never sent as it is: the server says itself whether the connection persists. `close` ends it.
    Connection,
    /// Counts only where there is no body to measure.
    ContentLength,
    /// The server's own.
    TransferEncoding,
}

impl Role {
    /// That of the field called `name`.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Role {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"date") => Role::Date,
            10 if name.eq_ignore_ascii_case(b"connection") => Role::Connection,
            12 if name.eq_ignore_ascii_case(b"content-type") => Role::ContentType,
            14 if name.eq_ignore_ascii_case(b"content-length") => Role::ContentLength,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => Role::TransferEncoding,
            _ => Role::Plain,
        }
    }
}

/// What the fields that a handler set tell.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) content_type: bool,
    pub(crate) date: bool,
    /// The connection is to end with this answer.
    pub(crate) close: bool,
    /// A Content-Length, where it is a number that Lua can count.
    pub(crate) length: Option<u64>,
}

impl Seen {
    /// Notes a field. → whether it is to be sent
    #[inline]
    pub(crate) fn note(&mut self, role: Role, value: &[u8]) -> bool {
        match role {
            Role::Plain => {}
            Role::ContentType => self.content_type = true,
            Role::Date => self.date = true,
            Role::Connection => {
                self.close |= value.eq_ignore_ascii_case(b"close");
                return false;
            }
            Role::ContentLength => {
                let text = std::str::from_utf8(value).ok();
                let length = text.and_then(|text| text.parse().ok());
                self.length = length.filter(|length| i64::try_from(*length).is_ok());
                return false;
            }
            Role::TransferEncoding => return false,
        }
        true
    }
}

impl Framing {
    /// That of a whole body of `length` bytes. `set`: the Content-Length that a handler set, which an answer to HEAD
    /// tells where it has no body to measure.
    pub(crate) fn of_whole(status: u16, is_head: bool, length: usize, set: Option<u64>) -> Self {
        match status {
            _ if !body_allowed(status) => Framing::None,
            _ if body_is_empty(status) => Framing::Length(0),
            _ if is_head && length == 0 => Framing::Length(set.unwrap_or(0)),
            _ => Framing::Length(length as u64),
        }
    }

    /// That of a body that comes in pieces, for a request of `version` 10 or 11. `set` as for [`Framing::of_whole`].
    pub(crate) fn of_pieces(status: u16, is_head: bool, version: u8, set: Option<u64>) -> Self {
        match (set, version) {
            _ if !body_allowed(status) => Framing::None,
            _ if body_is_empty(status) => Framing::Length(0),
            (Some(length), _) => Framing::Length(length),
            (None, 10) if is_head => Framing::None,
            (None, 10) => Framing::UntilClose,
            (None, _) => Framing::Chunked,
        }
    }
}

/// The head of an answer with fields that a handler has set.
pub(crate) struct ResponseHead<'h> {
    /// As for [`start`].
    pub(crate) status: u16,
    /// Field lines that were checked and are right to send.
    pub(crate) lines: &'h [u8],
    /// What those and the fields tell that are not sent.
    pub(crate) seen: Seen,
    /// The media type of the body, unless a field named one.
    pub(crate) kind: Option<&'h [u8]>,
    pub(crate) framing: Framing,
    pub(crate) persists: Persistence,
    /// Unless a field set it.
    pub(crate) date: &'h [u8; 29],
}

impl ResponseHead<'_> {
    /// Appends it, the blank line too.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        start(out, self.status);
        out.extend_from_slice(self.lines);
        if let Some(kind) = self.kind.filter(|_| !self.seen.content_type) {
            content_type(out, kind);
        }
        match self.framing {
            Framing::Length(length) => content_length(out, length),
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose | Framing::None => {}
        }
        if !self.seen.date {
            date(out, self.date);
        }
        connection(out, self.persists);
        finish(out);
    }
}

/// Whether a field can be sent.
///
/// # Errors
/// [`BadField`] says what is wrong with it.
#[inline]
pub(crate) fn check_field(name: &[u8], value: &[u8]) -> Result<(), BadField> {
    if !is_token(name) {
        return Err(BadField::Name);
    }
    match memchr::memchr3(b'\r', b'\n', 0, value) {
        Some(_) => Err(BadField::Value),
        None => Ok(()),
    }
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

/// Appends `Content-Length`; not for 1xx and 204 (RFC 9110 section 8.6).
#[inline]
pub(crate) fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Date`.
pub(crate) fn date(out: &mut Vec<u8>, date: &[u8; 29]) {
    let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    line[6..35].copy_from_slice(date);
    out.extend_from_slice(&line);
}

/// Appends `Connection` where the client would assume otherwise: `close` when the connection
/// ends here, `keep-alive` when it persists for a client of HTTP/1.0.
#[inline]
pub(crate) fn connection(out: &mut Vec<u8>, persists: Persistence) {
    match (persists.keep_alive, persists.version) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, 10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, _) => (),
    }
}

/// Appends the blank line.
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
pub(crate) fn plain(out: &mut Vec<u8>, kind: Kind, length: usize, persists: Persistence, date: &[u8; 29]) {
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
    connection(out, persists);
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
        concat!("HTTP/1.1 200 OK\r\nContent-Type: ", $kind, "\r\nContent-Length: ").as_bytes()
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

/// Appends a whole chunk; nothing for empty data, which would end the body.
pub(crate) fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    // A vector takes all.
    let _ = write!(out, "{:x}\r\n", data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole plain-text answer, for errors that no handler sees: `message` and a line feed
/// as its body, if the status may have one. Returns where in `out` the body starts: cut it off
/// there for HEAD.
pub(crate) fn simple(out: &mut Vec<u8>, status: u16, message: &str, persists: Persistence, now: &[u8; 29]) -> usize {
    start(out, status);
    date(out, now);
    connection(out, persists);
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
