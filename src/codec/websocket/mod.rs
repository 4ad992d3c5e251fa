//! WebSocket (RFC 6455) with compression of messages (permessage-deflate, RFC 7692): handshakes, frames and messages.
//!
//! A connection has one [`reader::Reader`] and one [`writer::Writer`]. An idle reader owns no buffer: it stores the bytes
//! of an incomplete message only. Random keys come from the caller.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`handshake`] | keys, subprotocols, the checks of a server | 6455 sections 4.2, 11.3 |
//! | [`client`] | a client's request and the check of the response | 6455 section 4.1 |
//! | [`extensions`] | the syntax of `Sec-WebSocket-Extensions` | 6455 section 9.1 |
//! | [`negotiation`] | the parameters of permessage-deflate | 7692 section 7.1 |
//! | [`frame`] | heads of frames | 6455 section 5.2 |
//! | [`mask`] | masking of payloads | 6455 section 5.3 |
//! | [`reader`] | received bytes to messages and control frames | 6455 sections 5.4, 5.5 |
//! | [`assembly`] | the incomplete message of a reader, and its limits | 6455 section 5.4 |
//! | [`rate`] | a limit of the number of messages per second | |
//! | [`inflate`] | decompression of messages | 7692 section 7.2.2 |
//! | [`writer`] | messages and control frames to bytes | 6455 section 6.1 |
//! | [`encoded_frame`] | whole frames that depend on no connection | |
//! | [`broadcast`] | one message for many connections | |
//! | [`deflate`] | compression of messages | 7692 section 7.2.1 |
//! | [`close`] | close codes and the payload of close frames | 6455 sections 5.5.1, 7.4 |
//! | `fuzz` | targets of fuzzers | |

pub(crate) mod assembly;
pub(crate) mod broadcast;
pub(crate) mod client;
pub(crate) mod close;
pub(crate) mod deflate;
pub(crate) mod encoded_frame;
pub(crate) mod extensions;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod inflate;
pub(crate) mod mask;
pub(crate) mod negotiation;
pub(crate) mod rate;
pub(crate) mod reader;
pub(crate) mod writer;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;

pub(crate) use close::Refusal;

/// One of the two endpoints of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The endpoint that has sent the request. It masks its frames.
    Client,
    /// The endpoint that has accepted the request.
    Server,
}

/// The type of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}
