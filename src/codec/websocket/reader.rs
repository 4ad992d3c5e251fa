//! The decoder of one direction of a connection: received bytes, split anywhere, to messages and control frames.
//!
//! The machine that owns the connection passes each piece of bytes until it is consumed. Invariant: the work is linear
//! in the number of bytes, and the events do not depend on how the bytes are split. (One limit, the compression ratio,
//! is compared with the bytes that have arrived.) After a close frame or a refusal, all further bytes are skipped.

use std::borrow::Cow;
use std::ops::Range;

use super::assembly::Assembly;
pub(crate) use super::assembly::Limits;
use super::close::{self, Close};
use super::frame::{Head, MAX_HEAD, Opcode};
use super::mask::{self, Key};
use super::negotiation::Direction;
use super::{Kind, Refusal, Role};

/// An event that a reader has received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event<'i> {
    /// A complete message; a text is UTF-8. The data is a part of the input if the message was entirely in it.
    Message(Kind, Cow<'i, [u8]>),
    /// A ping, with its payload, which the pong must repeat.
    Ping(Cow<'i, [u8]>),
    /// A pong, with its payload.
    Pong(Cow<'i, [u8]>),
    /// A close frame. It is the last event.
    Close(Close),
    /// The peer has violated a rule: the connection must be closed with this code. It is the last event.
    Refused(Refusal),
}

/// Where the data of an event is.
enum Data {
    /// In the input.
    Input(Range<usize>),
    Owned(Vec<u8>),
}

impl Data {
    fn of(self, input: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Data::Input(range) => Cow::Borrowed(&input[range]),
            Data::Owned(data) => Cow::Owned(data),
        }
    }
}

/// An event whose data may be in the input.
enum Found {
    Message(Kind, Data),
    Control(Opcode, Data),
}

/// A position in the bytes of the peer.
#[derive(Clone, Copy)]
enum State {
    /// In a head, of which `head` has the first bytes.
    Head,
    /// In a payload with `left` more bytes.
    Payload { opcode: Opcode, is_final: bool, key: Option<Key>, left: u64 },
    /// After a close frame or a refusal.
    Ended,
}

/// The decoder of the bytes from one peer.
pub(crate) struct Reader {
    role: Role,
    limits: Limits,
    deflate: Option<Direction>,
    state: State,
    /// The first bytes of an incomplete head.
    head: [u8; MAX_HEAD],
    head_length: u8,
    message: Assembly,
    /// The first bytes of the payload of an incomplete control frame.
    control: Vec<u8>,
}

impl Reader {
    /// `role`: the role of this endpoint. `deflate`: the parameters of the peer's messages, if compression was
    /// negotiated.
    pub(crate) fn new(role: Role, limits: Limits, deflate: Option<Direction>) -> Reader {
        Reader {
            role,
            limits,
            deflate,
            state: State::Head,
            head: [0; MAX_HEAD],
            head_length: 0,
            message: Assembly::default(),
            control: Vec::new(),
        }
    }

    /// Whether bytes of an incomplete frame or message have been received. A deadline for the rest may depend on it.
    pub(crate) fn is_within_message(&self) -> bool {
        self.head_length > 0 || matches!(self.state, State::Payload { .. }) || self.message.is_open()
    }

    /// Returns the number of bytes that were decompressed since the last call.
    pub(crate) fn take_work(&mut self) -> u64 {
        self.message.take_work()
    }

    /// Decodes `input`, which starts after the bytes consumed so far, up to the end of the next event. Payloads are
    /// unmasked in place. Returns the number of bytes consumed, and the event; if there is none, the whole input has
    /// been consumed. Repeat with the rest of the input, unchanged, while there is an event.
    pub(crate) fn next<'i>(&mut self, input: &'i mut [u8]) -> (usize, Option<Event<'i>>) {
        let mut at = 0;
        let found = loop {
            match self.advance(input, &mut at) {
                Ok(None) if at < input.len() => (),
                found => break found,
            }
        };
        match found {
            Ok(None) => (at, None),
            Ok(Some(found)) => (at, Some(self.event(found, input))),
            Err(refusal) => (at, Some(self.refused(refusal))),
        }
    }

    fn event<'i>(&mut self, found: Found, input: &'i [u8]) -> Event<'i> {
        match found {
            Found::Message(kind, data) => Event::Message(kind, data.of(input)),
            Found::Control(Opcode::Ping, data) => Event::Ping(data.of(input)),
            Found::Control(Opcode::Pong, data) => Event::Pong(data.of(input)),
            Found::Control(_, data) => match close::decode(&data.of(input)) {
                Ok(close) => {
                    self.end();
                    Event::Close(close)
                }
                Err(refusal) => self.refused(refusal),
            },
        }
    }

    fn refused<'i>(&mut self, refusal: Refusal) -> Event<'i> {
        self.end();
        Event::Refused(refusal)
    }

    /// Skips all further bytes, and frees the memory.
    fn end(&mut self) {
        self.state = State::Ended;
        self.head_length = 0;
        self.message = Assembly::default();
        self.control = Vec::new();
    }

    /// Decodes the next head, or the next part of a payload. Adds the number of bytes consumed to `at`.
    #[inline]
    fn advance(&mut self, input: &mut [u8], at: &mut usize) -> Result<Option<Found>, Refusal> {
        if let State::Head = self.state {
            let Some(head) = self.take_head(&input[*at..], at)? else { return Ok(None) };
            self.begin(head)?;
        }
        let State::Payload { opcode, is_final, key, left } = self.state else {
            *at = input.len();
            return Ok(None);
        };
        let run = left.min((input.len() - *at) as u64) as usize;
        let range = *at..*at + run;
        *at = range.end;
        let piece = &mut input[range.clone()];
        let key = key.map(|key| mask::apply(piece, key));
        let left = left - run as u64;
        self.state = if left > 0 { State::Payload { opcode, is_final, key, left } } else { State::Head };
        match opcode.is_control() {
            true => Ok(self.control_piece(opcode, range, piece, left)),
            false => self.message_piece(is_final, range, piece, left),
        }
    }

    /// Takes bytes of a head. Returns it once it is complete.
    #[inline]
    fn take_head(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Head>, Refusal> {
        if self.head_length == 0
            && let Some((head, size)) = Head::decode(bytes)?
        {
            *at += size;
            return Ok(Some(head));
        }
        let known = usize::from(self.head_length);
        let taken = bytes.len().min(MAX_HEAD - known);
        self.head[known..known + taken].copy_from_slice(&bytes[..taken]);
        match Head::decode(&self.head[..known + taken])? {
            Some((head, size)) => {
                self.head_length = 0;
                *at += size - known;
                Ok(Some(head))
            }
            None => {
                self.head_length = (known + taken) as u8;
                *at += taken;
                Ok(None)
            }
        }
    }

    /// Checks a head against the state of the connection, and enters its payload.
    fn begin(&mut self, head: Head) -> Result<(), Refusal> {
        match (self.role, head.key) {
            (Role::Server, None) => return Err(Refusal::protocol("frame of a client without a mask")),
            (Role::Client, Some(_)) => return Err(Refusal::protocol("frame of a server with a mask")),
            _ => (),
        }
        if head.is_compressed && (self.deflate.is_none() || !matches!(head.opcode, Opcode::Text | Opcode::Binary)) {
            return Err(Refusal::protocol("frame with an unexpected RSV1"));
        }
        match (head.opcode, self.message.is_open()) {
            (Opcode::Continuation, false) => return Err(Refusal::protocol("continuation without a message")),
            (Opcode::Text | Opcode::Binary, true) => {
                return Err(Refusal::protocol("new message before the end of the last one"));
            }
            (Opcode::Text, false) => self.message.open(Kind::Text, head.is_compressed),
            (Opcode::Binary, false) => self.message.open(Kind::Binary, head.is_compressed),
            _ => (),
        }
        if !head.opcode.is_control() {
            if head.length > self.limits.frame {
                return Err(Refusal::new(close::MESSAGE_TOO_BIG, "frame exceeds the limit"));
            }
            self.message.begin(head.length, &self.limits)?;
        }
        let Head { opcode, is_final, key, length: left, .. } = head;
        self.state = State::Payload { opcode, is_final, key, left };
        Ok(())
    }

    /// Handles a piece of a control frame. `left`: the number of bytes after the piece.
    fn control_piece(&mut self, opcode: Opcode, range: Range<usize>, piece: &[u8], left: u64) -> Option<Found> {
        if left == 0 && self.control.is_empty() {
            return Some(Found::Control(opcode, Data::Input(range)));
        }
        self.control.extend_from_slice(piece);
        (left == 0).then(|| Found::Control(opcode, Data::Owned(std::mem::take(&mut self.control))))
    }

    /// Handles a piece of a fragment. `left`: the number of bytes after the piece.
    #[inline]
    fn message_piece(
        &mut self, is_final: bool, range: Range<usize>, piece: &[u8], left: u64,
    ) -> Result<Option<Found>, Refusal> {
        if left == 0
            && is_final
            && let Some(kind) = self.message.complete(piece)?
        {
            return Ok(Some(Found::Message(kind, Data::Input(range))));
        }
        self.message.push(piece, &self.limits)?;
        match (left, is_final) {
            (0, true) => {
                let keeps_context = self.deflate.is_some_and(|deflate| deflate.keeps_context);
                let (kind, data) = self.message.end(keeps_context, &self.limits)?;
                Ok(Some(Found::Message(kind, Data::Owned(data))))
            }
            (0, false) => self.message.end_fragment(&self.limits).map(|()| None),
            _ => Ok(None),
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Reader {
    /// Whether the reader owns no allocated memory.
    pub(super) fn owns_no_memory(&self) -> bool {
        self.control.capacity() == 0 && self.message.owns_no_memory()
    }
}
