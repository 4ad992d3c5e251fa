//! The events that a registration requests, how often, and for which kind of descriptor.

/// Readable; for a listener: a connection waits.
pub(crate) const READ: u8 = 1;
/// Writable.
pub(crate) const WRITE: u8 = 2;
/// The peer has closed at least its sending side.
pub(crate) const CLOSED: u8 = 4;
/// Both directions are closed.
pub(crate) const HANG_UP: u8 = 8;
/// An error is pending.
pub(crate) const ERROR: u8 = 16;

/// How often a condition is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At each wait while the condition persists, as select(2) does.
    Level,
    /// Once per request: a delivered event is no longer requested. Streams use this mode.
    Once,
    /// As `Level`, with hang-up and error as separate bits, as epoll(7) reports them.
    Epoll,
    /// As `Epoll`, once per change (EPOLLET).
    EpollEdge,
    /// As `Epoll`, but all requests end with one delivery (EPOLLONESHOT).
    EpollOnce,
}

/// The kind of a descriptor, which decides about the requests to the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not owned by lio: re-armed after each delivery.
    Foreign,
    /// A TCP socket owned by lio: both directions are requested once, because the kernel reports free space to write
    /// only after a write that found none.
    Tcp,
    /// Another socket owned by lio: only the wanted directions are requested.
    Other,
}

/// Converts READ and WRITE for mio; both if neither is given.
pub(super) fn interest(bits: u8) -> mio::Interest {
    match bits & (READ | WRITE) {
        READ => mio::Interest::READABLE,
        WRITE => mio::Interest::WRITABLE,
        _ => mio::Interest::READABLE | mio::Interest::WRITABLE,
    }
}
