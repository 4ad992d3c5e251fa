//! The answers that come in on one stream, in turn.
//!
//! Nothing here waits or knows Lua: each call does what can be done now. Invariant: the next head is
//! looked for only when the body before is complete, and after anything doubtful no request may follow.

use crate::codec::http1::chunked::Chunked;
use crate::codec::http1::fields::Fields;
use crate::codec::http1::reply::{self, Asked, Ends, Head, Progress};
use crate::codec::http1::status::Reject;
use crate::stream::{Filled, Stream};
use std::io;

/// The least room that reading a whole body makes.
const ROOM: usize = 16 * 1024;

/// What reading came to.
#[derive(Clone, Copy)]
pub(super) enum Found<T> {
    /// That, among the buffered bytes.
    There(T),
    /// The body is complete.
    End,
    /// Armed for reading.
    WouldBlock,
    /// The peer ended before the answer did.
    Truncated,
    /// The answer is malformed, or over a limit.
    Refused(Reject),
}

/// A run of body data among the buffered bytes, of which `consume` are to be dropped afterwards.
#[derive(Clone, Copy)]
pub(super) struct Data {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) consume: usize,
}

#[derive(Clone, Copy)]
enum Body {
    Done,
    Length(u64),
    Chunked(Chunked),
    Close,
}

/// The state of one connection's answers.
pub(super) struct Incoming {
    limits: (usize, usize),
    asked: Asked,
    progress: Progress,
    body: Body,
    /// Bytes of the current body that were handed out.
    received: u64,
    /// Whether bytes of an answer have come since the last request.
    begun: bool,
    /// Whether another request may follow, as far as is known.
    keep_alive: bool,
    /// Between a request and its final head.
    awaits_head: bool,
    collected: Vec<u8>,
    trailers: Vec<u8>,
}

impl Incoming {
    /// `limits`: bytes of a header section, number of its fields.
    pub(super) fn new(limits: (usize, usize)) -> Self {
        Incoming {
            limits,
            asked: Asked::Other,
            progress: Progress::default(),
            body: Body::Done,
            received: 0,
            begun: false,
            keep_alive: true,
            awaits_head: false,
            collected: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// A request goes out.
    pub(super) fn expect(&mut self, asked: Asked) {
        self.asked = asked;
        self.progress = Progress::default();
        self.body = Body::Done;
        self.received = 0;
        self.begun = false;
        self.awaits_head = true;
        self.collected = Vec::new();
        self.trailers.clear();
    }

    /// Looks for the next head, of an interim answer or of the final one, which [`Incoming::take`] takes.
    pub(super) fn head(
        &mut self,
        stream: &mut Stream,
        table: &mut Fields,
    ) -> io::Result<Found<Head>> {
        loop {
            let buffered = stream.buffered();
            self.begun |= !buffered.is_empty();
            if !buffered.is_empty() {
                match reply::parse(buffered, self.asked, self.limits, &mut self.progress, table) {
                    Ok(Some(head)) => return Ok(Found::There(head)),
                    Ok(None) => {}
                    Err(reject) => {
                        self.keep_alive = false;
                        return Ok(Found::Refused(reject));
                    }
                }
            }
            match stream.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Found::WouldBlock),
                Filled::End => {
                    self.keep_alive = false;
                    return Ok(Found::Truncated);
                }
            }
        }
    }

    /// Takes the head that [`Incoming::head`] found: it is consumed.
    pub(super) fn take(&mut self, stream: &mut Stream, head: &Head) {
        stream.consume(head.head_len);
        self.progress = Progress::default();
        if head.status < 200 && head.status != 101 {
            return;
        }
        self.awaits_head = false;
        self.keep_alive &= head.keep_alive && head.status != 101;
        self.body = match head.ends {
            Ends::None => Body::Done,
            Ends::Length(length) => Body::Length(length),
            Ends::Chunked => Body::Chunked(Chunked::new()),
            Ends::Close => Body::Close,
        };
    }

    /// The next piece of the body; `limit`: bytes that the whole body may have.
    pub(super) fn piece(&mut self, stream: &mut Stream, limit: u64) -> io::Result<Found<Data>> {
        loop {
            if let Some(reject) = self.over(limit) {
                return Ok(Found::Refused(reject));
            }
            let found = self.look(stream);
            if let Some(reject) = self.over(limit) {
                return Ok(Found::Refused(reject));
            }
            if let Some(found) = found {
                return Ok(found);
            }
            match stream.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Found::WouldBlock),
                Filled::End => return Ok(self.ended()),
            }
        }
    }

    fn ended<T>(&mut self) -> Found<T> {
        self.keep_alive = false;
        match self.body {
            Body::Close => {
                self.body = Body::Done;
                Found::End
            }
            _ => Found::Truncated,
        }
    }

    /// What the buffered bytes tell of the body; `None` when more must be read.
    fn look(&mut self, stream: &mut Stream) -> Option<Found<Data>> {
        loop {
            let there = stream.buffered().len();
            let run = match &mut self.body {
                Body::Done => return Some(Found::End),
                Body::Length(left) => (there as u64).min(*left) as usize,
                Body::Close => there,
                Body::Chunked(decoder) => {
                    let step = match decoder.next(stream.buffered()) {
                        Ok(step) => step,
                        Err(reject) => return Some(self.refuse(reject)),
                    };
                    if step.done {
                        self.body = Body::Done;
                    }
                    if let Some(section) = step.trailers.filter(|section| section.len() > 2) {
                        self.trailers = stream.buffered()[section].to_vec();
                    }
                    if let Some(data) = step.data {
                        self.received += data.len() as u64;
                        return Some(Found::There(Data {
                            from: data.start,
                            to: data.end,
                            consume: step.consumed,
                        }));
                    }
                    stream.consume(step.consumed);
                    if !step.done && (step.consumed == 0 || stream.buffered().is_empty()) {
                        return None;
                    }
                    continue;
                }
            };
            if run == 0 {
                return None;
            }
            self.received += run as u64;
            if let Body::Length(left) = &mut self.body {
                *left -= run as u64;
                if *left == 0 {
                    self.body = Body::Done;
                }
            }
            return Some(Found::There(Data {
                from: 0,
                to: run,
                consume: run,
            }));
        }
    }

    fn refuse<T>(&mut self, reject: Reject) -> Found<T> {
        self.keep_alive = false;
        Found::Refused(reject)
    }

    /// Refuses a body that is, or will be, over the limit, before it has come.
    fn over(&mut self, limit: u64) -> Option<Reject> {
        let announced = match &self.body {
            Body::Done | Body::Close => self.received,
            Body::Length(left) => self.received + left,
            Body::Chunked(decoder) => decoder.announced(),
        };
        if announced <= limit {
            return None;
        }
        self.keep_alive = false;
        Some(Reject::new(413, "the body is larger than allowed"))
    }

    /// Reads the rest of the body as a whole: what was there is in [`Incoming::collected`] at the end, or,
    /// told by `There`, among the buffered bytes.
    pub(super) fn whole(&mut self, stream: &mut Stream, limit: u64) -> io::Result<Found<Data>> {
        if let (Body::Length(left), true) = (self.body, self.collected.is_empty()) {
            if let Some(reject) = self.over(limit) {
                return Ok(Found::Refused(reject));
            }
            let want = left as usize;
            while stream.buffered().len() < want {
                // What the peer only announced costs no memory: the room doubles with what came.
                let there = stream.buffered().len();
                match stream.fill((want - there).min(there.max(ROOM)))? {
                    Filled::Some => {}
                    Filled::WouldBlock => return Ok(Found::WouldBlock),
                    Filled::End => return Ok(self.ended()),
                }
            }
            self.body = Body::Done;
            self.received += left;
            return Ok(Found::There(Data {
                from: 0,
                to: want,
                consume: want,
            }));
        }
        loop {
            match self.piece(stream, limit)? {
                Found::There(data) => {
                    let bytes = &stream.buffered()[data.from..data.to];
                    self.collected.extend_from_slice(bytes);
                    stream.consume(data.consume);
                }
                other => return Ok(other),
            }
        }
    }

    /// What [`Incoming::whole`] has put together.
    pub(super) fn collected(&mut self) -> &mut Vec<u8> {
        &mut self.collected
    }

    /// Frees the memory of what [`Incoming::whole`] has put together, once that was taken.
    pub(super) fn free_collected(&mut self) {
        if self.collected.is_empty() {
            self.collected = Vec::new();
        }
    }

    /// Whether bytes of an answer to the current request have come.
    pub(super) fn has_begun(&self, stream: &Stream) -> bool {
        self.begun || !stream.buffered().is_empty()
    }

    /// Whether the body was read to its end.
    pub(super) fn is_complete(&self) -> bool {
        !self.awaits_head && matches!(self.body, Body::Done)
    }

    /// Whether another request may be sent now: nothing is left of this answer, and nothing came that
    /// nobody asked for.
    pub(super) fn is_reusable(&self, stream: &Stream) -> bool {
        self.keep_alive
            && self.is_complete()
            && stream.buffered().is_empty()
            && !stream.has_ended()
            && !stream.is_closed()
    }

    /// The fields behind the current chunked body, once that was read.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }
}
