//! Sending the queue; waits of handlers for their connection.

use super::connection::{FlushMark, Peer, State};
use super::settings::Clock;
use super::{Interest, Queued, RequestId, SPARE, Server, Transport};
use crate::stream::queue::{Queue, Sent};
use std::io;

impl<T: Transport> Server<T> {
    /// The queue of a connection.
    pub(super) fn queue(&mut self, slot: usize) -> &mut Queue<T::File> {
        self.connections[slot].queue(&mut self.spare_queues)
    }

    /// Sends the queue.
    pub(super) fn flush_queue(&mut self, slot: usize) -> io::Result<Sent> {
        self.send_queue(slot, &[], &mut 0)
    }

    /// Sends the queue and then `borrowed`, of which `sent` bytes were sent before.
    #[inline]
    pub(super) fn send_queue(&mut self, slot: usize, borrowed: &[u8], sent: &mut usize) -> io::Result<Sent> {
        if !borrowed.is_empty() {
            self.queue(slot);
        }
        let connection = &mut self.connections[slot];
        let Some(queue) = &mut connection.output else { return Ok(Sent::All) };
        if connection.peer == Peer::Failed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let pieces = if borrowed.is_empty() { &[][..] } else { &[borrowed] };
        let result = queue.send(&mut connection.transport, pieces, sent, &mut connection.sent);
        if matches!(result, Ok(Sent::All))
            && let Some(queue) = connection.output.take()
        {
            self.recycle_queue(queue);
        }
        result
    }

    /// Keeps an empty queue for reuse.
    #[inline]
    pub(super) fn recycle_queue(&mut self, queue: Box<Queue<T::File>>) {
        if self.spare_queues.len() < SPARE {
            self.spare_queues.push(queue);
        }
    }

    /// Marks a connection, so that its queue is sent before the loop waits, regardless of its handler.
    #[inline]
    pub(super) fn mark_unflushed(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.flush == FlushMark::Unmarked {
            connection.flush = FlushMark::Marked;
            self.unflushed.push(slot);
        }
    }

    /// Sends the queues of connections whose requests are being handled. Must be called before the loop waits.
    pub(crate) fn flush(&mut self) {
        while let Some(slot) = self.unflushed.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.flush = FlushMark::Unmarked;
            if matches!(connection.state, State::Handling(_)) {
                self.flush_handled(slot);
            }
        }
    }

    /// Sends the queue of a connection whose request is being handled. The rest is sent when the peer can receive it.
    pub(super) fn flush_handled(&mut self, slot: usize) {
        let armed = match self.flush_queue(slot) {
            Ok(Sent::All) => return,
            Ok(Sent::Blocked | Sent::BudgetSpent) => self.connections[slot].transport.arm(Interest::Write),
            Ok(Sent::FileTooShort) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        if armed.is_err() {
            self.fail(slot);
        }
    }

    /// Discards the queue, because the peer receives nothing.
    pub(super) fn fail(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.peer = Peer::Failed;
        if let Some(mut queue) = connection.output.take() {
            queue.clear();
            self.recycle_queue(queue);
        }
    }

    /// Sends the queue, and then `borrowed`, of which `sent` bytes were sent before; updates `sent`. `None` if the
    /// peer receives nothing, or the request has ended.
    pub(crate) fn send(&mut self, id: RequestId, borrowed: &[u8], sent: &mut usize) -> Option<Sent> {
        self.handling_connection(id).filter(|connection| connection.peer != Peer::Failed)?;
        let slot = id.slot();
        let result = self.send_queue(slot, borrowed, sent).ok();
        if matches!(result, None | Some(Sent::FileTooShort)) {
            self.fail(slot);
        }
        result
    }

    /// Begins a wait of a task of the request's handler. `clock` is the current time. Returns whether a
    /// [`super::Work::Resume`] will follow; false if the connection has failed.
    pub(crate) fn wait(&mut self, id: RequestId, what: Interest, clock: Clock) -> bool {
        let write_time = self.settings.write_time;
        let Some(connection) = self.handling_connection(id) else { return false };
        if connection.peer == Peer::Failed
            || connection.peer == Peer::Ended && what == Interest::End
            || !connection.transport.is_registered()
            || connection.transport.arm(what).is_err()
        {
            return false;
        }
        connection.requests_in_turn = 0;
        if let Some(handling) = connection.handling() {
            let waits = &mut handling.extras().waits;
            match what {
                Interest::Read => waits.read = Some(clock.now),
                Interest::Write => waits.write = Some(clock.now.saturating_add(write_time)),
                Interest::End => waits.end = true,
            }
        }
        self.set_wait_deadline(id.slot());
        true
    }

    /// Returns the number of unsent bytes of the connection of a request, and whether the peer has failed.
    pub(crate) fn queued(&mut self, id: RequestId) -> Option<Queued> {
        let connection = self.handling_connection(id)?;
        Some(Queued { bytes: connection.queued(), failed: connection.peer == Peer::Failed })
    }

    /// Returns the number of bytes of the latest response of a request's connection after its head, including framing.
    /// Without `queued`, only sent bytes are counted. 0 after the next request is dispatched.
    pub(crate) fn sent(&self, id: RequestId, queued: bool) -> u64 {
        let connection = self.connections.get(id.slot());
        let Some(connection) = connection.filter(|connection| connection.request_stamp == id.stamp()) else {
            return 0;
        };
        let waiting = if queued { connection.queued() as u64 } else { 0 };
        let end = connection.sent + waiting;
        end.saturating_sub(connection.body_from.unwrap_or(end))
    }
}
