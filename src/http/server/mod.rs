//! An HTTP server as a state machine: connections, requests, answers, deadlines.
//!
//! It waits for nothing and reads no clock; it knows sockets only as [`Transport`], handlers not at all. Whoever drives
//! it tells of events ([`Server::ready`]) and of the time ([`Server::expire`]), asks what is to be done
//! ([`Server::next`]), and answers ([`Server::respond`], [`Server::end`]).
//!
//! | file | topic |
//! |---|---|
//! | `work` | what is to be done next; events |
//! | `accept` | how connections come, and make room for others |
//! | `request` | from bytes to a request |
//! | `body` | bodies of requests, read, put together, dropped |
//! | `respond` | answers, whole or in pieces |
//! | `answer` | how far an answer is |
//! | `draft` | what a handler has set before its answer |
//! | `send` | what is queued goes out |
//! | `deadline` | when a connection is acted on, whatever it does |
//! | `close` | how connections end; a stop |
//! | `connection`, `id`, `settings`, `landing`, `transport` | the data |
//!
//! Invariants: a connection has one request at a time, whose head is parsed when the answer before is queued and its own
//! body consumed: so answers leave in order. After anything that makes the framing doubtful the connection closes. A
//! connection that waits has a deadline.

#![forbid(unsafe_code)]

mod accept;
mod answer;
mod body;
mod close;
mod connection;
mod deadline;
pub(crate) mod draft;
pub(crate) mod id;
mod landing;
mod request;
mod respond;
mod send;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
mod work;

pub(crate) use body::{How, Read};
pub(crate) use close::End;
pub(crate) use connection::Intent;
pub(crate) use id::{ConnectionId, RequestId};
pub(crate) use respond::{Body, Kind, Queued, Responded, Response};
pub(crate) use settings::{AT_ONCE, Clock, Settings};
pub(crate) use transport::{Interest, Readiness, Transport};
pub(crate) use work::{Plan, Why, Work};

use crate::codec::date::DateCache;
use crate::codec::http1::head::Parser;
use crate::event::timers;
use crate::http::router::routes::Routes;
use connection::{Connection, Handling, Spare};
use draft::Draft;
use landing::Landing;
use slab::Slab;
use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Queues and drafts that are kept to be used again.
const SPARE: usize = 64;

/// One server.
pub(crate) struct Server<T: Transport> {
    settings: Settings,
    routes: Rc<RefCell<Routes>>,
    connections: Slab<Connection<T>>,
    /// The last stamp that was given.
    serial: u64,
    /// The slots of connections with something to do.
    due: VecDeque<usize>,
    /// The one whose answer was given last: it is gone on with first.
    current: Option<usize>,
    /// Those with queued answers while a handler works.
    unflushed: Vec<usize>,
    /// What others are to be told first.
    told: VecDeque<Work>,
    deadlines: timers::Queue,
    /// The connections' slots by those of their timers.
    timed: Vec<usize>,
    landing: Landing,
    parser: Parser,
    /// Whose head it parsed last.
    parsed: Option<RequestId>,
    date: DateCache,
    /// Paths in their normal form.
    scratch: Vec<u8>,
    queues: Spare<T>,
    #[allow(clippy::vec_box)] // As for `queues`.
    drafts: Vec<Box<Draft>>,
    phase: Phase,
    /// Whether somebody waits for a connection to leave.
    awaited: bool,
}

/// The connection of a request that a handler works on.
#[inline]
fn in_work<T: Transport>(connections: &mut Slab<Connection<T>>, id: RequestId) -> Option<&mut Connection<T>> {
    let connection = connections.get_mut(id.slot())?;
    let is_current = connection.current == id.stamp();
    (is_current && matches!(connection.state, connection::State::Handling(_))).then_some(connection)
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Serving,
    /// What has arrived is answered.
    Stopping,
    /// A connection ends where it would fall idle.
    Settled,
}

impl<T: Transport> Server<T> {
    /// A server without connections. `routes` may get more routes later.
    pub(crate) fn new(settings: Settings, routes: Rc<RefCell<Routes>>) -> Self {
        Server {
            settings,
            routes,
            connections: Slab::new(),
            serial: 0,
            due: VecDeque::new(),
            current: None,
            unflushed: Vec::new(),
            told: VecDeque::new(),
            deadlines: timers::Queue::default(),
            timed: Vec::new(),
            landing: Landing::new(),
            parser: Parser::new(),
            parsed: None,
            date: DateCache::new(),
            scratch: Vec::new(),
            queues: Vec::new(),
            drafts: Vec::new(),
            phase: Phase::Serving,
            awaited: false,
        }
    }

    /// The routes of the app.
    pub(crate) fn routes(&self) -> Ref<'_, Routes> {
        self.routes.borrow()
    }

    /// How many connections there are.
    pub(crate) fn count(&self) -> usize {
        self.connections.len()
    }

    /// The connection of a request that a handler works on.
    fn in_work(&mut self, id: RequestId) -> Option<&mut Connection<T>> {
        in_work(&mut self.connections, id)
    }

    /// A request that a handler works on.
    fn handling(&mut self, id: RequestId) -> Option<&mut Handling> {
        self.in_work(id)?.handling()
    }

    /// What the connection of a request stands on, as long as that is open.
    pub(crate) fn transport(&self, id: RequestId) -> Option<&T> {
        let connection = self.connections.get(id.slot())?;
        let is_same = (connection.born..=connection.current).contains(&id.stamp());
        is_same.then_some(&connection.transport)
    }

    /// A stamp that was not given before.
    #[inline]
    fn stamp(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
