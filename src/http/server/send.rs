//! Flushing the queues of connections, and the waits of handlers on their connections.

use super::connection::{FlushMark, Peer, State};
use super::settings::Clock;
use super::{Interest, Queued, RequestId, SPARE, Server, Transport};
use crate::stream::queue::{Queue, Sent};
use std::io;

impl<T: Transport> Server<T> {
    /// Returns the queue of a connection.
    pub(super) fn queue(&mut self, slot: usize) -> &mut Queue<T::File> {
        self.connections[slot].queue(&mut self.spare_queues)
    }

    /// Flushes the queue of a connection.
    pub(super) fn flush_queue(&mut self, slot: usize) -> io::Result<Sent> {
        self.send_queue(slot, &[], &mut 0)
    }

    /// Flushes the queue of a connection, and then sends `borrowed`, of which `sent` bytes were sent before. Updates
    /// `sent`.
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

    /// Marks a connection, so that its queue is flushed before the loop waits, even while its handler runs.
    #[inline]
    pub(super) fn mark_unflushed(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.flush == FlushMark::Unmarked {
            connection.flush = FlushMark::Marked;
            self.unflushed.push(slot);
        }
    }

    /// Flushes the queues of marked connections whose requests are being handled. Must be called before the loop waits.
    pub(crate) fn flush(&mut self) {
        while let Some(slot) = self.unflushed.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.flush = FlushMark::Unmarked;
            if matches!(connection.state, State::Handling(_)) {
                self.flush_handled(slot);
            }
        }
    }

    /// Flushes the queue of a connection whose request is being handled. If data is left, it is sent when the
    /// connection is writable.
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

    /// Marks a connection as failed and discards its queue, because the peer receives no further data.
    pub(super) fn fail(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.peer = Peer::Failed;
        if let Some(mut queue) = connection.output.take() {
            queue.clear();
            self.recycle_queue(queue);
        }
    }

    /// Flushes the queue of a request's connection, and then sends `borrowed`, of which `sent` bytes were sent before.
    /// Updates `sent`. Returns `None` if the connection has failed, or the request has ended.
    pub(crate) fn send(&mut self, id: RequestId, borrowed: &[u8], sent: &mut usize) -> Option<Sent> {
        self.handling_connection(id).filter(|connection| connection.peer != Peer::Failed)?;
        let slot = id.slot();
        let result = self.send_queue(slot, borrowed, sent).ok();
        if matches!(result, None | Some(Sent::FileTooShort)) {
            self.fail(slot);
        }
        result
    }

    /// Records that a task of the request's handler waits for the event `what`. Returns whether a
    /// [`super::Work::Resume`] will follow; false if the connection has failed or cannot report the event.
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
                Interest::Read => _ = waits.read.get_or_insert(clock.now),
                Interest::Write => waits.write = Some(clock.now.saturating_add(write_time)),
                Interest::End => waits.end = true,
            }
        }
        self.set_wait_deadline(id.slot());
        true
    }

    /// Records that no task waits for the event `what` any longer, because the tasks that waited were killed.
    pub(crate) fn end_wait(&mut self, id: RequestId, what: Interest, clock: Clock) {
        let slot = id.slot();
        let Some(handling) = self.handling_connection(id).and_then(|connection| connection.handling()) else { return };
        match what {
            Interest::Read => handling.end_read_wait(clock.now),
            Interest::Write => handling.extras().waits.write = None,
            Interest::End => handling.extras().waits.end = false,
        }
        self.set_wait_deadline(slot);
        // The server itself sends the bytes that the tasks have queued.
        if what == Interest::Write && !self.connections[slot].is_flushed() {
            self.flush_handled(slot);
        }
    }

    /// Returns the number of unsent bytes of a request's connection, and whether the connection has failed; `None` if
    /// the request has ended.
    pub(crate) fn queued(&mut self, id: RequestId) -> Option<Queued> {
        let connection = self.handling_connection(id)?;
        Some(Queued { bytes: connection.queued(), failed: connection.peer == Peer::Failed })
    }

    /// Returns the number of bytes after the head of the response to a request, including framing. If `queued` is
    /// false, only sent bytes are counted. Returns 0 once the next request on the connection has been dispatched.
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
