//! Request bodies, which handlers read as a whole or in pieces. `request` discards unread bodies.

use super::connection::{Expects, NextRequest, State};
use super::work::Filled;
use super::{RequestId, Server, Transport};
use crate::codec::http1::body::BodyEvent;
use crate::codec::http1::reject::Reject;
use crate::codec::http1::write;
use std::io;

/// The part of a body to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadMode {
    /// The rest of the body.
    Whole,
    /// The data that has arrived.
    Piece,
}

/// The result of reading a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyRead {
    /// The caller's buffer contains the rest of the body ([`ReadMode::Whole`]), or at least one byte of it.
    Data,
    /// The body is complete; only for [`ReadMode::Piece`].
    End,
    /// More data is needed; the connection is armed for reading.
    Pending,
    /// The peer has closed before the end of the body.
    Truncated,
    /// The framing is malformed, or the body exceeds the limit.
    Refused(Reject),
    /// The connection has failed.
    Failed(io::ErrorKind),
    /// The request has ended.
    Late,
}

impl<T: Transport> Server<T> {
    /// Reads the body of a request into `out`, whose content is replaced. `limit`: the maximum size of the whole body
    /// in bytes.
    pub(crate) fn read_body(&mut self, id: RequestId, limit: u64, mode: ReadMode, out: &mut Vec<u8>) -> BodyRead {
        out.clear();
        if self.handling_connection(id).is_none() {
            return BodyRead::Late;
        }
        self.take_head(id);
        let slot = id.slot();
        loop {
            let failure = match self.read_available(slot, limit, mode, out) {
                Ok(Some(read)) => return read,
                Ok(None) => match self.fill(slot) {
                    Filled::Some => {
                        self.record_progress(slot);
                        continue;
                    }
                    Filled::WouldBlock => {
                        // A part of a record has arrived, or the end of an earlier one was read.
                        if self.connections[slot].transport.is_encrypted() {
                            self.record_progress(slot);
                        }
                        return BodyRead::Pending;
                    }
                    Filled::End => BodyRead::Truncated,
                    Filled::Failed(kind) => BodyRead::Failed(kind),
                },
                Err(reject) => BodyRead::Refused(reject),
            };
            self.end_keep_alive(slot);
            return failure;
        }
    }

    /// Whether a part of the body would be lost if the connection was detached; see `Handling::holds_part`.
    pub(crate) fn holds_part(&mut self, id: RequestId) -> bool {
        self.handling(id).is_some_and(|handling| handling.holds_part())
    }

    /// Returns the trailer section of a request's chunked body after it was read; empty if there is none.
    pub(crate) fn trailers(&mut self, id: RequestId) -> &[u8] {
        self.handling(id).and_then(|handling| handling.extras_ref()).map_or(&[], |extras| &extras.trailers)
    }

    /// Records that bytes of the body have arrived.
    fn record_progress(&mut self, slot: usize) {
        if let Some(handling) = self.connections[slot].handling() {
            handling.record_progress();
        }
    }

    /// Makes the connection close after the current request.
    fn end_keep_alive(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.next = NextRequest::None;
        if let Some(handling) = connection.handling() {
            handling.next = NextRequest::None;
        }
    }

    /// Reads the available data; `None` if more data is needed.
    fn read_available(
        &mut self, slot: usize, limit: u64, mode: ReadMode, out: &mut Vec<u8>,
    ) -> Result<Option<BodyRead>, Reject> {
        if let Some(handling) = self.connections[slot].handling() {
            handling.body.check(limit)?;
        }
        self.send_continue(slot);
        let connection = &mut self.connections[slot];
        let State::Handling(handling) = &mut connection.state else {
            return Ok(Some(BodyRead::Late));
        };
        if mode == ReadMode::Piece && handling.holds_part() {
            // An earlier call for the whole body has ended before the body was complete.
            *out = std::mem::take(&mut handling.extras().collected);
            return Ok(Some(BodyRead::Data));
        }
        loop {
            let bytes = self.read_buffer.bytes(slot, &connection.input);
            // A body with an announced length is returned only once all of it has arrived.
            if mode == ReadMode::Whole
                && let Some(left) = handling.body.left()
                && left > bytes.len() as u64
            {
                return Ok(None);
            }
            let consume = match handling.body.next(bytes, limit)? {
                BodyEvent::Data { data, consume } => {
                    let is_whole = handling.body.is_done() && !handling.holds_part();
                    let is_part = mode == ReadMode::Whole && !is_whole;
                    let to = if is_part { &mut handling.extras().collected } else { &mut *out };
                    to.extend_from_slice(&bytes[data]);
                    self.read_buffer.consume(slot, &mut connection.input, consume);
                    if mode == ReadMode::Piece || is_whole {
                        return Ok(Some(BodyRead::Data));
                    }
                    continue;
                }
                BodyEvent::End { consume, trailers } => {
                    if trailers.len() > 2 {
                        handling.extras().trailers = bytes[trailers].to_vec();
                    }
                    self.read_buffer.consume(slot, &mut connection.input, consume);
                    return Ok(Some(match mode {
                        ReadMode::Piece => BodyRead::End,
                        ReadMode::Whole => {
                            if handling.extras_ref().is_some() {
                                *out = std::mem::take(&mut handling.extras().collected);
                            }
                            BodyRead::Data
                        }
                    }));
                }
                BodyEvent::More { consume } => consume,
            };
            self.read_buffer.consume(slot, &mut connection.input, consume);
            return Ok(None);
        }
    }

    /// Sends `100 Continue` to a client that waits for it, unless bytes of the body have arrived (RFC 9110 section
    /// 10.1.1).
    fn send_continue(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let is_empty = self.read_buffer.bytes(slot, &connection.input).is_empty();
        let Some(handling) = connection.handling() else { return };
        let expects = std::mem::replace(&mut handling.expects, Expects::Nothing);
        if expects == Expects::Continue && is_empty && handling.response_state.is_open() {
            self.queue(slot).append(|out| out.extend_from_slice(write::CONTINUE));
            self.flush_handled(slot);
        }
    }
}
