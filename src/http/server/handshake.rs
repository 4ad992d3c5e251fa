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
                connection.state = State::Idle;
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

    /// Sets the longest time for the handshake of a connection, in nanoseconds.
    pub(crate) fn set_handshake_time(&mut self, time: u64) {
        self.settings.handshake_time = time;
    }
}
