//! Sealed data: a random nonce of 24 bytes, the data encrypted with XChaCha20, and a tag of 16 bytes by Poly1305. The
//! nonce is so long that random nonces of one key do not repeat.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// The length of a key in bytes.
pub(crate) const KEY: usize = 32;
/// The length of a nonce in bytes.
pub(crate) const NONCE: usize = 24;

/// Encrypts `data`. Returns the nonce, the encrypted data and the tag, which also authenticates `context`; `None` if
/// the data is too long for the cipher (256 GiB).
pub(crate) fn seal(key: &[u8; KEY], nonce: [u8; NONCE], data: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let cipher = XChaCha20Poly1305::new(&(*key).into());
    let encrypted = cipher.encrypt(&XNonce::from(nonce), Payload { msg: data, aad: context }).ok()?;
    let mut sealed = Vec::with_capacity(NONCE + encrypted.len());
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&encrypted);
    Some(sealed)
}

/// Decrypts the result of [`seal`]. Returns `None` if the key or the context is another one, or if a byte was changed.
pub(crate) fn open(key: &[u8; KEY], sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
    let (nonce, encrypted) = sealed.split_first_chunk::<NONCE>()?;
    let cipher = XChaCha20Poly1305::new(&(*key).into());
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg: encrypted, aad: context }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::crypto::text::Encoding;

    fn hex(text: &str) -> Vec<u8> {
        Encoding::Hex.decode(text.as_bytes()).expect("hexadecimal")
    }

    /// The vector of draft-irtf-cfrg-xchacha-03, appendix A.3.1.
    #[test]
    fn the_example_of_the_draft_is_sealed_and_opened() {
        let key: [u8; KEY] =
            hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f").try_into().unwrap();
        let nonce: [u8; NONCE] = hex("404142434445464748494a4b4c4d4e4f5051525354555657").try_into().unwrap();
        let context = hex("50515253c0c1c2c3c4c5c6c7");
        let data = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
            sunscreen would be it.";
        let want = [
            &nonce[..],
            &hex(
                "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c670\
                 8c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9\
                 768812f615c68b13b52e",
            ),
            &hex("c0875924c1c7987947deafd8780acf49"),
        ]
        .concat();
        assert_eq!(seal(&key, nonce, data, &context).unwrap(), want);
        assert_eq!(open(&key, &want, &context).unwrap(), data);
    }

    #[test]
    fn a_changed_or_shortened_text_another_key_and_another_context_are_refused() {
        let sealed = seal(&[1; KEY], [2; NONCE], b"data", b"a").unwrap();
        assert_eq!(open(&[1; KEY], &sealed, b"a").unwrap(), b"data");
        assert_eq!(open(&[3; KEY], &sealed, b"a"), None);
        assert_eq!(open(&[1; KEY], &sealed, b""), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&[1; KEY], &changed, b"a"), None, "byte {at}");
            assert_eq!(open(&[1; KEY], &sealed[..at], b"a"), None, "{at} bytes");
        }
    }
}
