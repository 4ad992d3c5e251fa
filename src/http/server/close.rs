//! How requests and connections end; a stop.

use super::connection::{Answer, Client, NextRequest, Peer, State, Waits};
use super::settings::{Clock, LINGER};
use super::work::{Filled, Why, Work};
use super::{Phase, RequestId, Server, Transport};
use crate::codec::http1::body::Incoming;

/// What becomes of a connection when a request of it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It goes on, if the answer did not say otherwise.
    Kept,
    /// The answer was cut short: it closes when what is queued has gone out.
    Cut,
}

/// A connection that was handed over.
pub(crate) struct HandedOver<T> {
    pub(crate) transport: T,
    /// What was read and not used.
    pub(crate) input: Vec<u8>,
    /// What is still to be sent.
    pub(crate) output: Vec<u8>,
}

impl<T: Transport> Server<T> {
    /// The request is over. [`Server::next`] goes on with its connection.
    #[inline]
    pub(crate) fn end(&mut self, id: RequestId, how: End) {
        if self.in_work(id).is_none() {
            return;
        }
        let slot = id.slot();
        let connection = &mut self.connections[slot];
        let State::Handling(handling) = &mut connection.state else {
            return;
        };
        if handling.head_left > 0 {
            self.landing.consume(slot, &mut connection.input, handling.head_left as usize);
        }
        if how == End::Cut || !matches!(handling.answer, Answer::Whole) {
            connection.next = NextRequest::None;
        }
        let body = std::mem::replace(&mut handling.body, Incoming::NONE);
        connection.state = State::after(body);
        if how == End::Cut {
            self.forget_input(slot);
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

    /// What the client has sent, and may send, does not count any more.
    #[cold]
    fn forget_input(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.state = State::Idle;
        connection.client = Client::SendsNoMore;
        self.landing.consume(slot, &mut connection.input, usize::MAX);
    }

    /// Closes a connection, once no handler works on it; the tasks that wait on one are told.
    pub(super) fn close(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let id = connection.request(slot);
        let State::Handling(handling) = &mut connection.state else {
            return self.remove(slot);
        };
        let waits = handling.waits();
        if waits.read.is_some() || waits.write.is_some() || waits.end {
            handling.rare().waits = Waits::default();
            self.told.push_back(Work::Resume { id, why: Why::Closed });
        }
        connection.transport.close();
        self.fail(slot);
    }

    /// The connection leaves.
    pub(super) fn remove(&mut self, slot: usize) {
        let mut connection = self.take_out(slot);
        connection.transport.close();
        if let Some(mut queue) = connection.output.take() {
            queue.clear();
            self.spare_queue(queue);
        }
    }

    /// Takes a connection out of the books.
    fn take_out(&mut self, slot: usize) -> super::Connection<T> {
        self.free_timer(slot);
        self.landing.forget(slot);
        let connection = self.connections.remove(slot);
        if std::mem::take(&mut self.awaited) {
            self.told.push_back(Work::Room);
        }
        connection
    }

    /// No request is to follow, and all is sent. Where the client may still be sending, closing at once would reset the
    /// connection under the answer (RFC 9112 section 9.6): what comes is read and dropped for a moment.
    pub(super) fn close_gently(&mut self, slot: usize, clock: Clock) {
        let connection = &mut self.connections[slot];
        let is_empty = self.landing.bytes(slot, &connection.input).is_empty();
        let sends_no_more =
            connection.client == Client::SendsNoMore && matches!(connection.state, State::Idle) && is_empty;
        if connection.peer != Peer::Open
            || sends_no_more
            || connection.transport.end_sending().is_err()
            || !connection.transport.is_watched()
        {
            return self.close(slot);
        }
        connection.state = State::Lingering;
        self.act_by(slot, clock.now.saturating_add(LINGER));
        self.discard_rest(slot);
    }

    /// Drops what a client still sends.
    pub(super) fn discard_rest(&mut self, slot: usize) {
        loop {
            let connection = &mut self.connections[slot];
            self.landing.consume(slot, &mut connection.input, usize::MAX);
            match self.fill(slot) {
                Filled::Some => {}
                Filled::WouldBlock => return,
                Filled::End | Filled::Failed => return self.close(slot),
            }
        }
    }

    /// The connection of a request is the caller's from now on.
    pub(crate) fn hand_over(&mut self, id: RequestId) -> Option<HandedOver<T>> {
        self.take_head(id);
        self.in_work(id)?;
        let slot = id.slot();
        let connection = &self.connections[slot];
        let input = self.landing.bytes(slot, &connection.input).to_vec();
        let output = connection.output.as_ref().and_then(|queue| queue.copy());
        let transport = self.take_out(slot).transport;
        Some(HandedOver { transport, input, output: output.unwrap_or_default() })
    }

    /// The task that handled a request was killed: its client would wait for ever.
    pub(crate) fn abandon(&mut self, id: RequestId) {
        if self.in_work(id).is_some() {
            self.remove(id.slot());
        }
    }

    /// A stop begins: what has arrived is answered, and the last answer of a connection says that it closes.
    pub(crate) fn stop(&mut self) {
        self.phase = self.phase.max(Phase::Stopping);
    }

    /// Connections that are idle close, and others when they would fall idle.
    pub(crate) fn settle_down(&mut self) {
        self.phase = Phase::Settled;
        self.close_where(|state| matches!(state, State::Idle));
    }

    /// All connections close; tasks that wait on one are told.
    pub(crate) fn close_all(&mut self) {
        self.close_where(|_| true);
    }

    fn close_where(&mut self, which: impl Fn(&State) -> bool) {
        let found = self.connections.iter().filter(|(_, one)| which(&one.state));
        let slots: Vec<usize> = found.map(|(slot, _)| slot).collect();
        for slot in slots {
            self.close(slot);
        }
    }

    /// The answer to a request that is being dispatched during a stop says that the connection closes, if nothing has come
    /// behind it. Behind a body the end shows when the connection falls idle.
    #[cold]
    pub(super) fn end_with_last(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let there = self.landing.bytes(slot, &connection.input).len();
        let State::Handling(handling) = &mut connection.state else {
            return;
        };
        if handling.body.is_done() && there <= handling.head_left as usize && !connection.transport.has_unread() {
            handling.next = NextRequest::None;
        }
    }
}
