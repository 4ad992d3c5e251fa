//! One connection's buffers: what a stream of bytes needs above its socket.
//!
//! - `buffer.rs`: the read buffer, and the pool that buffers come from and go back to
//! - `receive.rs`: the forms of `recv`
//! - `turns.rs`: who has a turn to read or to write
//! - `transfer.rs`: streams that are sent to another VM
//! - `file.rs`: files, sent by the kernel
//! - `broadcast.rs`: messages that many streams get
//! - `queue.rs`: what is to be sent on one connection: bytes, shared bytes, ranges of files
//!
//! A stream is registered once, for both directions, and asks for events one at a time: whoever finds
//! that a call would block has the stream armed by the same call. Idle streams own no buffer.

pub(crate) mod broadcast;
mod buffer;
pub(crate) mod file;
pub(crate) mod queue;
mod receive;
#[cfg(test)]
mod tests;
mod transfer;
pub(crate) mod turns;

pub(crate) use buffer::{Buffer, Pool};
pub(crate) use receive::{Form, Received};
pub(crate) use turns::Turns;

use self::queue::{Queue, Sent};
use crate::event::{READ, WRITE};
use crate::socket::{Moved, Socket};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;

/// What a fill ended in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Bytes came.
    Some,
    /// The peer has ended its side.
    End,
    /// Nothing there; the stream is armed for reading.
    WouldBlock,
}

/// So many reads, or [`QUANTUM`]s sent, without a wait in between; then others get their turn.
const BURST: u32 = 32;
/// Sent bytes that weigh as much as one message more.
const QUANTUM: usize = buffer::SIZE;

/// One connection.
pub(crate) struct Stream {
    socket: Socket,
    input: Buffer,
    /// What goes out before anything sent later; mostly nothing.
    output: Option<Box<Queue<Rc<OwnedFd>>>>,
    pool: Rc<Pool>,
    ended: bool,
    /// Nothing was tried yet, so nothing is known about what there is to read.
    fresh: bool,
    /// How far a search for `sought` has come, counted from the start of what is buffered.
    searched: usize,
    /// The delimiter of the last search that found nothing.
    sought: Vec<u8>,
    /// Reads since the last one that would block.
    reads: u32,
    /// Messages sent since the stream last had to wait for anything, the long ones counted several times.
    messages: u32,
    /// The number under which it was sent off; 0 when it never was.
    parcel: u64,
    /// Whether the last send failed: the peer takes nothing any more.
    send_failed: bool,
    pub(crate) turns: Turns,
    /// Bytes that the system took, in all.
    pub(crate) written: u64,
}

impl Stream {
    pub(crate) fn new(socket: Socket, pool: &Rc<Pool>) -> Stream {
        Stream {
            socket,
            input: Buffer::default(),
            output: None,
            pool: pool.clone(),
            ended: false,
            fresh: true,
            searched: 0,
            sought: Vec::new(),
            reads: 0,
            messages: 0,
            parcel: 0,
            send_failed: false,
            turns: Turns::default(),
            written: 0,
        }
    }

    /// What it stands on.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Asks the selector for `bits`, once. An error means that no event will come.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.socket.arm(bits)
    }

    /// The descriptor for others to name it by; -1 once closed.
    pub(crate) fn handle(&mut self) -> RawFd {
        self.socket.handle()
    }

    /// The number of its outlet; `None` while bytes are queued, or when it is closed.
    pub(crate) fn outlet(&mut self) -> Option<u64> {
        self.socket.outlet().filter(|_| self.queued() == 0)
    }

    /// Whether the peer has ended its side, or the connection failed, as far as the selector knows.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed() || self.ended || self.socket.source().is_some_and(|source| source.peer_is_over())
    }

    /// What was read from the peer and not consumed yet.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.input.bytes()
    }

    /// Drops the first `count` buffered bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.searched = 0;
        self.input.consume(count);
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
    }

    /// Drops the first `count` buffered bytes, of which the first `handed` are to be handed over: they stay where they lie
    /// until [`Stream::handed_over`], or until the stream is used otherwise.
    #[inline]
    pub(crate) fn lend(&mut self, handed: usize, count: usize) {
        self.searched = 0;
        self.input.lend(handed, count);
    }

    /// What is being handed over.
    pub(crate) fn lent(&self) -> &[u8] {
        self.input.lent()
    }

    /// Whether something was to be handed over, and nobody has told that it was.
    pub(crate) fn has_lent(&self) -> bool {
        self.input.has_lent()
    }

    /// What was to be handed over is there again.
    pub(crate) fn take_lent_back(&mut self) {
        self.input.take_lent_back();
    }

    /// What was lent is done with.
    pub(crate) fn handed_over(&mut self) {
        self.input.end_loan();
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
    }

    /// The peer has ended its side, and all it sent is buffered or consumed.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket.is_closed()
    }

    /// Reads once, with room for at least `want` bytes. No system call is spent when a short read has
    /// shown that nothing is there. A peer that sends faster than it is read makes this say
    /// `WouldBlock` now and then, the stream being due in the next round of the loop.
    pub(crate) fn fill(&mut self, want: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        if !self.fresh && (self.reads >= BURST || !self.socket.may_read()) {
            return self.read_later();
        }
        self.fresh = false;
        self.reads += 1;
        if self.input.is_vacant() {
            self.input.adopt(self.pool.take_wide());
        }
        let received = self.input.fill(want, &self.pool, |room| self.socket.receive(room));
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
        match received? {
            Moved::Done(0) => {
                self.ended = true;
                Ok(Filled::End)
            }
            Moved::Done(_) => Ok(Filled::Some),
            Moved::WouldBlock => self.read_later(),
        }
    }

    /// Whether the peer has neither sent anything nor ended its side: asks the system.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.fresh = true;
        self.buffered().is_empty() && matches!(self.fill(0), Ok(Filled::WouldBlock))
    }

    /// Whether it is known that nothing can be received now: then the stream is armed for reading. False when it
    /// cannot be armed; the next read says why.
    pub(super) fn is_dry(&mut self) -> bool {
        self.input.is_empty() && !(self.fresh || self.ended) && !self.socket.may_read() && self.read_later().is_ok()
    }

    /// What is buffered leaves the wide buffer, which the next read of any stream is to have.
    pub(super) fn narrow(&mut self) {
        if self.input.is_wide() {
            let mut rest = self.pool.take();
            rest.extend_from_slice(self.input.bytes());
            self.pool.put(self.input.release());
            self.input.adopt(rest.into());
        }
    }

    fn read_later(&mut self) -> io::Result<Filled> {
        self.narrow();
        self.reads = 0;
        self.messages = 0;
        self.socket.arm(READ)?;
        Ok(Filled::WouldBlock)
    }

    /// Whether another message may be sent now. False when it is time to let others run: the stream is
    /// armed for writing then, and due in the next round of the loop.
    pub(crate) fn begin_message(&mut self) -> io::Result<bool> {
        if self.messages < BURST { Ok(true) } else { self.write_later() }
    }

    /// The write queue: what is appended goes out ahead of what is sent next.
    pub(crate) fn queue(&mut self) -> &mut Queue<Rc<OwnedFd>> {
        self.output.get_or_insert_default()
    }

    /// How many queued bytes have not gone out.
    pub(crate) fn queued(&self) -> usize {
        self.output.as_ref().map_or(0, |queue| queue.queued())
    }

    /// Takes what is queued and has not gone out.
    fn take_output(&mut self) -> Vec<u8> {
        self.output.take().and_then(|queue| queue.copy()).unwrap_or_default()
    }

    /// Sends the queue and then `pieces`, of which `sent` bytes are gone already; updates `sent`.
    /// True when all is taken by the system; false when it would block, the stream being armed.
    #[inline]
    pub(crate) fn send(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let result = match pieces {
            [only] if !only.is_empty() && *sent == 0 && self.output.is_none() => self.send_only(only, sent),
            _ => self.send_all(pieces, sent),
        };
        self.send_failed = result.is_err();
        result
    }

    /// [`Stream::send`] of one piece, of which nothing is gone, without a queue.
    #[inline]
    fn send_only(&mut self, data: &[u8], sent: &mut usize) -> io::Result<bool> {
        let count = match self.socket.send(data)? {
            Moved::Done(count) => count,
            Moved::WouldBlock => 0,
        };
        self.written += count as u64;
        *sent = count;
        if count == data.len() { Ok(self.end_message(count)) } else { self.write_later() }
    }

    /// A message of that length is sent.
    #[inline]
    fn end_message(&mut self, length: usize) -> bool {
        let weight = u32::try_from(1 + length / QUANTUM).unwrap_or(BURST);
        self.messages = self.messages.saturating_add(weight);
        true
    }

    fn write_later(&mut self) -> io::Result<bool> {
        self.messages = 0;
        self.socket.arm(WRITE)?;
        Ok(false)
    }

    fn send_all(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let mut nothing = Queue::default();
        let queue = self.output.as_deref_mut().unwrap_or(&mut nothing);
        match queue.send(&mut self.socket, pieces, sent, &mut self.written)? {
            Sent::All => {
                self.output = None;
                Ok(self.end_message(pieces.iter().map(|piece| piece.len()).sum()))
            }
            _ => self.write_later(),
        }
    }

    /// Closes the connection and gives its buffers back. What is queued and not sent is dropped.
    pub(crate) fn close(&mut self) {
        self.socket.close();
        self.ended = true;
        self.pool.put(self.input.release());
        self.output = None;
        self.sought = Vec::new();
        self.drop_parcel();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}
