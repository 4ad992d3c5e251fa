//! Parses the received bytes into the next request. Also discards an unread body of the previous request.

use super::connection::{Client, Handling, State};
use super::settings::{Clock, MAX_DISCARDED};
use super::{RequestId, Server, Transport, handling_connection};
use crate::codec::http1::body::BodyEvent;
use crate::codec::http1::head::Progress;
use crate::codec::http1::reject::Reject;
use crate::codec::http1::request::RequestHead;
use crate::codec::uri;
use crate::http::router::routes::RouteId;

/// The result of parsing the bytes received so far.
pub(super) enum Parsed {
    /// The head of a request, with its route if the route is known without testing constraints.
    Request(Option<RouteId>),
    Refused(Reject),
    /// No request will follow.
    End,
    /// More bytes are needed.
    More,
}

impl<T: Transport> Server<T> {
    /// Parses the next request of a connection whose handler is not running.
    #[inline]
    pub(super) fn parse_next(&mut self, slot: usize, clock: Clock) -> Parsed {
        if matches!(self.connections[slot].state, State::Discarding { .. })
            && let Some(parsed) = self.discard_body(slot)
        {
            return parsed;
        }
        let connection = &mut self.connections[slot];
        let bytes = self.read_buffer.bytes(slot, &connection.input);
        if bytes.is_empty() {
            return Parsed::More;
        }
        let mut first = Progress::default();
        let progress = match &mut connection.state {
            State::Head { progress, .. } => progress,
            _ => &mut first,
        };
        match self.parser.parse(bytes, &self.settings.head, progress) {
            Ok(Some(head)) => {
                self.parsed = None;
                let Some(path) = uri::normal_path(head.route_path(bytes), &mut self.scratch) else {
                    return self.refuse_path(slot);
                };
                let method = head.method.of(bytes);
                Parsed::Request(self.routes.borrow().find(head.method_id, method, path))
            }
            Ok(None) => {
                if !matches!(connection.state, State::Head { .. }) {
                    connection.state = State::Head { progress: first, since: clock.now };
                }
                Parsed::More
            }
            Err(reject) => {
                // The client may still be sending, even if it announced that the previous request was its last.
                connection.client = Client::MaySend;
                connection.state = State::Idle { since: None };
                Parsed::Refused(reject)
            }
        }
    }

    /// Returns the head of a request; `None` if [`Server::take_head`] has removed it from the input.
    pub(crate) fn head(&mut self, id: RequestId) -> Option<RequestHead<'_>> {
        let connection = handling_connection(&mut self.connections, id)?;
        if connection.handling()?.head_left == 0 {
            return None;
        }
        let bytes = self.read_buffer.bytes(id.slot(), &connection.input);
        if self.parsed != Some(id) {
            let limits = &self.settings.head;
            self.parser.parse(bytes, limits, &mut Progress::default()).ok()??;
            self.parsed = Some(id);
        }
        let head = self.parser.head();
        Some(RequestHead { head, bytes: &bytes[..head.head_len] })
    }

    /// Removes the head of a request from the input. The caller has copied the data that it still needs.
    pub(crate) fn take_head(&mut self, id: RequestId) {
        if let Some(connection) = handling_connection(&mut self.connections, id)
            && let Some(handling) = connection.handling()
        {
            let count = std::mem::take(&mut handling.head_left) as usize;
            self.read_buffer.consume(id.slot(), &mut connection.input, count);
        }
    }

    /// From now on, the server creates a request object for the route of this request even if the handler does not take
    /// one, because other code needs it.
    pub(crate) fn needs_request(&mut self, id: RequestId) {
        if let Some(route) = self.route(id) {
            self.routes.borrow_mut().needs_request(route);
        }
    }

    /// Returns the route of a request; `None` if Lua code must determine it.
    pub(crate) fn route(&mut self, id: RequestId) -> Option<RouteId> {
        self.handling(id)?.route
    }

    /// Refuses a request whose path has malformed escapes. The rest of the head is valid, so the response depends on
    /// the request's method and version.
    #[cold]
    fn refuse_path(&mut self, slot: usize) -> Parsed {
        let stamp = self.stamp();
        let head = self.parser.head();
        let connection = &mut self.connections[slot];
        connection.request_stamp = stamp;
        connection.client = if head.keep_alive { Client::MaySend } else { Client::Finished };
        connection.state = State::Handling(Handling::of(head, None));
        self.take_head(RequestId::new(slot, stamp));
        Parsed::Refused(Reject::bad("malformed percent-encoding in the path"))
    }

    /// Discards the received part of the last request's body. Returns `None` if the body is complete.
    #[cold]
    fn discard_body(&mut self, slot: usize) -> Option<Parsed> {
        let connection = &mut self.connections[slot];
        let State::Discarding { body, .. } = &mut connection.state else { return None };
        loop {
            let bytes = self.read_buffer.bytes(slot, &connection.input);
            if body.received() > MAX_DISCARDED && !body.is_done() {
                return Some(Parsed::End);
            }
            let consume = match body.next(bytes, u64::MAX) {
                Ok(BodyEvent::Data { consume, .. } | BodyEvent::More { consume }) => consume,
                Ok(BodyEvent::End { consume, .. }) => {
                    self.read_buffer.consume(slot, &mut connection.input, consume);
                    connection.state = State::Idle { since: None };
                    return None;
                }
                Err(_) => return Some(Parsed::End),
            };
            self.read_buffer.consume(slot, &mut connection.input, consume);
            let is_empty = self.read_buffer.bytes(slot, &connection.input).is_empty();
            if !body.is_done() && (consume == 0 || is_empty) {
                return Some(if body.received() > MAX_DISCARDED { Parsed::End } else { Parsed::More });
            }
        }
    }
}
