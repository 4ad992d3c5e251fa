//! New connections, and closing idle connections to make room.

use super::connection::{Connection, State};
use super::id::MAX_CONNECTIONS;
use super::settings::{Clock, MAX_SHED, SHED_AFTER};
use super::{ConnectionId, Server, Transport};

impl<T: Transport> Server<T> {
    /// Whether the maximum number of connections is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.len() + self.guests >= self.settings.connections.min(MAX_CONNECTIONS)
    }

    /// Sets the number of connections that the server no longer serves, but which count for [`Server::is_full`]: those
    /// that have become WebSocket connections.
    pub(crate) fn set_guests(&mut self, count: usize) {
        self.guests = count;
    }

    /// Adds a connection, even if the server is full; the next call of [`Server::next`] reads from it. If the server
    /// has no identifier left, closes the connection and returns `None`.
    pub(crate) fn accept(&mut self, mut transport: T) -> Option<ConnectionId> {
        if self.connections.len() >= MAX_CONNECTIONS {
            transport.close();
            return None;
        }
        let stamp = self.stamp();
        let slot = self.connections.insert(Connection::new(stamp, transport));
        if self.proxy_policy.is_some() {
            self.connections[slot].state = State::ProxyHeader { since: None };
        } else if self.connections[slot].transport.needs_handshake() {
            self.begin_handshake(slot);
        }
        self.enqueue(slot);
        Some(self.connections[slot].id(slot))
    }

    /// Like [`Server::accept`], except that the connection comes from another server. `input`: the connection's unread
    /// bytes; `output`: the bytes to send first.
    pub(crate) fn adopt(&mut self, transport: T, input: &[u8], output: &[u8]) -> Option<ConnectionId> {
        let id = self.accept(transport)?;
        self.connections[id.slot()].input.extend_from_slice(input);
        if !output.is_empty() {
            self.queue(id.slot()).append(|out| out.extend_from_slice(output));
        }
        Some(id)
    }

    /// Closes up to [`MAX_SHED`] connections that have sent a request and have been idle for longer than
    /// [`SHED_AFTER`]. Returns the number of connections that were closed.
    pub(crate) fn close_some_idle(&mut self, clock: Clock) -> usize {
        let idle_by = clock.now.saturating_sub(SHED_AFTER);
        let is_spare = |connection: &Connection<T>| {
            let State::Idle { since } = connection.state else { return false };
            connection.requests > 0 && since.is_some_and(|since| since < idle_by)
        };
        let found = self.connections.iter().filter(|(_, one)| is_spare(one));
        let slots: Vec<usize> = found.map(|(slot, _)| slot).take(MAX_SHED).collect();
        for slot in &slots {
            self.close(*slot);
        }
        slots.len()
    }

    /// Makes [`Server::next`] report when the next connection closes.
    pub(crate) fn notify_next_close(&mut self) {
        self.close_awaited = true;
    }
}
