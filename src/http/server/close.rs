//! Ending requests, closing connections, and stopping the server.

use super::connection::{Client, NextRequest, Peer, ResponseState, State, Waits};
use super::settings::{Clock, LINGER};
use super::work::{Filled, ResumeReason, Work};
use super::{Phase, RequestId, Server, Transport};
use crate::codec::http1::body::IncomingBody;

/// How a request ends. This determines whether its connection persists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestEnd {
    /// The handler has finished. If the whole response is queued, and it does not announce that the connection closes,
    /// the connection persists.
    Complete,
    /// The response was cut short: the connection closes after the queue is sent.
    Cut,
}

/// A connection that was detached from the server.
pub(crate) struct Detached<T> {
    pub(crate) transport: T,
    /// The unread bytes.
    pub(crate) input: Vec<u8>,
    /// The unsent bytes.
    pub(crate) output: Vec<u8>,
}

impl<T: Transport> Server<T> {
    /// Ends a request. [`Server::next`] continues with its connection.
    #[inline]
    pub(crate) fn end(&mut self, id: RequestId, end: RequestEnd) {
        if self.handling_connection(id).is_none() {
            return;
        }
        let slot = id.slot();
        let connection = &mut self.connections[slot];
        let State::Handling(handling) = &mut connection.state else { return };
        if handling.head_left > 0 {
            self.read_buffer.consume(slot, &mut connection.input, handling.head_left as usize);
        }
        if end == RequestEnd::Cut || !matches!(handling.response_state, ResponseState::Whole) {
            connection.next = NextRequest::None;
        }
        let body = std::mem::replace(&mut handling.body, IncomingBody::NONE);
        connection.state = State::after(body);
        if end == RequestEnd::Cut {
            self.discard_input(slot);
        }
        let connection = &mut self.connections[slot];
        if connection.peer == Peer::Failed {
            return self.remove(slot);
        }
        if let Some(before) = self.current.replace(slot)
            && before != slot
        {
            self.enqueue(before);
        }
    }

    /// Closes a connection. If a handler is running, the connection is removed when the handler ends, and tasks that
    /// wait on the connection are resumed now.
    pub(super) fn close(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let id = connection.request(slot);
        let State::Handling(handling) = &mut connection.state else { return self.remove(slot) };
        let waits = handling.waits();
        if waits.read.is_some() || waits.write.is_some() || waits.end {
            handling.extras().waits = Waits::default();
            self.notifications.push_back(Work::Resume { id, reason: ResumeReason::Closed });
        }
        connection.transport.close();
        self.fail(slot);
    }

    /// Closes a connection and removes it.
    pub(super) fn remove(&mut self, slot: usize) {
        let mut connection = self.unregister(slot);
        connection.transport.close();
        if let Some(mut queue) = connection.output.take() {
            queue.clear();
            self.recycle_queue(queue);
        }
    }

    /// Closes a connection on which no further request follows, after everything was sent. If the client may still be
    /// sending, an immediate close would reset the connection before the client has read the response (RFC 9112 section
    /// 9.6). Therefore the server reads and discards received bytes for up to [`LINGER`].
    pub(super) fn close_gently(&mut self, slot: usize, clock: Clock) {
        let connection = &mut self.connections[slot];
        let is_empty = self.read_buffer.bytes(slot, &connection.input).is_empty();
        let is_finished =
            connection.client == Client::Finished && matches!(connection.state, State::Idle { .. }) && is_empty;
        if connection.peer != Peer::Open
            || is_finished
            || connection.transport.end_sending().is_err()
            || !connection.transport.is_registered()
        {
            return self.close(slot);
        }
        connection.state = State::Lingering;
        self.set_deadline(slot, clock.now.saturating_add(LINGER));
        self.discard_rest(slot);
    }

    /// Discards the bytes that a client still sends.
    pub(super) fn discard_rest(&mut self, slot: usize) {
        loop {
            let connection = &mut self.connections[slot];
            self.read_buffer.consume(slot, &mut connection.input, usize::MAX);
            match self.fill(slot) {
                Filled::Some => {}
                Filled::WouldBlock => return,
                Filled::End | Filled::Failed(_) => return self.close(slot),
            }
        }
    }

    /// Detaches the connection of a request from the server and returns it; `None` if the request is not being handled.
    pub(crate) fn detach(&mut self, id: RequestId) -> Option<Detached<T>> {
        self.take_head(id);
        self.handling_connection(id)?;
        let slot = id.slot();
        let connection = &self.connections[slot];
        let input = self.read_buffer.bytes(slot, &connection.input).to_vec();
        let output = connection.output.as_ref().and_then(|queue| queue.copy());
        let transport = self.unregister(slot).transport;
        Some(Detached { transport, input, output: output.unwrap_or_default() })
    }

    /// Closes the connection of a request whose task was killed; otherwise its client would wait forever.
    pub(crate) fn abandon(&mut self, id: RequestId) {
        if self.handling_connection(id).is_some() {
            self.remove(id.slot());
        }
    }

    /// Starts a graceful stop of the server: requests that have arrived are handled, and the last response of each
    /// connection announces that the connection closes.
    pub(crate) fn stop(&mut self) {
        self.phase = self.phase.max(Phase::Stopping);
    }

    /// Closes idle connections, and other connections as soon as they would become idle.
    pub(crate) fn drain(&mut self) {
        self.phase = Phase::Draining;
        self.close_where(|state| {
            matches!(state, State::Idle { .. } | State::ProxyHeader { .. } | State::Handshake { .. })
        });
    }

    /// Closes all connections. Tasks that wait on them are resumed.
    pub(crate) fn close_all(&mut self) {
        self.close_where(|_| true);
    }

    /// Called when a request is dispatched while the server is stopping. If the request has no body, and no bytes have
    /// arrived after it, its response will announce that the connection closes. After a request with a body, the
    /// connection is closed when it becomes idle.
    #[cold]
    pub(super) fn announce_end(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let available = self.read_buffer.bytes(slot, &connection.input).len();
        let State::Handling(handling) = &mut connection.state else { return };
        if handling.body.is_done() && available <= handling.head_left as usize && !connection.transport.has_unread() {
            handling.next = NextRequest::None;
        }
    }

    /// Discards the bytes that the client has sent, and ignores further bytes.
    #[cold]
    fn discard_input(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.state = State::Idle { since: None };
        connection.client = Client::Finished;
        self.read_buffer.consume(slot, &mut connection.input, usize::MAX);
    }

    /// Removes a connection from the server's tables and returns it.
    fn unregister(&mut self, slot: usize) -> super::Connection<T> {
        self.free_timer(slot);
        self.read_buffer.discard(slot);
        let connection = self.connections.remove(slot);
        if std::mem::take(&mut self.close_awaited) {
            self.notifications.push_back(Work::ConnectionClosed);
        }
        connection
    }

    fn close_where(&mut self, which: impl Fn(&State) -> bool) {
        let found = self.connections.iter().filter(|(_, one)| which(&one.state));
        let slots: Vec<usize> = found.map(|(slot, _)| slot).collect();
        for slot in slots {
            self.close(slot);
        }
    }
}
