//! One connection's buffers: what a stream of bytes needs above its socket.
//!
//! - `buffer.rs`: the read buffer, and the pool that buffers come from and go back to
//! - `transport.rs`: what a stream stands on: plain sockets now, TLS later
//! - `receive.rs`: the forms of `recv`
//! - `turns.rs`: who has a turn to read or to write
//! - `transfer.rs`: streams that are sent to another VM; `parcel.rs`: connections on their way there
//! - `file.rs`: files, sent by the kernel
//! - `broadcast.rs`: messages that many streams get; `shared.rs`: what of them is queued
//! - `queue.rs`: what is to be sent on one connection: bytes, shared bytes, ranges of files
//!
//! A stream is registered once, for both directions, and asks for events one at a time: whoever finds
//! that a call would block has the stream armed by the same call. Idle streams own no buffer.

pub(crate) mod broadcast;
mod buffer;
pub(crate) mod file;
mod parcel;
pub(crate) mod queue;
mod receive;
mod shared;
#[cfg(test)]
mod tests;
mod transfer;
mod transport;
pub(crate) mod turns;

pub(crate) use buffer::{Buffer, Pool};
pub(crate) use receive::{Form, Received};
pub(crate) use transport::Transport;
pub(crate) use turns::Turns;

use self::shared::Shared;
use crate::event::{READ, WRITE};
use crate::socket::{Moved, Socket};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
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

/// Pieces handed to one system call at most.
const PIECES: usize = 64;
/// A batch of no more than this many pieces is gathered in a small array.
const FEW: usize = 8;
/// So many reads, or [`QUANTUM`]s sent, without a wait in between; then others get their turn.
const BURST: u32 = 32;
/// Sent bytes that weigh as much as one message more.
const QUANTUM: usize = buffer::SIZE;

/// One connection.
pub(crate) struct Stream {
    pub(crate) transport: Transport,
    input: Buffer,
    /// Queued bytes that go out before anything sent later; `output_done` of them are gone.
    output: Vec<u8>,
    output_done: usize,
    /// What goes out behind them, and stands in other streams as well; mostly nothing.
    shared: Option<Box<Shared>>,
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
    pub(crate) fn new(transport: Transport, pool: &Rc<Pool>) -> Stream {
        Stream {
            transport,
            input: Buffer::default(),
            output: Vec::new(),
            output_done: 0,
            shared: None,
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
        self.transport.socket()
    }

    /// Asks the selector for `bits`, once. An error means that no event will come.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.transport.arm(bits)
    }

    /// The descriptor for others to name it by; -1 once closed.
    pub(crate) fn handle(&mut self) -> RawFd {
        let Transport::Plain(socket) = &mut self.transport;
        socket.handle()
    }

    /// The number of its outlet; `None` while bytes are queued, or when it is closed.
    pub(crate) fn outlet(&mut self) -> Option<u64> {
        self.transport.outlet().filter(|_| self.queued() == 0)
    }

    /// Whether the peer has ended its side, or the connection failed, as far as the selector knows.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed() || self.ended || self.transport.peer_is_over()
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
        self.transport.is_closed()
    }

    /// Reads once, with room for at least `want` bytes. No system call is spent when a short read has
    /// shown that nothing is there. A peer that sends faster than it is read makes this say
    /// `WouldBlock` now and then, the stream being due in the next round of the loop.
    pub(crate) fn fill(&mut self, want: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        if !self.fresh && (self.reads >= BURST || !self.transport.may_read()) {
            return self.read_later();
        }
        self.fresh = false;
        self.reads += 1;
        if self.input.is_vacant() {
            self.input.adopt(self.pool.take_wide());
        }
        let received = self.input.fill(want, &self.pool, |room| self.transport.receive(room));
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
        self.input.is_empty() && !(self.fresh || self.ended) && !self.transport.may_read() && self.read_later().is_ok()
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
        self.transport.arm(READ)?;
        Ok(Filled::WouldBlock)
    }

    /// Whether another message may be sent now. False when it is time to let others run: the stream is
    /// armed for writing then, and due in the next round of the loop.
    pub(crate) fn begin_message(&mut self) -> io::Result<bool> {
        match self.messages < BURST {
            true => Ok(true),
            false => self.write_later(),
        }
    }

    /// The write queue: what is appended goes out ahead of what is sent next.
    pub(crate) fn queue(&mut self) -> &mut Vec<u8> {
        self.copy_shared();
        if self.output.capacity() == 0 {
            self.output = self.pool.take();
        }
        &mut self.output
    }

    /// How many queued bytes have not gone out.
    pub(crate) fn queued(&self) -> usize {
        let own = self.output.len() - self.output_done;
        self.shared.as_ref().map_or(own, |shared| own + shared.length())
    }

    /// Sends the queue and then `pieces`, of which `sent` bytes are gone already; updates `sent`.
    /// True when all is taken by the system; false when it would block, the stream being armed.
    #[inline]
    pub(crate) fn send(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let result = match pieces {
            [only] if !only.is_empty() && *sent == 0 && self.queued() == 0 => self.send_only(only, sent),
            _ => self.send_all(pieces, sent),
        };
        self.send_failed = result.is_err();
        result
    }

    /// [`Stream::send`] of one piece, of which nothing is gone, without a queue.
    #[inline]
    fn send_only(&mut self, data: &[u8], sent: &mut usize) -> io::Result<bool> {
        let count = match self.transport.send(data)? {
            Moved::Done(count) => count,
            Moved::WouldBlock => 0,
        };
        self.written += count as u64;
        *sent = count;
        match count == data.len() {
            true => Ok(self.end_message(count)),
            false => self.write_later(),
        }
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
        self.transport.arm(WRITE)?;
        Ok(false)
    }

    fn send_all(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        loop {
            // `sent` comes from Lua: beyond the end is at the end.
            if self.queued() == 0 && *sent >= total {
                return Ok(self.end_message(total));
            }
            let (moved, asked) = self.send_once(pieces, *sent)?;
            let Moved::Done(count) = moved else {
                return self.write_later();
            };
            self.written += count as u64;
            let of_queue = count.min(self.queued());
            self.took(of_queue);
            *sent += count - of_queue;
            if count < asked {
                return self.write_later();
            }
        }
    }

    /// The first `count` queued bytes are gone.
    fn took(&mut self, mut count: usize) {
        if self.shared.is_some() {
            count = self.took_shared(count);
        }
        self.output_done += count;
        if self.queued() == 0 && self.output.capacity() > 0 {
            self.output_done = 0;
            self.pool.put(std::mem::take(&mut self.output).into());
        }
    }

    /// One system call; what it did, and how many bytes it was given.
    fn send_once(&self, pieces: &[&[u8]], sent: usize) -> io::Result<(Moved<usize>, usize)> {
        if pieces.is_empty() && self.shared.is_none() {
            let queued = &self.output[self.output_done..];
            return Ok((self.transport.send(queued)?, queued.len()));
        }
        if let ([only], 0) = (pieces, self.queued()) {
            let rest = &only[sent..];
            return Ok((self.transport.send(rest)?, rest.len()));
        }
        match pieces.len() < FEW && self.shared.is_none() {
            true => self.send_batch::<FEW>(pieces, sent),
            false => self.send_batch::<PIECES>(pieces, sent),
        }
    }

    fn send_batch<const N: usize>(&self, pieces: &[&[u8]], sent: usize) -> io::Result<(Moved<usize>, usize)> {
        let mut slices = [IoSlice::new(&[]); N];
        let (mut used, mut length) = (0, 0);
        self.each_piece(pieces, sent, N, |piece| {
            slices[used] = IoSlice::new(piece);
            used += 1;
            length += piece.len();
        });
        let moved = match used {
            1 => self.transport.send(&slices[0])?,
            _ => self.transport.send_pieces(&slices[..used])?,
        };
        Ok((moved, length))
    }

    /// What the next system call is to send: the queue, then what is left of the pieces; `most` in all.
    fn each_piece<'a>(&'a self, pieces: &[&'a [u8]], sent: usize, most: usize, mut visit: impl FnMut(&'a [u8])) {
        let mut used = 0;
        if self.output.len() > self.output_done {
            visit(&self.output[self.output_done..]);
            used += 1;
        }
        if let Some(shared) = &self.shared {
            for piece in shared.pieces().take(most - used) {
                visit(piece);
                used += 1;
            }
        }
        let mut skip = sent;
        for &piece in pieces {
            if used == most {
                return;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            visit(&piece[skip..]);
            skip = 0;
            used += 1;
        }
    }

    /// Closes the connection and gives its buffers back. What is queued and not sent is dropped.
    pub(crate) fn close(&mut self) {
        self.transport.close();
        self.ended = true;
        self.pool.put(self.input.release());
        self.pool.put(std::mem::take(&mut self.output).into());
        self.output_done = 0;
        self.shared = None;
        self.sought = Vec::new();
        if self.parcel != 0 {
            drop(parcel::take(std::mem::take(&mut self.parcel)));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}
