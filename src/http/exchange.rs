//! One connection's requests and answers, in turn, on its stream.
//!
//! Nothing here waits or knows Lua: each call does what can be done now and says what it waits for.
//! Invariant: a request is parsed only when the one before is answered and its body is consumed, so
//! answers leave in order; and after anything that makes the framing doubtful the connection closes.

use super::connection::Connection;
use super::due::Due;
use crate::codec::date::DateCache;
use crate::codec::http1::chunked::Chunked;
use crate::codec::http1::head::{Framing, Head, Limits, Method, Parser, Progress};
use crate::codec::http1::status::Reject;
use crate::codec::http1::write;
use crate::event::WRITE;
use crate::stream::{Filled, Stream};
use std::io;

/// How much of an unread body is read and dropped to keep the connection; beyond it, it closes.
const DRAIN_MOST: u64 = 256 * 1024;

/// So many requests in a row without a wait; then other connections get their turn.
const BURST: u8 = 64;

/// So many bytes of a body count as much as a request.
const QUANTUM: usize = 16 * 1024;

/// The least room that reading a whole body makes.
const ROOM: usize = 16 * 1024;

/// How much may be queued before the next pipelined request is looked at.
const QUEUE_MOST: usize = 64 * 1024;

/// What the codec needs once per VM.
pub(crate) struct Workspace {
    pub(crate) parser: Parser,
    /// The head that the parser has found last.
    pub(crate) head: Head,
    pub(crate) date: DateCache,
    /// For decoding; what it holds is valid until the next use.
    pub(crate) scratch: Vec<u8>,
    /// The connections whose requests wait for their handlers.
    pub(crate) due: Due,
    /// The connection whose head is still in its stream's buffer, if that was the last one; else null.
    pub(crate) heavy: *mut Connection,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Workspace {
            parser: Parser::new(),
            head: Head::default(),
            date: DateCache::new(),
            scratch: Vec::new(),
            due: Due::new(),
            heavy: std::ptr::null_mut(),
        }
    }
}

/// What a connection does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A request head is there, in [`Workspace::head`]; it is not consumed yet.
    Request,
    /// Between requests, nothing has come; armed for reading.
    Idle,
    /// Part of a head has come; armed for reading.
    Partial,
    /// The request is answered, and the rest of its body, which nobody asked for, has not come yet;
    /// armed for reading.
    Unread,
    /// The answers do not fit the send buffer, or others are to get their turn; armed for writing.
    Blocked,
    /// The connection is over: nothing more is to come, or the last answer said so.
    Over,
    /// The request is refused with this status, and the connection is to close.
    Refused(Reject),
}

/// How the body of the current request comes in.
#[derive(Clone, Copy)]
enum Body {
    /// All of it was read, or there is none.
    Done,
    Length(u64),
    Chunked(Chunked),
}

/// What reading the body came to.
#[derive(Clone, Copy)]
pub(crate) enum Piece {
    /// The buffered bytes `from..to` are body data; `consume` bytes are to be dropped afterwards.
    Data {
        from: usize,
        to: usize,
        consume: usize,
    },
    /// The body is complete.
    End,
    /// Armed for reading.
    WouldBlock,
    /// The peer ended before the body did.
    Truncated,
    /// The framing is broken, or the body is over the limit.
    Refused(Reject),
}

/// The HTTP state of one connection.
pub(crate) struct Exchange {
    progress: Progress,
    /// Bytes of the current request's head that are still in the stream's buffer.
    undropped: usize,
    pub(crate) limits: Limits,
    body: Body,
    /// Bytes of the current body that were received.
    received: u64,
    /// A chunked body that is read as a whole.
    collected: Vec<u8>,
    /// The trailer section of the last chunked body, if it had fields.
    trailers: Vec<u8>,
    /// Requests since the connection last waited.
    burst: u8,
    version: u8,
    is_head: bool,
    keep_alive: bool,
    /// The client has said that it sends no more requests.
    last_of_client: bool,
    /// The client waits for `100 Continue`.
    expects: bool,
    /// The current request is answered, or the answer has begun.
    pub(crate) answered: bool,
    /// Where the body of the current answer begins, as the stream counts what it sends.
    pub(crate) body_from: Option<u64>,
    /// While the head of an answer is written, and when an error has left that: where it begins, counted likewise.
    pub(crate) head_from: Option<u64>,
    /// No request after the current one.
    pub(crate) closing: bool,
}

impl Exchange {
    pub(crate) fn new(limits: Limits) -> Self {
        Exchange {
            progress: Progress::default(),
            undropped: 0,
            limits,
            body: Body::Done,
            received: 0,
            collected: Vec::new(),
            trailers: Vec::new(),
            burst: 0,
            version: 11,
            is_head: false,
            keep_alive: true,
            last_of_client: false,
            expects: false,
            answered: true,
            body_from: None,
            head_from: None,
            closing: false,
        }
    }

    /// Goes on to the next request: drops what is left of a body, sends what is queued before it waits.
    pub(crate) fn next(
        &mut self,
        stream: &mut Stream,
        workspace: &mut Workspace,
    ) -> io::Result<Next> {
        loop {
            let looks = !self.closing && stream.queued() < QUEUE_MOST;
            if looks {
                // One that pipelines without end must not keep the loop from the others.
                if self.burst == BURST && !stream.buffered().is_empty() {
                    self.burst = 0;
                    stream.transport.arm(WRITE)?;
                    stream.send(&[], &mut 0)?;
                    return Ok(Next::Blocked);
                }
                if let Some(next) = self.look(stream, workspace) {
                    return Ok(next);
                }
            }
            if stream.queued() > 0 && !stream.send(&[], &mut 0)? {
                return Ok(Next::Blocked);
            }
            if self.closing {
                return Ok(Next::Over);
            }
            // A request may be among what is buffered already.
            if !looks {
                continue;
            }
            let waiting = match (&self.body, stream.buffered().is_empty()) {
                (Body::Done, true) => Next::Idle,
                (Body::Done, false) => Next::Partial,
                _ => Next::Unread,
            };
            match stream.fill(0)? {
                Filled::Some => {}
                Filled::End => return Ok(Next::Over),
                Filled::WouldBlock => {
                    self.burst = 0;
                    return Ok(waiting);
                }
            }
        }
    }

    /// What the buffered bytes tell.
    fn look(&mut self, stream: &mut Stream, workspace: &mut Workspace) -> Option<Next> {
        if !self.drain(stream) || stream.buffered().is_empty() {
            return None;
        }
        let (bytes, progress) = (stream.buffered(), &mut self.progress);
        let parsed = workspace.parser.parse(bytes, &self.limits, progress);
        match parsed {
            Ok(None) => None,
            Ok(Some(head)) => {
                workspace.head = head;
                Some(Next::Request)
            }
            Err(reject) => {
                // Nothing is known of this request; the one before it does not count.
                self.is_head = false;
                self.last_of_client = false;
                Some(Next::Refused(reject))
            }
        }
    }

    /// Takes the request whose head [`Exchange::next`] told of: its head is consumed.
    pub(crate) fn begin(&mut self, stream: &mut Stream, head: &Head) {
        self.begin_above(head);
        self.drop_head(stream);
    }

    /// The same, but the head is left in the stream's buffer, until [`Exchange::drop_head`]: nothing may be read
    /// meanwhile.
    pub(crate) fn begin_above(&mut self, head: &Head) {
        self.undropped = head.head_len;
        self.burst = (self.burst + 1).min(BURST);
        self.progress = Progress::default();
        self.body = match head.framing {
            Framing::None => Body::Done,
            Framing::Length(0) => Body::Done,
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::Chunked(Chunked::new()),
        };
        self.received = 0;
        self.trailers.clear();
        self.version = head.version;
        self.is_head = head.method_id == Method::Head;
        self.last_of_client = !head.keep_alive;
        // What follows CONNECT is no request, whatever the answer to it is.
        self.keep_alive = head.keep_alive && head.method_id != Method::Connect;
        self.expects = head.expect_continue && !matches!(self.body, Body::Done);
        self.answered = false;
        self.body_from = None;
        self.head_from = None;
    }

    /// Whether the current request's head is still in the stream's buffer.
    pub(crate) fn has_head(&self) -> bool {
        self.undropped > 0
    }

    /// Drops the current request's head.
    #[inline]
    pub(crate) fn drop_head(&mut self, stream: &mut Stream) {
        stream.consume(std::mem::take(&mut self.undropped));
    }

    /// Parses the current request's head, which is still in the stream's buffer, once more into the workspace. False
    /// when it is gone: somebody has closed the stream.
    pub(crate) fn parse_again(&mut self, stream: &Stream, workspace: &mut Workspace) -> bool {
        let mut progress = Progress::default();
        let buffered = stream.buffered();
        let parsed = workspace
            .parser
            .parse(buffered, &self.limits, &mut progress);
        match parsed {
            Ok(Some(head)) => {
                workspace.head = head;
                true
            }
            _ => false,
        }
    }

    /// A long body counts as several requests in a row.
    pub(crate) fn weigh(&mut self, length: usize) {
        let more = u8::try_from(length / QUANTUM).unwrap_or(BURST);
        self.burst = self.burst.saturating_add(more).min(BURST);
    }

    /// Drops what has come of an unread body; true when nothing of it is left.
    #[inline]
    fn drain(&mut self, stream: &mut Stream) -> bool {
        matches!(self.body, Body::Done) || self.drain_body(stream)
    }

    fn drain_body(&mut self, stream: &mut Stream) -> bool {
        loop {
            if self.received > DRAIN_MOST && !matches!(self.body, Body::Done) {
                self.closing = true;
                return false;
            }
            match self.look_body(stream) {
                Some(Piece::Data { consume, .. }) => stream.consume(consume),
                Some(Piece::End) => return true,
                Some(_) => {
                    self.closing = true;
                    return false;
                }
                None => return false,
            }
        }
    }

    /// The next piece of the body among the buffered bytes; `None` when more must be read.
    fn look_body(&mut self, stream: &mut Stream) -> Option<Piece> {
        loop {
            match &mut self.body {
                Body::Done => return Some(Piece::End),
                Body::Length(left) => {
                    let there = stream.buffered().len() as u64;
                    if there == 0 {
                        return None;
                    }
                    let run = there.min(*left);
                    *left -= run;
                    if *left == 0 {
                        self.body = Body::Done;
                    }
                    self.received += run;
                    let run = run as usize;
                    return Some(Piece::Data {
                        from: 0,
                        to: run,
                        consume: run,
                    });
                }
                Body::Chunked(decoder) => {
                    let step = match decoder.next(stream.buffered()) {
                        Ok(step) => step,
                        Err(reject) => {
                            self.closing = true;
                            return Some(Piece::Refused(reject));
                        }
                    };
                    if step.done {
                        self.body = Body::Done;
                    }
                    if let Some(section) = step.trailers.filter(|section| section.len() > 2) {
                        self.trailers = stream.buffered()[section].to_vec();
                    }
                    if let Some(data) = step.data {
                        self.received += data.len() as u64;
                        return Some(Piece::Data {
                            from: data.start,
                            to: data.end,
                            consume: step.consumed,
                        });
                    }
                    let moved = step.consumed > 0;
                    stream.consume(step.consumed);
                    if !moved && !step.done {
                        return None;
                    }
                    if stream.buffered().is_empty() && !step.done {
                        return None;
                    }
                }
            }
        }
    }

    /// Lets a client that waits for `100 Continue` go on (RFC 9110 section 10.1.1).
    fn invite(&mut self, stream: &mut Stream) -> io::Result<()> {
        if std::mem::take(&mut self.expects) && stream.buffered().is_empty() && !self.answered {
            stream.queue().extend_from_slice(write::CONTINUE);
            stream.send(&[], &mut 0)?;
        }
        Ok(())
    }

    /// Reads on in the body: one piece of it, as it comes.
    pub(crate) fn piece(&mut self, stream: &mut Stream, limit: u64) -> io::Result<Piece> {
        loop {
            if let Some(reject) = self.over(limit) {
                return Ok(Piece::Refused(reject));
            }
            self.invite(stream)?;
            let found = self.look_body(stream);
            // A chunk's size may have been among what was read, without any of its data.
            if let Some(reject) = self.over(limit) {
                return Ok(Piece::Refused(reject));
            }
            if let Some(piece) = found {
                return Ok(piece);
            }
            match stream.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Piece::WouldBlock),
                Filled::End => {
                    self.closing = true;
                    return Ok(Piece::Truncated);
                }
            }
        }
    }

    /// Refuses a body that is, or will be, over the limit, before it has come.
    fn over(&mut self, limit: u64) -> Option<Reject> {
        let announced = match &self.body {
            Body::Done => self.received,
            Body::Length(left) => self.received + left,
            Body::Chunked(decoder) => decoder.announced(),
        };
        if announced <= limit {
            return None;
        }
        self.closing = true;
        Some(Reject::new(413, "the body is larger than allowed"))
    }

    /// Reads the rest of the body as a whole: `Data` once all of it is buffered, with `consume` 0 when
    /// it is in [`Exchange::collected`] instead.
    pub(crate) fn whole(&mut self, stream: &mut Stream, limit: u64) -> io::Result<Piece> {
        if let Body::Length(left) = self.body {
            if let Some(reject) = self.over(limit) {
                return Ok(Piece::Refused(reject));
            }
            self.invite(stream)?;
            // Within the limit, which is far below the address space.
            let want = left as usize;
            while stream.buffered().len() < want {
                // What the client only announced costs no memory: the room doubles with what came.
                let there = stream.buffered().len();
                match stream.fill((want - there).min(there.max(ROOM)))? {
                    Filled::Some => {}
                    Filled::WouldBlock => return Ok(Piece::WouldBlock),
                    Filled::End => {
                        self.closing = true;
                        return Ok(Piece::Truncated);
                    }
                }
            }
            self.body = Body::Done;
            self.received += left;
            return Ok(Piece::Data {
                from: 0,
                to: want,
                consume: want,
            });
        }
        loop {
            match self.piece(stream, limit)? {
                Piece::Data { from, to, consume } => {
                    self.collected
                        .extend_from_slice(&stream.buffered()[from..to]);
                    stream.consume(consume);
                }
                Piece::End => {
                    return Ok(Piece::Data {
                        from: 0,
                        to: self.collected.len(),
                        consume: 0,
                    });
                }
                other => return Ok(other),
            }
        }
    }

    /// What [`Exchange::whole`] has put together.
    pub(crate) fn collected(&mut self) -> &mut Vec<u8> {
        &mut self.collected
    }

    /// Frees the memory of what [`Exchange::whole`] has put together, once that was taken.
    pub(crate) fn free_collected(&mut self) {
        if self.collected.is_empty() {
            self.collected = Vec::new();
        }
    }

    /// Whether the client may still be sending when the connection is closed now: its answer would be
    /// lost by the reset that follows (RFC 9112 section 9.6).
    pub(crate) fn leaves_unread(&self, stream: &Stream) -> bool {
        let is_over = self.last_of_client && matches!(self.body, Body::Done);
        !(stream.has_ended() || is_over && stream.buffered().is_empty())
    }

    /// Whether nothing has come behind the current request. Only known when its body was read.
    pub(crate) fn is_last_arrived(&self, stream: &Stream) -> bool {
        matches!(self.body, Body::Done)
            && stream.buffered().is_empty()
            && !stream.transport.has_unread()
    }

    /// The stream is somebody else's from now on, and no answer can be given here.
    pub(crate) fn hand_over(&mut self) {
        self.answered = true;
        self.closing = true;
    }

    /// The fields behind the current request's chunked body, once that was read.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Bytes of the current body that were received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether answers have no body: HEAD.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    /// The request's version, 10 or 11.
    pub(crate) fn version(&self) -> u8 {
        self.version
    }

    /// From now on the connection closes after the current answer.
    pub(crate) fn close_after(&mut self) {
        self.keep_alive = false;
    }

    /// Decides whether the connection stays open after the answer that is being written. It cannot
    /// when the client holds back a body that nobody asked for, or when too much of one is left.
    pub(crate) fn settle_keep_alive(&mut self, stream: &Stream) -> bool {
        let there = stream.buffered().len().saturating_sub(self.undropped);
        let left = match self.body {
            Body::Length(left) => left.saturating_sub(there as u64),
            _ => 0,
        };
        let held_back = self.expects && there == 0;
        if held_back || left + self.received > DRAIN_MOST && left > 0 {
            self.keep_alive = false;
        }
        self.expects = false;
        self.answered = true;
        self.closing = self.closing || !self.keep_alive;
        !self.closing
    }

    /// Takes back the part of a head that an error has left behind; false when the peer may have got some of it.
    pub(crate) fn take_back(&mut self, stream: &mut Stream) -> bool {
        self.head_from
            .take()
            .is_none_or(|from| stream.unqueue(from))
    }

    /// Queues an answer that refuses a request; the connection is to close after it.
    pub(crate) fn refuse(
        &mut self,
        stream: &mut Stream,
        workspace: &mut Workspace,
        status: u16,
        message: &str,
    ) {
        self.closing = true;
        self.answered = true;
        if !self.take_back(stream) {
            return;
        }
        let out = stream.queue();
        let date = (&mut workspace.date, crate::event::clock::unix_seconds());
        let body = write::simple(out, status, message, false, self.version, date);
        if self.is_head {
            out.truncate(body);
        }
    }
}
