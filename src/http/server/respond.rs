//! Answers: as a whole, or in pieces behind their head. Length, date and persistence are right by themselves.

use super::connection::{Answer, Connection, Expects, NextRequest, Pieces, State};
use super::draft::Draft;
use super::settings::{AT_ONCE, Clock, DISCARD_MOST, INLINE};
use super::{RequestId, SPARE, Server, Transport};
use crate::codec::http1::head::Method;
use crate::codec::http1::status::Reject;
use crate::codec::http1::write::{self, Framing, Persistence, ResponseHead, Seen};
use crate::stream::queue::Sent;
use bytes::Bytes;

/// An answer as a whole, beside what its draft has.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// 200 to 599.
    pub(crate) status: u16,
    pub(crate) kind: Kind<'a>,
    pub(crate) body: Body<'a>,
}

/// The media type of a body, unless a field names one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    Text,
    Json,
    Given(&'a [u8]),
    None,
}

#[derive(Debug)]
pub(crate) enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// Bytes that stand in many queues.
    Shared(Bytes),
}

/// What answering came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Responded {
    /// All of it is queued.
    Done,
    /// The body is long. So many bytes of it are gone; the caller sends the rest, see [`Server::send`].
    Rest(usize),
    /// An answer was begun before, or the request is over: nothing happened.
    Late,
}

/// What is queued after a piece was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    pub(crate) bytes: usize,
    /// The peer takes no more.
    pub(crate) failed: bool,
}

#[cfg(test)]
impl<'a> Response<'a> {
    /// An answer 200 with a text.
    pub(crate) const fn text(body: &'a [u8]) -> Self {
        Response { status: 200, kind: Kind::Text, body: Body::Bytes(body) }
    }
}

impl Body<'_> {
    fn length(&self) -> u64 {
        match self {
            Body::None => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Shared(bytes) => bytes.len() as u64,
        }
    }
}

impl<'a> Kind<'a> {
    fn name(self) -> Option<&'a [u8]> {
        match self {
            Kind::Text => Some(write::Kind::Text.name()),
            Kind::Json => Some(write::Kind::Json.name()),
            Kind::Given(name) => Some(name),
            Kind::None => None,
        }
    }
}

impl<T: Transport> Server<T> {
    /// Decides whether the connection stays open after the answer whose head is being written. It cannot when the client
    /// holds back a body that nobody asked for, or when too much of one is left.
    #[inline]
    fn settle(&mut self, slot: usize, close: bool) -> Persistence {
        let connection = &mut self.connections[slot];
        let there = self.landing.bytes(slot, &connection.input).len();
        let State::Handling(handling) = &mut connection.state else {
            connection.next = NextRequest::None;
            return Persistence { keep_alive: false, version: 11 };
        };
        if !handling.body.is_done() {
            let there = there.saturating_sub(handling.head_left as usize);
            let left = handling.body.left().unwrap_or(0).saturating_sub(there as u64);
            let held_back = handling.expects == Expects::Continue && there == 0;
            if held_back || left > 0 && left + handling.body.received() > DISCARD_MOST {
                handling.next = NextRequest::None;
            }
        }
        handling.expects = Expects::Nothing;
        if close || handling.next == NextRequest::None {
            connection.next = NextRequest::None;
        }
        Persistence { keep_alive: connection.next == NextRequest::Follows, version: handling.version }
    }

    /// The open answer of a request: its draft, if it has one, and its connection.
    #[inline]
    fn open(&mut self, id: RequestId) -> Option<(&mut Connection<T>, Option<Box<Draft>>)> {
        let connection = self.in_work(id)?;
        let State::Handling(handling) = &mut connection.state else {
            return None;
        };
        match &mut handling.answer {
            Answer::Open { draft, .. } => {
                let draft = draft.take();
                Some((connection, draft))
            }
            _ => None,
        }
    }

    /// Queues the answer to a request.
    #[inline]
    pub(crate) fn respond(&mut self, id: RequestId, response: Response<'_>, clock: Clock) -> Responded {
        let Some((_, draft)) = self.open(id) else {
            return Responded::Late;
        };
        let slot = id.slot();
        let plain = match (&response, &draft) {
            (Response { status: 200, kind: Kind::Text, .. }, None) => Some(write::Kind::Text),
            (Response { status: 200, kind: Kind::Json, .. }, None) => Some(write::Kind::Json),
            _ => None,
        };
        if let (Some(kind), Body::Bytes(body)) = (plain, &response.body) {
            let persists = self.settle(slot, false);
            let date = *self.date.get(clock.unix);
            let queue = self.queue(slot);
            queue.append(|out| write::plain(out, kind, body.len(), persists, &date));
            return self.end_head(slot, response.body);
        }
        self.respond_set(slot, response, draft, clock)
    }

    /// An answer with a status, fields or a type of its own.
    fn respond_set(
        &mut self, slot: usize, response: Response<'_>, draft: Option<Box<Draft>>, clock: Clock,
    ) -> Responded {
        let (status, length) = (response.status, response.body.length());
        let is_head = self.is_head_at(slot);
        let whole = usize::try_from(length).unwrap_or(usize::MAX);
        let is_empty = length == 0;
        let kind = response.kind.name();
        self.write_head(slot, status, draft, clock, |seen| {
            let framing = Framing::of_whole(status, is_head, whole, seen.length);
            let bodied = framing != Framing::None && !is_empty && !write::body_is_empty(status);
            (framing, kind.filter(|_| bodied))
        });
        match write::body_allowed(status) && !write::body_is_empty(status) {
            true => self.end_head(slot, response.body),
            false => self.end_head(slot, Body::None),
        }
    }

    /// Writes a head with the fields of `draft`, which is kept to be used again. `frame` says how its body is framed, and
    /// of which type it is.
    fn write_head<'k>(
        &mut self, slot: usize, status: u16, draft: Option<Box<Draft>>, clock: Clock,
        frame: impl FnOnce(&Seen) -> (Framing, Option<&'k [u8]>),
    ) -> Framing {
        // What has to be known of the fields before the head's end is written.
        let mut lines = std::mem::take(&mut self.scratch);
        lines.clear();
        let seen = draft.as_ref().map_or_else(Seen::default, |draft| draft.write(&mut lines));
        if let Some(draft) = draft {
            self.spare_draft(draft);
        }
        let (framing, kind) = frame(&seen);
        let persists = self.settle(slot, seen.close || framing == Framing::UntilClose);
        let date = *self.date.get(clock.unix);
        self.queue(slot).append(|out| {
            let mut head = ResponseHead::begin(out, status);
            head.lines(&lines, seen);
            head.end(kind, framing, persists, &date);
        });
        self.scratch = lines;
        framing
    }

    pub(super) fn spare_draft(&mut self, mut draft: Box<Draft>) {
        if self.drafts.len() < SPARE {
            draft.clear();
            self.drafts.push(draft);
        }
    }

    /// The head of a whole answer is queued: queues its body, unless it is long.
    #[inline]
    fn end_head(&mut self, slot: usize, body: Body<'_>) -> Responded {
        let connection = &mut self.connections[slot];
        connection.body_from = Some(connection.sent + connection.queued() as u64);
        let State::Handling(handling) = &mut connection.state else {
            return Responded::Late;
        };
        handling.answer = Answer::Whole;
        if handling.method == Method::Head {
            return Responded::Done;
        }
        match body {
            Body::None => {}
            Body::Bytes(bytes) if bytes.len() <= INLINE => {
                connection.weigh(bytes.len());
                self.queue(slot).append(|out| out.extend_from_slice(bytes));
            }
            Body::Bytes(bytes) => return self.send_long(slot, bytes),
            Body::Shared(bytes) => {
                connection.weigh(bytes.len());
                self.queue(slot).push_shared(bytes);
            }
        }
        Responded::Done
    }

    /// A long body is sent from where it is. Of one that is not too long what the system does not take is copied.
    fn send_long(&mut self, slot: usize, body: &[u8]) -> Responded {
        let mut taken = 0;
        self.connections[slot].weigh(body.len());
        match self.send_queue(slot, body, &mut taken) {
            Ok(Sent::All) => Responded::Done,
            Ok(_) if body.len() <= AT_ONCE => {
                self.queue(slot).append(|out| out.extend_from_slice(&body[taken..]));
                Responded::Done
            }
            Ok(_) => Responded::Rest(taken),
            Err(_) => {
                self.fail(slot);
                Responded::Done
            }
        }
    }

    /// Queues the head of an answer whose body follows in pieces. → how these are framed; `None` when an answer was begun
    /// before, or the request is over
    pub(crate) fn start(&mut self, id: RequestId, status: u16, kind: Kind<'_>, clock: Clock) -> Option<Pieces> {
        let (_, draft) = self.open(id)?;
        let slot = id.slot();
        let (version, is_head) = match self.connections[slot].handling() {
            Some(handling) => (handling.version, handling.method == Method::Head),
            None => return None,
        };
        let bodied = write::body_allowed(status) && !write::body_is_empty(status);
        let kind = kind.name().filter(|_| bodied);
        let framing = self.write_head(slot, status, draft, clock, |seen| {
            let framing = Framing::of_pieces(status, is_head, version, seen.length);
            (framing, kind)
        });
        let pieces = match framing {
            _ if is_head || !bodied => Pieces::None,
            Framing::Length(length) => Pieces::Length(length),
            Framing::Chunked => Pieces::Chunked,
            Framing::UntilClose => Pieces::UntilClose,
            Framing::None => Pieces::None,
        };
        let connection = &mut self.connections[slot];
        connection.body_from = Some(connection.sent + connection.queued() as u64);
        connection.handling()?.answer = Answer::Pieces(pieces);
        self.note_unflushed(slot);
        Some(pieces)
    }

    /// Queues a piece of a body that was started; `None` when there is none. How much of it is to be sent is the caller's to
    /// count.
    pub(crate) fn chunk(&mut self, id: RequestId, data: &[u8]) -> Option<Queued> {
        let handling = self.in_work(id)?.handling()?;
        let Answer::Pieces(pieces) = handling.answer else {
            return None;
        };
        match pieces {
            Pieces::None => {}
            Pieces::Chunked => self.append(id.slot(), |out| write::chunk(out, data)),
            Pieces::Length(_) | Pieces::UntilClose => {
                self.append(id.slot(), |out| out.extend_from_slice(data));
            }
        }
        self.queued(id)
    }

    /// The body that was started is complete. `trailers`: field lines behind it, where it is chunked.
    pub(crate) fn finish(&mut self, id: RequestId, trailers: &[u8]) -> Option<Queued> {
        let handling = self.in_work(id)?.handling()?;
        let Answer::Pieces(pieces) = handling.answer else {
            return None;
        };
        handling.answer = Answer::Whole;
        if pieces == Pieces::Chunked {
            self.append(id.slot(), |out| {
                out.extend_from_slice(b"0\r\n");
                out.extend_from_slice(trailers);
                out.extend_from_slice(b"\r\n");
            });
        }
        self.queued(id)
    }

    /// Appends to a queue that somebody else flushes, unless the peer takes nothing.
    fn append(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.connections[slot].peer != super::connection::Peer::Failed {
            self.queue(slot).append(write);
            self.note_unflushed(slot);
        }
    }

    /// Queues a range of a file behind the head of an answer in pieces; false when there is none.
    pub(crate) fn push_file(&mut self, id: RequestId, file: T::File, offset: u64, length: u64) -> bool {
        let answer = self.in_work(id).and_then(|found| found.handling());
        let is_begun = matches!(
            answer.map(|handling| &handling.answer),
            Some(Answer::Pieces(Pieces::Length(_) | Pieces::UntilClose))
        );
        if is_begun {
            self.queue(id.slot()).push_file(file, offset, length);
        }
        is_begun
    }

    /// Queues an answer that refuses what the connection asked for; the connection closes behind it.
    #[cold]
    pub(super) fn refuse(&mut self, slot: usize, reject: Reject, clock: Clock) {
        let connection = &mut self.connections[slot];
        connection.next = NextRequest::None;
        let state = std::mem::replace(&mut connection.state, State::Idle);
        let (version, is_head) = match state {
            State::Handling(handling) => {
                connection.state = State::after(handling.body);
                (handling.version, handling.method == Method::Head)
            }
            _ => (11, false),
        };
        let date = (&mut self.date, clock.unix);
        let mut text = Vec::new();
        let body = write::simple(&mut text, reject.status, reject.reason, false, version, date);
        if is_head {
            text.truncate(body);
        }
        self.queue(slot).append(|out| out.extend_from_slice(&text));
    }
}
