//! Responses: as a whole, or as a head followed by pieces of the body. Length, date and keep-alive are set
//! automatically.

use super::connection::{Connection, Expects, NextRequest, ResponseState, State};
use super::draft::Draft;
use super::read_buffer::ReadBuffer;
use super::settings::{Clock, MAX_COPIED_BODY, MAX_DISCARDED, MAX_QUEUED_BODY};
use super::{RequestId, SPARE, Server, Transport, handling_connection};
use crate::codec::http1::body::Framing;
use crate::codec::http1::head::Method;
use crate::codec::http1::status::Reject;
use crate::codec::http1::write::{self, HandlerFields, Persistence, ResponseHead};
use crate::stream::queue::Sent;
use bytes::Bytes;
use slab::Slab;

/// A whole response, in addition to the fields of its draft.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// 200 to 599.
    pub(crate) status: u16,
    pub(crate) media_type: MediaType<'a>,
    pub(crate) body: Body<'a>,
}

/// The media type of a body; ignored if a field sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MediaType<'a> {
    Text,
    Json,
    Given(&'a [u8]),
    None,
}

#[derive(Debug)]
pub(crate) enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// Bytes that many queues share.
    Shared(Bytes),
}

/// The result of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Responded {
    /// The whole response is queued.
    Done,
    /// The body is long, and this number of its bytes are sent. The caller sends the rest, see [`Server::send`].
    Rest(usize),
    /// A response was begun before, or the request has ended; the call has no effect.
    Late,
}

/// The state of the queue after a piece was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    pub(crate) bytes: usize,
    /// The peer receives nothing from now on.
    pub(crate) failed: bool,
}

#[cfg(test)]
impl<'a> Response<'a> {
    /// A response 200 with a text.
    pub(crate) const fn text(body: &'a [u8]) -> Self {
        Response { status: 200, media_type: MediaType::Text, body: Body::Bytes(body) }
    }
}

impl Body<'_> {
    fn length(&self) -> usize {
        match self {
            Body::None => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Shared(bytes) => bytes.len(),
        }
    }
}

impl<'a> MediaType<'a> {
    fn name(self) -> Option<&'a [u8]> {
        match self {
            MediaType::Text => Some(write::DefaultType::Text.name()),
            MediaType::Json => Some(write::DefaultType::Json.name()),
            MediaType::Given(name) => Some(name),
            MediaType::None => None,
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Decides about keep-alive after the response whose head is being written. The connection closes if the client
    /// still waits to send an unread body, or if the unread rest of a body is too long.
    #[inline]
    fn decide_keep_alive(&mut self, read_buffer: &ReadBuffer, slot: usize, close: bool) -> Persistence {
        let State::Handling(handling) = &mut self.state else {
            self.next = NextRequest::None;
            return Persistence { keep_alive: false, version: 11 };
        };
        if !handling.body.is_done() {
            let available = read_buffer.bytes(slot, &self.input).len().saturating_sub(handling.head_left as usize);
            let left = handling.body.left().unwrap_or(0).saturating_sub(available as u64);
            let held_back = handling.expects == Expects::Continue && available == 0;
            if held_back || left > 0 && left + handling.body.received() > MAX_DISCARDED {
                handling.next = NextRequest::None;
            }
        }
        handling.expects = Expects::Nothing;
        if close || handling.next == NextRequest::None {
            self.next = NextRequest::None;
        }
        Persistence { keep_alive: self.next == NextRequest::Follows, version: handling.version }
    }

    /// Records that the head of a whole response is queued. Returns whether a body follows.
    #[inline]
    fn end_head(&mut self) -> bool {
        self.body_from = Some(self.sent + self.queued() as u64);
        let State::Handling(handling) = &mut self.state else {
            return false;
        };
        handling.response_state = ResponseState::Whole;
        handling.method != Method::Head
    }
}

/// Returns the connection of a request without a response so far, and its draft, if it has one.
#[inline]
fn open<T: Transport>(
    connections: &mut Slab<Connection<T>>, id: RequestId,
) -> Option<(&mut Connection<T>, Option<Box<Draft>>)> {
    let connection = handling_connection(connections, id)?;
    let draft = connection.handling()?.response_state.draft()?.take();
    Some((connection, draft))
}

impl<T: Transport> Server<T> {
    /// Queues the response to a request.
    #[inline]
    pub(crate) fn respond(&mut self, id: RequestId, response: Response<'_>, clock: Clock) -> Responded {
        let Some((connection, draft)) = open(&mut self.connections, id) else {
            return Responded::Late;
        };
        let slot = id.slot();
        let plain = match (&response, &draft) {
            (Response { status: 200, media_type: MediaType::Text, .. }, None) => Some(write::DefaultType::Text),
            (Response { status: 200, media_type: MediaType::Json, .. }, None) => Some(write::DefaultType::Json),
            _ => None,
        };
        let (Some(default_type), Body::Bytes(body)) = (plain, &response.body) else {
            return self.respond_set(slot, response, draft, clock);
        };
        let persists = connection.decide_keep_alive(&self.read_buffer, slot, false);
        let date = self.date.get(clock.unix);
        let queue = connection.queue(&mut self.spare_queues);
        queue.append(|out| write::plain(out, default_type, body.len(), persists, date));
        match connection.end_head() {
            false => Responded::Done,
            true if body.len() <= MAX_COPIED_BODY => {
                connection.count_body(body.len());
                connection.queue(&mut self.spare_queues).append(|out| out.extend_from_slice(body));
                Responded::Done
            }
            true => self.queue_body(slot, response.body),
        }
    }

    /// Queues a response with its own status, fields or media type.
    fn respond_set(
        &mut self, slot: usize, response: Response<'_>, draft: Option<Box<Draft>>, clock: Clock,
    ) -> Responded {
        let (status, length, media_type) = (response.status, response.body.length(), response.media_type.name());
        let handling = self.connections[slot].handling();
        let is_head = handling.is_some_and(|handling| handling.method == Method::Head);
        self.write_head(slot, status, draft, clock, |fields| {
            let framing = Framing::of_whole(status, is_head, length, fields.length);
            let bodied = framing != Framing::None && length > 0 && !write::body_is_empty(status);
            (framing, media_type.filter(|_| bodied))
        });
        match self.connections[slot].end_head() && write::body_allowed(status) && !write::body_is_empty(status) {
            true => self.queue_body(slot, response.body),
            false => Responded::Done,
        }
    }

    /// Writes a head with the fields of `draft`, which is then reused. `frame` returns the framing and the media type
    /// of the body.
    fn write_head<'k>(
        &mut self, slot: usize, status: u16, draft: Option<Box<Draft>>, clock: Clock,
        frame: impl FnOnce(&HandlerFields) -> (Framing, Option<&'k [u8]>),
    ) -> Framing {
        // The properties of the fields must be known before the end of the head is written.
        let mut lines = std::mem::take(&mut self.scratch);
        lines.clear();
        let fields = draft.as_ref().map_or_else(HandlerFields::default, |draft| draft.write(&mut lines));
        if let Some(draft) = draft {
            self.recycle_draft(draft);
        }
        let (framing, media_type) = frame(&fields);
        let connection = &mut self.connections[slot];
        let persists =
            connection.decide_keep_alive(&self.read_buffer, slot, fields.close || framing == Framing::UntilClose);
        let date = self.date.get(clock.unix);
        let head = ResponseHead { status, lines: &lines, fields, media_type, framing, persists, date };
        connection.queue(&mut self.spare_queues).append(|out| head.write(out));
        self.scratch = lines;
        framing
    }

    pub(super) fn recycle_draft(&mut self, mut draft: Box<Draft>) {
        if self.spare_drafts.len() < SPARE {
            draft.reset();
            self.spare_drafts.push(draft);
        }
    }

    /// Queues a whole body, unless it is long.
    fn queue_body(&mut self, slot: usize, body: Body<'_>) -> Responded {
        let connection = &mut self.connections[slot];
        match body {
            Body::None => {}
            Body::Bytes(bytes) if bytes.len() <= MAX_COPIED_BODY => {
                connection.count_body(bytes.len());
                connection.queue(&mut self.spare_queues).append(|out| out.extend_from_slice(bytes));
            }
            Body::Bytes(bytes) => return self.send_long(slot, bytes),
            Body::Shared(bytes) => {
                connection.count_body(bytes.len());
                connection.queue(&mut self.spare_queues).push_shared(bytes);
            }
        }
        Responded::Done
    }

    /// Sends a long body without a copy. If it is at most [`MAX_QUEUED_BODY`] bytes long, the part that the system does not
    /// accept is copied.
    fn send_long(&mut self, slot: usize, body: &[u8]) -> Responded {
        let mut taken = 0;
        self.connections[slot].count_body(body.len());
        match self.send_queue(slot, body, &mut taken) {
            Ok(Sent::All) => Responded::Done,
            Ok(_) if body.len() <= MAX_QUEUED_BODY => {
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

    /// Queues the head of a response whose body follows in pieces. Returns the framing of the pieces; `None` if a
    /// response was begun before, or the request has ended.
    pub(crate) fn start(
        &mut self, id: RequestId, status: u16, media_type: MediaType<'_>, clock: Clock,
    ) -> Option<Framing> {
        let (connection, draft) = open(&mut self.connections, id)?;
        let handling = connection.handling()?;
        let (version, is_head) = (handling.version, handling.method == Method::Head);
        let slot = id.slot();
        let bodied = write::body_allowed(status) && !write::body_is_empty(status);
        let media_type = media_type.name().filter(|_| bodied);
        let frame = |fields: &HandlerFields| (Framing::of_pieces(status, is_head, version, fields.length), media_type);
        let framing = self.write_head(slot, status, draft, clock, frame);
        let pieces = if is_head || !bodied { Framing::None } else { framing };
        let connection = &mut self.connections[slot];
        connection.body_from = Some(connection.sent + connection.queued() as u64);
        connection.handling()?.response_state = ResponseState::Pieces(pieces);
        self.mark_unflushed(slot);
        Some(pieces)
    }

    /// Queues a piece of a body that was started; `None` if there is no such body. The caller ensures that the total
    /// length is right.
    pub(crate) fn chunk(&mut self, id: RequestId, data: &[u8]) -> Option<Queued> {
        let handling = self.handling(id)?;
        let ResponseState::Pieces(pieces) = handling.response_state else {
            return None;
        };
        match pieces {
            Framing::None => {}
            Framing::Chunked => self.append(id.slot(), |out| write::chunk(out, data)),
            Framing::Length(_) | Framing::UntilClose => self.append(id.slot(), |out| out.extend_from_slice(data)),
        }
        self.queued(id)
    }

    /// Completes the body that was started. `trailers`: field lines after it, if it is chunked.
    pub(crate) fn finish(&mut self, id: RequestId, trailers: &[u8]) -> Option<Queued> {
        let handling = self.handling(id)?;
        let ResponseState::Pieces(pieces) = handling.response_state else {
            return None;
        };
        handling.response_state = ResponseState::Whole;
        if pieces == Framing::Chunked {
            self.append(id.slot(), |out| {
                out.extend_from_slice(b"0\r\n");
                out.extend_from_slice(trailers);
                out.extend_from_slice(b"\r\n");
            });
        }
        self.queued(id)
    }

    /// Appends to a queue that is flushed later, unless the peer has failed.
    fn append(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.connections[slot].peer != super::connection::Peer::Failed {
            self.queue(slot).append(write);
            self.mark_unflushed(slot);
        }
    }

    /// Queues a range of a file as a piece of a body that was started. Returns false if there is no such body.
    pub(crate) fn push_file(&mut self, id: RequestId, file: T::File, offset: u64, length: u64) -> bool {
        let response_state = self.handling(id).map(|handling| &handling.response_state);
        let is_begun = matches!(response_state, Some(ResponseState::Pieces(Framing::Length(_) | Framing::UntilClose)));
        if is_begun {
            self.queue(id.slot()).push_file(file, offset, length);
        }
        is_begun
    }

    /// Queues a response that refuses the request; the connection closes after it.
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
        let (persists, date) = (Persistence { keep_alive: false, version }, self.date.get(clock.unix));
        let mut text = Vec::new();
        let body = write::simple(&mut text, reject.status, reject.reason, persists, date);
        if is_head {
            text.truncate(body);
        }
        self.queue(slot).append(|out| out.extend_from_slice(&text));
    }
}
