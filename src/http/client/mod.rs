//! The client's side of HTTP as a state machine without Lua: the responses that arrive on one connection, one after
//! another. `codec::http1::response_head` parses heads, `codec::http1::body` parses bodies.
//!
//! No call waits: each call processes only what has arrived. Invariant: the next head is parsed only after the previous
//! body is complete, and no request may follow an ambiguous response.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;

use crate::codec::http1::body::{self, BodyEvent};
use crate::codec::http1::fields::Fields;
use crate::codec::http1::head::Progress;
use crate::codec::http1::reject::Reject;
use crate::codec::http1::response_head::{self, Head, RequestKind};
use crate::stream::{Filled, Stream, next_read};
use std::io;
use std::ops::Range;

/// The source of responses.
pub(crate) trait Input {
    /// The bytes that were read and not consumed.
    fn buffered(&self) -> &[u8];
    /// Removes the first `count` buffered bytes.
    fn consume(&mut self, count: usize);
    /// Reads once, into free space for at least `want` bytes.
    fn fill(&mut self, want: usize) -> io::Result<Filled>;
    /// Whether more bytes can arrive, because neither side has closed the connection.
    fn is_open(&self) -> bool;
}

impl Input for Stream {
    fn buffered(&self) -> &[u8] {
        self.buffered()
    }
    fn consume(&mut self, count: usize) {
        self.consume(count);
    }
    fn fill(&mut self, want: usize) -> io::Result<Filled> {
        self.fill(want)
    }
    fn is_open(&self) -> bool {
        !self.has_ended() && !self.is_closed()
    }
}

/// The result of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ResponseRead<T> {
    Ready(T),
    /// The body is complete.
    End,
    /// The call would block; the input is armed for reading.
    WouldBlock,
    /// The peer has closed the connection before the end of the response.
    Truncated,
    /// The response is malformed or exceeds a limit.
    Refused(Reject),
}

/// A run of body data among the buffered bytes. The caller uses the data, and then removes `consume` bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    pub(crate) data: Range<usize>,
    pub(crate) consume: usize,
}

/// A response head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(crate) version: u8,
    /// The reason phrase with its CRLF, followed by the header section.
    pub(crate) bytes: Vec<u8>,
}

/// The state of the responses of one connection.
pub(crate) struct Responses {
    limits: (usize, usize),
    request: RequestKind,
    progress: Progress,
    body: body::IncomingBody,
    /// Whether bytes of a response have arrived since the last request.
    begun: bool,
    /// Whether another request may follow, as far as is known.
    keep_alive: bool,
    /// Whether the final head of the current response has not arrived yet.
    awaits_head: bool,
    collected: Vec<u8>,
    trailers: Vec<u8>,
}

impl Responses {
    /// Creates the state. `limits`: the maximum size of a header section in bytes, and the maximum number of fields.
    pub(crate) fn new(limits: (usize, usize)) -> Self {
        Responses {
            limits,
            request: RequestKind::Other,
            progress: Progress::default(),
            body: body::IncomingBody::NONE,
            begun: false,
            keep_alive: true,
            awaits_head: false,
            collected: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// Prepares for the response to a new request.
    pub(crate) fn expect(&mut self, request: RequestKind) {
        *self = Responses { request, keep_alive: self.keep_alive, awaits_head: true, ..Responses::new(self.limits) };
    }

    /// Reads the next head, of an interim response or of the final response. `table` is overwritten.
    ///
    /// # Errors
    /// I/O errors on the connection.
    pub(crate) fn head(
        &mut self, input: &mut impl Input, table: &mut Fields,
    ) -> io::Result<ResponseRead<ResponseHead>> {
        loop {
            let buffered = input.buffered();
            if !buffered.is_empty() {
                self.begun = true;
                let (progress, limits) = (&mut self.progress, self.limits);
                match response_head::parse(buffered, self.request, limits, progress, table) {
                    Ok(Some(head)) => return Ok(ResponseRead::Ready(self.take_head(input, &head))),
                    Ok(None) => {}
                    Err(reject) => return Ok(self.refuse(reject)),
                }
            }
            match input.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(ResponseRead::WouldBlock),
                Filled::End => {
                    self.keep_alive = false;
                    return Ok(ResponseRead::Truncated);
                }
            }
        }
    }

    /// Removes a head from the buffered bytes and returns it.
    fn take_head(&mut self, input: &mut impl Input, head: &Head) -> ResponseHead {
        let bytes = &input.buffered()[head.reason.start as usize..head.head_len];
        let taken = ResponseHead { status: head.status, version: head.version, bytes: bytes.to_vec() };
        input.consume(head.head_len);
        self.progress = Progress::default();
        if head.status >= 200 || head.status == 101 {
            self.awaits_head = false;
            self.keep_alive &= head.keep_alive && head.status != 101;
            self.body = body::IncomingBody::new(head.framing);
        }
        taken
    }

    /// Reads the next piece of the body. `limit`: the maximum size of the whole body in bytes.
    ///
    /// # Errors
    /// I/O errors on the connection.
    pub(crate) fn piece(&mut self, input: &mut impl Input, limit: u64) -> io::Result<ResponseRead<Data>> {
        loop {
            let found = self.buffered_piece(input, limit);
            match found {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(reject) => return Ok(self.refuse(reject)),
            }
            match input.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(ResponseRead::WouldBlock),
                Filled::End => return Ok(self.end()),
            }
        }
    }

    /// Examines the buffered bytes of the body; `None` if more must be read.
    fn buffered_piece(&mut self, input: &mut impl Input, limit: u64) -> Result<Option<ResponseRead<Data>>, Reject> {
        loop {
            match self.body.next(input.buffered(), limit)? {
                BodyEvent::Data { data, consume } => return Ok(Some(ResponseRead::Ready(Data { data, consume }))),
                BodyEvent::End { consume, trailers } => {
                    // The trailer section has fields: it is longer than a blank line.
                    if trailers.len() > 2 {
                        self.trailers = input.buffered()[trailers].to_vec();
                    }
                    input.consume(consume);
                    return Ok(Some(ResponseRead::End));
                }
                BodyEvent::More { consume } => {
                    input.consume(consume);
                    if consume == 0 || input.buffered().is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Ends the response, because the peer has closed the connection. Returns `End` if the body is complete, otherwise
    /// `Truncated`.
    fn end<T>(&mut self) -> ResponseRead<T> {
        self.keep_alive = false;
        if self.body.end() { ResponseRead::End } else { ResponseRead::Truncated }
    }

    fn refuse<T>(&mut self, reject: Reject) -> ResponseRead<T> {
        self.keep_alive = false;
        ResponseRead::Refused(reject)
    }

    /// Reads the rest of the body as a whole. If the result is `Ready`, the body is among the buffered bytes; if it is
    /// `End`, [`Responses::take_collected`] returns the body.
    ///
    /// # Errors
    /// I/O errors on the connection.
    pub(crate) fn whole(&mut self, input: &mut impl Input, limit: u64) -> io::Result<ResponseRead<Data>> {
        if let (Some(left @ 1..), true) = (self.body.left(), self.collected.is_empty()) {
            if let Err(reject) = self.body.check(limit) {
                return Ok(self.refuse(reject));
            }
            let want = left as usize;
            while input.buffered().len() < want {
                match input.fill(next_read(want, input.buffered().len()))? {
                    Filled::Some => {}
                    Filled::WouldBlock => return Ok(ResponseRead::WouldBlock),
                    Filled::End => return Ok(self.end()),
                }
            }
            return self.piece(input, limit);
        }
        loop {
            match self.piece(input, limit)? {
                ResponseRead::Ready(Data { data, consume }) => {
                    self.collected.extend_from_slice(&input.buffered()[data]);
                    input.consume(consume);
                }
                other => return Ok(other),
            }
        }
    }

    /// Returns the bytes that [`Responses::whole`] has collected.
    pub(crate) fn take_collected(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.collected)
    }

    /// Whether bytes of a response to the current request have arrived.
    pub(crate) fn has_begun(&self, input: &impl Input) -> bool {
        self.begun || !input.buffered().is_empty()
    }

    /// Whether the response was read completely.
    pub(crate) fn is_complete(&self) -> bool {
        !self.awaits_head && self.body.is_done()
    }

    /// Whether another request may be sent now: the response is complete, and no unexpected bytes have arrived.
    pub(crate) fn is_reusable(&self, input: &impl Input) -> bool {
        self.keep_alive && self.is_complete() && input.buffered().is_empty() && input.is_open()
    }

    /// Returns the trailer section of the current chunked body after the body was read; empty if there is none.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers
    }
}
