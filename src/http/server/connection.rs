//! One connection of a server: plain data. Exactly one state at a time, which holds what only that state has.

use super::draft::Draft;
use super::id::{ConnectionId, RequestId};
use super::settings::{Span, Time};
use super::transport::Transport;
use crate::codec::http1::body::{Framing, Incoming};
use crate::codec::http1::head::{Head, Method, Progress};
use crate::event::timers;
use crate::http::router::routes::RouteId;
use crate::stream::queue::{Queue, Sink};
use bytes::BytesMut;

/// Queues that are kept to be used again.
#[allow(clippy::vec_box)] // They go to connections and come back in their boxes.
pub(super) type Spare<T> = Vec<Box<Queue<<T as Sink>::File>>>;

pub(super) struct Connection<T: Transport> {
    /// The stamp of its name, and of its latest request's; that of its own before the first.
    pub(super) born: u64,
    pub(super) current: u64,
    pub(super) transport: T,
    /// What was read and not consumed, unless the landing buffer has it.
    pub(super) input: BytesMut,
    /// What is to be sent; `None` when that is nothing.
    pub(super) output: Option<Box<Queue<T::File>>>,
    /// Bytes that the transport took, in all.
    pub(super) sent: u64,
    /// Where the body of the latest answer begins, counted likewise.
    pub(super) body_from: Option<u64>,
    pub(super) state: State,
    pub(super) deadline: Deadline,
    pub(super) peer: Peer,
    pub(super) client: Client,
    pub(super) next: NextRequest,
    /// Whether it stands in the queue of those that have something to do.
    pub(super) place: Place,
    /// Whether it is in the list of those whose queue goes out before the loop waits.
    pub(super) flush: Flush,
    /// Requests since it last waited, long bodies counted several times; at most [`super::settings::BURST`].
    pub(super) burst: u8,
    /// Reads since the last that would have blocked.
    pub(super) reads: u8,
    /// Requests that it has had.
    pub(super) requests: u64,
}

/// What a connection is doing.
pub(super) enum State {
    /// Between requests; nothing of the next one has come.
    Idle,
    /// Part of a head has come, since that time.
    Head { progress: Progress, since: Time },
    /// A handler works on a request, or waits.
    Handling(Handling),
    /// The request is answered, and the rest of its body is read and dropped, since that time if it waits for it.
    Discarding { body: Incoming, since: Option<Time> },
    /// The peer does not take what is queued, or others have their turn. `body` is what is left of the body of a request
    /// that is answered.
    Blocked { body: Incoming },
    /// Our side is ended; what comes is dropped.
    Lingering,
}

/// A request whose handler works, or waits.
pub(super) struct Handling {
    /// Bytes of its head that are still at the start of what was read.
    pub(super) head_left: u32,
    pub(super) route: Option<RouteId>,
    pub(super) method: Method,
    /// 10 or 11.
    pub(super) version: u8,
    /// Whether the client waits for `100 Continue`.
    pub(super) expects: Expects,
    /// Whether the connection may persist after the answer, as far as is known.
    pub(super) next: NextRequest,
    pub(super) body: Incoming,
    pub(super) answer: Answer,
    rare: Option<Box<Rare>>,
}

/// What only some requests have.
#[derive(Default)]
pub(super) struct Rare {
    /// A body that is read as a whole, as far as it has come.
    pub(super) collected: Vec<u8>,
    /// The fields behind a chunked body.
    pub(super) trailers: Vec<u8>,
    pub(super) waits: Waits,
    /// How long the client was waited for while it sent the body.
    pub(super) waited: Span,
}

/// How far the answer to a request is.
pub(super) enum Answer {
    /// Nothing of it is queued.
    Open { intent: Intent, draft: Option<Box<Draft>> },
    /// Its head is queued; its body comes in pieces.
    Pieces(Framing),
    /// All of it is queued, or is being sent.
    Whole,
}

/// What a handler has done besides returning; it only grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Intent {
    Plain,
    /// It has set status, fields or type.
    Set,
    /// It has done what only its own side knows how to conclude.
    Special,
}

/// What a handler waits for: several tasks of it may wait at once.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// To read, since that time.
    pub(super) read: Option<Time>,
    /// To write, until that time.
    pub(super) write: Option<Time>,
    /// For the peer's end.
    pub(super) end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Open,
    /// It sends no more.
    Ended,
    /// It takes no more, or the transport is closed.
    Failed,
}

/// What the client has said of further requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Client {
    MayGoOn,
    SendsNoMore,
}

/// Whether a request may follow the current one.
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
pub(super) enum Place {
    Waiting,
    Due,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flush {
    AsItComes,
    Noted,
}

/// When a connection is acted on, whatever it does. Its timer is moved only when it would fire too late.
pub(super) struct Deadline {
    pub(super) due: Time,
    pub(super) fires: Time,
    pub(super) timer: Option<timers::Id>,
}

impl<T: Transport> Connection<T> {
    pub(super) fn new(stamp: u64, transport: T) -> Self {
        Connection {
            born: stamp,
            current: stamp,
            transport,
            input: BytesMut::new(),
            output: None,
            sent: 0,
            body_from: None,
            state: State::Idle,
            deadline: Deadline { due: Time::MAX, fires: Time::MAX, timer: None },
            peer: Peer::Open,
            client: Client::MayGoOn,
            next: NextRequest::Follows,
            place: Place::Waiting,
            flush: Flush::AsItComes,
            burst: 0,
            reads: 0,
            requests: 0,
        }
    }

    pub(super) fn id(&self, slot: usize) -> ConnectionId {
        ConnectionId::new(slot, self.born)
    }

    pub(super) fn request(&self, slot: usize) -> RequestId {
        RequestId::new(slot, self.current)
    }

    /// Its queue; one of those that are `spare` when it has none.
    pub(super) fn queue(&mut self, spare: &mut Spare<T>) -> &mut Queue<T::File> {
        self.output.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Bytes of memory that are queued.
    pub(super) fn queued(&self) -> usize {
        self.output.as_ref().map_or(0, |queue| queue.queued())
    }

    /// Whether nothing at all is queued.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.as_ref().is_none_or(|queue| queue.is_empty())
    }

    /// The request that a handler works on.
    #[inline]
    pub(super) fn handling(&mut self) -> Option<&mut Handling> {
        match &mut self.state {
            State::Handling(handling) => Some(handling),
            _ => None,
        }
    }

    /// A long body counts as several requests in a row.
    pub(super) fn weigh(&mut self, length: usize) {
        use super::settings::{BURST, QUANTUM};
        let more = u8::try_from(length / QUANTUM).unwrap_or(BURST);
        self.burst = self.burst.saturating_add(more).min(BURST);
    }
}

impl Handling {
    /// The request with this head, which is at the start of what was read.
    #[inline]
    pub(super) fn of(head: &Head, route: Option<RouteId>) -> Handling {
        let body = Incoming::new(head.framing);
        let expects = if head.expect_continue && !body.is_done() { Expects::Continue } else { Expects::Nothing };
        // What follows CONNECT is no request, whatever the answer to it is.
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
            answer: Answer::OPEN,
            rare: None,
        }
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The same, if it has any of that.
    pub(super) fn has_rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    /// What tasks of its handler wait for.
    pub(super) fn waits(&self) -> Waits {
        self.rare.as_ref().map(|rare| rare.waits).unwrap_or_default()
    }

    /// The client is not waited for any more.
    pub(super) fn end_read_wait(&mut self, now: Time) {
        if let Some(rare) = &mut self.rare
            && let Some(since) = rare.waits.read.take()
        {
            rare.waited += now.saturating_sub(since);
        }
    }
}

impl Answer {
    pub(super) const OPEN: Answer = Answer::Open { intent: Intent::Plain, draft: None };

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Answer::Open { .. })
    }

    /// What a handler has set of it, if that can still be changed.
    #[inline]
    pub(super) fn draft(&mut self) -> Option<&mut Option<Box<Draft>>> {
        match self {
            Answer::Open { draft, .. } => Some(draft),
            _ => None,
        }
    }
}
