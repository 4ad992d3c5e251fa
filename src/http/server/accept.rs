//! How connections come, and how some make room for others.

use super::connection::{Connection, State};
use super::id::MOST_CONNECTIONS;
use super::settings::{Clock, SHED_AFTER, SHED_MOST};
use super::{ConnectionId, Server, Transport};

impl<T: Transport> Server<T> {
    /// Whether there are as many connections as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.len() >= self.settings.connections.min(MOST_CONNECTIONS)
    }

    /// Takes a connection in, also when the server is full: it is read by the next call of [`Server::next`]. `None` when
    /// there are more than the server can name; then it is closed.
    pub(crate) fn accept(&mut self, mut transport: T) -> Option<ConnectionId> {
        if self.connections.len() >= MOST_CONNECTIONS {
            transport.close();
            return None;
        }
        let stamp = self.stamp();
        let slot = self.connections.insert(Connection::new(stamp, transport));
        self.enqueue(slot);
        Some(self.connections[slot].id(slot))
    }

    /// The same for a connection handed over by another server: with what was read and not used, and what is to be sent first.
    pub(crate) fn adopt(&mut self, transport: T, input: &[u8], output: &[u8]) -> Option<ConnectionId> {
        let id = self.accept(transport)?;
        self.connections[id.slot()].input.extend_from_slice(input);
        if !output.is_empty() {
            self.queue(id.slot()).append(|out| out.extend_from_slice(output));
        }
        Some(id)
    }

    /// Closes a few connections that have had an answer and have been idle for a while. → how many
    pub(crate) fn shed(&mut self, clock: Clock) -> usize {
        let idle_by = clock.now.saturating_sub(SHED_AFTER);
        let is_spare = |connection: &Connection<T>| {
            let since = connection.deadline.due.checked_sub(self.settings.keep_alive_time);
            matches!(connection.state, State::Idle)
                && connection.requests > 0
                && since.is_some_and(|since| since < idle_by)
        };
        let found = self.connections.iter().filter(|(_, one)| is_spare(one));
        let slots: Vec<usize> = found.map(|(slot, _)| slot).take(SHED_MOST).collect();
        for slot in &slots {
            self.close(*slot);
        }
        slots.len()
    }

    /// When the next connection leaves, [`Server::next`] tells of it.
    pub(crate) fn watch(&mut self) {
        self.awaited = true;
    }
}
