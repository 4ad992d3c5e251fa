//! The server of the fuzzer, its clients, and what has happened so far.

use super::super::connection::State;
use super::super::*;
use super::handlers::{Pending, Plan};
use super::pipe::{self, Pipe, Wire};
use super::{MAX_SENT, Reached, SECOND, naive};
use std::cell::Cell;

/// A client.
pub(super) struct Client {
    pub(super) id: Option<ConnectionId>,
    pub(super) wire: Wire,
    /// All bytes that the client has sent.
    pub(super) sent: Vec<u8>,
    /// The offset in `sent` at which the next request begins; `None` while the body of the last request has not been
    /// measured.
    pub(super) at: Option<usize>,
    /// The offset of the last request's body, and its framing.
    pub(super) body: (usize, naive::Framing),
    /// The dispatched requests.
    pub(super) exchanges: Vec<Exchange>,
    /// Whether the client has sent only valid requests.
    pub(super) is_valid: bool,
    /// Whether the client might receive only a part of the responses.
    pub(super) is_cut: bool,
    /// Whether the connection was detached from the server.
    pub(super) is_detached: bool,
    /// Whether the server may have sent `100 Continue` for the request that detached the connection.
    pub(super) may_continue: bool,
}

/// A request and its response.
pub(super) struct Exchange {
    pub(super) is_head: bool,
    pub(super) version: u8,
    /// Whether the server may send `100 Continue`.
    pub(super) may_continue: bool,
    /// The client has asked for the connection to close.
    pub(super) closes: bool,
    pub(super) status: Option<u16>,
    /// The body of the response so far, and whether the response was completed.
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
}

pub(super) struct World {
    pub(super) server: Server<Pipe>,
    pub(super) clock: Clock,
    pub(super) clients: Vec<Client>,
    /// The clients with the numbers 0 to 3, as indexes of `clients`.
    numbers: [Option<usize>; 4],
    /// The requests that are being handled.
    pub(super) pending: Vec<Pending>,
    /// Requests that have ended.
    pub(super) ended: Vec<RequestId>,
    plans: Vec<u8>,
    /// See [`pipe::pair`].
    portion: usize,
    /// All files that were sent.
    pub(super) files: Vec<Rc<Vec<u8>>>,
    /// The number of calls of transports, and the number of calls that are allowed.
    calls: Rc<Cell<usize>>,
    pub(super) allowed: usize,
    /// The number of bytes that handlers may still send.
    pub(super) bytes_left: usize,
    sent: usize,
    is_draining: bool,
    pub(super) notified_closes: (usize, usize),
    pub(super) reached: Reached,
}

impl World {
    pub(super) fn new(settings: Settings, plans: Vec<u8>, portion: usize) -> World {
        let mut routes = Routes::default();
        for (method, path) in [("GET", "/"), ("GET", "/wait"), ("POST", "/:any"), ("OPTIONS", "*")] {
            let _ = routes.add(method.as_bytes(), path);
        }
        World {
            server: Server::new(settings, Rc::new(RefCell::new(routes))),
            clock: Clock { now: 1000 * SECOND, unix: 784_111_777 },
            clients: Vec::new(),
            numbers: [None; 4],
            pending: Vec::new(),
            ended: Vec::new(),
            plans,
            portion,
            files: Vec::new(),
            calls: Rc::default(),
            allowed: 0,
            bytes_left: 1 << 20,
            sent: 0,
            is_draining: false,
            notified_closes: (0, 0),
            reached: Reached::default(),
        }
    }

    /// Returns the client with this number, which connects if it does not exist.
    pub(super) fn client(&mut self, number: usize) -> usize {
        if let Some(client) = self.numbers[number] {
            return client;
        }
        let (wire, pipe) = pipe::pair(self.portion, &self.calls);
        let id = self.server.accept(pipe);
        self.clients.push(Client {
            id,
            wire,
            sent: Vec::new(),
            at: Some(0),
            body: (0, naive::Framing::None),
            exchanges: Vec::new(),
            is_valid: true,
            is_cut: false,
            is_detached: false,
            may_continue: false,
        });
        self.allowed += 8;
        let client = self.clients.len() - 1;
        self.numbers[number] = Some(client);
        client
    }

    /// Makes the next use of this number connect again. The former client stays.
    pub(super) fn reconnect(&mut self, number: usize) {
        if self.clients.len() < 20 {
            self.numbers[number] = None;
        }
    }

    pub(super) fn deliver(&mut self, client: usize, bytes: &[u8], is_valid: bool) {
        if self.sent + bytes.len() > MAX_SENT || bytes.is_empty() {
            return;
        }
        let one = &mut self.clients[client];
        if one.wire.deliver(bytes) {
            self.sent += bytes.len();
            one.sent.extend_from_slice(bytes);
            one.is_valid &= is_valid;
            self.allowed += 4 + bytes.len() / 1024;
        }
    }

    pub(super) fn take(&mut self, client: usize, count: u8) {
        let wire = &self.clients[client].wire;
        match count {
            255 => wire.take(None),
            0 => {
                wire.take(None);
                wire.take(Some(0));
            }
            count => wire.take(Some(usize::from(count) * 37)),
        }
    }

    pub(super) fn end(&mut self, client: usize) {
        self.clients[client].wire.end();
        self.allowed += 8;
    }

    pub(super) fn reset(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.wire.reset();
        one.is_cut = true;
        self.allowed += 8;
    }

    pub(super) fn unwatch(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.wire.unwatch();
        one.is_cut = true;
    }

    pub(super) fn advance(&mut self, span: u64) {
        // The loop has handled all events before it waits.
        self.settle();
        for client in &mut self.clients {
            client.is_cut |= client.wire.is_blocked();
        }
        self.clock.now += span;
        self.allowed += 8 * self.clients.len();
        self.server.expire(self.clock);
    }

    /// Does what the server's owner does.
    pub(super) fn control(&mut self, what: u8) {
        self.allowed += 8 * self.clients.len();
        match what % 16 {
            0 => self.server.stop(),
            1 => {
                self.server.drain();
                self.is_draining = true;
            }
            2 => {
                self.clients.iter_mut().for_each(|client| client.is_cut = true);
                self.server.close_all();
            }
            3 => _ = self.server.close_some_idle(self.clock),
            4 => {
                self.server.notify_next_close();
                self.notified_closes.0 += 1;
            }
            5 => {
                self.server.set_guests(1);
                assert!(self.server.is_full() || self.server.settings.connections > self.server.count() + 1);
            }
            _ => {}
        }
    }

    /// Reports events, and does all work, until there is none.
    pub(super) fn settle(&mut self) {
        let mut turns = 0;
        loop {
            let mut any = false;
            for index in 0..self.clients.len() {
                let client = &self.clients[index];
                let events = client.wire.events();
                if let (Some(id), true) = (client.id, events != Readiness::default() && !client.is_detached) {
                    any = true;
                    self.allowed += 6;
                    self.server.ready(id, events, self.clock);
                }
            }
            self.work();
            self.server.flush();
            turns += 1;
            assert!(turns < 300_000, "the server is never done");
            // The work of the first turn may cause events.
            if !any && turns > 1 {
                break;
            }
        }
        self.check_state();
    }

    fn work(&mut self) {
        loop {
            match self.server.next(self.clock) {
                Work::Dispatch { id, .. } => self.dispatch(id),
                Work::Resume { id, reason } => self.resume(id, reason),
                Work::ConnectionClosed => self.notified_closes.1 += 1,
                Work::Idle => break,
            }
        }
        assert_eq!(self.server.work_count(), 0, "no work is left");
    }

    /// Checks a new request against a naive reading of the bytes, and starts its handler.
    fn dispatch(&mut self, id: RequestId) {
        self.reached.requests += 1;
        self.allowed += 10;
        let connection = self.server.connections[id.slot()].id(id.slot());
        let number = self.clients.iter().position(|client| client.id == Some(connection)).expect("a client");
        let client = &mut self.clients[number];
        assert!(!client.wire.is_ended(), "a request after the close");
        assert!(!client.is_detached, "a request on a detached connection");
        assert!(!self.pending.iter().any(|one| one.client == number), "one request at a time");
        if let Some(last) = client.exchanges.last() {
            assert!(last.is_whole, "the last request was answered");
            assert!(!last.closes, "no request follows the last one");
        }
        let at = client.at.unwrap_or_else(|| {
            let (start, framing) = client.body;
            let body = naive::body(&client.sent[start..], framing);
            assert!(body.is_valid, "a request after a malformed body");
            start + body.length.expect("a request after an incomplete body")
        });
        let request = naive::request(&client.sent[at..]).expect("a valid request").expect("a complete request");
        let head = self.server.head(id).expect("the head is in the input");
        assert_eq!(head.bytes, &client.sent[at..at + request.length], "the bytes of the request");
        assert_eq!(head.head.method.of(head.bytes), request.method);
        assert_eq!(head.head.version, request.version);
        assert_eq!(head.head.keep_alive, !request.closes);
        client.at = None;
        client.body = (at + request.length, request.framing);
        let is_head = request.method == b"HEAD";
        client.exchanges.push(Exchange {
            is_head,
            version: request.version,
            may_continue: false,
            closes: request.closes || request.method == b"CONNECT",
            status: None,
            body: Vec::new(),
            is_whole: false,
        });
        if let Some(most) = self.server.settings.requests {
            assert!(client.exchanges.len() as u64 <= most, "the maximum number of requests");
        }
        let plan = self.plans[(self.reached.requests - 1) % self.plans.len()];
        let pending = Pending::new(id, number, request.expects);
        self.pending.push(pending);
        self.start(Plan::of(plan), plan);
    }

    /// Checks that the server can continue with each connection: it waits for an event, or until a deadline.
    fn check_state(&mut self) {
        let server = &self.server;
        assert!(server.unflushed.is_empty() && server.notifications.is_empty());
        for (slot, connection) in &server.connections {
            let id = connection.id(slot);
            let client = self.clients.iter().find(|client| client.id == Some(id)).expect("a client");
            assert!(!client.is_detached);
            let wire = &client.wire;
            let bytes = server.read_buffer.bytes(slot, &connection.input);
            let waits_to_read = match &connection.state {
                State::Handling(_) => {
                    assert!(self.pending.iter().any(|one| one.id == connection.request(slot)), "a request is handled");
                    if connection.queued() > 0 && !wire.is_unwatched() {
                        assert!(wire.is_asked(Interest::Write), "queued bytes are sent later");
                    }
                    let waits = self.pending.iter().find(|one| one.id == connection.request(slot));
                    let waits = waits.expect("pending").waits;
                    if waits[0] || waits[1] {
                        assert!(connection.deadline.at < u64::MAX, "a wait has a deadline");
                    }
                    assert!(!waits[0] || !wire.has_plaintext(), "no wait for bytes that were taken from the system");
                    continue;
                }
                State::Idle { .. } => {
                    assert!(bytes.is_empty(), "the bytes of an idle connection are parsed");
                    assert!(!self.is_draining, "no connection becomes idle");
                    true
                }
                State::Head { .. } => {
                    let bytes = bytes.iter().skip_while(|byte| b"\r\n".contains(byte)).copied().collect::<Vec<u8>>();
                    assert!(!bytes.windows(4).any(|four| four == b"\r\n\r\n"), "a complete head is parsed");
                    true
                }
                State::Discarding { .. } | State::Lingering => true,
                State::Blocked { .. } => false,
                State::ProxyHeader { .. } | State::Handshake { .. } => unreachable!(),
            };
            let awaited = if waits_to_read { Interest::Read } else { Interest::Write };
            assert!(wire.is_asked(awaited) || wire.is_unwatched(), "the connection waits for an event");
            assert!(!waits_to_read || !wire.has_plaintext(), "no wait for bytes that were taken from the system");
            let deadline = &connection.deadline;
            assert!(deadline.at < u64::MAX, "a waiting connection has a deadline");
            assert!(deadline.timer.is_some() && deadline.timer_at <= deadline.at, "a deadline has a timer");
        }
    }

    /// Checks that the number of calls is linear in the number of bytes and steps.
    pub(super) fn check_budget(&mut self) {
        self.allowed += 16;
        let received: usize = self.clients.iter().map(|client| client.wire.received_count() / 64).sum();
        let (calls, allowed) = (self.calls.get(), self.allowed + received);
        assert!(calls <= allowed, "{calls} calls, but only {allowed} are allowed");
    }
}
