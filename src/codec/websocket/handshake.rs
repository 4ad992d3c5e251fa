//! The parts of the opening handshake that do not depend on the connection (RFC 6455 section 4): keys, lists of tokens
//! and the choice of a subprotocol. The machine of the server and [`super::client`] use it.

use base64ct::{Base64, Encoding as _};
use sha1::Sha1;
use sha2::digest::Digest as _;

use crate::codec::http1::fields::is_token;

/// The only value of `Sec-WebSocket-Version` that servers accept. They refuse others with 426 and this field.
pub(crate) const VERSION: &str = "13";

/// The number of random bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// The number of base64 digits of a key, without the padding `==`.
const KEY_DIGITS: usize = 22;

/// The text that RFC 6455 section 1.3 appends to keys.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the value of `Sec-WebSocket-Key` for 16 random bytes.
pub(crate) fn key(random: &[u8; KEY_BYTES]) -> String {
    Base64::encode_string(random)
}

/// Whether the value of `Sec-WebSocket-Key` is base64 with padding of 16 bytes. The unused bits may have any value,
/// because the server compares no keys.
pub(crate) fn is_valid_key(key: &[u8]) -> bool {
    let is_digit = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.strip_suffix(b"==").is_some_and(|digits| digits.len() == KEY_DIGITS && digits.iter().all(is_digit))
}

/// Returns the value of `Sec-WebSocket-Accept` for the value of `Sec-WebSocket-Key` (RFC 6455 section 4.2.2).
pub(crate) fn accept(key: &[u8]) -> String {
    Base64::encode_string(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// Returns the elements of a comma-separated list without white space; empty elements are skipped (RFC 9110 section
/// 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Whether the list contains the token, in any case: `websocket` in `Upgrade`, `upgrade` in `Connection`.
pub(crate) fn has_token(value: &[u8], token: &str) -> bool {
    elements(value).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
}

/// Why no subprotocol can be chosen: an offered name is not a token (RFC 6455 section 4.1). The request must be refused
/// (400).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MalformedProtocol;

/// Chooses a subprotocol. `values`: the values of the request's `Sec-WebSocket-Protocol` fields, in the client's order
/// of preference. Returns the first offered name that is in `supported`; `None` if there is none: the response then has
/// no such field. Names are compared with their case.
///
/// # Errors
/// An offered name is not a token.
pub(crate) fn choose_protocol<'v, 's, S: AsRef<[u8]>>(
    values: impl IntoIterator<Item = &'v [u8]>, supported: &'s [S],
) -> Result<Option<&'s S>, MalformedProtocol> {
    let mut chosen = None;
    for name in values.into_iter().flat_map(elements) {
        if !is_token(name) {
            return Err(MalformedProtocol);
        }
        chosen = chosen.or_else(|| supported.iter().find(|supported| supported.as_ref() == name));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_6455_section_1_3() {
        let key = key(b"the sample nonce");
        assert_eq!(key, "dGhlIHNhbXBsZSBub25jZQ==");
        assert!(is_valid_key(key.as_bytes()));
        assert_eq!(accept(key.as_bytes()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn keys_are_base64_of_16_bytes() {
        for valid in ["AAAAAAAAAAAAAAAAAAAAAA==", "+/+/+/+/+/+/+/+/+/+/+/==", "AQIDBAUGBwgJCgsMDQ4PEC=="] {
            assert!(is_valid_key(valid.as_bytes()), "{valid}");
        }
        for invalid in [
            "",
            "==",
            "AAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAA===",
            "AAAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAA==",
            "AAAAAAAAAA AAAAAAAAAAA==",
            "AAAAAAAAAA-AAAAAAAAAAA==",
        ] {
            assert!(!is_valid_key(invalid.as_bytes()), "{invalid}");
        }
    }

    #[test]
    fn tokens_of_lists() {
        assert!(has_token(b"keep-alive, Upgrade", "upgrade"));
        assert!(has_token(b",\tWebSocket ,", "websocket"));
        assert!(!has_token(b"websockets, h2c", "websocket"));
        assert!(!has_token(b"", "websocket"));
    }

    #[test]
    fn the_first_supported_protocol_of_the_client_is_chosen() {
        let chosen = |values: &[&str]| {
            choose_protocol(values.iter().map(|value| value.as_bytes()), &["chat", "superchat"])
                .map(Option::<&&str>::copied)
        };
        assert_eq!(chosen(&["superchat, chat"]), Ok(Some("superchat")));
        assert_eq!(chosen(&["mqtt", "chat,superchat"]), Ok(Some("chat")));
        assert_eq!(chosen(&["Chat"]), Ok(None));
        assert_eq!(chosen(&[]), Ok(None));
        assert_eq!(chosen(&["chat, not a token"]), Err(MalformedProtocol));
    }
}
