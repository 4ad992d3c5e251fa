//! What a registration asks for, and of whose descriptor.

/// Readable; of a listener: a connection waits.
pub(crate) const READ: u8 = 1;
/// Writable.
pub(crate) const WRITE: u8 = 2;
/// The peer has ended its side, or more.
pub(crate) const CLOSED: u8 = 4;
/// Both directions are over.
pub(crate) const HANG_UP: u8 = 8;
/// An error is pending.
pub(crate) const ERROR: u8 = 16;

/// How often one condition is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At each wait while it persists, as select(2) does.
    Level,
    /// Once per asking: what is delivered is no longer asked for. Streams use this.
    Once,
    /// As `Level`, with hang-up and error as bits of their own, as epoll(7) reports them.
    Epoll,
    /// As `Epoll`, once per change (EPOLLET).
    EpollEdge,
    /// As `Epoll`, and after one delivery nothing is asked (EPOLLONESHOT).
    EpollOnce,
}

/// Whose descriptor it is; decides what is asked of the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not ours: re-armed after each delivery.
    Foreign,
    /// Our TCP socket: both directions are asked for once and for all, since the kernel reports room
    /// to write only after a write that found none.
    Tcp,
    /// Another socket of ours: only what is wanted is asked for.
    Other,
}

/// READ and WRITE as mio takes them; both when neither is given.
pub(super) fn interest(bits: u8) -> mio::Interest {
    match bits & (READ | WRITE) {
        READ => mio::Interest::READABLE,
        WRITE => mio::Interest::WRITABLE,
        _ => mio::Interest::READABLE | mio::Interest::WRITABLE,
    }
}
