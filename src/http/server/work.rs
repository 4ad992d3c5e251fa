//! Determines the next work of the server, from events and ended requests.

use super::connection::{Client, Handling, NextRequest, Peer, QueueState, State, Waits};
use super::request::Parsed;
use super::settings::{Clock, MAX_QUEUE_TO_PARSE, READ_BUDGET, REQUEST_BUDGET};
use super::{ConnectionId, Interest, Phase, Readiness, RequestId, Server, Transport};
use crate::codec::http1::body::IncomingBody;
use crate::http::router::routes::{HandlerArguments, RouteId};
use crate::stream::queue::{Attempt, Sent};
use std::io;

/// Work for the driver of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Handle a request.
    Dispatch { id: RequestId, plan: Plan },
    /// Resume a task that waits on a request.
    Resume { id: RequestId, reason: ResumeReason },
    /// A connection has closed, and the driver has called [`Server::notify_next_close`].
    ConnectionClosed,
    /// There is no work now.
    Idle,
}

/// How the handler of a request is determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Call the route's own handler.
    Handle { route: RouteId, arguments: HandlerArguments },
    /// Lua code must determine the handler, because there is middleware or the route is not known.
    Choose { route: Option<RouteId> },
}

/// Why a task is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResumeReason {
    Readable,
    Writable,
    /// The peer has closed its sending side.
    PeerEnded,
    /// The body is arriving too slowly.
    ReadTimeOut,
    /// The peer has received nothing for too long.
    WriteTimeOut,
    /// The connection is closed.
    Closed,
}

/// The result of a read.
pub(super) enum Filled {
    Some,
    End,
    WouldBlock,
    Failed(io::ErrorKind),
}

impl<T: Transport> Server<T> {
    /// Returns the approximate amount of pending work: connections in the ready queue, some of which may have closed,
    /// and notifications.
    pub(crate) fn work_count(&self) -> usize {
        self.ready_queue.len() + usize::from(self.current.is_some()) + self.notifications.len()
    }

    /// Returns the next work.
    #[inline]
    pub(crate) fn next(&mut self, clock: Clock) -> Work {
        if !self.notifications.is_empty()
            && let Some(work) = self.notifications.pop_front()
        {
            return work;
        }
        while let Some(slot) = self.current.take().or_else(|| self.ready_queue.pop_front()) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.queue_state = QueueState::Outside;
            if let Some(work) = self.advance(slot, clock) {
                return work;
            }
        }
        self.notifications.pop_front().unwrap_or(Work::Idle)
    }

    /// Adds a connection to the ready queue, unless it is already there.
    #[inline]
    pub(super) fn enqueue(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.queue_state == QueueState::Outside {
            connection.queue_state = QueueState::Queued;
            self.ready_queue.push_back(slot);
        }
    }

    /// Handles events of a connection: resumes its handler's tasks, or adds the connection to the ready queue.
    #[inline]
    pub(crate) fn ready(&mut self, id: ConnectionId, events: Readiness, clock: Clock) {
        let slot = id.slot();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.stamp != id.stamp() {
            return;
        }
        match connection.state {
            State::Handling(_) => self.wake(slot, events, clock),
            _ => self.enqueue(slot),
        }
    }

    /// Resumes the tasks of a handler that wait for these events on its connection.
    #[cold]
    fn wake(&mut self, slot: usize, events: Readiness, clock: Clock) {
        let connection = &mut self.connections[slot];
        let id = connection.request(slot);
        let mut waits = Waits::default();
        if let State::Handling(handling) = &mut connection.state {
            waits = handling.waits();
            if waits.read.is_some() && (events.read || events.closed) {
                handling.end_read_wait(clock.now);
                self.notifications.push_back(Work::Resume { id, reason: ResumeReason::Readable });
            }
            if waits.end && events.closed {
                handling.extras().waits.end = false;
                self.notifications.push_back(Work::Resume { id, reason: ResumeReason::PeerEnded });
            }
            if waits.write.is_some() && (events.write || events.closed) {
                handling.extras().waits.write = None;
                self.notifications.push_back(Work::Resume { id, reason: ResumeReason::Writable });
            }
        }
        // If no task waits to write, the server itself flushes the queue.
        if waits.write.is_none() && events.write && !self.connections[slot].is_flushed() {
            self.flush_handled(slot);
        }
        self.set_wait_deadline(slot);
    }

    /// Advances a connection whose handler is not running, until there is a request, or until the connection must wait
    /// or closes.
    #[inline]
    fn advance(&mut self, slot: usize, clock: Clock) -> Option<Work> {
        loop {
            let connection = &mut self.connections[slot];
            match &mut connection.state {
                State::Idle { .. } | State::Head { .. } | State::Discarding { .. } => {}
                State::Handling(_) => return None,
                State::ProxyHeader { .. } => match self.read_proxy_header(slot, clock) {
                    true => continue,
                    false => return None,
                },
                State::Handshake { .. } => match self.continue_handshake(slot, clock) {
                    true => continue,
                    false => return None,
                },
                State::Lingering => {
                    self.discard_rest(slot);
                    return None;
                }
                State::Blocked { body } => {
                    let body = std::mem::replace(body, IncomingBody::NONE);
                    connection.state = State::after(body);
                }
            }
            // The handler of the next request may detach the connection, which is possible only without queued files.
            let may_parse = connection.next == NextRequest::Follows
                && connection.queued() < MAX_QUEUE_TO_PARSE
                && connection.output.as_ref().is_none_or(|queue| !queue.has_file());
            let has_bytes = !self.read_buffer.bytes(slot, &connection.input).is_empty();
            if may_parse && (has_bytes || matches!(connection.state, State::Discarding { .. })) {
                // A client that pipelines without end must not take the turns of other connections.
                if connection.requests_in_turn >= REQUEST_BUDGET && has_bytes {
                    connection.requests_in_turn = 0;
                    self.yield_turn(slot, clock);
                    return None;
                }
                match self.parse_next(slot, clock) {
                    Parsed::Request(route) => return Some(self.dispatch(slot, route)),
                    Parsed::Refused(reject) => self.refuse(slot, reject, clock),
                    Parsed::End => self.connections[slot].next = NextRequest::None,
                    Parsed::More => {}
                }
            }
            let connection = &mut self.connections[slot];
            if connection.output.is_some() {
                match self.flush_queue(slot) {
                    Ok(Sent::All) => {}
                    Ok(Sent::Blocked | Sent::BudgetSpent) => {
                        self.wait_writable(slot, clock);
                        return None;
                    }
                    Ok(Sent::FileTooShort) | Err(_) => {
                        self.close(slot);
                        return None;
                    }
                }
            }
            if self.connections[slot].next == NextRequest::None {
                self.close_gently(slot, clock);
                return None;
            }
            // The queue is empty now, so the bytes received so far may be parsed.
            if !may_parse {
                continue;
            }
            match self.fill(slot) {
                Filled::Some => {}
                Filled::WouldBlock => {
                    self.park(slot, clock);
                    return None;
                }
                Filled::End | Filled::Failed(_) => {
                    self.close(slot);
                    return None;
                }
            }
        }
    }

    /// Reads once. If nothing can be available, or if it is the turn of other connections, arms the connection for
    /// reading instead. Bytes that were already taken from the system belong to this turn, because no event reports them.
    #[inline]
    pub(super) fn fill(&mut self, slot: usize) -> Filled {
        let mut connection = &mut self.connections[slot];
        match connection.peer {
            Peer::Open => {}
            Peer::Ended => return Filled::End,
            Peer::Failed => return Filled::Failed(io::ErrorKind::NotConnected),
        }
        let is_turn = connection.reads_in_turn < READ_BUDGET || connection.transport.has_plaintext();
        if is_turn && connection.transport.may_receive() {
            connection.reads_in_turn = connection.reads_in_turn.saturating_add(1);
            if let Some(other) = self.read_buffer.other_owner(slot) {
                if let Some(owner) = self.connections.get_mut(other) {
                    self.read_buffer.move_to_owner(&mut owner.input);
                }
                connection = &mut self.connections[slot];
            }
            match self.read_buffer.fill(slot, &mut connection.input, &mut connection.transport) {
                Ok(Attempt::Done(0)) => {
                    connection.peer = Peer::Ended;
                    return Filled::End;
                }
                Ok(Attempt::Done(_)) => return Filled::Some,
                Ok(Attempt::WouldBlock) => {}
                Err(error) => return Filled::Failed(error.kind()),
            }
        }
        connection.reads_in_turn = 0;
        match connection.transport.arm(Interest::Read) {
            Ok(()) => Filled::WouldBlock,
            Err(error) => Filled::Failed(error.kind()),
        }
    }

    /// Makes the connection wait until it is writable.
    fn wait_writable(&mut self, slot: usize, clock: Clock) {
        let connection = &mut self.connections[slot];
        let body = match &mut connection.state {
            State::Discarding { body, .. } => std::mem::replace(body, IncomingBody::NONE),
            _ => IncomingBody::NONE,
        };
        connection.state = State::Blocked { body };
        match connection.transport.arm(Interest::Write) {
            Ok(()) => self.park(slot, clock),
            Err(_) => self.close(slot),
        }
    }

    /// Flushes the queue, and makes the connection wait until it is writable, so that other connections get their turn.
    fn yield_turn(&mut self, slot: usize, clock: Clock) {
        match self.flush_queue(slot) {
            Ok(Sent::FileTooShort) | Err(_) => self.close(slot),
            Ok(_) => self.wait_writable(slot, clock),
        }
    }

    /// Starts the request whose head was parsed.
    #[inline]
    fn dispatch(&mut self, slot: usize, route: Option<RouteId>) -> Work {
        let stamp = self.stamp();
        let head = self.parser.head();
        let connection = &mut self.connections[slot];
        let id = RequestId::new(slot, stamp);
        self.parsed = Some(id);
        connection.request_stamp = stamp;
        connection.body_from = None;
        connection.requests_in_turn += 1;
        connection.requests = connection.requests.saturating_add(1);
        let mut handling = Handling::of(head, route);
        connection.client = if head.keep_alive { Client::MaySend } else { Client::Finished };
        if self.settings.requests.is_some_and(|most| connection.requests >= most) {
            handling.next = NextRequest::None;
        }
        let queued = connection.output.is_some();
        connection.state = State::Handling(handling);
        if queued {
            self.mark_unflushed(slot);
        }
        if self.phase >= Phase::Stopping {
            self.announce_end(slot);
        }
        let routes = self.routes.borrow();
        let plan = match route {
            Some(route) if !routes.has_middleware() => Plan::Handle { route, arguments: routes.arguments(route) },
            route => Plan::Choose { route },
        };
        Work::Dispatch { id, plan }
    }
}

impl State {
    /// Returns the state of a connection after a response; `body` is the unread rest of the request's body.
    pub(super) fn after(body: IncomingBody) -> State {
        if body.is_done() { State::Idle { since: None } } else { State::Discarding { body, since: None } }
    }
}
