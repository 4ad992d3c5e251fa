//! TLS on top of sockets, with rustls.
//!
//! | file | topic |
//! |---|---|
//! | [`link`] | the transport of a connection: a socket, or TLS on top of another transport |
//! | `lower` | the calls of the transport below a session |
//! | [`session`] | one TLS connection: handshake, decrypting, encrypting |
//! | `session::output` | where its encrypted bytes go |
//! | [`server`] | a server's options; reading its files again |
//! | `identity` | certificates with their keys; which of them a client gets |
//! | `tickets` | keys of session tickets, shared by workers |
//! | [`client`] | a client's options; trusted authorities |
//! | `verifier` | the verification of a server's certificate; pins |
//! | [`development`] | certificates made on the spot |
//! | [`pem`] | certificates, keys and lists from files and texts |
//! | [`description`] | what is known about a connection, and about the peer's certificate |
//! | [`error`] | errors, described for users |
//! | `fuzz` | the target of a fuzzer |
//!
//! Streams and the web server use a [`Link`], and need not know whether it is a socket or TLS.

pub(crate) mod client;
pub(crate) mod description;
pub(crate) mod development;
pub(crate) mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod identity;
pub(crate) mod link;
mod lower;
pub(crate) mod pem;
pub(crate) mod server;
pub(crate) mod session;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "the fuzzers use a part of it"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tickets;
mod verifier;

pub(crate) use client::{ClientOptions, TlsClient};
pub(crate) use error::TlsError;
pub(crate) use identity::Identity;
pub(crate) use link::{Link, LinkParts, Tls};
pub(crate) use server::{MinVersion, ServerOptions, TlsServer};
pub(crate) use session::{Handshake, Session};
