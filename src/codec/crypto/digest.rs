//! Digests of bytes that arrive in pieces, with a key (HMAC) or without.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::digest::Digest as _;
use sha2::{Sha224, Sha256, Sha384, Sha512};

/// Defines [`Algorithm`] and [`Digest`], which have a variant for each algorithm.
macro_rules! algorithms {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A digest algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Algorithm { $($name),* }

        /// The digest of the bytes that have been added so far.
        #[derive(Clone)]
        pub(crate) struct Digest(State);

        #[derive(Clone)]
        enum State { $($name(Keyed<$name>)),* }

        impl Algorithm {
            /// Returns the algorithm with this name.
            pub(crate) fn of(name: &[u8]) -> Option<Algorithm> {
                $(if name == $text.as_bytes() { return Some(Algorithm::$name); })*
                None
            }
        }

        impl Digest {
            /// Returns the digest of no bytes.
            pub(crate) fn new(algorithm: Algorithm) -> Digest {
                Digest(match algorithm { $(Algorithm::$name => State::$name(Keyed::Plain($name::new()))),* })
            }

            /// Returns the HMAC of no bytes. The key may have any length.
            pub(crate) fn with_key(algorithm: Algorithm, key: &[u8]) -> Digest {
                Digest(match algorithm {
                    $(Algorithm::$name => {
                        let hmac = Hmac::<$name>::new_from_slice(key).expect("HMAC accepts keys of every length");
                        State::$name(Keyed::Hmac(Box::new(hmac)))
                    })*
                })
            }

            /// Adds bytes.
            pub(crate) fn update(&mut self, bytes: &[u8]) {
                match &mut self.0 {
                    $(State::$name(Keyed::Plain(digest)) => digest.update(bytes),
                    State::$name(Keyed::Hmac(hmac)) => hmac.update(bytes),)*
                }
            }

            /// Returns the digest.
            pub(crate) fn finish(self) -> Vec<u8> {
                match self.0 {
                    $(State::$name(Keyed::Plain(digest)) => digest.finalize().to_vec(),
                    State::$name(Keyed::Hmac(hmac)) => hmac.finalize().into_bytes().to_vec(),)*
                }
            }
        }
    };
}

algorithms! {
    Md5 = "md5", Sha1 = "sha1", Sha224 = "sha224", Sha256 = "sha256", Sha384 = "sha384", Sha512 = "sha512",
}

/// The state of an algorithm. An HMAC is boxed, because it contains two states.
#[derive(Clone)]
enum Keyed<D: hmac::EagerHash> {
    Plain(D),
    Hmac(Box<Hmac<D>>),
}

/// Returns the digest of `bytes`.
pub(crate) fn digest(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digest = Digest::new(algorithm);
    digest.update(bytes);
    digest.finish()
}

/// Returns the HMAC of `bytes` (RFC 2104).
pub(crate) fn hmac(algorithm: Algorithm, key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut digest = Digest::with_key(algorithm, key);
    digest.update(bytes);
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Algorithm; 6] =
        [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha224, Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512];

    proptest! {
        #[test]
        fn the_digest_does_not_depend_on_how_the_bytes_are_split(
            bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..400, key in prop::option::of(".{0,200}")
        ) {
            let at = at.min(bytes.len());
            for algorithm in ALL {
                let key = key.as_ref().map(String::as_bytes);
                let new = || key.map_or_else(|| Digest::new(algorithm), |key| Digest::with_key(algorithm, key));
                let (mut whole, mut split) = (new(), new());
                whole.update(&bytes);
                split.update(&bytes[..at]);
                let _ = split.clone().finish();
                split.update(&bytes[at..]);
                prop_assert_eq!(whole.finish(), split.finish());
            }
        }
    }

    #[test]
    fn names_are_case_sensitive_and_unknown_names_are_refused() {
        assert_eq!(Algorithm::of(b"sha256"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::of(b"SHA256"), None);
        assert_eq!(Algorithm::of(b""), None);
    }
}
