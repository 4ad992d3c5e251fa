//! The read buffer of a stream, and the pool of free buffers of one VM.

use std::cell::{Cell, RefCell};

/// The size of a pooled buffer in bytes.
pub(crate) const SIZE: usize = 16 * 1024;
/// The size of the wide buffer in bytes. One read can return a message of 64 KiB and leave space free, which shows that
/// all available data was read.
const WIDE: usize = 64 * 1024 + 512;
/// The maximum capacity of a pooled buffer, in bytes. A larger buffer is freed.
const MAX_POOLED: usize = 4 * SIZE;
/// The maximum number of free buffers in a pool.
const MAX_FREE: usize = 64;

/// The memory of a buffer.
#[derive(Default)]
pub(super) struct Memory {
    data: Vec<u8>,
    origin: Origin,
}

/// The origin of a buffer's memory, to which the memory is returned.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Origin {
    /// The allocator or the pool's ordinary buffers.
    #[default]
    Ordinary,
    /// The pool's wide buffer.
    Wide,
}

impl From<Vec<u8>> for Memory {
    fn from(data: Vec<u8>) -> Memory {
        let origin = Origin::Ordinary;
        Memory { data, origin }
    }
}

/// Bytes that were read. They are consumed at the front and appended at the back.
#[derive(Default)]
pub(crate) struct Buffer {
    memory: Memory,
    start: usize,
    /// The number of bytes before `start` that are lent, see [`Buffer::lend`].
    lent: usize,
    /// The number of lent bytes that the borrower gets; the other lent bytes are a delimiter after them.
    lent_length: usize,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory.data[self.start..]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory.data[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.memory.data.len() == self.start
    }

    /// Returns whether the memory is the pool's wide buffer.
    pub(super) fn is_wide(&self) -> bool {
        self.memory.origin == Origin::Wide
    }

    /// Returns whether the buffer owns no memory.
    pub(crate) fn is_vacant(&self) -> bool {
        self.memory.data.capacity() == 0
    }

    /// Uses `memory` instead of the current memory.
    #[inline]
    pub(super) fn adopt(&mut self, memory: Memory) {
        self.memory = memory;
        self.move_front(0);
    }

    /// Consumes `consume` bytes and lends the first `length` of them. All of these bytes stay in memory until the
    /// buffer is changed in another way; see [`Buffer::has_lent_bytes`].
    #[inline]
    pub(super) fn lend(&mut self, length: usize, consume: usize) {
        let lent = consume.min(self.bytes().len());
        self.move_front(self.start + lent);
        self.lent = lent;
        self.lent_length = length.min(lent);
    }

    /// Returns the lent bytes.
    #[inline]
    pub(super) fn lent_bytes(&self) -> &[u8] {
        let from = self.start - self.lent;
        &self.memory.data[from..from + self.lent_length.min(self.lent)]
    }

    /// Returns whether lent bytes are still in memory, and the loan has not been ended.
    pub(super) fn has_lent_bytes(&self) -> bool {
        self.lent > 0
    }

    /// Ends the loan: the lent bytes are no longer needed.
    pub(super) fn release_lent_bytes(&mut self) {
        self.consume(0);
    }

    /// Puts the lent bytes back; they are unread again.
    pub(super) fn restore_lent_bytes(&mut self) {
        self.move_front(self.start - self.lent);
    }

    /// Returns the memory; the buffer is then vacant.
    #[inline]
    pub(super) fn release(&mut self) -> Memory {
        self.move_front(0);
        std::mem::take(&mut self.memory)
    }

    /// Returns the unconsumed bytes; the buffer is then vacant.
    pub(super) fn release_unread(&mut self) -> Vec<u8> {
        let start = self.start;
        let mut data = self.release().data;
        data.drain(..start);
        data
    }

    /// Removes the first `count` bytes, or all if there are fewer.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.move_front(self.memory.data.len().min(self.start.saturating_add(count)));
        if self.is_empty() {
            self.memory.data.clear();
            self.start = 0;
        }
    }

    /// Calls `read` to append to the bytes, and returns its result. The vector has spare capacity for at least `want`
    /// bytes and for a read of useful size. If the pool's wide buffer has to grow, it becomes an ordinary buffer.
    #[inline]
    pub(super) fn fill<R>(&mut self, want: usize, pool: &Pool, read: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let want = want.max(SIZE / 4);
        if self.memory.data.capacity() - self.memory.data.len() < want {
            self.make_room(want, pool);
        }
        read(&mut self.memory.data)
    }

    /// Sets the start of the bytes, and ends the loan, if any.
    #[inline]
    fn move_front(&mut self, start: usize) {
        self.start = start;
        self.lent = 0;
    }

    #[cold]
    fn make_room(&mut self, want: usize, pool: &Pool) {
        let data = &mut self.memory.data;
        let moves = self.start > 0;
        if moves {
            data.drain(..self.start);
        }
        if data.capacity() - data.len() < want {
            // Doubling keeps the total of all copies linear in the final size.
            data.reserve(want);
            if std::mem::take(&mut self.memory.origin) == Origin::Wide {
                pool.wide.set(Wide::Absent);
            }
        }
        if moves {
            self.move_front(0);
        }
    }
}

/// Returns the size of the next read of data with `total` bytes, of which `received` have arrived. The size grows with
/// the received data, so that the announced total alone costs no memory.
pub(crate) fn next_read(total: usize, received: usize) -> usize {
    (total - received).min(received.max(SIZE))
}

/// The free buffers of one VM. Invariant: there is at most one wide buffer. It belongs to the pool, to a stream that is
/// reading, or to a stream that left a part of its data unread.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    wide: Cell<Wide>,
}

/// The state of the wide buffer.
#[derive(Default)]
enum Wide {
    #[default]
    Absent,
    Free(Vec<u8>),
    Lent,
}

impl Pool {
    /// Returns an empty buffer of at least [`SIZE`] bytes.
    pub(super) fn take(&self) -> Vec<u8> {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| Vec::with_capacity(SIZE))
    }

    /// Returns an empty buffer to read into: the wide buffer, or an ordinary one if a stream uses the wide buffer.
    #[inline]
    pub(super) fn take_wide(&self) -> Memory {
        let data = match self.wide.replace(Wide::Lent) {
            Wide::Absent => Vec::with_capacity(WIDE),
            Wide::Free(data) => data,
            Wide::Lent => return self.take().into(),
        };
        let origin = Origin::Wide;
        Memory { data, origin }
    }

    /// Takes a buffer back. The buffer is freed if it is too large, or if the pool is full.
    #[inline]
    pub(super) fn put(&self, memory: Memory) {
        let Memory { mut data, origin } = memory;
        if origin == Origin::Wide {
            data.clear();
            self.wide.set(Wide::Free(data));
            return;
        }
        if (SIZE..=MAX_POOLED).contains(&data.capacity()) {
            let mut free = self.free.borrow_mut();
            if free.len() < MAX_FREE {
                data.clear();
                free.push(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(buffer: &mut Buffer, bytes: &[u8]) {
        buffer.fill(bytes.len(), &Pool::default(), |data| {
            assert!(data.capacity() - data.len() >= bytes.len());
            data.extend_from_slice(bytes);
        });
    }

    #[test]
    fn bytes_stay_in_order_across_growth_and_compaction() {
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
    fn lent_bytes_are_consumed_unless_taken_back() {
        let mut buffer = Buffer::default();
        buffer.adopt(Vec::with_capacity(2 * SIZE).into());
        write(&mut buffer, b"abcdef");
        buffer.lend(4, 4);
        assert_eq!(buffer.bytes(), b"ef");
        buffer.restore_lent_bytes();
        assert_eq!(buffer.bytes(), b"abcdef");
        buffer.lend(10, 10);
        assert!(buffer.is_empty() && buffer.has_lent_bytes());
        write(&mut buffer, b"gh");
        buffer.restore_lent_bytes();
        assert_eq!(buffer.bytes(), b"abcdefgh");
        buffer.lend(2, 2);
        buffer.consume(1);
        assert!(!buffer.has_lent_bytes(), "the loan ended when the buffer was used");
        buffer.restore_lent_bytes();
        assert_eq!(buffer.bytes(), b"defgh");
    }

    #[test]
    fn the_pool_keeps_ordinary_buffers_and_frees_large_ones() {
        let pool = Pool::default();
        let first = pool.take();
        let address = first.as_ptr();
        pool.put(first.into());
        let again = pool.take();
        assert_eq!(again.as_ptr(), address);
        pool.put(Vec::with_capacity(MAX_POOLED + 1).into());
        assert!(pool.free.borrow().is_empty());
        for _ in 0..MAX_FREE + 10 {
            pool.put(Vec::with_capacity(SIZE).into());
        }
        assert_eq!(pool.free.borrow().len(), MAX_FREE);
    }

    #[test]
    fn there_is_one_wide_buffer() {
        let pool = Pool::default();
        let wide = pool.take_wide();
        assert_eq!(wide.data.capacity(), WIDE);
        let address = wide.data.as_ptr();
        let beside = pool.take_wide();
        assert_eq!(beside.data.capacity(), SIZE, "a stream uses the wide buffer");
        pool.put(beside);
        pool.put(wide);
        let mut grows = Buffer::default();
        grows.adopt(pool.take_wide());
        assert!(grows.is_wide());
        assert_eq!(grows.memory.data.as_ptr(), address);
        grows.fill(2 * WIDE, &pool, |data| data.push(0));
        assert!(!grows.is_wide());
        let next = pool.take_wide();
        assert_eq!(next.data.capacity(), WIDE, "there is a new wide buffer after the first one grew");
        pool.put(grows.release());
        pool.put(next);
    }

    #[test]
    fn an_ordinary_buffer_as_large_as_the_wide_one_stays_ordinary() {
        let pool = Pool::default();
        let wide = pool.take_wide();
        pool.put(Vec::with_capacity(WIDE).into());
        let beside = pool.take_wide();
        assert!(beside.origin == Origin::Ordinary, "the wide buffer is lent");
        pool.put(wide);
        assert!(pool.take_wide().origin == Origin::Wide);
    }
}
