//! Blocks for one VM. Small ones are cut from chunks and go back to a list of their size; large ones are
//! the system's. Used by `memory.rs` alone.
//!
//! No block has a header: Lua tells each block's size, and so whether it is small. Chunks are freed with
//! the arena; a block that is free serves its size only.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

/// Largest block that is cut from a chunk: none where memory checkers are to see each block.
pub(super) const SMALL: usize = if cfg!(feature = "plain_malloc") {
    0
} else {
    512
};
/// Sizes are rounded up to this. A block whose size is a multiple of 16 is aligned to 16; in any other
/// size no object fits that needs it.
const GRAIN: usize = 8;
const CLASSES: usize = SMALL / GRAIN + 1;
const HEADER: usize = size_of::<Chunk>();
/// A chunk is a share of what there is: little is idle in a small VM, and a large one needs few.
const CHUNK_MIN: usize = 2 * 1024;
const CHUNK_MAX: usize = 32 * 1024;
const CHUNK_SHARE: usize = 16;

/// Start of a chunk; the blocks follow.
#[repr(C, align(16))]
struct Chunk {
    next: *mut Chunk,
}

/// A block that is free.
struct Free {
    next: *mut Free,
}

pub(super) struct Arena {
    /// What is left of the newest chunk: both ends are multiples of 8, the far one of 16.
    cut: *mut u8,
    left: usize,
    /// Bytes in chunks.
    held: usize,
    chunks: *mut Chunk,
    /// Free blocks by size in grains.
    free: [*mut Free; CLASSES],
}

/// Size as a number of grains.
#[inline]
fn class(size: usize) -> usize {
    size.div_ceil(GRAIN)
}

impl Arena {
    pub(super) const fn new() -> Self {
        Arena {
            cut: ptr::null_mut(),
            left: 0,
            held: 0,
            chunks: ptr::null_mut(),
            free: [ptr::null_mut(); CLASSES],
        }
    }

    /// Bytes in chunks, and how many of them are free.
    #[cfg(test)]
    pub(super) fn idle(&self) -> (usize, usize) {
        let mut idle = self.left;
        for (class, first) in self.free.iter().enumerate() {
            let mut block = *first;
            while !block.is_null() {
                idle += class * GRAIN;
                // SAFETY: listed blocks are free and hold the link.
                block = unsafe { (*block).next };
            }
        }
        (self.held, idle)
    }

    /// A block of `size` bytes, not 0; null when the system has none.
    #[inline(always)]
    pub(super) fn take(&mut self, size: usize) -> *mut u8 {
        if size > SMALL {
            return system_block(size);
        }
        let class = class(size);
        let first = self.free[class];
        if first.is_null() {
            return self.cut(class);
        }
        // SAFETY: a listed block is free and holds the link.
        self.free[class] = unsafe { (*first).next };
        first.cast()
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// It is this arena's, of that size, and nobody uses it any more.
    #[inline(always)]
    pub(super) unsafe fn give(&mut self, block: *mut u8, size: usize) {
        // SAFETY: the caller's promise; a small block has room for a link, and is aligned to it.
        unsafe {
            if size > SMALL {
                return libc::free(block.cast());
            }
            self.list(block, class(size));
        }
    }

    /// # Safety
    /// The block is of that class, and is nobody's.
    #[inline]
    unsafe fn list(&mut self, block: *mut u8, class: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let block: *mut Free = block.cast();
            (*block).next = self.free[class];
            self.free[class] = block;
        }
    }

    /// Makes `old` bytes `new` ones, both not 0, and returns where they are; null, with the block as it
    /// was, when the system has no memory, but never when the block shrinks.
    ///
    /// # Safety
    /// As for [`Arena::give`].
    pub(super) unsafe fn resize(&mut self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: as large blocks go to the system and small ones to their list, each block is given
        // back where it came from.
        unsafe {
            match (old > SMALL, new > SMALL) {
                (false, false) if class(old) == class(new) => return block,
                (true, true) => {
                    let moved = system_resize(block, new);
                    return if moved.is_null() && new <= old {
                        block
                    } else {
                        moved
                    };
                }
                _ => {}
            }
            let moved = self.take(new);
            if moved.is_null() {
                return match new <= old {
                    true => self.shrink_in_place(block, old, new),
                    false => moved,
                };
            }
            ptr::copy_nonoverlapping(block, moved, old.min(new));
            self.give(block, old);
            moved
        }
    }

    /// The block itself as a small one, when there is no memory for another.
    unsafe fn shrink_in_place(&mut self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: the block is longer by a grain at least; one of the system has room for a header and
        // any small block.
        unsafe {
            if old <= SMALL {
                // It goes to the list of the smaller size some day, so it has to be aligned as such.
                let astray = class(new).is_multiple_of(2) && !(block as usize).is_multiple_of(16);
                let moved = block.add(if astray { GRAIN } else { 0 });
                ptr::copy(block, moved, new);
                return moved;
            }
            let moved = block.add(HEADER);
            ptr::copy(block, moved, new);
            self.adopt(block.cast());
            moved
        }
    }

    unsafe fn adopt(&mut self, chunk: *mut Chunk) {
        // SAFETY: the chunk is a fresh block of the system, or one that serves as such.
        unsafe { (*chunk).next = self.chunks };
        self.chunks = chunk;
    }

    /// A block from what is left of the newest chunk, or from a new one.
    #[cold]
    fn cut(&mut self, class: usize) -> *mut u8 {
        let size = class * GRAIN;
        let mut pad = size.is_multiple_of(16) && !self.left.is_multiple_of(16);
        if self.left < size + if pad { GRAIN } else { 0 } {
            if !self.grow(size) {
                return ptr::null_mut();
            }
            pad = false;
        }
        if pad {
            let grain = self.advance(GRAIN);
            // SAFETY: just cut.
            unsafe { self.list(grain, 1) };
        }
        self.advance(size)
    }

    fn advance(&mut self, size: usize) -> *mut u8 {
        let block = self.cut;
        // SAFETY: the caller saw that so much is left.
        self.cut = unsafe { block.add(size) };
        self.left -= size;
        block
    }

    /// Begins a chunk that a block of `size` fits in; what is left of the one before becomes a free block.
    fn grow(&mut self, size: usize) -> bool {
        let share = (self.held / CHUNK_SHARE).next_multiple_of(16);
        let total = share.clamp(CHUNK_MIN, CHUNK_MAX).max(HEADER + size);
        let chunk = system_block(total);
        if chunk.is_null() {
            return false;
        }
        if self.left > 0 {
            // Less than the block that did not fit, or just its padding short of it. The far end is a
            // multiple of 16, so a rest of such a size is aligned as its class is.
            let class = class(self.left);
            // SAFETY: nobody's.
            unsafe { self.list(self.cut, class) };
        }
        // SAFETY: a fresh block of `total` bytes.
        unsafe {
            self.adopt(chunk.cast());
            self.cut = chunk.add(HEADER);
        }
        self.left = total - HEADER;
        self.held += total;
        true
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = self.chunks;
        while !chunk.is_null() {
            // SAFETY: each chunk is a block of the system, and is listed once.
            unsafe {
                let next = (*chunk).next;
                libc::free(chunk.cast());
                chunk = next;
            }
        }
    }
}

/// A block of the system; never so short that it could not become a chunk with one small block.
fn system_block(size: usize) -> *mut u8 {
    #[cfg(test)]
    if super::tests::system_is_exhausted() {
        return ptr::null_mut();
    }
    // SAFETY: any size may be asked for.
    unsafe { libc::malloc(size.max(HEADER + SMALL)).cast() }
}

unsafe fn system_resize(block: *mut u8, size: usize) -> *mut u8 {
    #[cfg(test)]
    if super::tests::system_is_exhausted() {
        return ptr::null_mut();
    }
    // SAFETY: the caller gives a block of the system.
    unsafe { libc::realloc(block.cast::<c_void>(), size.max(HEADER + SMALL)).cast() }
}
