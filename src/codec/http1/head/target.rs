//! The four forms of a request target (RFC 9112 section 3.2), and the syntax of a host.
//!
//! Called by `head` with a complete request line. Invariant: a returned authority is a plausible `host[:port]` without
//! user information. `head` decides that an authority replaces `Host`, and that an empty path is `/`.

use super::super::fields::Span;
use super::super::reject::Reject;
use super::line::{Line, Method};
use crate::codec::byte_table;
use crate::codec::uri::find_byte;

/// The form of a request target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
    /// `*`, for OPTIONS only; also `OPTIONS http://host`, which means the same.
    Asterisk,
}

/// The parts of a request target.
pub(super) struct Target {
    pub(super) form: TargetForm,
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) authority: Option<Span>,
}

/// Splits the target of `line` into its parts.
///
/// # Errors
/// 400 if the target has none of the four forms, or a form that does not suit the method.
#[inline]
pub(super) fn split(buf: &[u8], line: &Line) -> Result<Target, Reject> {
    let target = line.target.of(buf);
    let (start, end) = (line.target.start as usize, line.target.end as usize);
    if line.method_id == Method::Connect {
        return authority_form(target, line.target);
    }
    let query = line.question.map(|at| Span::new(at + 1, end));
    let path_end = line.question.unwrap_or(end);
    if target[0] == b'/' {
        return Ok(Target { form: TargetForm::Origin, path: Span::new(start, path_end), query, authority: None });
    }
    if target == b"*" && line.method_id == Method::Options {
        return Ok(Target { form: TargetForm::Asterisk, path: line.target, query: None, authority: None });
    }
    let Some(scheme) = scheme_length(target) else {
        return Err(Reject::bad("malformed request target"));
    };
    let authority_start = start + scheme;
    let slash = memchr::memchr(b'/', &buf[authority_start..path_end]);
    let authority_end = slash.map_or(path_end, |i| authority_start + i);
    let authority = &buf[authority_start..authority_end];
    if authority.is_empty() || !is_host(authority) {
        return Err(Reject::bad("malformed authority in the request target"));
    }
    let is_bare = authority_end == end;
    let form = match line.method_id {
        Method::Options if is_bare => TargetForm::Asterisk,
        _ => TargetForm::Absolute,
    };
    Ok(Target {
        form,
        path: Span::new(authority_end, path_end),
        query,
        authority: Some(Span::new(authority_start, authority_end)),
    })
}

/// Whether `bytes` is a plausible `host[:port]` (RFC 3986 sections 3.2.2, 3.2.3). The host is a name, an IPv4 address,
/// or an IPv6 address in brackets; it must not be empty. The port is at most 65535, or empty.
pub(crate) fn is_host(bytes: &[u8]) -> bool {
    let host_end = match bytes.first() {
        Some(b'[') => match memchr::memchr(b']', bytes) {
            Some(close) if is_ip_literal(&bytes[1..close]) => close + 1,
            _ => return false,
        },
        _ => find_byte(b':', bytes).unwrap_or(bytes.len()),
    };
    let (host, port) = bytes.split_at(host_end);
    if host.is_empty() || !(host[0] == b'[' || is_reg_name(host)) {
        return false;
    }
    match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    }
}

/// Whether `inside`, the text between the brackets, consists of characters of an IPv6 address and contains a colon. The
/// text need not be a valid address.
fn is_ip_literal(inside: &[u8]) -> bool {
    inside.len() >= 2
        && inside.contains(&b':')
        && inside.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
}

/// Bytes of a registered name except escapes: unreserved characters and sub-delimiters.
const IN_REG_NAME: [bool; 256] = byte_table!(|b| b.is_ascii_alphanumeric()
    || matches!(b, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
    || matches!(b, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='));

fn is_reg_name(host: &[u8]) -> bool {
    let mut rest = host;
    while let Some(invalid) = rest.iter().position(|&b| !IN_REG_NAME[b as usize]) {
        rest = match &rest[invalid..] {
            [b'%', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => behind,
            _ => return false,
        };
    }
    true
}

fn is_port(digits: &[u8]) -> bool {
    let value = digits.iter().try_fold(0u32, |value, b| {
        let value = value * 10 + u32::from(b.wrapping_sub(b'0'));
        (b.is_ascii_digit() && value <= 65535).then_some(value)
    });
    value.is_some()
}

fn authority_form(target: &[u8], span: Span) -> Result<Target, Reject> {
    let has_port = target.last().is_some_and(u8::is_ascii_digit)
        && memchr::memrchr(b':', target).is_some_and(|colon| target[colon + 1..].iter().all(u8::is_ascii_digit));
    if !has_port || !is_host(target) {
        return Err(Reject::bad("CONNECT needs host:port"));
    }
    Ok(Target {
        form: TargetForm::Authority,
        path: Span::new(span.end as usize, span.end as usize),
        query: None,
        authority: Some(span),
    })
}

fn scheme_length(target: &[u8]) -> Option<usize> {
    let starts_with = |scheme: &[u8]| target.get(..scheme.len()).is_some_and(|t| t.eq_ignore_ascii_case(scheme));
    [&b"http://"[..], b"https://"].into_iter().find(|scheme| starts_with(scheme)).map(<[u8]>::len)
}
