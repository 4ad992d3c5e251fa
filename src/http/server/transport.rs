//! What a connection stands on: a plain socket, TLS, or memory in tests.

use crate::stream::queue::{Moved, Sink};
use std::io;

/// The bytes below a connection. Nothing here waits.
pub(crate) trait Transport: Sink {
    /// Reads what is there; `Done(0)` is the peer's end.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Moved<usize>>;

    /// Whether a read may find something: not after a short one, until the next event.
    fn may_receive(&self) -> bool;

    /// Whether bytes have come that were not read. One system call.
    fn has_unread(&self) -> bool;

    /// Asks for one event. An error means that none will come.
    fn arm(&mut self, interest: Interest) -> io::Result<()>;

    /// Whether events will come at all.
    fn is_watched(&self) -> bool;

    /// The peer reads our end behind what was sent.
    fn end_sending(&mut self) -> io::Result<()>;

    /// Idempotent.
    fn close(&mut self);
}

/// What an event is to tell; what a handler waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interest {
    Read,
    Write,
    /// The peer has ended its side.
    End,
}

/// What an event tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The peer has ended its side, or there is an error.
    pub(crate) over: bool,
}
