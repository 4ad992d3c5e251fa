//! What a server is told once, and what it is told with each call: the time.

use crate::codec::http1::head::Limits;

/// Nanoseconds.
pub(crate) type Span = u64;

/// Nanoseconds of a clock that never goes back.
pub(crate) type Time = u64;

/// The times of this moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Seconds since the epoch, as exact as `Date` needs them.
    pub(crate) unix: u64,
}

/// The limits of a server. A span of `u64::MAX` has no end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) head: Limits,
    /// From the first byte of a head to its blank line.
    pub(crate) header_time: Span,
    /// Between two requests.
    pub(crate) keep_alive_time: Span,
    /// How long a body may take, and how many bytes a second lengthen that.
    pub(crate) body_time: Span,
    pub(crate) body_rate: f64,
    /// Without progress in sending.
    pub(crate) write_time: Span,
    /// Connections at once; beyond it accepting pauses.
    pub(crate) connections: usize,
    /// Requests of one connection.
    pub(crate) requests: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        const SECOND: Span = 1_000_000_000;
        Settings {
            head: Limits::default(),
            header_time: 10 * SECOND,
            keep_alive_time: 60 * SECOND,
            body_time: 10 * SECOND,
            body_rate: 240.0,
            write_time: 30 * SECOND,
            connections: 10_000,
            requests: None,
        }
    }
}

/// How much of an unread body is read and dropped to keep the connection; beyond it, it closes.
pub(super) const DISCARD_MOST: u64 = 256 * 1024;

/// So many requests in a row without a wait; then other connections get their turn.
pub(super) const BURST: u8 = 64;

/// So many bytes of a body count as much as a request.
pub(super) const QUANTUM: usize = 16 * 1024;

/// How much may be queued before the next pipelined request is looked at.
pub(super) const QUEUE_MOST: usize = 64 * 1024;

/// So many reads of a connection in a row; then others get their turn.
pub(super) const READS: u8 = 32;

/// A body up to this size is copied behind its head; a longer one is sent from where it is.
pub(super) const INLINE: usize = 16 * 1024;

/// Of a body up to this size, what the system does not take at once is copied; the rest of a longer one is the caller's.
pub(crate) const AT_ONCE: usize = 256 * 1024;

/// How long what a client still sends is read behind the last answer, so that this is not lost by a reset.
pub(super) const LINGER: Span = 2_000_000_000;

/// Connections that are closed at once to make room for others, and how long they must have been idle.
pub(super) const SHED_MOST: usize = 16;
pub(super) const SHED_AFTER: Span = 1_000_000_000;
