//! The read buffer of a stream, and the pool of one VM.

use std::cell::{Cell, RefCell};

/// The size of a pooled buffer, which is also what one read asks for at least.
pub(crate) const SIZE: usize = 16 * 1024;
/// The size of the wide buffer. A message of 64 KiB comes in one read, and by what is left of the room is known to be all
/// there is.
const WIDE: usize = 64 * 1024 + 512;
/// A buffer that grew beyond this is freed, not pooled.
const LARGEST: usize = 4 * SIZE;
/// How many free buffers are kept.
const SPARE: usize = 64;

/// What bytes lie in.
#[derive(Default)]
pub(super) struct Memory {
    data: Vec<u8>,
    origin: Origin,
}

/// Where memory comes from, and goes back to.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Origin {
    /// The allocator, or the pool's ordinary buffers.
    #[default]
    Ordinary,
    /// It is the pool's wide buffer.
    Wide,
}

impl From<Vec<u8>> for Memory {
    fn from(data: Vec<u8>) -> Memory {
        let origin = Origin::Ordinary;
        Memory { data, origin }
    }
}

/// Bytes that were read: consumed at the front, filled at the back.
#[derive(Default)]
pub(crate) struct Buffer {
    memory: Memory,
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
        &self.memory.data[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.memory.data.len() == self.start
    }

    /// Lies in the pool's wide buffer.
    pub(super) fn is_wide(&self) -> bool {
        self.memory.origin == Origin::Wide
    }

    /// Owns no memory.
    pub(crate) fn is_vacant(&self) -> bool {
        self.memory.data.capacity() == 0
    }

    /// Lies in this memory from now on.
    #[inline]
    pub(super) fn adopt(&mut self, memory: Memory) {
        self.memory = memory;
        self.move_front(0);
    }

    /// The bytes begin at `start` from now on.
    #[inline]
    fn move_front(&mut self, start: usize) {
        self.start = start;
        self.lent = 0;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Consumes `count` bytes, of which the first `handed` are to be handed over: all stay in the memory until the buffer
    /// is used for anything else.
    #[inline]
    pub(super) fn lend(&mut self, handed: usize, count: usize) {
        let lent = count.min(self.bytes().len());
        self.move_front(self.start + lent);
        self.lent = lent;
        self.handed = handed.min(lent);
    }

    /// The bytes that are being handed over.
    #[inline]
    pub(super) fn lent(&self) -> &[u8] {
        let from = self.start - self.lent;
        &self.memory.data[from..from + self.handed.min(self.lent)]
    }

    /// Whether bytes that were lent are still in the memory, and nothing has told that they are done with.
    pub(super) fn has_lent(&self) -> bool {
        self.lent > 0
    }

    /// What was lent is done with.
    pub(super) fn end_loan(&mut self) {
        self.consume(0);
    }

    /// What was lent is there again, as if it had not been.
    pub(super) fn take_lent_back(&mut self) {
        self.move_front(self.start - self.lent);
    }

    /// Gives the memory away; the buffer is vacant then.
    #[inline]
    pub(super) fn release(&mut self) -> Memory {
        self.move_front(0);
        std::mem::take(&mut self.memory)
    }

    /// Gives the bytes away that were not consumed; the buffer is vacant then.
    pub(super) fn release_unread(&mut self) -> Vec<u8> {
        let start = self.start;
        let mut data = self.release().data;
        data.drain(..start);
        data
    }

    /// Drops the first `count` bytes, or all when there are fewer.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.move_front(self.memory.data.len().min(self.start.saturating_add(count)));
        if self.is_empty() {
            self.memory.data.clear();
            self.start = 0;
        }
    }

    /// Has `read` append to the bytes: to a vector with spare capacity for `want` bytes, or for a read of useful size when
    /// that is more. The pool learns when its wide buffer becomes an ordinary one. → what that returns
    #[inline]
    pub(super) fn fill<R>(&mut self, want: usize, pool: &Pool, read: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let want = want.max(SIZE / 4);
        if self.memory.data.capacity() - self.memory.data.len() < want {
            self.make_room(want, pool);
        }
        read(&mut self.memory.data)
    }

    #[cold]
    fn make_room(&mut self, want: usize, pool: &Pool) {
        let data = &mut self.memory.data;
        let moves = self.start > 0;
        if moves {
            data.drain(..self.start);
        }
        if data.capacity() - data.len() < want {
            // Doubling keeps the copies of a growing buffer linear in what it holds in the end.
            data.reserve(want);
            if std::mem::take(&mut self.memory.origin) == Origin::Wide {
                pool.wide.set(Wide::Unmade);
            }
        }
        if moves {
            self.move_front(0);
        }
    }
}

/// Free buffers of one VM. Invariant: there is one wide buffer at most, which a stream has that reads, or that left some
/// of what it read.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    wide: Cell<Wide>,
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
    pub(super) fn take(&self) -> Vec<u8> {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| Vec::with_capacity(SIZE))
    }

    /// An empty buffer to read into: the wide one, unless a stream has it.
    #[inline]
    pub(super) fn take_wide(&self) -> Memory {
        let data = match self.wide.replace(Wide::Lent) {
            Wide::Unmade => Vec::with_capacity(WIDE),
            Wide::Here(data) => data,
            Wide::Lent => return self.take().into(),
        };
        let origin = Origin::Wide;
        Memory { data, origin }
    }

    /// Takes a buffer back; one that is too large, or one too many, is freed.
    #[inline]
    pub(super) fn put(&self, memory: Memory) {
        let Memory { mut data, origin } = memory;
        if origin == Origin::Wide {
            data.clear();
            self.wide.set(Wide::Here(data));
            return;
        }
        if (SIZE..=LARGEST).contains(&data.capacity()) {
            let mut free = self.free.borrow_mut();
            if free.len() < SPARE {
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
        buffer.adopt(Vec::with_capacity(2 * SIZE).into());
        write(&mut buffer, b"abcdef");
        buffer.lend(4, 4);
        assert_eq!(buffer.bytes(), b"ef");
        buffer.take_lent_back();
        assert_eq!(buffer.bytes(), b"abcdef");
        buffer.lend(10, 10);
        assert!(buffer.is_empty() && buffer.has_lent());
        write(&mut buffer, b"gh");
        buffer.take_lent_back();
        assert_eq!(buffer.bytes(), b"abcdefgh");
        buffer.lend(2, 2);
        buffer.consume(1);
        assert!(!buffer.has_lent(), "somebody has gone on");
        buffer.take_lent_back();
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
        pool.put(Vec::with_capacity(LARGEST + 1).into());
        assert!(pool.free.borrow().is_empty());
        for _ in 0..SPARE + 10 {
            pool.put(Vec::with_capacity(SIZE).into());
        }
        assert_eq!(pool.free.borrow().len(), SPARE);
    }

    #[test]
    fn there_is_one_wide_buffer() {
        let pool = Pool::default();
        let wide = pool.take_wide();
        assert_eq!(wide.data.capacity(), WIDE);
        let address = wide.data.as_ptr();
        let beside = pool.take_wide();
        assert_eq!(beside.data.capacity(), SIZE, "a stream has the wide one");
        pool.put(beside);
        pool.put(wide);
        let mut grows = Buffer::default();
        grows.adopt(pool.take_wide());
        assert!(grows.is_wide());
        assert_eq!(grows.memory.data.as_ptr(), address);
        grows.fill(2 * WIDE, &pool, |data| data.push(0));
        assert!(!grows.is_wide());
        let next = pool.take_wide();
        assert_eq!(next.data.capacity(), WIDE, "made anew after it grew");
        pool.put(grows.release());
        pool.put(next);
    }

    #[test]
    fn an_ordinary_buffer_of_the_size_of_the_wide_one_is_none() {
        let pool = Pool::default();
        let wide = pool.take_wide();
        pool.put(Vec::with_capacity(WIDE).into());
        let beside = pool.take_wide();
        assert!(beside.origin == Origin::Ordinary, "the wide one is lent");
        pool.put(wide);
        assert!(pool.take_wide().origin == Origin::Wide);
    }
}
