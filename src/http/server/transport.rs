//! The transport of a connection: a plain socket, TLS, or memory in tests.

use crate::stream::queue::{Attempt, Sink};
use crate::tls::Handshake;
use std::io;
use std::net::IpAddr;

/// The byte stream below a connection. No method waits.
pub(crate) trait Transport: Sink {
    /// Whether the bytes are encrypted, so that a part of a record may arrive, which is no data yet.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Whether a handshake comes before the first request.
    fn needs_handshake(&self) -> bool {
        false
    }

    /// Continues the handshake. `received` are bytes that were read before its first call; they belong to it.
    ///
    /// # Errors
    /// An error if the handshake has failed. The transport must then be closed.
    fn handshake(&mut self, _received: &[u8]) -> io::Result<Handshake> {
        Ok(Handshake::Done)
    }

    /// Reads available bytes into `room`. `Done(0)` means that the peer has closed its sending side.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>>;

    /// Whether a read may return data; false after a short read, until the next event.
    fn may_receive(&self) -> bool;

    /// Whether a read returns data, the end, or an error of TLS, from bytes that were already taken from the system. No
    /// event will report it.
    fn has_plaintext(&self) -> bool {
        false
    }

    /// Whether unread bytes are available. Makes one system call.
    fn has_unread(&self) -> bool;

    /// Requests one report of an event.
    ///
    /// # Errors
    /// An error if the event cannot be requested. The event is then not reported.
    fn arm(&mut self, interest: Interest) -> io::Result<()>;

    /// Returns the IP address of the peer; `None` for a unix socket.
    ///
    /// # Errors
    /// An error if the address is unknown, because the connection is closed.
    fn peer_ip(&self) -> io::Result<Option<IpAddr>>;

    /// Whether the transport can report events.
    fn is_registered(&self) -> bool;

    /// Closes the sending side. The peer reads the end of the stream after the bytes sent.
    fn end_sending(&mut self) -> io::Result<()>;

    /// Closes the transport. Idempotent.
    fn close(&mut self);
}

/// An event that is requested, or that a handler waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interest {
    Read,
    Write,
    /// The peer has closed its sending side.
    End,
}

/// The events that a transport reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The peer has closed its sending side, or there is an error.
    pub(crate) closed: bool,
}
