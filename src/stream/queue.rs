//! The output queue of one connection: its own bytes, bytes shared with other connections, ranges of files, and after
//! them bytes that the caller owns.
//!
//! Used by the HTTP server and by streams. Invariant: bytes are sent in the order in which they were queued, each once,
//! no matter how many bytes the transport accepts at a time.

pub(crate) use crate::socket::Attempt;

use crate::tls::Link;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// A destination that accepts bytes, or a part of them.
pub(crate) trait Sink {
    /// An open file. A clone refers to the same file.
    type File: Clone;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>>;
    /// Like `send`; more data follows immediately.
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>>;
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>>;
    /// Sends up to `count` bytes of the file, starting at `offset`. The result is 0 at the end of the file.
    fn send_file(&mut self, file: &Self::File, offset: u64, count: usize) -> io::Result<Attempt<usize>>;
    /// Sends accepted bytes that the destination itself holds back, such as encrypted bytes. Returns whether none is
    /// left.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

impl Sink for Link {
    type File = Rc<OwnedFd>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        Link::send(self, data)
    }
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        Link::send_more(self, data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        Link::send_pieces(self, pieces)
    }
    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        Link::send_file(self, file.as_fd(), offset, count)
    }
    #[inline]
    fn flush(&mut self) -> io::Result<bool> {
        Link::flush(self)
    }
}

/// The maximum number of pieces in one system call.
const MAX_PIECES: usize = 64;
/// Shared bytes shorter than this are copied.
const SHARE_FROM: usize = 4096;
/// The maximum number of file bytes sent in one turn; after that, other connections are served.
pub(super) const FILE_BUDGET: u64 = 512 * 1024;
/// The maximum capacity that an empty queue keeps, in bytes.
const MAX_SPARE_CAPACITY: usize = 64 * 1024;
/// The number of bytes that an item counts as, in addition to its data, so that the number of short items is limited
/// as well.
const ITEM_COST: usize = 64;

/// One connection's queue.
pub(crate) struct Queue<F> {
    /// The items, which are sent before the tail.
    items: VecDeque<Item<F>>,
    /// The bytes appended last.
    tail: Vec<u8>,
    /// The number of sent bytes of the first item, or of the tail if there are no items.
    done: usize,
    /// The number of unsent bytes in memory.
    queued: usize,
}

enum Item<F> {
    Copied(Vec<u8>),
    Shared(Bytes),
    File { file: F, offset: u64, left: u64 },
}

/// The result of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// The destination has accepted everything.
    All,
    /// The destination cannot accept the rest now.
    Blocked,
    /// The rest must be sent in the next turn.
    BudgetSpent,
    /// A file is shorter than its queued range.
    FileTooShort,
}

impl<F> Default for Queue<F> {
    fn default() -> Self {
        Queue { items: VecDeque::new(), tail: Vec::new(), done: 0, queued: 0 }
    }
}

impl<F> Item<F> {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Item::Copied(data) => Some(data),
            Item::Shared(data) => Some(data),
            Item::File { .. } => None,
        }
    }
}

impl<F: Clone> Queue<F> {
    /// Calls `write` to append to the queue, and returns its result. `write` must not change earlier bytes.
    #[inline]
    pub(crate) fn append<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.tail.len();
        let result = write(&mut self.tail);
        self.queued += self.tail.len() - before;
        result
    }

    /// Appends bytes that other queues contain as well. Fewer than [`SHARE_FROM`] bytes are copied.
    pub(crate) fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_FROM {
            return self.append(|out| out.extend_from_slice(&bytes));
        }
        self.share(bytes);
    }

    /// Appends shared bytes without a copy, even if they are few.
    pub(super) fn share(&mut self, bytes: Bytes) {
        self.queued += bytes.len();
        self.close_tail();
        self.items.push_back(Item::Shared(bytes));
    }

    /// Appends `length` bytes of a file, starting at `offset`.
    pub(crate) fn push_file(&mut self, file: F, offset: u64, length: u64) {
        if length > 0 {
            self.close_tail();
            let left = length;
            self.items.push_back(Item::File { file, offset, left });
        }
    }

    /// Returns the number of unsent bytes in memory. Bytes of files are not counted.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Like [`Queue::queued`], plus the cost of the items.
    pub(super) fn weight(&self) -> usize {
        self.queued + ITEM_COST * self.items.len()
    }

    /// Whether there are files in the queue.
    pub(crate) fn has_file(&self) -> bool {
        self.items.iter().any(|item| item.bytes().is_none())
    }

    /// Copies all unsent bytes in memory, in order; `None` if there are files in the queue.
    pub(crate) fn copy(&self) -> Option<Vec<u8>> {
        let mut all = Vec::with_capacity(self.queued);
        let mut skip = self.done;
        for item in &self.items {
            all.extend_from_slice(&item.bytes()?[skip..]);
            skip = 0;
        }
        all.extend_from_slice(&self.tail[skip..]);
        Some(all)
    }

    /// Discards the content of the queue.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.clear_tail();
        (self.done, self.queued) = (0, 0);
    }

    /// Flushes the queue, and then sends the pieces `borrowed`, of which `sent` bytes were sent before. Updates `sent`
    /// and `total`, the total number of bytes sent.
    ///
    /// # Errors
    /// Returns the transport's error; unsent bytes stay queued.
    #[inline]
    pub(crate) fn send<S: Sink<File = F>>(
        &mut self, to: &mut S, borrowed: &[&[u8]], sent: &mut usize, total: &mut u64,
    ) -> io::Result<Sent> {
        if self.items.is_empty() && borrowed.is_empty() {
            let data = &self.tail[self.done..];
            if data.is_empty() {
                return finish(to);
            }
            let requested = data.len();
            let Attempt::Done(moved) = to.send(data)? else { return Ok(Sent::Blocked) };
            *total += moved as u64;
            self.queued -= moved;
            if moved < requested {
                self.done += moved;
                return Ok(Sent::Blocked);
            }
            self.clear_tail();
            self.done = 0;
            return finish(to);
        }
        self.send_all(to, borrowed, sent, total, false)
    }

    /// Like [`Queue::send`]. If `more` is true, a file follows immediately.
    pub(super) fn send_all<S: Sink<File = F>>(
        &mut self, to: &mut S, borrowed: &[&[u8]], sent: &mut usize, total: &mut u64, more: bool,
    ) -> io::Result<Sent> {
        let borrowed_length: usize = borrowed.iter().map(|piece| piece.len()).sum();
        let mut budget = FILE_BUDGET;
        loop {
            if let Some(Item::File { file, offset, left }) = self.items.front_mut() {
                if budget == 0 {
                    return Ok(Sent::BudgetSpent);
                }
                let want = (*left).min(budget);
                let Attempt::Done(moved) = to.send_file(file, *offset, want as usize)? else {
                    return Ok(Sent::Blocked);
                };
                if moved == 0 {
                    return Ok(Sent::FileTooShort);
                }
                let moved = moved as u64;
                *total += moved;
                budget -= moved;
                (*offset, *left) = (*offset + moved, *left - moved);
                if *left == 0 {
                    self.items.pop_front();
                }
                if moved < want {
                    return Ok(Sent::Blocked);
                }
                continue;
            }
            if self.items.is_empty() && self.queued == 0 && *sent >= borrowed_length {
                self.clear_tail();
                self.done = 0;
                return finish(to);
            }
            let (moved, requested) = self.send_once(to, borrowed, *sent, more)?;
            let Attempt::Done(moved) = moved else { return Ok(Sent::Blocked) };
            *total += moved as u64;
            let of_queue = moved.min(self.queued);
            self.remove_sent(of_queue);
            *sent += moved - of_queue;
            if moved < requested {
                return Ok(Sent::Blocked);
            }
        }
    }

    /// Moves the tail into an item, so that later bytes follow it.
    fn close_tail(&mut self) {
        let is_first = self.items.is_empty();
        let sent = if is_first { self.done } else { 0 };
        if self.tail.len() > sent {
            let tail = std::mem::take(&mut self.tail);
            self.items.push_back(Item::Copied(tail));
        } else if is_first {
            self.clear_tail();
            self.done = 0;
        }
    }

    fn clear_tail(&mut self) {
        if self.tail.capacity() > MAX_SPARE_CAPACITY { self.tail = Vec::new() } else { self.tail.clear() }
    }

    /// Sends bytes in memory with one system call. Returns the result of the call and the number of bytes passed to it.
    fn send_once<S: Sink<File = F>>(
        &self, to: &mut S, borrowed: &[&[u8]], sent: usize, mut more: bool,
    ) -> io::Result<(Attempt<usize>, usize)> {
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let (mut used, mut length) = (0, 0);
        // The number of sent bytes of the queue, and of `borrowed`.
        let (mut done, mut sent) = (self.done, sent);
        let queued = self.items.iter().map(Item::bytes).chain([Some(&self.tail[..])]);
        let queued = queued.map(|piece| piece.map(|piece| &piece[std::mem::take(&mut done).min(piece.len())..]));
        let borrowed = borrowed.iter().map(|piece| {
            let skipped = sent.min(piece.len());
            sent -= skipped;
            Some(&piece[skipped..])
        });
        for piece in queued.chain(borrowed) {
            let Some(piece) = piece else {
                more = true;
                break;
            };
            if used == MAX_PIECES {
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

    /// Removes the first `count` bytes in memory, which were sent.
    fn remove_sent(&mut self, mut count: usize) {
        self.queued -= count;
        while let Some(bytes) = self.items.front().and_then(Item::bytes) {
            let left = bytes.len() - self.done;
            if count < left {
                self.done += count;
                return;
            }
            count -= left;
            self.done = 0;
            self.items.pop_front();
        }
        // If the first item is a file, no byte of the tail was sent and `count` is 0 here.
        self.done += count;
    }
}

/// Returns the result for an empty queue.
#[inline]
fn finish<S: Sink>(to: &mut S) -> io::Result<Sent> {
    Ok(if to.flush()? { Sent::All } else { Sent::Blocked })
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
