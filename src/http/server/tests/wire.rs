//! An in-memory connection: the server's end, and the test's end.

use super::super::{Interest, Readiness, Transport};
use crate::stream::queue::{Attempt, Sink};
use crate::tls::Handshake;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::rc::Rc;

/// The maximum number of bytes that one read of an encrypted connection takes from the system.
const ENCRYPTED_READ: usize = 150_000;

#[derive(Default)]
struct State {
    /// Bytes that have arrived and have not been read.
    arrived: Vec<u8>,
    /// Bytes of an encrypted connection that were taken from the system, and that no read has returned.
    plaintext: Vec<u8>,
    client_ended: bool,
    /// The bytes that the client has received, and how many more bytes it accepts; no limit if `None`.
    sent: Vec<u8>,
    room: Option<usize>,
    /// The result of [`Transport::may_receive`].
    readable: bool,
    /// The requested events.
    asked: Vec<Interest>,
    ended: bool,
    closed: bool,
    broken: bool,
    unwatched: bool,
    peer: Option<IpAddr>,
    /// The number of bytes of a handshake that have not arrived yet; `None` without a handshake. A `!` makes it fail.
    handshake: Option<usize>,
    /// Whether the handshake waits until the transport is writable.
    handshake_writes: bool,
    encrypted: bool,
    /// The number of system calls.
    calls: usize,
}

/// The test's end.
#[derive(Clone)]
pub(super) struct Wire(Rc<RefCell<State>>);

/// The server's end.
pub(super) struct Pipe(Rc<RefCell<State>>);

pub(super) fn pair() -> (Wire, Pipe) {
    let state = State { readable: true, ..State::default() };
    let state = Rc::new(RefCell::new(state));
    (Wire(state.clone()), Pipe(state))
}

impl Wire {
    pub(super) fn deliver(&self, bytes: &[u8]) {
        let mut state = self.0.borrow_mut();
        state.arrived.extend_from_slice(bytes);
        state.readable = true;
    }

    pub(super) fn end(&self) {
        let mut state = self.0.borrow_mut();
        state.client_ended = true;
        state.readable = true;
    }

    /// Lets the client receive `count` more bytes.
    pub(super) fn take(&self, count: usize) {
        let mut state = self.0.borrow_mut();
        state.room = Some(state.room.unwrap_or(0) + count);
    }

    /// Lets the client receive everything.
    pub(super) fn take_all(&self) {
        self.0.borrow_mut().room = None;
    }

    /// Makes every further send fail.
    pub(super) fn break_off(&self) {
        self.0.borrow_mut().broken = true;
    }

    /// Makes [`Transport::is_registered`] return false.
    pub(super) fn unwatch(&self) {
        self.0.borrow_mut().unwatched = true;
    }

    /// Sets the result of [`Transport::peer_ip`].
    pub(super) fn set_peer(&self, peer: Option<IpAddr>) {
        self.0.borrow_mut().peer = peer;
    }

    /// Returns the requested events that have occurred. Each event must then be requested again.
    pub(super) fn events(&self) -> Readiness {
        let mut state = self.0.borrow_mut();
        let readable = !state.arrived.is_empty() || state.client_ended;
        let writable = state.room != Some(0) || state.broken;
        let mut events = Readiness::default();
        let closed = state.client_ended || state.broken;
        state.asked.retain(|interest| {
            let happens = match interest {
                Interest::Read => readable,
                Interest::Write => writable,
                Interest::End => closed,
            };
            match interest {
                Interest::Read => events.read |= happens,
                Interest::Write => events.write |= happens,
                Interest::End => events.closed |= happens,
            }
            !happens
        });
        if events != Readiness::default() {
            events.closed |= closed;
        }
        events
    }

    /// Makes the connection an encrypted one.
    pub(super) fn encrypt(&self) {
        self.0.borrow_mut().encrypted = true;
    }

    /// Makes the connection begin with a handshake for which the client sends this number of bytes.
    pub(super) fn begin_with_handshake(&self, count: usize) {
        self.0.borrow_mut().handshake = Some(count);
    }

    /// Makes the handshake wait until the client accepts bytes.
    pub(super) fn block_handshake(&self) {
        let mut state = self.0.borrow_mut();
        state.handshake_writes = true;
        state.room = Some(0);
    }

    pub(super) fn got(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.borrow().closed
    }

    pub(super) fn is_ended(&self) -> bool {
        self.0.borrow().ended
    }

    pub(super) fn calls(&self) -> usize {
        self.0.borrow().calls
    }
}

impl State {
    fn take_plaintext(&mut self, room: &mut [u8]) -> usize {
        let count = self.plaintext.len().min(room.len());
        room[..count].copy_from_slice(&self.plaintext[..count]);
        self.plaintext.drain(..count);
        count
    }
}

impl Pipe {
    fn put(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        let mut state = self.0.borrow_mut();
        state.calls += 1;
        if state.broken || state.closed || state.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = data.len().min(state.room.unwrap_or(usize::MAX));
        if count == 0 && !data.is_empty() {
            return Ok(Attempt::WouldBlock);
        }
        state.room = state.room.map(|room| room - count);
        state.sent.extend_from_slice(&data[..count]);
        Ok(Attempt::Done(count))
    }
}

impl Sink for Pipe {
    type File = Rc<Vec<u8>>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.put(data)
    }
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.put(data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        let all: Vec<u8> = pieces.iter().flat_map(|one| one.iter().copied()).collect();
        self.put(&all)
    }
    fn send_file(&mut self, file: &Rc<Vec<u8>>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        let rest = &file[file.len().min(offset as usize)..];
        self.put(&rest[..count.min(rest.len())])
    }
}

impl Transport for Pipe {
    fn is_encrypted(&self) -> bool {
        self.0.borrow().encrypted
    }
    fn needs_handshake(&self) -> bool {
        self.0.borrow().handshake.is_some()
    }
    fn handshake(&mut self, received: &[u8]) -> io::Result<Handshake> {
        let mut state = self.0.borrow_mut();
        let left = state.handshake.expect("a handshake");
        let all = [received, &state.arrived].concat();
        let (taken, rest) = all.split_at(left.min(all.len()));
        state.arrived = rest.to_vec();
        let left = left - taken.len();
        if taken.contains(&b'!') || left > 0 && state.client_ended {
            return Err(io::ErrorKind::InvalidData.into());
        }
        state.handshake = Some(left);
        if state.handshake_writes && state.room == Some(0) {
            return Ok(Handshake::Write);
        }
        if left > 0 {
            return Ok(Handshake::Read);
        }
        state.handshake = None;
        state.readable = true;
        Ok(Handshake::Done)
    }
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let mut state = self.0.borrow_mut();
        state.calls += 1;
        if !state.plaintext.is_empty() {
            return Ok(Attempt::Done(state.take_plaintext(room)));
        }
        let space = if state.encrypted { ENCRYPTED_READ } else { room.len() };
        let count = state.arrived.len().min(space);
        if count == 0 {
            state.readable = state.client_ended;
            return Ok(if state.client_ended { Attempt::Done(0) } else { Attempt::WouldBlock });
        }
        // A short read shows that no bytes are left; only the end of the client's data may follow.
        state.readable = count == space || state.client_ended;
        state.plaintext = state.arrived.drain(..count).collect();
        Ok(Attempt::Done(state.take_plaintext(room)))
    }
    fn may_receive(&self) -> bool {
        self.0.borrow().readable || self.has_plaintext()
    }
    fn has_plaintext(&self) -> bool {
        !self.0.borrow().plaintext.is_empty()
    }
    fn has_unread(&self) -> bool {
        self.has_plaintext() || !self.0.borrow().arrived.is_empty()
    }
    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if !state.asked.contains(&interest) {
            state.asked.push(interest);
        }
        Ok(())
    }
    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        Ok(self.0.borrow().peer)
    }
    fn is_registered(&self) -> bool {
        !self.0.borrow().unwatched
    }
    fn end_sending(&mut self) -> io::Result<()> {
        self.0.borrow_mut().ended = true;
        Ok(())
    }
    fn close(&mut self) {
        self.0.borrow_mut().closed = true;
    }
}
