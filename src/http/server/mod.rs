//! An HTTP server as a state machine: connections, requests, responses, deadlines.
//!
//! The server never waits and reads no clock. It accesses sockets only through [`Transport`], and does not call
//! handlers. Its driver reports events ([`Server::ready`]) and the time ([`Server::expire`]), asks for the next work
//! ([`Server::next`]), and responds ([`Server::respond`], [`Server::end`]).
//!
//! | file | topic |
//! |---|---|
//! | `work` | the next work; events |
//! | `accept` | new connections; closing idle connections to make room |
//! | `proxy` | the header of the PROXY protocol |
//! | `handshake` | the handshake of TLS |
//! | `request` | parsing the next request; discarding unread bodies |
//! | `body` | bodies of requests that a handler reads |
//! | `respond` | whole responses; heads |
//! | `pieces` | bodies of responses that are queued in pieces |
//! | `response` | a response as a handler specifies it |
//! | `response_state` | the progress of a response |
//! | [`draft`] | fields that a handler has set before its response |
//! | `send` | flushing queues; waits of handlers |
//! | `deadline` | the deadline of each connection, including keep-alive; passed deadlines |
//! | `close` | ending requests; closing connections; stopping the server |
//! | `fuzz` | the target of a fuzzer |
//! | `connection`, [`proxied`], [`id`], [`settings`], `read_buffer`, [`transport`] | the data |
//!
//! Invariants: a connection has one request at a time. The head of the next request is parsed after the previous
//! response is queued and the previous body consumed, so responses are sent in order. After ambiguous framing the
//! connection closes. A connection that waits to receive or to send has a deadline.

#![forbid(unsafe_code)]

mod accept;
mod body;
mod close;
mod connection;
mod deadline;
pub(crate) mod draft;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod handshake;
pub(crate) mod id;
mod pieces;
pub(crate) mod proxied;
mod proxy;
mod read_buffer;
mod request;
mod respond;
mod response;
mod response_state;
mod send;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
mod work;

pub(crate) use body::{BodyRead, ReadMode};
pub(crate) use close::RequestEnd;
pub(crate) use connection::HandlerEffect;
pub(crate) use id::{ConnectionId, RequestId};
pub(crate) use response::{Body, MediaType, Queued, Responded, Response};
pub(crate) use settings::{Clock, MAX_QUEUED_BODY, Settings};
pub(crate) use transport::{Interest, Readiness, Transport};
pub(crate) use work::{Plan, ResumeReason, Work};

use crate::codec::date::DateCache;
use crate::codec::http1::head::Parser;
use crate::event::timers;
use crate::http::router::routes::Routes;
use connection::{Connection, Handling, Spare};
use draft::Draft;
use proxied::ProxyPolicy;
use read_buffer::ReadBuffer;
use slab::Slab;
use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The maximum number of queues, and of drafts, that are kept for reuse.
const SPARE: usize = 64;

/// A web server.
pub(crate) struct Server<T: Transport> {
    settings: Settings,
    routes: Rc<RefCell<Routes>>,
    connections: Slab<Connection<T>>,
    /// The last stamp.
    serial: u64,
    /// The slots of connections that have work.
    ready_queue: VecDeque<usize>,
    /// The slot of the connection whose request ended last; this connection continues first.
    current: Option<usize>,
    /// The slots of connections that have data to flush while a handler runs.
    unflushed: Vec<usize>,
    /// Work for waiting tasks and for the driver. It is returned before other work.
    notifications: VecDeque<Work>,
    deadlines: timers::Queue,
    /// The slots of connections, by the slots of their timers.
    timed: Vec<usize>,
    read_buffer: ReadBuffer,
    parser: Parser,
    /// The request whose head `parser` has parsed last.
    parsed: Option<RequestId>,
    date: DateCache,
    /// Memory for a path in its normal form, or for the fields of a response.
    scratch: Vec<u8>,
    spare_queues: Spare<T>,
    #[allow(clippy::vec_box)] // Drafts are moved in their boxes, as queues are.
    spare_drafts: Vec<Box<Draft>>,
    /// Which connections begin with a header of the PROXY protocol; `None` if none does.
    proxy_policy: Option<Box<ProxyPolicy>>,
    phase: Phase,
    /// Whether the driver waits for a connection to close.
    close_awaited: bool,
    /// See [`Server::set_guests`].
    guests: usize,
    /// The connections that have begun a handshake, the oldest first; some handshakes may have ended.
    handshakes: VecDeque<ConnectionId>,
}

/// Returns the connection of a request; `None` if the request is not being handled.
#[inline]
fn handling_connection<T: Transport>(
    connections: &mut Slab<Connection<T>>, id: RequestId,
) -> Option<&mut Connection<T>> {
    let connection = connections.get_mut(id.slot())?;
    let is_current = connection.request_stamp == id.stamp();
    (is_current && matches!(connection.state, connection::State::Handling(_))).then_some(connection)
}

/// The phase of the server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Serving,
    /// Requests that have arrived are still handled.
    Stopping,
    /// A connection closes instead of becoming idle.
    Draining,
}

impl<T: Transport> Server<T> {
    /// Creates a server without connections. Routes may be added to `routes` later.
    pub(crate) fn new(settings: Settings, routes: Rc<RefCell<Routes>>) -> Self {
        Server {
            settings,
            routes,
            connections: Slab::new(),
            serial: 0,
            ready_queue: VecDeque::new(),
            current: None,
            unflushed: Vec::new(),
            notifications: VecDeque::new(),
            deadlines: timers::Queue::default(),
            timed: Vec::new(),
            read_buffer: ReadBuffer::new(),
            parser: Parser::new(),
            parsed: None,
            date: DateCache::new(),
            scratch: Vec::new(),
            spare_queues: Vec::new(),
            spare_drafts: Vec::new(),
            proxy_policy: None,
            phase: Phase::Serving,
            close_awaited: false,
            guests: 0,
            handshakes: VecDeque::new(),
        }
    }

    /// The routes of the app.
    pub(crate) fn routes(&self) -> Ref<'_, Routes> {
        self.routes.borrow()
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.connections.len()
    }

    /// Returns the connection of a request; `None` if the request is not being handled.
    fn handling_connection(&mut self, id: RequestId) -> Option<&mut Connection<T>> {
        handling_connection(&mut self.connections, id)
    }

    /// Returns the state of a request; `None` if the request is not being handled.
    fn handling(&mut self, id: RequestId) -> Option<&mut Handling> {
        self.handling_connection(id)?.handling()
    }

    /// Returns the transport of a request's connection; `None` if the connection was removed.
    pub(crate) fn transport(&self, id: RequestId) -> Option<&T> {
        let connection = self.connections.get(id.slot())?;
        let is_same = (connection.stamp..=connection.request_stamp).contains(&id.stamp());
        is_same.then_some(&connection.transport)
    }

    /// Returns a new stamp.
    #[inline]
    fn stamp(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
