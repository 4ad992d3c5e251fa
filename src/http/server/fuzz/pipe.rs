//! The transport of the fuzzer: a connection in memory that accepts and returns bytes as the input decides, and counts
//! calls. `Wire` is the client's end.

use super::super::{Interest, Readiness, Transport};
use crate::stream::queue::{Attempt, Sink};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::IpAddr;
use std::rc::Rc;

#[derive(Default)]
struct State {
    /// Bytes that the client has sent and the server has not read.
    arrived: VecDeque<u8>,
    /// The maximum number of bytes that one read returns; no limit if 0. Like TLS, a read then takes all bytes from the
    /// system, and keeps the rest in `plaintext`, which no event reports.
    portion: usize,
    plaintext: VecDeque<u8>,
    client_ended: bool,
    reset: bool,
    /// The bytes that the client has received.
    received: Vec<u8>,
    /// How many more bytes the client accepts; no limit if `None`.
    room: Option<usize>,
    /// The maximum number of bytes that one call accepts; no limit if 0.
    piece: usize,
    /// The number of calls that will report that they would block, although they would not.
    stalls: usize,
    /// The result of [`Transport::may_receive`].
    readable: bool,
    /// Whether each event is requested: to read, to write, the end.
    asked: [bool; 3],
    unwatched: bool,
    /// Whether the server has closed its sending side, and the connection.
    ended: bool,
    closed: bool,
    /// The number of calls that could be system calls.
    calls: Rc<Cell<usize>>,
}

/// The client's end.
pub(super) struct Wire(Rc<RefCell<State>>);

/// The server's end.
pub(super) struct Pipe(Rc<RefCell<State>>);

/// Returns both ends of a connection. The server's calls are added to `calls`. `portion`: see [`State`].
pub(super) fn pair(portion: usize, calls: &Rc<Cell<usize>>) -> (Wire, Pipe) {
    let state = State { readable: true, portion, calls: calls.clone(), ..State::default() };
    let state = Rc::new(RefCell::new(state));
    (Wire(state.clone()), Pipe(state))
}

impl Wire {
    /// Sends bytes. Returns false if the client can no longer send.
    pub(super) fn deliver(&self, bytes: &[u8]) -> bool {
        let mut state = self.0.borrow_mut();
        if state.client_ended || state.reset || state.closed {
            return false;
        }
        state.arrived.extend(bytes);
        true
    }

    /// Closes the client's sending side.
    pub(super) fn end(&self) {
        self.0.borrow_mut().client_ended = true;
    }

    /// Resets the connection: further calls of the server fail.
    pub(super) fn reset(&self) {
        let mut state = self.0.borrow_mut();
        state.reset = true;
        state.arrived.clear();
        state.plaintext.clear();
    }

    /// Lets the client receive `count` more bytes, or everything.
    pub(super) fn take(&self, count: Option<usize>) {
        let mut state = self.0.borrow_mut();
        state.room = count.map(|count| state.room.unwrap_or(0) + count);
    }

    /// Sets how many bytes one call accepts; 0: no limit.
    pub(super) fn set_piece(&self, bytes: usize) {
        self.0.borrow_mut().piece = bytes;
    }

    /// Makes the next calls report that they would block.
    pub(super) fn stall(&self, calls: usize) {
        self.0.borrow_mut().stalls = calls;
    }

    /// Makes [`Transport::is_registered`] return false.
    pub(super) fn unwatch(&self) {
        self.0.borrow_mut().unwatched = true;
    }

    /// Returns the requested events that have occurred. Each must then be requested again.
    pub(super) fn events(&self) -> Readiness {
        let mut state = self.0.borrow_mut();
        if state.unwatched || state.closed {
            return Readiness::default();
        }
        let closed = state.client_ended || state.reset;
        let happens = [!state.arrived.is_empty() || closed, state.room != Some(0) || state.reset, closed];
        let mut found = [false; 3];
        for (index, found) in found.iter_mut().enumerate() {
            *found = state.asked[index] && happens[index];
            state.asked[index] &= !*found;
        }
        state.readable |= found[0];
        Readiness { read: found[0], write: found[1], closed: found[2] || closed && (found[0] || found[1]) }
    }

    pub(super) fn is_asked(&self, interest: Interest) -> bool {
        self.0.borrow().asked[index(interest)]
    }

    pub(super) fn is_unwatched(&self) -> bool {
        self.0.borrow().unwatched
    }

    /// Whether the server can no longer send.
    pub(super) fn is_ended(&self) -> bool {
        let state = self.0.borrow();
        state.ended || state.closed
    }

    /// Whether the client cannot receive now, or a call might report that.
    pub(super) fn is_blocked(&self) -> bool {
        let state = self.0.borrow();
        state.room == Some(0) || state.stalls > 0
    }

    /// Whether the server has released its end.
    pub(super) fn is_released(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    pub(super) fn received(&self) -> Vec<u8> {
        self.0.borrow().received.clone()
    }

    /// Adds bytes that the new owner of a detached connection has sent.
    pub(super) fn append(&self, bytes: &[u8]) {
        self.0.borrow_mut().received.extend_from_slice(bytes);
    }

    /// The number of bytes that the client has received.
    pub(super) fn received_count(&self) -> usize {
        self.0.borrow().received.len()
    }

    /// The number of bytes that the server has not read.
    pub(super) fn unread(&self) -> usize {
        let state = self.0.borrow();
        state.plaintext.len() + state.arrived.len()
    }

    /// Whether there are bytes that no event reports.
    pub(super) fn has_plaintext(&self) -> bool {
        !self.0.borrow().plaintext.is_empty()
    }
}

fn index(interest: Interest) -> usize {
    match interest {
        Interest::Read => 0,
        Interest::Write => 1,
        Interest::End => 2,
    }
}

impl State {
    fn count(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// Whether this call reports that it would block.
    fn stalls(&mut self) -> bool {
        let stalls = self.stalls > 0;
        self.stalls -= usize::from(stalls);
        stalls
    }
}

impl Pipe {
    fn put(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        let mut state = self.0.borrow_mut();
        state.count();
        if state.reset || state.ended || state.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let piece = if state.piece == 0 { usize::MAX } else { state.piece };
        let count = data.len().min(state.room.unwrap_or(usize::MAX)).min(piece);
        if state.stalls() || count == 0 && !data.is_empty() {
            return Ok(Attempt::WouldBlock);
        }
        state.room = state.room.map(|room| room - count);
        state.received.extend_from_slice(&data[..count]);
        Ok(Attempt::Done(count))
    }
}

impl Sink for Pipe {
    type File = Rc<Vec<u8>>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        assert!(!data.is_empty(), "a call without bytes");
        self.put(data)
    }
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.put(data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        let mut all = Vec::new();
        pieces.iter().for_each(|one| all.extend_from_slice(one));
        assert!(!all.is_empty(), "a call without bytes");
        self.put(&all)
    }
    fn send_file(&mut self, file: &Rc<Vec<u8>>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        let rest = &file[file.len().min(offset as usize)..];
        self.put(&rest[..count.min(rest.len())])
    }
}

impl Transport for Pipe {
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let mut state = self.0.borrow_mut();
        assert!(!state.closed, "a read after the close");
        if state.plaintext.is_empty() {
            state.count();
            if state.reset {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if state.stalls() {
                state.readable = false;
                return Ok(Attempt::WouldBlock);
            }
            let space = if state.portion == 0 { room.len() } else { usize::MAX };
            let count = state.arrived.len().min(space);
            // A short read shows that no bytes are left; only the end of the client's data may follow.
            state.readable = count == space || state.client_ended;
            if count == 0 {
                return Ok(if state.client_ended { Attempt::Done(0) } else { Attempt::WouldBlock });
            }
            let rest = state.arrived.split_off(count);
            state.plaintext = std::mem::replace(&mut state.arrived, rest);
        }
        let portion = if state.portion == 0 { usize::MAX } else { state.portion };
        let count = state.plaintext.len().min(portion).min(room.len());
        state.plaintext.read_exact(&mut room[..count])?;
        Ok(Attempt::Done(count))
    }
    fn may_receive(&self) -> bool {
        self.0.borrow().readable || self.has_plaintext()
    }
    fn has_plaintext(&self) -> bool {
        !self.0.borrow().plaintext.is_empty()
    }
    fn has_unread(&self) -> bool {
        let state = self.0.borrow();
        state.count();
        !state.plaintext.is_empty() || !state.arrived.is_empty()
    }
    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if state.unwatched || state.closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        state.asked[index(interest)] = true;
        Ok(())
    }
    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        Ok(None)
    }
    fn is_registered(&self) -> bool {
        !self.0.borrow().unwatched
    }
    fn end_sending(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.count();
        if state.reset {
            return Err(io::ErrorKind::NotConnected.into());
        }
        state.ended = true;
        Ok(())
    }
    fn close(&mut self) {
        self.0.borrow_mut().closed = true;
    }
}
