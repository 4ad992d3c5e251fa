//! Responses whose body is queued in pieces, after their head.

use super::connection::{Peer, ResponseState};
use super::respond::take_draft;
use super::response::{MediaType, Queued};
use super::settings::Clock;
use super::{RequestId, Server, Transport};
use crate::codec::http1::body::Framing;
use crate::codec::http1::head::Method;
use crate::codec::http1::write::{self, HandlerFields};

impl<T: Transport> Server<T> {
    /// Queues the head of a response whose body follows in pieces. Returns the framing of the pieces; `None` if the
    /// response has already begun, or the request has ended.
    pub(crate) fn begin_body(
        &mut self, id: RequestId, status: u16, media_type: MediaType<'_>, clock: Clock,
    ) -> Option<Framing> {
        let (connection, draft) = take_draft(&mut self.connections, id)?;
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

    /// Queues a piece of the body that [`Server::begin_body`] has started; `None` if no body was started. The caller
    /// ensures that the total length equals the announced length.
    pub(crate) fn queue_chunk(&mut self, id: RequestId, data: &[u8]) -> Option<Queued> {
        let handling = self.handling(id)?;
        let ResponseState::Pieces(pieces) = handling.response_state else { return None };
        match pieces {
            Framing::None => {}
            Framing::Chunked => self.append(id.slot(), |out| write::chunk(out, data)),
            Framing::Length(_) | Framing::UntilClose => self.append(id.slot(), |out| out.extend_from_slice(data)),
        }
        self.queued(id)
    }

    /// Queues a range of a file as a piece of the body that [`Server::begin_body`] has started. Returns false if no
    /// body was started, or if it is chunked or not sent.
    pub(crate) fn queue_file(&mut self, id: RequestId, file: T::File, offset: u64, length: u64) -> bool {
        let response_state = self.handling(id).map(|handling| &handling.response_state);
        let is_begun = matches!(response_state, Some(ResponseState::Pieces(Framing::Length(_) | Framing::UntilClose)));
        if is_begun {
            self.queue(id.slot()).push_file(file, offset, length);
        }
        is_begun
    }

    /// Completes the body that [`Server::begin_body`] has started; `None` if no body was started. `trailers`: the field
    /// lines after a chunked body.
    pub(crate) fn end_body(&mut self, id: RequestId, trailers: &[u8]) -> Option<Queued> {
        let handling = self.handling(id)?;
        let ResponseState::Pieces(pieces) = handling.response_state else { return None };
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

    /// Appends to the connection's queue, which is flushed later. Does nothing if the peer has failed.
    fn append(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.connections[slot].peer != Peer::Failed {
            self.queue(slot).append(write);
            self.mark_unflushed(slot);
        }
    }
}
