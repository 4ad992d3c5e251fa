//! The handlers of the fuzzer: they respond at once, later, in pieces, with files, read bodies, take over connections, or
//! are killed.

use super::super::*;
use super::naive;
use super::world::World;
use crate::codec::http1::body::Framing;
use crate::stream::queue::Sent;

/// The maximum size of a request's body.
const BODY_LIMIT: u64 = 1 << 19;

/// The first action of a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    Respond,
    Later,
    Long,
    Pieces,
    File,
    ReadWhole,
    ReadPiece,
    Detach,
    Kill,
    End,
    AwaitEnd,
    Fields,
    Shared,
    Bodiless,
    Status,
}

impl Plan {
    pub(super) fn of(number: u8) -> Plan {
        const ALL: [Plan; 16] = [
            Plan::Respond,
            Plan::Later,
            Plan::Long,
            Plan::Pieces,
            Plan::File,
            Plan::ReadWhole,
            Plan::ReadPiece,
            Plan::Detach,
            Plan::Kill,
            Plan::End,
            Plan::AwaitEnd,
            Plan::Fields,
            Plan::Shared,
            Plan::Bodiless,
            Plan::Status,
            Plan::Respond,
        ];
        ALL[usize::from(number & 15)]
    }
}

/// A request that is being handled.
pub(super) struct Pending {
    pub(super) id: RequestId,
    /// The index of its client.
    pub(super) client: usize,
    expects: bool,
    /// The data of the request's body so far.
    read: Vec<u8>,
    read_all: bool,
    /// A long body, and the number of its bytes that were sent.
    rest: Option<(Vec<u8>, usize)>,
    /// The framing of the response's body, if it is sent in pieces, and the number of bytes left of a known length.
    pieces: Option<(Framing, usize)>,
    /// Whether a task waits to read, to write, or for the end.
    pub(super) waits: [bool; 3],
}

impl Pending {
    pub(super) fn new(id: RequestId, client: usize, expects: bool) -> Pending {
        Pending { id, client, expects, read: Vec::new(), read_all: false, rest: None, pieces: None, waits: [false; 3] }
    }
}

/// How a handler continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The request is still being handled.
    Stays,
    Ends(RequestEnd),
    /// The server no longer has the connection.
    Gone,
}

impl World {
    /// Starts the handler of the request that was dispatched last.
    pub(super) fn start(&mut self, plan: Plan, number: u8) {
        let mut pending = self.pending.pop().expect("a request");
        let next = self.run(&mut pending, plan, number >> 4);
        self.proceed(pending, next);
    }

    /// Continues one of the handlers.
    pub(super) fn act(&mut self, which: usize, action: u8) {
        if self.pending.is_empty() {
            return;
        }
        let which = which % self.pending.len();
        let mut pending = self.pending.remove(which);
        let next = self.run(&mut pending, Plan::of(action), action >> 4);
        self.proceed(pending, next);
    }

    fn proceed(&mut self, pending: Pending, next: Next) {
        self.allowed += 8;
        match next {
            Next::Stays => return self.pending.push(pending),
            Next::Ends(end) => {
                if end == RequestEnd::Cut || !self.server.is_whole(pending.id) {
                    // No request follows.
                    self.exchange(&pending).closes = true;
                }
                self.server.end(pending.id, end);
            }
            Next::Gone => {}
        }
        let id = pending.id;
        assert!(self.server.head(id).is_none() && self.server.is_answered(id), "an ended request is late");
        self.ended.push(id);
    }

    pub(super) fn exchange(&mut self, pending: &Pending) -> &mut super::world::Exchange {
        self.clients[pending.client].exchanges.last_mut().expect("an exchange")
    }

    /// Returns a body that differs from the bodies of all other requests. `size`: an index of lengths.
    fn body(&mut self, pending: &Pending, size: u8) -> Vec<u8> {
        let lengths = [5, 0, 1, 1000, 16 * 1024, 16 * 1024 + 1, 70_000, 300_000];
        let length = lengths[usize::from(size & 7)].min(self.bytes_left);
        self.bytes_left -= length;
        self.allowed += length / 512;
        let (client, exchange) = (pending.client, self.clients[pending.client].exchanges.len());
        (0..length).map(|at| (at * 7 + client * 31 + exchange * 101) as u8).collect()
    }

    /// Does one action of a handler.
    fn run(&mut self, pending: &mut Pending, plan: Plan, size: u8) -> Next {
        let id = pending.id;
        if plan == Plan::Later && size & 8 != 0 {
            // The tasks that wait are killed.
            for (index, what) in [Interest::Read, Interest::Write, Interest::End].into_iter().enumerate() {
                if std::mem::take(&mut pending.waits[index]) {
                    self.server.end_wait(id, what, self.clock);
                }
            }
            return Next::Stays;
        }
        if pending.rest.is_some() {
            return match plan {
                Plan::Kill => self.kill(pending),
                Plan::End => Next::Ends(RequestEnd::Cut),
                _ => self.send_rest(pending),
            };
        }
        if let Some((framing, left)) = pending.pieces {
            return self.continue_pieces(pending, framing, left, plan, size);
        }
        match plan {
            Plan::Later => Next::Stays,
            Plan::Respond => self.respond(pending, 200, MediaType::Text, size),
            Plan::Long => self.respond(pending, 200, MediaType::Given(b"a/b"), size | 6),
            Plan::Status => {
                let statuses = [200, 204, 205, 304, 404, 500, 599, 206];
                self.respond(pending, statuses[usize::from(size & 7)], MediaType::Json, size)
            }
            Plan::Bodiless => {
                let status = if size & 1 != 0 { 304 } else { 200 };
                let response = Response { status, media_type: MediaType::None, body: Body::None };
                self.exchange(pending).status = Some(status);
                let responded = self.server.respond(id, response, self.clock);
                self.after_response(pending, responded, Vec::new())
            }
            Plan::Shared => {
                let body = self.body(pending, size);
                self.expect(pending, 200, &body, true);
                let response = Response { status: 200, media_type: MediaType::Text, body: Body::Shared(body.into()) };
                let responded = self.server.respond(id, response, self.clock);
                self.after_response(pending, responded, Vec::new())
            }
            Plan::Fields => self.set_fields(pending, size),
            Plan::Pieces => self.begin_pieces(pending, None, size),
            Plan::File => {
                let body = self.body(pending, size);
                self.begin_pieces(pending, Some(body), size)
            }
            Plan::ReadWhole => self.read(pending, ReadMode::Whole, size),
            Plan::ReadPiece => self.read(pending, ReadMode::Piece, size),
            Plan::Detach => self.detach(pending),
            Plan::Kill => self.kill(pending),
            Plan::End => Next::Ends(if size & 1 != 0 { RequestEnd::Cut } else { RequestEnd::Complete }),
            Plan::AwaitEnd => self.wait(pending, Interest::End),
        }
    }

    fn expect(&mut self, pending: &Pending, status: u16, body: &[u8], is_whole: bool) {
        let exchange = self.exchange(pending);
        assert!(!exchange.is_whole, "one response for each request");
        exchange.status = Some(status);
        exchange.is_whole = is_whole;
        if !exchange.is_head && !matches!(status, 204 | 205 | 304) {
            exchange.body.extend_from_slice(body);
        }
    }

    fn respond(&mut self, pending: &mut Pending, status: u16, media_type: MediaType<'_>, size: u8) -> Next {
        let body = self.body(pending, size);
        self.expect(pending, status, &body, true);
        let response = Response { status, media_type, body: Body::Bytes(&body) };
        let responded = self.server.respond(pending.id, response, self.clock);
        self.after_response(pending, responded, body)
    }

    fn after_response(&mut self, pending: &mut Pending, responded: Responded, body: Vec<u8>) -> Next {
        assert!(self.server.is_answered(pending.id));
        match responded {
            Responded::Done => {
                self.exchange(pending).is_whole = true;
                self.reached.responses += 1;
                Next::Ends(RequestEnd::Complete)
            }
            Responded::Rest(sent) => {
                // The response is whole only when the rest was sent.
                self.exchange(pending).is_whole = false;
                pending.rest = Some((body, sent));
                self.wait(pending, Interest::Write)
            }
            Responded::Late => panic!("the response is the first"),
        }
    }

    fn send_rest(&mut self, pending: &mut Pending) -> Next {
        let Some((body, mut sent)) = pending.rest.take() else { return Next::Stays };
        let result = self.server.send(pending.id, &body, &mut sent);
        pending.rest = Some((body, sent));
        match result {
            Some(Sent::All) => {
                pending.rest = None;
                self.exchange(pending).is_whole = true;
                self.reached.responses += 1;
                Next::Ends(RequestEnd::Complete)
            }
            Some(Sent::Blocked | Sent::BudgetSpent) => self.wait(pending, Interest::Write),
            Some(Sent::FileTooShort) | None => self.fail(pending),
        }
    }

    /// Ends a request whose connection has failed.
    fn fail(&mut self, pending: &Pending) -> Next {
        self.clients[pending.client].is_cut = true;
        Next::Ends(RequestEnd::Cut)
    }

    fn set_fields(&mut self, pending: &mut Pending, size: u8) -> Next {
        let draft = self.server.draft(pending.id).expect("the response is open");
        match size & 7 {
            0 => draft.set(b"Connection", b"close").expect("a field"),
            1 => draft.set(b"Content-Length", b"7").expect("a field"),
            2 => draft.set(b"Content-Type", b"x/y").expect("a field"),
            3 => draft.set(b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT").expect("a field"),
            4 => assert!(draft.set(b"A", b"b\r\nc: d").is_err()),
            5 => draft.set(b"Upgrade", b"u").expect("a field"),
            6 => draft.set(b"X-Y", b"").expect("a field"),
            _ => self.server.close_after(pending.id),
        }
        self.server.record_effect(pending.id, HandlerEffect::Fields);
        match size & 8 {
            0 => Next::Stays,
            _ => self.respond(pending, 200, MediaType::Text, 3),
        }
    }

    fn begin_pieces(&mut self, pending: &mut Pending, file: Option<Vec<u8>>, size: u8) -> Next {
        let status = if size & 8 != 0 && file.is_none() { 204 } else { 200 };
        if let Some(file) = &file {
            let draft = self.server.draft(pending.id).expect("the response is open");
            draft.set(b"Content-Length", file.len().to_string().as_bytes()).expect("a field");
        }
        let length =
            self.server.existing_draft(pending.id).and_then(|draft| draft.get(b"content-length").map(<[u8]>::to_vec));
        let length = length.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
        self.expect(pending, status, b"", false);
        let framing = self.server.begin_body(pending.id, status, MediaType::Text, self.clock).expect("the first");
        assert!(self.server.begin_body(pending.id, status, MediaType::Text, self.clock).is_none());
        if framing == Framing::UntilClose {
            self.exchange(pending).closes = true;
        }
        pending.pieces = Some((framing, length.unwrap_or(0)));
        let Some(file) = file else { return Next::Stays };
        let is_short = size & 8 != 0 && !file.is_empty();
        let (id, shown) = (pending.id, file.len() - usize::from(is_short));
        let content = Rc::new(file[..shown].to_vec());
        self.files.push(content.clone());
        if self.server.queue_file(id, content, 0, file.len() as u64) {
            self.expect(pending, status, &file[..shown], false);
            pending.pieces = Some((framing, 0));
            if is_short {
                self.clients[pending.client].is_cut = true;
            }
        } else {
            assert_eq!(framing, Framing::None);
        }
        self.end_pieces(pending, b"")
    }

    fn continue_pieces(&mut self, pending: &mut Pending, framing: Framing, left: usize, plan: Plan, size: u8) -> Next {
        match plan {
            Plan::Kill => self.kill(pending),
            Plan::AwaitEnd => self.wait(pending, Interest::End),
            Plan::ReadPiece => self.read(pending, ReadMode::Piece, size),
            Plan::End => Next::Ends(RequestEnd::Cut),
            Plan::Long | Plan::Pieces | Plan::Shared | Plan::Fields | Plan::Later => {
                let mut data = self.body(pending, size);
                if let Framing::Length(_) = framing {
                    data.truncate(left);
                    pending.pieces = Some((framing, left - data.len()));
                }
                if framing != Framing::None {
                    let status = self.exchange(pending).status.expect("begun");
                    self.expect(pending, status, &data, false);
                }
                let queued = self.server.queue_chunk(pending.id, &data).expect("begun");
                if queued.failed {
                    return self.fail(pending);
                }
                if queued.bytes <= 64 * 1024 {
                    return Next::Stays;
                }
                match self.server.send(pending.id, &[], &mut 0) {
                    None => self.fail(pending),
                    Some(Sent::All) => Next::Stays,
                    Some(_) => self.wait(pending, Interest::Write),
                }
            }
            _ if matches!(framing, Framing::Length(_)) && left > 0 => Next::Ends(RequestEnd::Cut),
            _ => self.end_pieces(pending, if size & 1 != 0 { b"T: u\r\n" } else { b"" }),
        }
    }

    fn end_pieces(&mut self, pending: &mut Pending, trailers: &[u8]) -> Next {
        let queued = self.server.end_body(pending.id, trailers).expect("begun");
        assert!(self.server.end_body(pending.id, trailers).is_none(), "ended once");
        if queued.failed {
            return self.fail(pending);
        }
        self.exchange(pending).is_whole = true;
        self.reached.responses += 1;
        Next::Ends(RequestEnd::Complete)
    }

    /// Reads the body of the request, and compares it with a naive reading.
    fn read(&mut self, pending: &mut Pending, mode: ReadMode, size: u8) -> Next {
        let limit = if size & 4 != 0 { 20 } else { BODY_LIMIT };
        if pending.expects && self.exchange(pending).status.is_none() {
            self.exchange(pending).may_continue = true;
        }
        let mut out = b"old".to_vec();
        let read = self.server.read_body(pending.id, limit, mode, &mut out);
        let client = &self.clients[pending.client];
        let (start, framing) = client.body;
        let body = naive::body(&client.sent[start..], framing);
        if matches!(read, BodyRead::Data | BodyRead::End) {
            pending.read.extend_from_slice(&out);
            assert!(body.data.starts_with(&pending.read), "the data of the body");
        } else {
            assert!(out.is_empty(), "data without a result");
        }
        if read == BodyRead::End || read == BodyRead::Data && mode == ReadMode::Whole {
            assert!(body.is_valid && body.length.is_some() && body.data == pending.read, "the whole body");
            pending.read_all = true;
        }
        match read {
            BodyRead::Data | BodyRead::End => Next::Stays,
            BodyRead::Pending => {
                // A reset discards the bytes that the server has not read.
                let is_possible = body.length.is_none() || client.wire.unread() > 0 || client.is_cut;
                assert!(is_possible, "a complete body is read");
                self.wait(pending, Interest::Read)
            }
            BodyRead::Refused(reject) => {
                if reject.status == 413 {
                    assert!(body.data.len() as u64 > limit || body.length.is_none() || !body.is_valid);
                } else {
                    assert!(!client.is_valid, "a valid body is not refused");
                }
                Next::Stays
            }
            BodyRead::Truncated => {
                assert!(body.length.is_none());
                Next::Stays
            }
            BodyRead::Failed(_) => self.fail(pending),
            BodyRead::Late => panic!("the request is being handled"),
        }
    }

    fn wait(&mut self, pending: &mut Pending, what: Interest) -> Next {
        let waits = self.server.wait(pending.id, what, self.clock);
        let index = match what {
            Interest::Read => 0,
            Interest::Write => 1,
            Interest::End => 2,
        };
        pending.waits[index] |= waits;
        match what {
            Interest::End => Next::Stays,
            _ if waits => Next::Stays,
            _ => self.fail(pending),
        }
    }

    /// Continues a handler whose task waited.
    pub(super) fn resume(&mut self, id: RequestId, reason: ResumeReason) {
        let Some(at) = self.pending.iter().position(|one| one.id == id) else {
            assert!(self.ended.contains(&id), "a known request");
            return;
        };
        self.reached.resumed += 1;
        self.allowed += 6;
        let mut pending = self.pending.remove(at);
        let awaited = match reason {
            ResumeReason::Readable | ResumeReason::ReadTimeOut => &mut pending.waits[..1],
            ResumeReason::Writable | ResumeReason::WriteTimeOut => &mut pending.waits[1..2],
            ResumeReason::PeerEnded => &mut pending.waits[2..],
            ResumeReason::Closed => &mut pending.waits[..],
        };
        assert!(awaited.contains(&true), "{reason:?} ends a wait");
        awaited.fill(false);
        let next = match reason {
            ResumeReason::Readable | ResumeReason::PeerEnded => Next::Stays,
            ResumeReason::Writable if pending.rest.is_some() => self.send_rest(&mut pending),
            ResumeReason::Writable => match self.server.send(id, &[], &mut 0) {
                None => self.fail(&pending),
                Some(Sent::All) => Next::Stays,
                Some(_) => self.wait(&mut pending, Interest::Write),
            },
            ResumeReason::ReadTimeOut => {
                self.server.close_after(id);
                match pending.rest.is_some() || pending.pieces.is_some() {
                    true => self.fail(&pending),
                    false => self.respond(&mut pending, 408, MediaType::Text, 0),
                }
            }
            ResumeReason::WriteTimeOut | ResumeReason::Closed => self.fail(&pending),
        };
        self.proceed(pending, next);
    }

    fn kill(&mut self, pending: &Pending) -> Next {
        self.clients[pending.client].is_cut = true;
        self.server.abandon(pending.id);
        Next::Gone
    }

    /// Takes over the connection, and checks the bytes that come with it.
    fn detach(&mut self, pending: &Pending) -> Next {
        let detached = self.server.detach(pending.id).expect("the request is being handled");
        let client = &mut self.clients[pending.client];
        let (start, framing) = client.body;
        let left = detached.input.len() + client.wire.unread();
        let read = client.sent.len() - left;
        if !client.is_cut {
            assert!(client.sent[..read.max(start)].len() == read, "no byte of the body is lost");
            assert_eq!(detached.input, client.sent[read..read + detached.input.len()], "the unread bytes");
            if framing == naive::Framing::None {
                assert_eq!(read, start, "the unread bytes begin after the head");
            }
        }
        client.is_detached = true;
        // The new owner sends the queued bytes first.
        drop(detached.transport);
        client.may_continue = client.exchanges.pop().is_some_and(|exchange| exchange.may_continue);
        client.wire.append(&detached.output);
        self.reached.detached += 1;
        Next::Gone
    }

    /// Calls functions for a request that has ended: they must do nothing.
    pub(super) fn use_ended(&mut self, which: u8) {
        if self.ended.is_empty() {
            return;
        }
        let id = self.ended[usize::from(which) % self.ended.len()];
        let (server, clock) = (&mut self.server, self.clock);
        let response = Response { status: 200, media_type: MediaType::Text, body: Body::Bytes(b"late") };
        assert_eq!(server.respond(id, response, clock), Responded::Late);
        assert!(server.head(id).is_none() && server.draft(id).is_none() && server.existing_draft(id).is_none());
        assert!(server.begin_body(id, 200, MediaType::Text, clock).is_none());
        assert!(server.queue_chunk(id, b"late").is_none() && server.end_body(id, b"").is_none());
        assert!(!server.wait(id, Interest::Read, clock) && server.send(id, b"late", &mut 0).is_none());
        assert_eq!(server.read_body(id, 10, ReadMode::Whole, &mut Vec::new()), BodyRead::Late);
        assert!(server.detach(id).is_none() && server.queued(id).is_none() && !server.is_whole(id));
        server.take_head(id);
        server.close_after(id);
        server.abandon(id);
        server.end(id, RequestEnd::Complete);
    }

    /// Completes all requests that are being handled. Returns whether there was one.
    pub(super) fn complete_all(&mut self) -> bool {
        let all = std::mem::take(&mut self.pending);
        let any = !all.is_empty();
        for mut pending in all {
            let next = self.run(&mut pending, Plan::Respond, 0);
            self.proceed(pending, next);
        }
        any
    }
}
