//! Texts that represent bytes: hexadecimal, base64 and base64url (RFC 4648). The time that decoding takes does not
//! depend on the bytes, so that keys and signatures may be decoded.

use base64ct::{Base64, Base64Unpadded, Base64UrlUnpadded, Encoding as _};

/// How bytes are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The bytes themselves.
    Raw,
    /// Lower-case hexadecimal digits.
    Hex,
    /// Base64 with padding (RFC 4648 section 4).
    Base64,
    /// Base64 with `-` and `_`, without padding (RFC 4648 section 5).
    Base64Url,
}

impl Encoding {
    /// Returns the encoding with this name.
    pub(crate) fn of(name: &[u8]) -> Option<Encoding> {
        match name {
            b"raw" => Some(Encoding::Raw),
            b"hex" => Some(Encoding::Hex),
            b"base64" => Some(Encoding::Base64),
            b"base64url" => Some(Encoding::Base64Url),
            _ => None,
        }
    }

    /// Returns the representation of `bytes`.
    pub(crate) fn encode(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Encoding::Raw => bytes.to_vec(),
            Encoding::Hex => base16ct::lower::encode_string(bytes).into_bytes(),
            Encoding::Base64 => Base64::encode_string(bytes).into_bytes(),
            Encoding::Base64Url => Base64UrlUnpadded::encode_string(bytes).into_bytes(),
        }
    }

    /// Returns the bytes that a text represents; `None` if the text is invalid. Hexadecimal digits may be in upper
    /// case. Base64 is valid with its padding and without it. No other characters are skipped, and unused bits must be
    /// 0, so that a text without padding is the only one for its bytes.
    pub(crate) fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Encoding::Raw => Some(text.to_vec()),
            Encoding::Hex => base16ct::mixed::decode_vec(text).ok(),
            Encoding::Base64 => Base64Unpadded::decode_vec(unpadded(text)?).ok(),
            Encoding::Base64Url => Base64UrlUnpadded::decode_vec(unpadded(text)?).ok(),
        }
    }
}

/// Returns a base64 text without its padding; `None` if the padding has the wrong length, or if the text is not UTF-8.
fn unpadded(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.trim_end_matches('=');
    let padding = text.len() - bare.len();
    (padding == 0 || padding < 3 && text.len() % 4 == 0).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_accepts_right_padding_or_none() {
        for (text, want) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zg", Some("f")),
            ("Zg=", None),
            ("Zm8=", Some("fo")),
            ("Zm8", Some("fo")),
            ("Zm8==", None),
            ("Zm9v", Some("foo")),
            ("Zm9v====", None),
            ("Zm9=", None),
            ("Z", None),
            ("=", None),
            ("Zh", None),
            ("Zm9v\n", None),
            ("Zm 9v", None),
            ("Zg==Zg==", None),
        ] {
            assert_eq!(Encoding::Base64.decode(text.as_bytes()), want.map(|want| want.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(Encoding::Base64.decode(b"\xFF\xFF\xFF\xFF"), None);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for encoding in [Encoding::Raw, Encoding::Hex, Encoding::Base64, Encoding::Base64Url] {
                prop_assert_eq!(encoding.decode(&encoding.encode(&bytes)), Some(bytes.clone()));
            }
        }

        #[test]
        fn a_text_without_padding_that_is_valid_is_the_only_one_for_its_bytes(text in "[A-Za-f0-9_+/=-]{0,12}") {
            for encoding in [Encoding::Base64, Encoding::Base64Url] {
                if let Some(bytes) = encoding.decode(text.as_bytes()) {
                    let again = String::from_utf8(encoding.encode(&bytes)).unwrap();
                    prop_assert_eq!(again.trim_end_matches('='), text.trim_end_matches('='));
                }
            }
        }
    }
}
