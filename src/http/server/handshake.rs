//! The handshake of TLS, before the first request of a connection.
//!
//! A connection whose handshake fails closes without a response; the transport has sent the reason to
//! the peer.

use super::connection::State;
use super::settings::Clock;
use super::{Interest, Server, Transport};
use crate::tls::Handshake;

impl<T: Transport> Server<T> {
    /// Continues the handshake of a connection. Returns whether it is complete, so that requests follow. Otherwise, the
    /// connection waits, or was closed.
    #[cold]
    pub(super) fn continue_handshake(&mut self, slot: usize, clock: Clock) -> bool {
        let connection = &mut self.connections[slot];
        let received = self.read_buffer.bytes(slot, &connection.input).to_vec();
        self.read_buffer.consume(slot, &mut connection.input, received.len());
        let event = match connection.transport.handshake(&received) {
            Ok(Handshake::Done) => {
                connection.state = State::Idle { since: None };
                return true;
            }
            Ok(Handshake::Read) => Interest::Read,
            Ok(Handshake::Write) => Interest::Write,
            Err(_) => {
                self.close(slot);
                return false;
            }
        };
        match connection.transport.arm(event) {
            Ok(()) => self.park(slot, clock),
            Err(_) => self.close(slot),
        }
        false
    }

    /// Makes a connection begin with the handshake of TLS. If there are too many handshakes, ends the oldest.
    pub(super) fn begin_handshake(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.state = State::Handshake { since: None };
        self.handshakes.push_back(connection.id(slot));
        let limit = self.settings.handshakes;
        if self.handshakes.len() > limit {
            // Handshakes that have ended are still in the list.
            let connections = &self.connections;
            self.handshakes.retain(|id| {
                connections
                    .get(id.slot())
                    .is_some_and(|one| one.id(id.slot()) == *id && matches!(one.state, State::Handshake { .. }))
            });
        }
        if self.handshakes.len() > limit
            && let Some(oldest) = self.handshakes.pop_front()
        {
            self.close(oldest.slot());
        }
    }

    /// Sets the longest time for the handshake of a connection, in nanoseconds, and the maximum number of handshakes at
    /// the same time, at least 1.
    pub(crate) fn limit_handshakes(&mut self, time: u64, count: usize) {
        self.settings.handshake_time = time;
        self.settings.handshakes = count.max(1);
    }
}
