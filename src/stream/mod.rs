//! One connection's buffers: what a stream of bytes needs above its socket.
//!
//! - `buffer.rs`: the read buffer, and the pool that buffers come from and go back to
//! - `transport.rs`: what a stream stands on: plain sockets now, TLS later
//! - `receive.rs`: the forms of `recv`
//! - `lua.rs`: `lio.stream`, what `lualib/lio/net.lua` is built on
//!
//! A stream is registered once, for both directions, and asks for events one at a time: whoever finds
//! that a call would block has the stream armed by the same call. Idle streams own no buffer.

mod buffer;
pub(crate) mod lua;
mod receive;
mod transport;

pub(crate) use buffer::{Buffer, Pool};
pub(crate) use transport::Transport;

use crate::selector::{READ, WRITE};
use crate::socket::Moved;
use std::io::{self, IoSlice};
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

/// One connection.
pub(crate) struct Stream {
    pub(crate) transport: Transport,
    input: Buffer,
    /// Queued bytes that go out before anything sent later; `output_done` of them are gone.
    output: Vec<u8>,
    output_done: usize,
    pool: Rc<Pool>,
    ended: bool,
    /// Nothing was tried yet, so nothing is known about what there is to read.
    fresh: bool,
    /// How far a search for a delimiter has come, counted from the start of what is buffered.
    searched: usize,
}

impl Stream {
    pub(crate) fn new(transport: Transport, pool: &Rc<Pool>) -> Stream {
        Stream {
            transport,
            input: Buffer::default(),
            output: Vec::new(),
            output_done: 0,
            pool: pool.clone(),
            ended: false,
            fresh: true,
            searched: 0,
        }
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

    /// The peer has ended its side, and all it sent is buffered or consumed.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.transport.is_closed()
    }

    /// Reads once, with room for at least `want` bytes. No system call is spent when a short read has
    /// shown that nothing is there.
    pub(crate) fn fill(&mut self, want: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        if !self.fresh && !self.transport.may_read() {
            self.transport.arm(READ);
            return Ok(Filled::WouldBlock);
        }
        self.fresh = false;
        if self.input.is_vacant() {
            self.input.adopt(self.pool.take());
        }
        self.input.make_room(want);
        let received = self.transport.receive(self.input.room());
        if let Ok(Moved::Done(count)) = received {
            // SAFETY: the transport has initialized `count` bytes of the room.
            unsafe { self.input.filled(count) };
        }
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
        match received? {
            Moved::Done(0) => {
                self.ended = true;
                Ok(Filled::End)
            }
            Moved::Done(_) => Ok(Filled::Some),
            Moved::WouldBlock => {
                self.transport.arm(READ);
                Ok(Filled::WouldBlock)
            }
        }
    }

    /// The write queue: what is appended goes out ahead of what is sent next.
    pub(crate) fn queue(&mut self) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = self.pool.take();
        }
        &mut self.output
    }

    /// How many queued bytes have not gone out.
    pub(crate) fn queued(&self) -> usize {
        self.output.len() - self.output_done
    }

    /// Sends the queue and then `pieces`, of which `sent` bytes are gone already; updates `sent`.
    /// True when all is taken by the system; false when it would block, the stream being armed.
    pub(crate) fn send(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        loop {
            if self.queued() == 0 && *sent == total {
                return Ok(true);
            }
            let moved = self.send_once(pieces, *sent)?;
            let Moved::Done(count) = moved else {
                self.transport.arm(WRITE);
                return Ok(false);
            };
            let asked = self.batch_length(pieces, *sent);
            let of_queue = count.min(self.queued());
            self.output_done += of_queue;
            if self.queued() == 0 && self.output.capacity() > 0 {
                self.output_done = 0;
                self.pool.put(std::mem::take(&mut self.output));
            }
            *sent += count - of_queue;
            if count < asked {
                self.transport.arm(WRITE);
                return Ok(false);
            }
        }
    }

    fn send_once(&self, pieces: &[&[u8]], sent: usize) -> io::Result<Moved<usize>> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut used = 0;
        self.each_piece(pieces, sent, |piece| {
            slices[used] = IoSlice::new(piece);
            used += 1;
        });
        match used {
            1 => self.transport.send(&slices[0]),
            _ => self.transport.send_pieces(&slices[..used]),
        }
    }

    fn batch_length(&self, pieces: &[&[u8]], sent: usize) -> usize {
        let mut length = 0;
        self.each_piece(pieces, sent, |piece| length += piece.len());
        length
    }

    /// What the next system call is to send: the queue, then what is left of the pieces.
    fn each_piece<'a>(&'a self, pieces: &[&'a [u8]], sent: usize, mut visit: impl FnMut(&'a [u8])) {
        let mut used = 0;
        if self.queued() > 0 {
            visit(&self.output[self.output_done..]);
            used += 1;
        }
        let mut skip = sent;
        for &piece in pieces {
            if used == PIECES {
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
        self.pool.put(std::mem::take(&mut self.output));
        self.output_done = 0;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}
