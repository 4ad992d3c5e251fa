//! The events that a registration can request, the modes of their delivery, and the kinds of descriptors.

/// Readable; for a listener: a connection is waiting.
pub(crate) const READ: u8 = 1;
/// Writable.
pub(crate) const WRITE: u8 = 2;
/// The peer has closed at least its sending side.
pub(crate) const CLOSED: u8 = 4;
/// Both directions are closed.
pub(crate) const HANG_UP: u8 = 8;
/// An error is pending.
pub(crate) const ERROR: u8 = 16;

/// How often an event is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At each wait while the condition persists, as select(2) does.
    Level,
    /// Once per request: a delivered event is no longer requested. Streams use this mode.
    Once,
    /// Like `Level`, but hang-up and error are separate bits, as in epoll(7).
    Epoll,
    /// Like `Epoll`, but once per change (EPOLLET).
    EpollEdge,
    /// Like `Epoll`, but all requests end after one delivery (EPOLLONESHOT).
    EpollOnce,
}

/// The kind of a descriptor, which determines the events that are requested from the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not owned by lio: re-armed after each delivery.
    Foreign,
    /// A TCP socket owned by lio: both directions are requested once, because the kernel reports free buffer space only
    /// after a write that found no space.
    Tcp,
    /// Another socket owned by lio: only the wanted directions are requested.
    Other,
}

/// Converts READ and WRITE to a mio interest. If neither bit is set, requests both.
pub(super) fn interest(bits: u8) -> mio::Interest {
    match bits & (READ | WRITE) {
        READ => mio::Interest::READABLE,
        WRITE => mio::Interest::WRITABLE,
        _ => mio::Interest::READABLE | mio::Interest::WRITABLE,
    }
}
