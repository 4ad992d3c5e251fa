//! The fields that concern the message itself: host, body length, keep-alive, expectations.
//!
//! Called by `head` with a complete header section. Invariant: two readers that follow RFC 9112 section 6 cannot
//! disagree on where the body ends. Ambiguous messages are refused, so that no request can be smuggled inside the body
//! of another request.

use super::super::body::Framing;
use super::super::fields::{Field, Span, is_token};
use super::super::reject::Reject;
use super::target::is_host;

/// The properties of a message that its fields determine.
#[derive(Clone, Copy, Default)]
pub(super) struct HeadProperties {
    pub(super) host: Option<Span>,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
    pub(super) upgrade: bool,
}

/// The fields read so far.
#[derive(Default)]
struct RequestFields {
    host: Option<Span>,
    has_upgrade: bool,
    expects: bool,
    message: MessageFields,
}

/// The values of the fields that are common to requests and responses and concern the message itself.
#[derive(Default)]
pub(crate) struct MessageFields {
    pub(crate) length: Option<u64>,
    pub(crate) coding: Coding,
    pub(crate) is_close: bool,
    pub(crate) is_keep_alive: bool,
    is_upgrade: bool,
}

impl MessageFields {
    /// Reads one field.
    ///
    /// # Errors
    /// 400 if the field is malformed or contradicts an earlier field.
    #[inline]
    pub(crate) fn read(&mut self, name: &[u8], value: &[u8]) -> Result<(), Reject> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in members(value) {
                    self.is_close |= option.eq_ignore_ascii_case(b"close");
                    self.is_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    self.is_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                self.length = Some(read_length(value, self.length)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.coding = read_codings(value, self.coding)?;
            }
            _ => (),
        }
        Ok(())
    }
}

/// The transfer codings in the field lines read so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    /// No coding.
    #[default]
    Absent,
    /// Only unknown codings so far.
    Unknown,
    /// `chunked` alone.
    Chunked,
    /// `chunked` as the last coding, after an unknown coding.
    ChunkedOverUnknown,
}

/// Reads the fields that concern the message itself. `version` is 10 or 11.
///
/// # Errors
/// 400 for malformed or contradictory fields; 417 for an unknown expectation; 501 for an unknown transfer coding.
#[inline]
pub(super) fn read_fields(buf: &[u8], fields: &[Field], version: u8) -> Result<HeadProperties, Reject> {
    let mut request = RequestFields::default();
    for field in fields {
        read_field(buf, field, &mut request)?;
    }
    if version == 11 && request.host.is_none() {
        return Err(Reject::bad("Host is missing"));
    }
    let message = &request.message;
    let framing = frame(message, version)?;
    let persists = version == 11 || message.is_keep_alive;
    Ok(HeadProperties {
        host: request.host,
        framing,
        keep_alive: persists && !message.is_close,
        // `Expect` and `Upgrade` have no meaning in HTTP/1.0 (RFC 9110 sections 7.8 and 10.1.1).
        expect_continue: request.expects && version == 11 && framing != Framing::None,
        upgrade: message.is_upgrade && request.has_upgrade && version == 11,
    })
}

#[inline]
fn read_field(buf: &[u8], field: &Field, request: &mut RequestFields) -> Result<(), Reject> {
    let name = field.name.of(buf);
    let value = field.value.of(buf);
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => {
            if request.host.replace(field.value).is_some() {
                return Err(Reject::bad("more than one Host"));
            }
            if !value.is_empty() && !is_host(value) {
                return Err(Reject::bad("malformed Host"));
            }
        }
        6 if name.eq_ignore_ascii_case(b"expect") => {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(Reject::new(417, "unknown expectation"));
            }
            request.expects = true;
        }
        7 if name.eq_ignore_ascii_case(b"upgrade") => request.has_upgrade = true,
        // Proxies disagree on repeated lengths, even if they are equal, so a request has at most one (RFC 9110 section
        // 8.6 permits to refuse them).
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length = decimal(value).ok_or(Reject::bad("malformed Content-Length"))?;
            if request.message.length.replace(length).is_some() {
                return Err(Reject::bad("more than one Content-Length"));
            }
        }
        _ => return request.message.read(name, value),
    }
    Ok(())
}

/// Splits a comma-separated list into its members, without white space around them.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}

/// Reads a `Content-Length` field of a response. Some servers repeat the length, in one line or several; equal values
/// count as one.
fn read_length(value: &[u8], mut before: Option<u64>) -> Result<u64, Reject> {
    for member in members(value) {
        let length = decimal(member).ok_or(Reject::bad("malformed Content-Length"))?;
        if before.is_some_and(|b| b != length) {
            return Err(Reject::bad("differing Content-Length values"));
        }
        before = Some(length);
    }
    before.ok_or(Reject::bad("malformed Content-Length"))
}

/// Parses a number of 1 to 19 digits that is at most `i64::MAX`, the largest Lua integer.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A number of 19 digits is below 10^19, which is below 2^64.
    let value = digits.iter().fold(0u64, |value, b| value * 10 + u64::from(b - b'0'));
    (value <= i64::MAX as u64).then_some(value)
}

/// Adds the codings of one field line to `coding`, the result for the earlier lines.
fn read_codings(value: &[u8], mut coding: Coding) -> Result<Coding, Reject> {
    for member in members(value) {
        if matches!(coding, Coding::Chunked | Coding::ChunkedOverUnknown) {
            return Err(Reject::bad("chunked is not the last transfer coding"));
        }
        let name = member.split(|&b| b == b';').next().unwrap_or(member);
        let is_chunked = name.trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_token(name.trim_ascii()) || (is_chunked && name.len() != member.len()) {
            return Err(Reject::bad("malformed Transfer-Encoding"));
        }
        coding = match (is_chunked, coding) {
            (true, Coding::Absent) => Coding::Chunked,
            (true, _) => Coding::ChunkedOverUnknown,
            (false, _) => Coding::Unknown,
        };
    }
    Ok(coding)
}

#[inline]
fn frame(message: &MessageFields, version: u8) -> Result<Framing, Reject> {
    if message.coding == Coding::Absent {
        return Ok(message.length.map_or(Framing::None, Framing::Length));
    }
    if version == 10 {
        return Err(Reject::bad("Transfer-Encoding in an HTTP/1.0 request"));
    }
    if message.length.is_some() {
        return Err(Reject::bad("Content-Length with Transfer-Encoding"));
    }
    match message.coding {
        Coding::Chunked => Ok(Framing::Chunked),
        _ => Err(Reject::new(501, "unknown transfer coding")),
    }
}
