//! Close codes and the payload of close frames (RFC 6455 sections 5.5.1 and 7.4). The reader and the writer use it.
//!
//! Invariant: a payload that is built here has at most 125 bytes, and a peer that follows the RFC accepts it.

/// The purpose of the connection is fulfilled.
pub(crate) const NORMAL: u16 = 1000;
/// The endpoint ends: a server stops, or a browser leaves the page.
pub(crate) const GOING_AWAY: u16 = 1001;
/// The peer has violated the protocol.
pub(crate) const PROTOCOL_ERROR: u16 = 1002;
/// The endpoint does not accept messages of this type.
pub(crate) const UNSUPPORTED_DATA: u16 = 1003;
/// A close frame without a code was received. Never sent.
pub(crate) const NO_STATUS: u16 = 1005;
/// The connection has ended without a close frame. Never sent.
pub(crate) const ABNORMAL: u16 = 1006;
/// A text is not UTF-8.
pub(crate) const INVALID_DATA: u16 = 1007;
/// A rule of the endpoint was violated.
pub(crate) const POLICY_VIOLATION: u16 = 1008;
/// A message exceeds a limit.
pub(crate) const MESSAGE_TOO_BIG: u16 = 1009;
/// The server has not accepted an extension that the client needs.
pub(crate) const MANDATORY_EXTENSION: u16 = 1010;
/// The server has failed.
pub(crate) const INTERNAL_ERROR: u16 = 1011;

/// The maximum number of bytes of a control frame's payload (RFC 6455 section 5.5).
pub(crate) const MAX_CONTROL: usize = 125;
/// The maximum number of bytes of a reason.
pub(crate) const MAX_REASON: usize = MAX_CONTROL - 2;

/// Why an endpoint ends the connection: the close code that it sends, and a text for its close frame and the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// One of the constants in this file.
    pub(crate) code: u16,
    /// At most 123 bytes.
    pub(crate) text: &'static str,
}

impl Refusal {
    pub(crate) const fn new(code: u16, text: &'static str) -> Refusal {
        Refusal { code, text }
    }

    /// Returns a refusal with code 1002.
    pub(crate) const fn protocol(text: &'static str) -> Refusal {
        Refusal::new(PROTOCOL_ERROR, text)
    }
}

/// The content of a close frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Close {
    /// The code; `None` if the payload is empty.
    pub(crate) code: Option<u16>,
    /// The reason; may be empty.
    pub(crate) reason: String,
}

/// Whether a close frame may contain this code: 1000 to 1003, 1007 to 1014, or 3000 to 4999 (RFC 6455 section 7.4 and
/// the registry of IANA). 1010 is for clients.
pub(crate) fn is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Returns what a code means; `None` for codes that only the application knows, and for unassigned codes.
pub(crate) fn meaning(code: u16) -> Option<&'static str> {
    Some(match code {
        NORMAL => "normal closure",
        GOING_AWAY => "going away",
        PROTOCOL_ERROR => "protocol error",
        UNSUPPORTED_DATA => "unsupported data",
        NO_STATUS => "no status received",
        ABNORMAL => "connection closed abnormally",
        INVALID_DATA => "invalid payload data",
        POLICY_VIOLATION => "policy violation",
        MESSAGE_TOO_BIG => "message too big",
        MANDATORY_EXTENSION => "mandatory extension missing",
        INTERNAL_ERROR => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        1015 => "TLS handshake failed",
        _ => return None,
    })
}

/// Decodes the payload of a close frame.
///
/// # Errors
/// 1002 for a payload of one byte or an invalid code, 1007 for a reason that is not UTF-8.
pub(crate) fn decode(payload: &[u8]) -> Result<Close, Refusal> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return match payload {
            [] => Ok(Close { code: None, reason: String::new() }),
            _ => Err(Refusal::protocol("close frame with half a code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !is_valid(code) {
        return Err(Refusal::protocol("close frame with an invalid code"));
    }
    match std::str::from_utf8(reason) {
        Ok(reason) => Ok(Close { code: Some(code), reason: reason.to_owned() }),
        Err(_) => Err(Refusal::new(INVALID_DATA, "close frame whose reason is not UTF-8")),
    }
}

/// Why a close frame cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CloseError {
    /// [`is_valid`] is false for the code.
    Code,
    /// The reason has more than [`MAX_REASON`] bytes.
    Reason,
}

/// Encodes the payload of a close frame with a code and a reason.
///
/// # Errors
/// The code must not be sent, or the reason is too long.
pub(crate) fn encode(code: u16, reason: &str) -> Result<Vec<u8>, CloseError> {
    if !is_valid(code) {
        return Err(CloseError::Code);
    }
    if reason.len() > MAX_REASON {
        return Err(CloseError::Reason);
    }
    Ok([&code.to_be_bytes(), reason.as_bytes()].concat())
}

/// Returns the longest start of a reason that fits into a close frame and is UTF-8.
pub(crate) fn shortened(reason: &str) -> &str {
    let end = (0..=reason.len().min(MAX_REASON)).rev().find(|&end| reason.is_char_boundary(end));
    &reason[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_a_close_frame_may_contain() {
        let valid: Vec<u16> = (0..=u16::MAX).filter(|&code| is_valid(code)).collect();
        let expected: Vec<u16> = (1000..1004).chain(1007..1015).chain(3000..5000).collect();
        assert_eq!(valid, expected);
        for code in 0..=u16::MAX {
            let decoded = decode(&code.to_be_bytes());
            assert_eq!(decoded.is_ok(), is_valid(code), "{code}");
            assert_eq!(encode(code, "").is_ok(), is_valid(code), "{code}");
        }
    }

    #[test]
    fn payloads_of_close_frames() {
        assert_eq!(decode(b""), Ok(Close { code: None, reason: String::new() }));
        assert_eq!(decode(b"\x03\xe8"), Ok(Close { code: Some(1000), reason: String::new() }));
        assert_eq!(decode("\x03\u{2d}".as_bytes()).map_err(|refusal| refusal.code), Err(1002));
        assert_eq!(decode(b"\x03").map_err(|refusal| refusal.code), Err(1002));
        assert_eq!(decode(b"\x03\xe8\xff").map_err(|refusal| refusal.code), Err(1007));
        assert_eq!(decode(b"\x03\xe8\xe2\x82").map_err(|refusal| refusal.code), Err(1007));
        let encoded = encode(4999, "grüße").unwrap();
        assert_eq!(decode(&encoded), Ok(Close { code: Some(4999), reason: "grüße".into() }));
    }

    #[test]
    fn a_close_frame_with_the_longest_reason_fits_into_a_control_frame() {
        assert_eq!(encode(NORMAL, &"x".repeat(123)).map(|payload| payload.len()), Ok(125));
        assert_eq!(encode(NORMAL, &"x".repeat(124)), Err(CloseError::Reason));
        assert_eq!(encode(NO_STATUS, ""), Err(CloseError::Code));
    }

    #[test]
    fn a_long_reason_is_shortened_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(200)).len(), 123);
        assert_eq!(shortened(&"ü".repeat(100)), "ü".repeat(61));
    }

    #[test]
    fn every_code_below_3000_that_may_be_sent_has_a_meaning() {
        assert!((0..3000).filter(|&code| is_valid(code)).all(|code| meaning(code).is_some()));
        assert_eq!(meaning(3000), None);
        assert_eq!(meaning(GOING_AWAY), Some("going away"));
    }
}
