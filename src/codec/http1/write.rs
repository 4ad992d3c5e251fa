//! Writes response heads and chunks into a connection's write buffer.
//!
//! [`ResponseHead`] writes a head with fields that a handler has set; [`plain_head`] writes a head without handler
//! fields in one step. Invariant: every name and value from outside is checked before it reaches the buffer, so that no
//! response can be split in two.

use super::body::Framing;
use super::fields::is_token;
use super::status;
use std::io::Write;

/// The interim response after which a waiting client sends its body (RFC 9110 section 10.1.1).
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Why a field cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadField {
    /// The name is not a token (RFC 9110 section 5.1).
    Name,
    /// The value contains a CR, an LF or a NUL.
    Value,
    /// The name is Transfer-Encoding, which only the server sets.
    Forbidden,
}

/// How the server treats a field that a handler sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Plain,
    ContentType,
    Date,
    /// Never copied to the response: the server controls keep-alive. The value `close` closes the connection after the
    /// response.
    Connection,
    /// Copied, and named in the response's Connection (RFC 9110 section 7.8).
    Upgrade,
    /// Used only if the server does not know the length of the body.
    ContentLength,
    /// Set by the server alone.
    TransferEncoding,
}

impl Role {
    /// Returns the role of the field `name`.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Role {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"date") => Role::Date,
            7 if name.eq_ignore_ascii_case(b"upgrade") => Role::Upgrade,
            10 if name.eq_ignore_ascii_case(b"connection") => Role::Connection,
            12 if name.eq_ignore_ascii_case(b"content-type") => Role::ContentType,
            14 if name.eq_ignore_ascii_case(b"content-length") => Role::ContentLength,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => Role::TransferEncoding,
            _ => Role::Plain,
        }
    }
}

/// The properties of a response that the handler's fields determine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct HandlerFields {
    pub(crate) content_type: bool,
    pub(crate) date: bool,
    /// Whether the connection closes after this response.
    pub(crate) close: bool,
    /// Whether the response lists protocols in Upgrade.
    pub(crate) upgrade: bool,
    /// The Content-Length, if it is a number in the range of Lua integers.
    pub(crate) length: Option<u64>,
}

impl HandlerFields {
    /// Records a field. Returns whether it must be sent.
    #[inline]
    pub(crate) fn record(&mut self, role: Role, value: &[u8]) -> bool {
        match role {
            Role::Plain => {}
            Role::ContentType => self.content_type = true,
            Role::Date => self.date = true,
            Role::Upgrade => self.upgrade = true,
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
    /// Returns the framing of a whole body of `length` bytes. `set`: the Content-Length that a handler set; it is used
    /// only for a response to HEAD without a body.
    pub(crate) fn of_whole(status: u16, is_head: bool, length: usize, set: Option<u64>) -> Self {
        match status {
            _ if !body_allowed(status) => Framing::None,
            _ if body_is_empty(status) => Framing::Length(0),
            _ if is_head && length == 0 => Framing::Length(set.unwrap_or(0)),
            _ => Framing::Length(length as u64),
        }
    }

    /// Returns the framing of a body that is sent in pieces, for a request of `version` 10 or 11. `set`: the
    /// Content-Length that a handler set.
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

/// A response head with fields that a handler has set.
pub(crate) struct ResponseHead<'h> {
    /// The status code, 100 to 999.
    pub(crate) status: u16,
    /// Field lines that were checked with [`check_field`].
    pub(crate) lines: &'h [u8],
    /// The properties that `lines` and the omitted fields determine.
    pub(crate) fields: HandlerFields,
    /// The media type of the body; ignored if a field sets it.
    pub(crate) media_type: Option<&'h [u8]>,
    pub(crate) framing: Framing,
    pub(crate) persists: Persistence,
    /// The date of the response; ignored if a field sets it.
    pub(crate) date: &'h [u8; 29],
}

impl ResponseHead<'_> {
    /// Appends the head including its blank line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        status_line(out, self.status);
        out.extend_from_slice(self.lines);
        if let Some(media_type) = self.media_type.filter(|_| !self.fields.content_type) {
            content_type(out, media_type);
        }
        match self.framing {
            Framing::Length(length) => content_length(out, length),
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose | Framing::None => {}
        }
        if !self.fields.date {
            date(out, self.date);
        }
        match self.fields.upgrade {
            true => upgrade_and(out, self.persists),
            false => connection(out, self.persists),
        }
        end_head(out);
    }
}

/// Checks whether a field can be sent.
///
/// # Errors
/// The reason why the field cannot be sent.
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

/// Appends the status line. The version is HTTP/1.1 for every client: it is the server's highest version, not that of
/// the request (RFC 9110 section 2.5). `status`: 100..=999.
#[inline]
pub(crate) fn status_line(out: &mut Vec<u8>, status: u16) {
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
        _ => return uncommon_status_line(out, status),
    };
    out.extend_from_slice(line);
}

/// Appends `Content-Type`. `media_type` must be a constant, or have been checked with [`check_field`].
pub(crate) fn content_type(out: &mut Vec<u8>, media_type: &[u8]) {
    out.extend_from_slice(b"Content-Type: ");
    out.extend_from_slice(media_type);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Length`, which 1xx and 204 responses must not have (RFC 9110 section 8.6).
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

/// Appends `Connection` if the client would assume otherwise: `close` if the connection closes after this response,
/// `keep-alive` if it persists for an HTTP/1.0 client.
#[inline]
pub(crate) fn connection(out: &mut Vec<u8>, persists: Persistence) {
    match (persists.keep_alive, persists.version) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, 10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, _) => (),
    }
}

/// Like [`connection`], for a response with the field Upgrade, which Connection must name (RFC 9110 section 7.8).
fn upgrade_and(out: &mut Vec<u8>, persists: Persistence) {
    out.extend_from_slice(match (persists.keep_alive, persists.version) {
        (false, _) => b"Connection: upgrade, close\r\n".as_slice(),
        (true, 10) => b"Connection: upgrade, keep-alive\r\n",
        (true, _) => b"Connection: upgrade\r\n",
    });
}

/// Appends the blank line.
pub(crate) fn end_head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Whether the connection persists after a response.
#[derive(Clone, Copy)]
pub(crate) struct Persistence {
    pub(crate) keep_alive: bool,
    /// The request's version, 10 or 11.
    pub(crate) version: u8,
}

/// Appends the head of a 200 response in one step. The result is the same as that of [`status_line`], [`content_type`]
/// (not for an empty body), [`content_length`], [`date`], [`connection`] and [`end_head`]. Also reserves memory for the
/// body.
#[inline]
pub(crate) fn plain_head(
    out: &mut Vec<u8>, media_type: DefaultType, length: usize, persists: Persistence, date: &[u8; 29],
) {
    let begin = match length {
        0 => EMPTY,
        _ => media_type.head(),
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
    end_head(out);
}

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: ";

/// The default media type of a value that a handler returns.
#[derive(Clone, Copy)]
pub(crate) enum DefaultType {
    Text,
    Json,
}

macro_rules! head_with {
    ($media_type:literal) => {
        concat!("HTTP/1.1 200 OK\r\nContent-Type: ", $media_type, "\r\nContent-Length: ").as_bytes()
    };
}

impl DefaultType {
    /// Returns the media type.
    pub(crate) fn name(self) -> &'static [u8] {
        let head = self.head();
        let end = head.len() - b"\r\nContent-Length: ".len();
        &head[b"HTTP/1.1 200 OK\r\nContent-Type: ".len()..end]
    }

    /// Returns the head of a 200 response up to the value of `Content-Length`.
    fn head(self) -> &'static [u8] {
        match self {
            DefaultType::Text => head_with!("text/plain; charset=utf-8"),
            DefaultType::Json => head_with!("application/json"),
        }
    }
}

/// Whether a response with this status may have a body: not 1xx, 204 and 304 (RFC 9112 section 6.3). A response to HEAD
/// has no body either; the caller checks that.
pub(crate) const fn body_allowed(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// Whether a response with this status has an empty body and a length of 0 (RFC 9110 section 15.3.6).
pub(crate) const fn body_is_empty(status: u16) -> bool {
    status == 205
}

/// Appends one chunk. Empty data appends nothing, because an empty chunk would end the body.
pub(crate) fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    // Writing to a vector cannot fail.
    let _ = write!(out, "{:x}\r\n", data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends a complete plain-text response, for errors that no handler receives. If a response with this status may have
/// a body, the body is `message` and a line feed. Returns the offset in `out` at which the body starts; for HEAD the
/// caller truncates `out` there.
pub(crate) fn text_response(
    out: &mut Vec<u8>, status: u16, message: &str, persists: Persistence, now: &[u8; 29],
) -> usize {
    status_line(out, status);
    date(out, now);
    connection(out, persists);
    if body_allowed(status) {
        out.extend_from_slice(b"Content-Type: text/plain; charset=utf-8\r\n");
        content_length(out, message.len() as u64 + 1);
    }
    end_head(out);
    let body = out.len();
    if body_allowed(status) {
        out.extend_from_slice(message.as_bytes());
        out.push(b'\n');
    }
    body
}

#[cold]
fn uncommon_status_line(out: &mut Vec<u8>, status: u16) {
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
