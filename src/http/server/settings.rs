//! The settings of a server, and the time that the driver passes to its calls.

use crate::codec::http1::head::Limits;

/// A duration in nanoseconds.
pub(crate) type Span = u64;

/// A time on a monotonic clock, in nanoseconds.
pub(crate) type Time = u64;

/// The current time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Seconds since the Unix epoch, with the precision that `Date` needs.
    pub(crate) unix: u64,
}

/// The limits of a server. A span of `u64::MAX` is unlimited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) head: Limits,
    /// The longest time for the handshake of TLS.
    pub(crate) handshake_time: Span,
    /// The maximum number of handshakes at the same time, at least 1.
    pub(crate) handshakes: usize,
    /// The longest time from the first byte of a head to its blank line.
    pub(crate) header_time: Span,
    /// The longest time between two requests.
    pub(crate) keep_alive_time: Span,
    /// The longest time for receiving a body, which is also the longest time without a byte of it, and the number of
    /// received bytes that extends the former by one second.
    pub(crate) body_time: Span,
    pub(crate) body_rate: f64,
    /// The longest time without progress in sending.
    pub(crate) write_time: Span,
    /// The maximum number of connections at once. At the limit, accepting pauses.
    pub(crate) connections: usize,
    /// The maximum number of requests on one connection.
    pub(crate) requests: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        const SECOND: Span = 1_000_000_000;
        Settings {
            head: Limits::default(),
            handshake_time: 10 * SECOND,
            handshakes: 4096,
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

/// The maximum number of bytes of an unread body that are read and discarded to keep the connection. A connection with
/// a longer remaining body closes.
pub(super) const MAX_DISCARDED: u64 = 256 * 1024;

/// The maximum number of requests in one turn of a connection; then it is the turn of other connections.
pub(super) const REQUEST_BUDGET: u8 = 64;

/// The number of bytes of a response body that count as one request.
pub(super) const BYTES_PER_REQUEST: usize = 16 * 1024;

/// If at least this number of bytes is queued, the next pipelined request is not parsed yet.
pub(super) const MAX_QUEUE_TO_PARSE: usize = 64 * 1024;

/// The maximum number of reads in one turn of a connection.
pub(super) const READ_BUDGET: u8 = 32;

/// A body of up to this size is copied into the queue after the response head; a longer body is sent without a copy.
pub(super) const MAX_COPIED_BODY: usize = 16 * 1024;

/// If the system does not accept all of a body of up to this size, the rest is copied into the queue. The caller sends
/// the rest of a longer body.
pub(crate) const MAX_QUEUED_BODY: usize = 256 * 1024;

/// How long, in nanoseconds, the server continues to read from a client after the last response. Closing immediately
/// could reset the connection, and the response would be lost.
pub(super) const LINGER: Span = 2_000_000_000;

/// The maximum number of connections that are closed at once to make room for new connections, and how long a
/// connection must have been idle, in nanoseconds.
pub(super) const MAX_SHED: usize = 16;
pub(super) const SHED_AFTER: Span = 1_000_000_000;
