//! The read buffer of a stream, and the pool of one VM.

use std::cell::RefCell;

/// The size of a pooled buffer, which is also what one read asks for at least.
pub(crate) const SIZE: usize = 16 * 1024;
/// The size of the wide buffer. A message of 64 KiB comes in one read, and by what is left of the room is known to be all
/// there is.
const WIDE: usize = 64 * 1024 + 512;
/// A buffer that grew beyond this is freed, not pooled.
const LARGEST: usize = 4 * SIZE;
/// How many free buffers are kept.
const SPARE: usize = 64;

/// Bytes that were read: consumed at the front, filled at the back.
#[derive(Default)]
pub(crate) struct Buffer {
    data: Vec<u8>,
    start: usize,
    /// So many bytes before `start` are being handed over, see [`Buffer::lend`].
    lent: usize,
    /// So many of these are what is handed over; the others are a delimiter behind them.
    handed: usize,
    /// How often something other than the back has changed.
    changes: u32,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.len() == self.start
    }

    /// Lies in the pool's wide buffer.
    pub(super) fn is_wide(&self) -> bool {
        self.data.capacity() == WIDE
    }

    /// Owns no memory.
    pub(crate) fn is_vacant(&self) -> bool {
        self.data.capacity() == 0
    }

    /// How many bytes at the front of the memory were consumed.
    pub(super) fn consumed(&self) -> usize {
        self.start
    }

    pub(crate) fn adopt(&mut self, data: Vec<u8>) {
        self.data = data;
        self.move_front(0);
    }

    /// The bytes begin at `start` from now on.
    fn move_front(&mut self, start: usize) {
        self.start = start;
        self.lent = 0;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Tells two looks at the front of the bytes apart when they may have moved, or others have come, in between.
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    /// Consumes `count` bytes, but leaves them in the memory until the buffer is used for anything else.
    pub(super) fn lend(&mut self, count: usize) {
        self.lend_part(count, count);
    }

    /// The same, where only the first `handed` bytes are to be handed over.
    pub(super) fn lend_part(&mut self, handed: usize, count: usize) {
        let lent = count.min(self.bytes().len());
        self.move_front(self.start + lent);
        self.lent = lent;
        self.handed = handed.min(lent);
    }

    /// The bytes that are being handed over.
    pub(super) fn lent(&self) -> &[u8] {
        let from = self.start - self.lent;
        &self.data[from..from + self.handed.min(self.lent)]
    }

    /// Whether bytes that were lent are still in the memory, and nothing has told that they are done with.
    pub(super) fn has_lent(&self) -> bool {
        self.lent > 0
    }

    /// What was lent is done with, unless it is to be kept: then it is as if it had not been lent.
    pub(super) fn end_loan(&mut self, keep: bool) {
        match keep {
            true => self.move_front(self.start - self.lent),
            false => self.consume(0),
        }
    }

    /// Gives the memory away; the buffer is vacant then.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        self.move_front(0);
        std::mem::take(&mut self.data)
    }

    /// Drops the first `count` bytes, or all when there are fewer: a finalizer may have consumed or closed before.
    pub(crate) fn consume(&mut self, count: usize) {
        self.move_front(self.data.len().min(self.start.saturating_add(count)));
        if self.is_empty() {
            self.data.clear();
            self.start = 0;
        }
    }

    /// Makes room for `want` bytes, or for a read of useful size when that is more.
    pub(crate) fn make_room(&mut self, want: usize) {
        let want = want.max(SIZE / 4);
        if self.data.capacity() - self.data.len() >= want {
            return;
        }
        if self.start > 0 {
            self.data.drain(..self.start);
            self.move_front(0);
        }
        // Doubling keeps the copies of a growing buffer linear in what it holds in the end.
        self.data.reserve(want);
    }

    /// The memory to read into, whose spare capacity is the room that there is.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }
}

/// Free buffers of one VM. Invariant: there is one wide buffer at most, which a stream has that reads, or that left some
/// of what it read.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    wide: RefCell<Wide>,
}

/// Where the wide buffer is.
#[derive(Default)]
enum Wide {
    #[default]
    Unmade,
    Here(Vec<u8>),
    Lent,
}

impl Pool {
    /// An empty buffer of at least [`SIZE`] bytes.
    pub(crate) fn take(&self) -> Vec<u8> {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| Vec::with_capacity(SIZE))
    }

    /// An empty buffer to read into: the wide one, unless a stream has it.
    pub(crate) fn take_wide(&self) -> Vec<u8> {
        match self.wide.replace(Wide::Lent) {
            Wide::Unmade => Vec::with_capacity(WIDE),
            Wide::Here(data) => data,
            Wide::Lent => self.take(),
        }
    }

    /// Takes a buffer back; one that is too large, or one too many, is freed.
    pub(crate) fn put(&self, mut data: Vec<u8>) {
        let size = data.capacity();
        if size < SIZE {
            return;
        }
        if size == WIDE {
            data.clear();
            self.wide.replace(Wide::Here(data));
            return;
        }
        if size > LARGEST {
            self.lost();
            return;
        }
        let mut free = self.free.borrow_mut();
        if free.len() < SPARE {
            data.clear();
            free.push(data);
        }
    }

    /// A buffer has grown too large, maybe the wide one: another is made when it is needed.
    fn lost(&self) {
        let mut wide = self.wide.borrow_mut();
        if matches!(*wide, Wide::Lent) {
            *wide = Wide::Unmade;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(buffer: &mut Buffer, bytes: &[u8]) {
        buffer.make_room(bytes.len());
        buffer.room().extend_from_slice(bytes);
    }

    #[test]
    fn bytes_come_out_in_order_across_growth_and_compaction() {
        let mut buffer = Buffer::default();
        let mut expected = Vec::new();
        for round in 0..200u32 {
            let piece = vec![round as u8; 1 + (round as usize * 37) % 9000];
            write(&mut buffer, &piece);
            expected.extend_from_slice(&piece);
            let take = expected.len() / 2;
            assert_eq!(&buffer.bytes()[..take], &expected[..take]);
            buffer.consume(take);
            expected.drain(..take);
        }
        assert_eq!(buffer.bytes(), expected);
    }

    #[test]
    fn what_is_lent_is_consumed_until_it_is_kept() {
        let mut buffer = Buffer::default();
        buffer.make_room(2 * SIZE);
        write(&mut buffer, b"abcdef");
        buffer.lend(4);
        assert_eq!(buffer.bytes(), b"ef");
        buffer.end_loan(true);
        assert_eq!(buffer.bytes(), b"abcdef");
        buffer.lend(10);
        assert!(buffer.is_empty() && buffer.has_lent());
        write(&mut buffer, b"gh");
        buffer.end_loan(true);
        assert_eq!(buffer.bytes(), b"abcdefgh");
        buffer.lend(2);
        buffer.consume(1);
        assert!(!buffer.has_lent(), "somebody has gone on");
        buffer.end_loan(true);
        assert_eq!(buffer.bytes(), b"defgh");
    }

    #[test]
    fn the_pool_keeps_ordinary_buffers_and_frees_large_ones() {
        let pool = Pool::default();
        let first = pool.take();
        let address = first.as_ptr();
        pool.put(first);
        let again = pool.take();
        assert_eq!(again.as_ptr(), address);
        pool.put(Vec::with_capacity(LARGEST + 1));
        assert!(pool.free.borrow().is_empty());
        for _ in 0..SPARE + 10 {
            pool.put(Vec::with_capacity(SIZE));
        }
        assert_eq!(pool.free.borrow().len(), SPARE);
    }

    #[test]
    fn there_is_one_wide_buffer() {
        let pool = Pool::default();
        let wide = pool.take_wide();
        assert_eq!(wide.capacity(), WIDE);
        let address = wide.as_ptr();
        let beside = pool.take_wide();
        assert_eq!(beside.capacity(), SIZE, "a stream has the wide one");
        pool.put(beside);
        pool.put(wide);
        let mut again = pool.take_wide();
        assert_eq!(again.as_ptr(), address);
        again.reserve(2 * WIDE);
        pool.put(again);
        assert_eq!(pool.take_wide().capacity(), WIDE, "made anew after it grew");
    }
}
