//! TLS on top of sockets, with rustls.
//!
//! | file | topic |
//! |---|---|
//! | [`link`] | the transport of a connection: a socket, or TLS on top of another transport |
//! | [`session`] | one TLS connection: handshake, decrypting, encrypting |
//! | [`error`] | errors, described for users |
//!
//! A connection is plain or TLS from the point of view of its owner alone: both have the same calls.

pub(crate) mod error;
pub(crate) mod link;
pub(crate) mod session;

pub(crate) use error::TlsError;
pub(crate) use link::{Link, LinkParts};
pub(crate) use session::Handshake;
