//! The WebSocket state of one connection, which the Lua object of the connection owns.

use crate::codec::websocket::encoded_frame::{SharedCompressor, plain_frame};
use crate::codec::websocket::frame::Opcode;
use crate::codec::websocket::mask::Key;
use crate::codec::websocket::negotiation::Deflate;
use crate::codec::websocket::rate::Rate;
use crate::codec::websocket::reader::{Limits, Reader};
use crate::codec::websocket::writer::{self, Writer};
use crate::codec::websocket::{Kind, Refusal, Role, close};
use crate::stream::Stream;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// If at least this number of bytes is queued for the peer, pings are not answered.
const MAX_QUEUED_FOR_PONG: usize = 64 * 1024;
/// Why a connection ends whose peer exceeds the limit of messages per second.
const TOO_MANY: Refusal = Refusal::new(close::POLICY_VIOLATION, "too many messages per second");
/// The number of random bytes that are requested from the system at a time.
const RANDOM: usize = 1024;

/// The parts that all WebSocket connections of a VM share.
pub(crate) struct Shared {
    pub(super) compressor: RefCell<SharedCompressor>,
    random: RefCell<[u8; RANDOM]>,
    /// The number of random bytes that are left.
    left: Cell<usize>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { compressor: RefCell::default(), random: RefCell::new([0; RANDOM]), left: Cell::new(0) }
    }
}

impl Shared {
    /// Returns `N` random bytes, which no peer can predict (RFC 6455 section 10.3).
    pub(super) fn random<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut random = self.random.borrow_mut();
        if self.left.get() < N {
            getrandom::fill(&mut *random).map_err(|_| io::Error::other("no random bytes are available"))?;
            self.left.set(RANDOM);
        }
        let end = self.left.get();
        self.left.set(end - N);
        let mut bytes = [0; N];
        bytes.copy_from_slice(&random[end - N..end]);
        // A key must not be found in memory later.
        random[end - N..end].fill(0);
        Ok(bytes)
    }
}

/// The WebSocket state of one connection.
pub(crate) struct WebSocket {
    pub(super) reader: Reader,
    writer: Writer,
    role: Role,
    shared: Rc<Shared>,
    /// The limit of messages and pings, and when it was set.
    rate: Option<Box<(Rate, Instant)>>,
    /// Whether callbacks receive the messages.
    pub(super) has_callbacks: bool,
    /// Whether bytes have arrived since the last check.
    pub(super) is_alive: bool,
    /// Whether a close frame was sent; no frame may follow it.
    pub(super) close_sent: bool,
}

impl WebSocket {
    pub(super) fn new(
        role: Role, limits: Limits, deflate: Option<Deflate>, settings: writer::Settings, shared: Rc<Shared>,
    ) -> WebSocket {
        WebSocket {
            reader: Reader::new(role, limits, deflate.map(|deflate| deflate.received_by(role))),
            writer: Writer::new(deflate.map(|deflate| deflate.sent_by(role)), settings),
            role,
            shared,
            rate: None,
            has_callbacks: false,
            is_alive: true,
            close_sent: false,
        }
    }

    /// Limits the messages and pings of the peer to `per_second`, a finite number above 0.
    pub(super) fn limit_rate(&mut self, per_second: f64) {
        self.rate = Some(Box::new((Rate::new(per_second), Instant::now())));
    }

    /// Counts a message or a ping. Returns the refusal if the peer sends too many.
    pub(super) fn check_rate(&mut self) -> Option<Refusal> {
        let (rate, start) = &mut **self.rate.as_mut()?;
        (!rate.admit(start.elapsed())).then_some(TOO_MANY)
    }

    /// Whether a close frame was sent.
    pub(crate) fn has_sent_close(&self) -> bool {
        self.close_sent
    }

    /// Returns the masking key of the next frame; `None` for a server.
    pub(super) fn key(&self) -> io::Result<Option<Key>> {
        match self.role {
            Role::Client => self.shared.random().map(Some),
            Role::Server => Ok(None),
        }
    }

    /// Whether a message of this length is sent as it is, so that only a head has to be built.
    pub(super) fn is_plain(&self, length: usize) -> bool {
        self.role == Role::Server && !self.writer.compresses(length)
    }

    /// Encodes a message.
    pub(super) fn message(&mut self, kind: Kind, message: &[u8]) -> io::Result<Bytes> {
        let key = self.key()?;
        Ok(self.writer.message(kind, message, key, &mut self.shared.compressor.borrow_mut()))
    }

    /// Returns the encoder of a server's connection; `None` for a client.
    pub(super) fn server_writer(&mut self) -> Option<&mut Writer> {
        (self.role == Role::Server).then_some(&mut self.writer)
    }

    /// Sends a control frame, or queues it. Returns whether the system has accepted everything.
    pub(super) fn control(&self, stream: &mut Stream, opcode: Opcode, payload: &[u8]) -> io::Result<bool> {
        stream.deliver(&[&plain_frame(opcode, payload, self.key()?)])
    }

    /// Answers a ping. Returns whether the answer is queued. A peer that does not read gets no answer.
    pub(super) fn answer(&self, stream: &mut Stream, payload: &[u8]) -> bool {
        if self.close_sent || stream.queued() >= MAX_QUEUED_FOR_PONG {
            return false;
        }
        // If sending fails, the next read reports the end of the connection.
        matches!(self.control(stream, Opcode::Pong, payload), Ok(false))
    }

    /// Sends a close frame with this payload, unless one was sent.
    pub(super) fn send_close(&mut self, stream: &mut Stream, payload: &[u8]) -> io::Result<bool> {
        match std::mem::replace(&mut self.close_sent, true) {
            true => Ok(true),
            false => self.control(stream, Opcode::Close, payload),
        }
    }

    /// Answers the peer's close frame with the same code. Returns the code and the reason for the end.
    pub(super) fn finish_close(&mut self, stream: &mut Stream, close: close::Close) -> (u16, Box<str>) {
        let payload = close.code.and_then(|code| close::encode(code, "").ok()).unwrap_or_default();
        let _ = self.send_close(stream, &payload);
        (close.code.unwrap_or(close::NO_STATUS), close.reason.into())
    }

    /// Sends the peer the rule that it has violated. Returns the code and the reason for the end.
    pub(super) fn refuse(&mut self, stream: &mut Stream, refusal: Refusal) -> (u16, Box<str>) {
        let payload = close::encode(refusal.code, refusal.text).unwrap_or_default();
        let _ = self.send_close(stream, &payload);
        (refusal.code, refusal.text.into())
    }
}
