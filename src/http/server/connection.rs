//! One connection of a server, as plain data. It is in exactly one state, which contains the data of that state.

use super::draft::Draft;
use super::id::{ConnectionId, RequestId};
use super::proxied::Proxied;
use super::settings::{Span, Time};
use super::transport::Transport;
use crate::codec::http1::body::{Framing, IncomingBody};
use crate::codec::http1::head::{Head, Method, Progress};
use crate::event::timers;
use crate::http::router::routes::RouteId;
use crate::stream::queue::{Queue, Sink};
use bytes::BytesMut;

/// Queues for reuse.
#[allow(clippy::vec_box)] // Queues are moved between connections and this list in their boxes.
pub(super) type Spare<T> = Vec<Box<Queue<<T as Sink>::File>>>;

pub(super) struct Connection<T: Transport> {
    /// The stamps of the connection's identifier and of its latest request's identifier; equal before the first
    /// request.
    pub(super) stamp: u64,
    pub(super) request_stamp: u64,
    pub(super) transport: T,
    /// The bytes that were read and not consumed, unless the read buffer contains them.
    pub(super) input: BytesMut,
    /// The output queue; `None` if there is nothing to send.
    pub(super) output: Option<Box<Queue<T::File>>>,
    /// The total number of bytes that the transport has accepted.
    pub(super) sent: u64,
    /// The value of `sent` at which the body of the latest response begins.
    pub(super) body_from: Option<u64>,
    pub(super) state: State,
    pub(super) deadline: Deadline,
    /// The report of a proxy about the client.
    pub(super) proxied: Option<Box<Proxied>>,
    pub(super) peer: Peer,
    pub(super) client: Client,
    pub(super) next: NextRequest,
    /// Whether the connection is in the ready queue.
    pub(super) queue_state: QueueState,
    /// Whether the connection is in the list of connections to flush before the loop waits.
    pub(super) flush: FlushMark,
    /// The number of requests since the connection last waited; a long response body counts as several requests. At
    /// most [`super::settings::REQUEST_BUDGET`].
    pub(super) requests_in_turn: u8,
    /// The number of reads since the connection was last armed for reading.
    pub(super) reads_in_turn: u8,
    /// The number of requests so far.
    pub(super) requests: u64,
}

/// The state of a connection.
pub(super) enum State {
    /// Before the first request, the header of the PROXY protocol is read. `since`: when the connection started to
    /// wait for the header.
    ProxyHeader { since: Option<Time> },
    /// Before the first request, the handshake of TLS takes place. `since`: when the connection started to wait.
    Handshake { since: Option<Time> },
    /// Between requests; no byte of the next request has arrived. `since`: when the connection started to wait.
    Idle { since: Option<Time> },
    /// A part of a head has arrived; `since`: the time of its first byte.
    Head { progress: Progress, since: Time },
    /// A request is being handled.
    Handling(Handling),
    /// The response is queued, and the rest of the request's body is read and discarded. `since`: when the connection
    /// started to wait for more of the body.
    Discarding { body: IncomingBody, since: Option<Time> },
    /// The connection waits until it is writable, because the peer has not received the queued data, or because it is
    /// the turn of other connections. `body`: the unread rest of the last request's body.
    Blocked { body: IncomingBody },
    /// The server has closed its sending side; received bytes are discarded.
    Lingering,
}

/// A request that is being handled.
pub(super) struct Handling {
    /// The number of bytes of the request's head that are still at the start of the input.
    pub(super) head_left: u32,
    pub(super) route: Option<RouteId>,
    pub(super) method: Method,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(super) version: u8,
    /// Whether the client waits for `100 Continue`.
    pub(super) expects: Expects,
    /// Whether the connection may persist after the response, as far as is known.
    pub(super) next: NextRequest,
    pub(super) body: IncomingBody,
    pub(super) response_state: ResponseState,
    extras: Option<Box<Extras>>,
}

/// Data that only a few requests have.
#[derive(Default)]
pub(super) struct Extras {
    /// The part of the body that was read so far, if the handler reads the body as a whole.
    pub(super) collected: Vec<u8>,
    /// The trailer section of a chunked body.
    pub(super) trailers: Vec<u8>,
    pub(super) waits: Waits,
    /// The total time spent waiting for the client to send the body, and the part of it since the last byte.
    pub(super) waited: Span,
    pub(super) stalled: Span,
}

/// The progress of a response.
pub(super) enum ResponseState {
    /// No byte of the response is queued.
    Open { effect: HandlerEffect, draft: Option<Box<Draft>> },
    /// The head is queued; the body follows in pieces.
    Pieces(Framing),
    /// The whole response is queued or being sent.
    Whole,
}

/// The effects of a handler so far, apart from its return value. This value only increases.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HandlerEffect {
    None,
    /// The handler has set the status, fields or the media type.
    Fields,
    /// The handler has done something that only Lua code can complete.
    NeedsLua,
}

/// The waits of a handler's tasks; several tasks may wait at once.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// When a task started to wait to read.
    pub(super) read: Option<Time>,
    /// The deadline of a task that waits to write.
    pub(super) write: Option<Time>,
    /// Whether a task waits for the peer to close its sending side.
    pub(super) end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Open,
    /// The peer has closed its sending side.
    Ended,
    /// The peer cannot receive more data, or the transport is closed.
    Failed,
}

/// Whether the client has announced that it will send no further requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Client {
    MaySend,
    Finished,
}

/// Whether a request may follow the current request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextRequest {
    Follows,
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expects {
    Nothing,
    Continue,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueState {
    Outside,
    Queued,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushMark {
    Unmarked,
    Marked,
}

/// The deadline of a connection. Its timer is moved only if it would fire too late.
pub(super) struct Deadline {
    pub(super) at: Time,
    /// The time at which the timer fires; `Time::MAX` if it is not set.
    pub(super) timer_at: Time,
    pub(super) timer: Option<timers::Id>,
}

impl<T: Transport> Connection<T> {
    pub(super) fn new(stamp: u64, transport: T) -> Self {
        Connection {
            stamp,
            request_stamp: stamp,
            transport,
            input: BytesMut::new(),
            output: None,
            sent: 0,
            body_from: None,
            state: State::Idle { since: None },
            deadline: Deadline { at: Time::MAX, timer_at: Time::MAX, timer: None },
            proxied: None,
            peer: Peer::Open,
            client: Client::MaySend,
            next: NextRequest::Follows,
            queue_state: QueueState::Outside,
            flush: FlushMark::Unmarked,
            requests_in_turn: 0,
            reads_in_turn: 0,
            requests: 0,
        }
    }

    pub(super) fn id(&self, slot: usize) -> ConnectionId {
        ConnectionId::new(slot, self.stamp)
    }

    pub(super) fn request(&self, slot: usize) -> RequestId {
        RequestId::new(slot, self.request_stamp)
    }

    /// Returns the connection's queue. If it has none, takes a queue out of `spare` or creates one.
    pub(super) fn queue(&mut self, spare: &mut Spare<T>) -> &mut Queue<T::File> {
        self.output.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// The number of unsent bytes in memory.
    pub(super) fn queued(&self) -> usize {
        self.output.as_ref().map_or(0, |queue| queue.queued())
    }

    /// Whether nothing is left to send.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_none()
    }

    /// Returns the request that is being handled.
    #[inline]
    pub(super) fn handling(&mut self) -> Option<&mut Handling> {
        match &mut self.state {
            State::Handling(handling) => Some(handling),
            _ => None,
        }
    }

    /// Counts a response body of `length` bytes as additional requests in this turn.
    pub(super) fn count_body(&mut self, length: usize) {
        use super::settings::{BYTES_PER_REQUEST, REQUEST_BUDGET};
        let more = u8::try_from(length / BYTES_PER_REQUEST).unwrap_or(REQUEST_BUDGET);
        self.requests_in_turn = self.requests_in_turn.saturating_add(more).min(REQUEST_BUDGET);
    }
}

impl Handling {
    /// Returns the request with this head, which is at the start of the input.
    #[inline]
    pub(super) fn of(head: &Head, route: Option<RouteId>) -> Handling {
        let body = IncomingBody::new(head.framing);
        let expects = if head.expect_continue && !body.is_done() { Expects::Continue } else { Expects::Nothing };
        // No request follows CONNECT, regardless of the response to it.
        let may_follow = head.keep_alive && head.method_id != Method::Connect;
        let next = if may_follow { NextRequest::Follows } else { NextRequest::None };
        Handling {
            head_left: head.head_len as u32,
            route,
            method: head.method_id,
            version: head.version,
            expects,
            next,
            body,
            response_state: ResponseState::OPEN,
            extras: None,
        }
    }

    /// Returns the extras, which are created at the first use.
    pub(super) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Returns the extras if there are any.
    pub(super) fn extras_ref(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    /// Whether a read of the whole body has taken a part of it, and has not returned it.
    pub(super) fn holds_part(&self) -> bool {
        self.extras_ref().is_some_and(|extras| !extras.collected.is_empty())
    }

    /// Records that bytes of the body have arrived.
    pub(super) fn record_progress(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.stalled = 0;
        }
    }

    /// Returns the waits of the handler's tasks.
    pub(super) fn waits(&self) -> Waits {
        self.extras.as_ref().map(|extras| extras.waits).unwrap_or_default()
    }

    /// Ends the wait to read, and adds its duration to the totals.
    pub(super) fn end_read_wait(&mut self, now: Time) {
        if let Some(extras) = &mut self.extras
            && let Some(since) = extras.waits.read.take()
        {
            let span = now.saturating_sub(since);
            extras.waited += span;
            extras.stalled += span;
        }
    }
}

impl ResponseState {
    pub(super) const OPEN: ResponseState = ResponseState::Open { effect: HandlerEffect::None, draft: None };

    pub(super) fn is_open(&self) -> bool {
        matches!(self, ResponseState::Open { .. })
    }

    /// Returns the handler's draft, if its fields can still be changed.
    #[inline]
    pub(super) fn draft(&mut self) -> Option<&mut Option<Box<Draft>>> {
        match self {
            ResponseState::Open { draft, .. } => Some(draft),
            _ => None,
        }
    }
}
