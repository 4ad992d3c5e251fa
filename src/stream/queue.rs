//! What is to be sent on one connection, in order: bytes that are its own, bytes that many connections share, ranges of
//! files, and behind them bytes that the caller keeps.
//!
//! Used by the HTTP server and by streams. Invariant: bytes leave in the order in which they were queued, each once, however the
//! transport cuts them.

pub(crate) use crate::socket::Moved;

use crate::socket::Socket;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// What takes bytes, or part of them.
pub(crate) trait Sink {
    /// An open file; a clone stands for the same one.
    type File: Clone;

    fn send(&mut self, data: &[u8]) -> io::Result<Moved<usize>>;
    /// The same; more follows at once.
    fn send_more(&mut self, data: &[u8]) -> io::Result<Moved<usize>>;
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Moved<usize>>;
    /// `count` bytes of the file from `offset` on, or part of them; 0 when the file has no more.
    fn send_file(&mut self, file: &Self::File, offset: u64, count: usize) -> io::Result<Moved<usize>>;
}

impl Sink for Socket {
    type File = Rc<OwnedFd>;

    fn send(&mut self, data: &[u8]) -> io::Result<Moved<usize>> {
        Socket::send(self, data)
    }
    fn send_more(&mut self, data: &[u8]) -> io::Result<Moved<usize>> {
        Socket::send_more(self, data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        Socket::send_pieces(self, pieces)
    }
    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Moved<usize>> {
        Socket::send_file(self, file.as_fd(), offset, count)
    }
}

/// Pieces handed to one system call at most.
const PIECES: usize = 64;
/// Shared bytes shorter than this are copied.
const SHARE_FROM: usize = 4096;
/// So many bytes of files go out in one turn; then others get theirs.
pub(super) const TURN: u64 = 512 * 1024;
/// A queue keeps no more memory than this while it is empty.
const KEPT: usize = 64 * 1024;
/// What a chunk counts besides its bytes, so that many short ones are limited as well.
const CHUNK: usize = 64;

/// One connection's queue.
pub(crate) struct Queue<F> {
    /// What goes out before the tail.
    chunks: VecDeque<Chunk<F>>,
    /// What was appended last.
    tail: Vec<u8>,
    /// So many bytes of the first chunk, or of the tail when there is none, are gone.
    done: usize,
    /// Bytes of memory that are queued.
    queued: usize,
}

enum Chunk<F> {
    Copied(Vec<u8>),
    Shared(Bytes),
    File { file: F, offset: u64, left: u64 },
}

/// What sending came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// All is taken.
    All,
    /// The rest does not fit now.
    Blocked,
    /// The rest is for another turn.
    Turn,
    /// A file has become shorter than the range that was queued of it.
    Short,
}

impl<F> Default for Queue<F> {
    fn default() -> Self {
        Queue { chunks: VecDeque::new(), tail: Vec::new(), done: 0, queued: 0 }
    }
}

impl<F> Chunk<F> {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Chunk::Copied(data) => Some(data),
            Chunk::Shared(data) => Some(data),
            Chunk::File { .. } => None,
        }
    }
}

impl<F: Clone> Queue<F> {
    /// Has `write` append to it. What is there stays as it is. → what that returns
    #[inline]
    pub(crate) fn append<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.tail.len();
        let result = write(&mut self.tail);
        self.queued += self.tail.len() - before;
        result
    }

    /// Bytes that stand in other queues as well.
    pub(crate) fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_FROM {
            return self.append(|out| out.extend_from_slice(&bytes));
        }
        self.share(bytes);
    }

    /// The same, however few they are.
    pub(super) fn share(&mut self, bytes: Bytes) {
        self.queued += bytes.len();
        self.close_tail();
        self.chunks.push_back(Chunk::Shared(bytes));
    }

    /// `length` bytes of a file from `offset` on.
    pub(crate) fn push_file(&mut self, file: F, offset: u64, length: u64) {
        if length > 0 {
            self.close_tail();
            let left = length;
            self.chunks.push_back(Chunk::File { file, offset, left });
        }
    }

    /// What is appended from now on goes out behind a chunk.
    fn close_tail(&mut self) {
        let is_first = self.chunks.is_empty();
        let gone = if is_first { self.done } else { 0 };
        if self.tail.len() > gone {
            let tail = std::mem::take(&mut self.tail);
            self.chunks.push_back(Chunk::Copied(tail));
        } else if is_first {
            self.clear_tail();
            self.done = 0;
        }
    }

    /// Bytes of memory that are queued: those of files do not count.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The same, and what it takes to keep them.
    pub(super) fn weight(&self) -> usize {
        self.queued + CHUNK * self.chunks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0 && self.chunks.is_empty()
    }

    /// Copies all that is queued in memory, in order; `None` when there are files among it.
    pub(crate) fn copy(&self) -> Option<Vec<u8>> {
        let mut all = Vec::with_capacity(self.queued);
        let mut skip = self.done;
        for chunk in &self.chunks {
            all.extend_from_slice(&chunk.bytes()?[skip..]);
            skip = 0;
        }
        all.extend_from_slice(&self.tail[skip..]);
        Some(all)
    }

    /// Drops all that is queued.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.clear_tail();
        (self.done, self.queued) = (0, 0);
    }

    fn clear_tail(&mut self) {
        if self.tail.capacity() > KEPT { self.tail = Vec::new() } else { self.tail.clear() }
    }

    /// Sends what is queued, and then the pieces `borrowed`, of which `taken` bytes are gone already; `taken` and `count`,
    /// the bytes that were taken in all, are moved on.
    ///
    /// # Errors
    /// Those of the transport; what was not taken stays queued.
    #[inline]
    pub(crate) fn send<S: Sink<File = F>>(
        &mut self, to: &mut S, borrowed: &[&[u8]], taken: &mut usize, count: &mut u64,
    ) -> io::Result<Sent> {
        if self.chunks.is_empty() && borrowed.is_empty() {
            let data = &self.tail[self.done..];
            if data.is_empty() {
                return Ok(Sent::All);
            }
            let asked = data.len();
            let Moved::Done(moved) = to.send(data)? else { return Ok(Sent::Blocked) };
            *count += moved as u64;
            self.queued -= moved;
            if moved < asked {
                self.done += moved;
                return Ok(Sent::Blocked);
            }
            self.clear_tail();
            self.done = 0;
            return Ok(Sent::All);
        }
        self.send_all(to, borrowed, taken, count, false)
    }

    /// As [`Queue::send`]; with `more`, a file follows at once.
    pub(super) fn send_all<S: Sink<File = F>>(
        &mut self, to: &mut S, borrowed: &[&[u8]], taken: &mut usize, count: &mut u64, more: bool,
    ) -> io::Result<Sent> {
        let total: usize = borrowed.iter().map(|piece| piece.len()).sum();
        let mut turn = TURN;
        loop {
            if let Some(Chunk::File { file, offset, left }) = self.chunks.front_mut() {
                if turn == 0 {
                    return Ok(Sent::Turn);
                }
                let want = (*left).min(turn);
                let Moved::Done(moved) = to.send_file(file, *offset, want as usize)? else { return Ok(Sent::Blocked) };
                if moved == 0 {
                    return Ok(Sent::Short);
                }
                let moved = moved as u64;
                *count += moved;
                turn -= moved;
                (*offset, *left) = (*offset + moved, *left - moved);
                if *left == 0 {
                    self.chunks.pop_front();
                }
                if moved < want {
                    return Ok(Sent::Blocked);
                }
                continue;
            }
            if self.chunks.is_empty() && self.queued == 0 && *taken >= total {
                self.clear_tail();
                self.done = 0;
                return Ok(Sent::All);
            }
            let (moved, asked) = self.send_once(to, borrowed, *taken, more)?;
            let Moved::Done(moved) = moved else { return Ok(Sent::Blocked) };
            *count += moved as u64;
            let of_queue = moved.min(self.queued);
            self.took(of_queue);
            *taken += moved - of_queue;
            if moved < asked {
                return Ok(Sent::Blocked);
            }
        }
    }

    /// One system call for memory. → what it did, and how many bytes it was given
    fn send_once<S: Sink<File = F>>(
        &self, to: &mut S, borrowed: &[&[u8]], taken: usize, mut more: bool,
    ) -> io::Result<(Moved<usize>, usize)> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let (mut used, mut length) = (0, 0);
        // What is gone: of what is queued, and of what is borrowed.
        let (mut done, mut taken) = (self.done, taken);
        let queued = self.chunks.iter().map(Chunk::bytes).chain([Some(&self.tail[..])]);
        let queued = queued.map(|piece| piece.map(|piece| &piece[std::mem::take(&mut done).min(piece.len())..]));
        let borrowed = borrowed.iter().map(|piece| {
            let gone = taken.min(piece.len());
            taken -= gone;
            Some(&piece[gone..])
        });
        for piece in queued.chain(borrowed) {
            let Some(piece) = piece else {
                more = true;
                break;
            };
            if used == PIECES {
                break;
            }
            if !piece.is_empty() {
                slices[used] = IoSlice::new(piece);
                used += 1;
                length += piece.len();
            }
        }
        let moved = match (&slices[..used], more) {
            ([only], true) => to.send_more(only)?,
            ([only], false) => to.send(only)?,
            (pieces, _) => to.send_pieces(pieces)?,
        };
        Ok((moved, length))
    }

    /// The first `count` bytes of memory are gone.
    fn took(&mut self, mut count: usize) {
        self.queued -= count;
        while let Some(bytes) = self.chunks.front().and_then(Chunk::bytes) {
            let left = bytes.len() - self.done;
            if count < left {
                self.done += count;
                return;
            }
            count -= left;
            self.done = 0;
            self.chunks.pop_front();
        }
        // A file in front leaves nothing of the tail to be gone.
        self.done += count;
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
