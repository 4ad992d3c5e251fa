//! The header of the PROXY protocol, with which a proxy reports the address of the client before the first request.
//!
//! Only a server with a [`ProxyPolicy`] has connections in the state `ProxyHeader`, and only they cost anything. A
//! connection whose header is malformed closes without a response: its peer does not speak HTTP.

use super::connection::State;
use super::proxied::{Proxied, ProxyPolicy};
use super::settings::Clock;
use super::work::Filled;
use super::{RequestId, Server, Transport};
use crate::codec::proxy_protocol::{Parsed, parse};

impl<T: Transport> Server<T> {
    /// Makes the server read a header at the start of each connection that it accepts from now on.
    pub(crate) fn expect_proxy_header(&mut self, policy: ProxyPolicy) {
        self.proxy_policy = Some(Box::new(policy));
    }

    /// Returns the report of a proxy about the client of a request; `None` if there is none.
    pub(crate) fn proxied(&self, id: RequestId) -> Option<&Proxied> {
        let connection = self.connections.get(id.slot())?;
        let is_same = (connection.stamp..=connection.request_stamp).contains(&id.stamp());
        connection.proxied.as_deref().filter(|_| is_same)
    }

    /// Reads the header of a connection. Returns whether it is complete, so that the handshake of TLS or requests follow.
    /// Otherwise, the connection waits for more bytes, or was closed.
    #[cold]
    pub(super) fn read_proxy_header(&mut self, slot: usize, clock: Clock) -> bool {
        let Some(policy) = &self.proxy_policy else { return self.begin_requests(slot) };
        let required = policy.required;
        if let State::ProxyHeader { since: None } = self.connections[slot].state {
            let is_proxy = match (&policy.proxies, self.connections[slot].transport.peer_ip()) {
                (None, _) => true,
                (Some(proxies), Ok(ip)) => proxies.contains(ip),
                (Some(_), Err(_)) => false,
            };
            match (is_proxy, required) {
                (true, _) => {}
                (false, false) => return self.begin_requests(slot),
                (false, true) => return self.end_without_header(slot),
            }
        }
        loop {
            let connection = &mut self.connections[slot];
            match parse(self.read_buffer.bytes(slot, &connection.input)) {
                Parsed::Header(header) => {
                    let is_tls = header.is_tls;
                    connection.proxied = header.client.map(|client| Box::new(Proxied { client, is_tls }));
                    self.read_buffer.consume(slot, &mut connection.input, header.length);
                    return self.begin_requests(slot);
                }
                Parsed::More => {}
                Parsed::Absent if !required => return self.begin_requests(slot),
                Parsed::Absent | Parsed::Malformed => return self.end_without_header(slot),
            }
            match self.fill(slot) {
                Filled::Some => {}
                Filled::WouldBlock => {
                    self.park(slot, clock);
                    return false;
                }
                Filled::End | Filled::Failed(_) => return self.end_without_header(slot),
            }
        }
    }

    fn begin_requests(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        connection.state = State::Idle { since: None };
        if connection.transport.needs_handshake() {
            self.begin_handshake(slot);
        }
        true
    }

    fn end_without_header(&mut self, slot: usize) -> bool {
        self.close(slot);
        false
    }
}
