//! Whole responses, and the heads of all responses. Length, date and keep-alive are set automatically.

use super::connection::{Connection, Expects, NextRequest, ResponseState, State};
use super::draft::Draft;
use super::read_buffer::ReadBuffer;
use super::response::{Body, MediaType, Responded, Response};
use super::settings::{Clock, MAX_COPIED_BODY, MAX_DISCARDED, MAX_QUEUED_BODY};
use super::{RequestId, SPARE, Server, Transport, handling_connection};
use crate::codec::http1::body::Framing;
use crate::codec::http1::head::Method;
use crate::codec::http1::reject::Reject;
use crate::codec::http1::write::{self, HandlerFields, Persistence, ResponseHead};
use crate::stream::queue::Sent;
use slab::Slab;

impl<T: Transport> Server<T> {
    /// Queues the response to a request.
    #[inline]
    pub(crate) fn respond(&mut self, id: RequestId, response: Response<'_>, clock: Clock) -> Responded {
        let Some((connection, draft)) = take_draft(&mut self.connections, id) else {
            return Responded::Late;
        };
        let slot = id.slot();
        let plain = match (&response, &draft) {
            (Response { status: 200, media_type: MediaType::Text, .. }, None) => Some(write::DefaultType::Text),
            (Response { status: 200, media_type: MediaType::Json, .. }, None) => Some(write::DefaultType::Json),
            _ => None,
        };
        let (Some(default_type), Body::Bytes(body)) = (plain, &response.body) else {
            return self.respond_with_head(slot, response, draft, clock);
        };
        let persists = connection.decide_keep_alive(&self.read_buffer, slot, false);
        let date = self.date.get(clock.unix);
        let queue = connection.queue(&mut self.spare_queues);
        queue.append(|out| write::plain_head(out, default_type, body.len(), persists, date));
        match connection.mark_whole() {
            false => Responded::Done,
            true if body.len() <= MAX_COPIED_BODY => {
                connection.count_body(body.len());
                connection.queue(&mut self.spare_queues).append(|out| out.extend_from_slice(body));
                Responded::Done
            }
            true => self.queue_body(slot, response.body),
        }
    }

    /// Queues a response that refuses the request; the connection closes after it.
    #[cold]
    pub(super) fn refuse(&mut self, slot: usize, reject: Reject, clock: Clock) {
        let connection = &mut self.connections[slot];
        connection.next = NextRequest::None;
        let state = std::mem::replace(&mut connection.state, State::Idle { since: None });
        let (version, is_head) = match state {
            State::Handling(handling) => {
                connection.state = State::after(handling.body);
                (handling.version, handling.method == Method::Head)
            }
            _ => (11, false),
        };
        let (persists, date) = (Persistence { keep_alive: false, version }, self.date.get(clock.unix));
        let mut text = Vec::new();
        let body = write::text_response(&mut text, reject.status, reject.reason, persists, date);
        if is_head {
            text.truncate(body);
        }
        self.queue(slot).append(|out| out.extend_from_slice(&text));
    }

    /// Queues a response of any status, with any fields and media type.
    fn respond_with_head(
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
        match self.connections[slot].mark_whole() && write::body_allowed(status) && !write::body_is_empty(status) {
            true => self.queue_body(slot, response.body),
            false => Responded::Done,
        }
    }

    /// Writes a head with the fields of `draft`, which is then kept for reuse. `frame` returns the framing and the
    /// media type of the body.
    pub(super) fn write_head<'k>(
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

    fn recycle_draft(&mut self, mut draft: Box<Draft>) {
        if self.spare_drafts.len() < SPARE {
            draft.reset();
            self.spare_drafts.push(draft);
        }
    }

    /// Queues a whole body. A long body is sent immediately instead; see [`Server::send_long`].
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

    /// Sends a long body without a copy. If it is at most [`MAX_QUEUED_BODY`] bytes long, the part that the system does
    /// not accept is copied.
    fn send_long(&mut self, slot: usize, body: &[u8]) -> Responded {
        let mut sent = 0;
        self.connections[slot].count_body(body.len());
        match self.send_queue(slot, body, &mut sent) {
            Ok(Sent::All) => Responded::Done,
            Ok(_) if body.len() <= MAX_QUEUED_BODY => {
                self.queue(slot).append(|out| out.extend_from_slice(&body[sent..]));
                Responded::Done
            }
            Ok(_) => Responded::Rest(sent),
            Err(_) => {
                self.fail(slot);
                Responded::Done
            }
        }
    }
}

/// Returns the connection of a request, and takes its draft if it has one. Returns `None` if the response has begun, or
/// the request has ended.
#[inline]
pub(super) fn take_draft<T: Transport>(
    connections: &mut Slab<Connection<T>>, id: RequestId,
) -> Option<(&mut Connection<T>, Option<Box<Draft>>)> {
    let connection = handling_connection(connections, id)?;
    let draft = connection.handling()?.response_state.draft()?.take();
    Some((connection, draft))
}

impl<T: Transport> Connection<T> {
    /// Decides whether the connection persists after the response whose head is being written. The connection closes if
    /// `close` is true, if the client still waits for permission to send the body, or if the unread rest of the body is
    /// too long.
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
    fn mark_whole(&mut self) -> bool {
        self.body_from = Some(self.sent + self.queued() as u64);
        let State::Handling(handling) = &mut self.state else { return false };
        handling.response_state = ResponseState::Whole;
        handling.method != Method::Head
    }
}
