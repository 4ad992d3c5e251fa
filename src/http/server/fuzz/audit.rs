//! The invariants at the end of an input: all connections end, nothing is retained, and the clients have received what
//! the handlers have sent, in order.

use super::super::*;
use super::naive;
use super::world::{Client, World};

impl World {
    /// Lets the clients receive everything, completes all requests, lets the time pass until all connections are
    /// closed, and checks what is left.
    pub(super) fn finish(&mut self) {
        for client in &self.clients {
            client.wire.take(None);
            client.wire.stall(0);
            client.wire.set_piece(0);
        }
        self.settle();
        let mut rounds = 0;
        while self.complete_all() {
            self.settle();
            rounds += 1;
            assert!(rounds < 10_000, "all requests end");
        }
        rounds = 0;
        while self.server.count() > 0 {
            let unwatched = self.clients.iter().any(|client| client.wire.is_unwatched());
            let Some(due) = self.server.next_deadline() else {
                assert!(unwatched, "a connection without a deadline");
                self.server.close_all();
                continue;
            };
            self.clock.now = self.clock.now.max(due);
            self.server.expire(self.clock);
            self.settle();
            while self.complete_all() {
                self.settle();
            }
            rounds += 1;
            assert!(rounds < 20 * self.clients.len(), "all connections end");
        }
        self.check_budget();
        self.check_released();
        for number in 0..self.clients.len() {
            self.check_responses(number);
        }
    }

    fn check_released(&mut self) {
        let server = &mut self.server;
        assert_eq!(server.next_deadline(), None, "no timer is left");
        assert_eq!(server.deadlines.len(), 0, "no timer is left");
        assert!(server.notifications.is_empty() && server.ready_queue.is_empty() && server.unflushed.is_empty());
        assert!(server.read_buffer.other_owner(usize::MAX - 1).is_none(), "the read buffer is empty");
        assert!(server.spare_queues.len() <= SPARE && server.spare_drafts.len() <= SPARE);
        assert!(server.spare_queues.iter().all(|queue| queue.queued() == 0), "spare queues are empty");
        assert!(server.spare_drafts.iter().all(|draft| draft.get(b"connection").is_none()), "spare drafts are empty");
        assert!(self.clients.iter().all(|client| client.wire.is_released()), "all transports are released");
        assert!(self.files.iter().all(|file| Rc::strong_count(file) == 1), "all files are closed");
        assert!(self.notified_closes.1 <= self.notified_closes.0, "one notification for each request of it");
    }

    /// Compares the bytes that a client has received with the responses of the handlers.
    fn check_responses(&mut self, number: usize) {
        let client = &self.clients[number];
        let received = client.wire.received();
        let mut rest = &received[..];
        let may_end = client.is_cut || client.wire.is_unwatched();
        for (index, exchange) in client.exchanges.iter().enumerate() {
            let is_last = index + 1 == client.exchanges.len();
            let Some(after) = Self::skip_interim(rest, exchange.may_continue, exchange.version) else {
                assert!(may_end, "a part of an interim response");
                return;
            };
            rest = after;
            let answer = naive::answer(rest, exchange.is_head, exchange.version, true).expect("a valid response");
            let Some(status) = exchange.status else {
                assert!(rest.is_empty(), "a response that no handler has sent");
                assert!(is_last);
                return;
            };
            let Some(answer) = answer else {
                assert!(may_end, "a request without a response");
                return;
            };
            assert_eq!(answer.status, status);
            let is_complete = answer.length.is_some() && (answer.body.len() == exchange.body.len() || exchange.is_head);
            assert!(exchange.body.starts_with(&answer.body), "the body of another response");
            match exchange.is_whole {
                true => assert!(is_complete || may_end, "an incomplete response"),
                false => assert!(is_last, "a request after an incomplete response"),
            }
            let Some(length) = answer.length.filter(|_| is_complete) else { return };
            rest = &rest[length..];
            if exchange.closes && exchange.is_whole && !client.is_detached {
                assert!(answer.closes, "a last response that does not announce the end");
            }
            assert!(is_last || !answer.closes, "a request after the last response");
            if answer.closes {
                assert!(rest.is_empty(), "bytes after the last response");
                return;
            }
        }
        // A handler has read the body of a request, and has then taken over the connection.
        if client.is_detached && client.may_continue {
            let Some(after) = Self::skip_interim(rest, true, 11) else {
                assert!(may_end, "a part of an interim response");
                return;
            };
            rest = after;
        }
        if rest.is_empty() {
            return;
        }
        self.reached.refusals += 1;
        Self::check_refusal(client, rest);
    }

    /// Returns the bytes after an interim response, if there is one; `None` if only a part of it was received.
    fn skip_interim(rest: &[u8], may_continue: bool, version: u8) -> Option<&[u8]> {
        if !rest.starts_with(b"HTTP/1.1 100 ") {
            return Some(rest);
        }
        assert!(may_continue, "an interim response that no handler has caused");
        let interim = naive::answer(rest, false, version, true).expect("a valid interim response")?;
        Some(&rest[interim.length?..])
    }

    /// Checks the bytes that no handler has sent: the server has refused a request.
    fn check_refusal(client: &Client, rest: &[u8]) {
        // Refusals of requests whose method is known have no body for HEAD.
        let answer = naive::answer(rest, false, 11, true).expect("a valid refusal");
        let Some(answer) = answer.filter(|answer| answer.length == Some(rest.len())) else {
            let is_head = naive::answer(rest, true, 11, true).expect("a valid refusal");
            let is_whole = is_head.is_some_and(|answer| answer.length == Some(rest.len()));
            assert!(is_whole || client.is_cut, "a part of a refusal");
            return;
        };
        let is_refusal = matches!(answer.status, 400 | 408 | 414 | 417 | 431 | 501 | 505);
        assert!(is_refusal, "the status of a refusal: {}", answer.status);
        assert!(answer.closes, "a refusal is the last response");
        assert!(!client.is_valid || matches!(answer.status, 408 | 414 | 431), "a valid request is not refused");
    }
}
