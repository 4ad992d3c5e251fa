//! The request line: `method SP target SP HTTP/d.d CRLF` (RFC 9112 section 3).
//!
//! Called by `head`. Strict: single spaces, no control bytes, CRLF at the end. Invariant: bytes are checked from left
//! to right and each fault has one offset, so that a prefix and the whole line have the same first fault.

use super::super::fields::{Span, is_token_byte};
use super::super::reject::Reject;
use crate::codec::byte_table;
use crate::codec::uri::find_byte;

/// The standard methods (RFC 9110 section 9, RFC 5789). Their names are case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token.
    #[default]
    Other,
}

impl Method {
    /// Returns the method with this name.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }
}

/// A complete request line.
pub(super) struct Line {
    pub(super) method: Span,
    pub(super) method_id: Method,
    pub(super) target: Span,
    /// The offset of the first `?` in the target.
    pub(super) question: Option<usize>,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(super) version: u8,
    /// The offset after the CRLF.
    pub(super) end: usize,
}

/// Bytes that a target cannot contain: controls, space and `#` (clients do not send fragments).
const NOT_IN_TARGET: [bool; 256] = byte_table!(|b| matches!(b, 0..=0x20 | 0x7f | b'#'));

/// Parses the request line at offset `start`; `None` if it is incomplete. `limit`: the maximum length of the line in
/// bytes, without the CRLF.
///
/// # Errors
/// 400 for a malformed line; 414 as soon as more than `limit` bytes have arrived without a fault; 505 for an unknown
/// version.
pub(super) fn parse(buf: &[u8], start: usize, limit: usize) -> Result<Option<Line>, Reject> {
    let line = &buf[..buf.len().min(start + limit)];
    let is_cut = line.len() < buf.len();

    let Some(method_end) = find(line, start, |b| !is_token_byte(b)) else {
        return unfinished(is_cut);
    };
    if line[method_end] != b' ' || method_end == start {
        return Err(Reject::bad("malformed method"));
    }

    let target = method_end + 1;
    let Some(target_end) = find(line, target, |b| NOT_IN_TARGET[b as usize]) else {
        return unfinished(is_cut);
    };
    if line[target_end] != b' ' || target_end == target {
        return Err(Reject::bad("malformed request target"));
    }

    let version = target_end + 1;
    let Some(digits) = version_digits(&line[version..])? else { return unfinished(is_cut) };
    let line_end = version + VERSION.len();
    match &buf[line_end..] {
        [] | [b'\r'] => return Ok(None),
        [b'\r', b'\n', ..] => (),
        _ => return Err(Reject::bad("malformed end of the request line")),
    }
    let version = match digits {
        [b'1', b'1'] => 11,
        [b'1', b'0'] => 10,
        _ => return Err(Reject::new(505, "unknown HTTP version")),
    };
    Ok(Some(Line {
        method: Span::new(start, method_end),
        method_id: Method::of(&line[start..method_end]),
        target: Span::new(target, target_end),
        question: find_byte(b'?', &line[target..target_end]).map(|i| target + i),
        version,
        end: line_end + 2,
    }))
}

#[cold]
fn unfinished(is_cut: bool) -> Result<Option<Line>, Reject> {
    if is_cut { Err(Reject::new(414, "request line too long")) } else { Ok(None) }
}

#[inline]
fn find(line: &[u8], from: usize, stop: impl Fn(u8) -> bool) -> Option<usize> {
    let rest = line.get(from..)?;
    rest.iter().position(|&b| stop(b)).map(|i| from + i)
}

/// The form of a version; `d` is a digit.
const VERSION: &[u8; 8] = b"HTTP/d.d";

/// Returns the two digits of the version at the start of `rest`; `None` if it is incomplete.
#[inline]
fn version_digits(rest: &[u8]) -> Result<Option<[u8; 2]>, Reject> {
    if rest.starts_with(b"HTTP/1.1") {
        return Ok(Some(*b"11"));
    }
    other_version(rest)
}

fn other_version(rest: &[u8]) -> Result<Option<[u8; 2]>, Reject> {
    let is_right = rest.iter().zip(VERSION).all(|(got, form)| match form {
        b'd' => got.is_ascii_digit(),
        _ => got == form,
    });
    if !is_right {
        return Err(Reject::bad("malformed HTTP version"));
    }
    match rest {
        [_, _, _, _, _, major, _, minor, ..] => Ok(Some([*major, *minor])),
        _ => Ok(None),
    }
}
