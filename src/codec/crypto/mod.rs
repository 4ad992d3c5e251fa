//! Digests, encryption, password hashes, and the texts that represent bytes. The algorithms are those of the RustCrypto
//! crates. Random bytes are arguments: this folder makes no system call.
//!
//! | file | topic | standard |
//! |---|---|---|
//! | [`digest`] | MD5, SHA-1, SHA-2, HMAC | RFC 1321, FIPS 180-4, RFC 2104 |
//! | [`text`] | hexadecimal, base64, base64url | RFC 4648 |
//! | [`sealed`] | authenticated encryption with XChaCha20-Poly1305 | RFC 8439, draft-irtf-cfrg-xchacha |
//! | [`password`] | Argon2id as PHC strings | RFC 9106 |

pub(crate) mod digest;
pub(crate) mod password;
pub(crate) mod sealed;
pub(crate) mod text;
