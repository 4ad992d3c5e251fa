//! Blocks for one VM. Small ones are cut from chunks and go back to a list of their size; large ones are
//! the system's. One of the files that may be unsafe: nothing else hands out raw memory.
//!
//! No block has a header: Lua tells each block's size, and so whether it is small. Chunks are freed with
//! the arena; a block that is free serves its size only.

use super::usage::Usage;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::size_of;
use std::ops::Deref;
use std::ptr;

/// Largest block that is cut from a chunk: none where memory checkers are to see each block.
pub(super) const SMALL: usize = if cfg!(feature = "plain_malloc") { 0 } else { 512 };
/// Sizes are rounded up to this. A block whose size is a multiple of 16 is aligned to 16; in any other
/// size no object fits that needs it.
const GRAIN: usize = 8;
const CLASSES: usize = SMALL / GRAIN + 1;
const HEADER: usize = size_of::<Chunk>();
/// A chunk is a share of what there is: little is idle in a small VM, and a large one needs few.
const CHUNK_MIN: usize = 1024;
const CHUNK_MAX: usize = 32 * 1024;
const CHUNK_SHARE: usize = 16;
/// Free blocks are cut up while a VM has at most so many bytes in chunks, and have so many at least.
const RECYCLES_MOST: usize = 64 * 1024;
const RECYCLED_LEAST: usize = 64;

/// Start of a chunk; the blocks follow.
#[repr(C, align(16))]
struct Chunk {
    next: *mut Chunk,
}

/// A block that is free.
struct Free {
    next: *mut Free,
}

/// The memory of one VM, without a limit at first. One thread at a time has it, with the VM.
#[derive(Default)]
pub(crate) struct Memory {
    usage: Usage,
    pub(super) arena: Arena,
}

impl Deref for Memory {
    type Target = Usage;
    fn deref(&self) -> &Usage {
        &self.usage
    }
}

pub(super) struct Arena {
    /// What is left of the newest chunk: both ends are multiples of 8, the far one of 16.
    cut: Cell<*mut u8>,
    left: Cell<usize>,
    /// Bytes in chunks.
    held: Cell<usize>,
    chunks: Cell<*mut Chunk>,
    /// Free blocks by size in grains.
    free: [Cell<*mut Free>; CLASSES],
}

// SAFETY: its blocks are on no thread's account, and it is used by one thread at a time (it is not `Sync`).
unsafe impl Send for Arena {}

/// Size as a number of grains.
#[inline]
fn class(size: usize) -> usize {
    size.div_ceil(GRAIN)
}

impl Memory {
    /// What Lua asks of an allocator: a new block for `old` = 0 and a null pointer, where `tag` is the type of the object;
    /// a block of another size; nothing any more for `new` = 0. Null when the limit or the system has no more, never
    /// when a block shrinks.
    ///
    /// # Safety
    /// `block` is null or one that this memory gave, of `old` bytes, which nobody uses any more after the call.
    #[inline(always)]
    pub(crate) unsafe fn reallocate(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if block.is_null() {
            return match new {
                0 => ptr::null_mut(),
                // For a new block Lua gives the kind of the object instead of an old size.
                _ => self.create(old, new),
            };
        }
        // SAFETY: the block is one of this memory's, of `old` bytes, as promised.
        unsafe {
            if new != 0 {
                return self.resize(block, old, new);
            }
            self.arena.give(block, old);
        }
        self.account(old, 0);
        ptr::null_mut()
    }

    #[inline]
    fn create(&self, tag: usize, size: usize) -> *mut u8 {
        if !self.allows(size) {
            return ptr::null_mut();
        }
        let block = self.arena.take(size);
        if !block.is_null() {
            self.count(tag, size);
        }
        block
    }

    #[inline(never)]
    unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new > old && !self.allows(new - old) {
            return ptr::null_mut();
        }
        // SAFETY: only `reallocate` comes here, with its own block.
        let block = unsafe { self.arena.resize(block, old, new) };
        if !block.is_null() {
            self.account(old, new);
        }
        block
    }
}

impl Arena {
    /// Bytes in chunks, and how many of them are free.
    #[cfg(test)]
    pub(super) fn idle(&self) -> (usize, usize) {
        let mut idle = self.left.get();
        for (class, first) in self.free.iter().enumerate() {
            let mut block = first.get();
            while !block.is_null() {
                idle += class * GRAIN;
                // SAFETY: listed blocks are free and hold the link.
                block = unsafe { (*block).next };
            }
        }
        (self.held.get(), idle)
    }

    /// A block of `size` bytes, not 0; null when the system has none.
    #[inline(always)]
    fn take(&self, size: usize) -> *mut u8 {
        if size > SMALL {
            return system_block(size);
        }
        let class = class(size);
        let first = self.free[class].get();
        if first.is_null() {
            return self.cut(class);
        }
        // SAFETY: the first of the list is free, so it begins with the link.
        self.free[class].set(unsafe { (*first).next });
        first.cast()
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// It is this arena's, of that size, and nobody uses it any more.
    #[inline(always)]
    unsafe fn give(&self, block: *mut u8, size: usize) {
        // SAFETY: nobody uses it any more, and its size says where it belongs.
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
    unsafe fn list(&self, block: *mut u8, class: usize) {
        let block: *mut Free = block.cast();
        // SAFETY: the block is nobody's by promise, and has room for a link, and is aligned to it.
        unsafe { (*block).next = self.free[class].get() };
        self.free[class].set(block);
    }

    /// Makes `old` bytes `new` ones, both not 0, and returns where they are; null, with the block as it
    /// was, when the system has no memory, but never when the block shrinks.
    ///
    /// # Safety
    /// As for [`Arena::give`].
    unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: as large blocks go to the system and small ones to their list, each block is given
        // back where it came from.
        unsafe {
            match (old > SMALL, new > SMALL) {
                (false, false) if class(old) == class(new) => return block,
                (true, true) => {
                    let moved = system_resize(block, new);
                    return if moved.is_null() && new <= old { block } else { moved };
                }
                _ => {}
            }
            let moved = self.take(new);
            if moved.is_null() {
                return if new <= old { self.shrink_in_place(block, old, new) } else { moved };
            }
            ptr::copy_nonoverlapping(block, moved, old.min(new));
            self.give(block, old);
            moved
        }
    }

    /// The block itself as a small one, when there is no memory for another.
    ///
    /// # Safety
    /// As for [`Arena::resize`]; `new` is a smaller size, and of another class.
    unsafe fn shrink_in_place(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // It goes to the list of the smaller size some day, so it has to be aligned as such. A block of the system becomes
        // a chunk: it has room for a header and any small block.
        let is_misaligned = class(new).is_multiple_of(2) && !block.addr().is_multiple_of(16);
        let skipped = if old <= SMALL { usize::from(is_misaligned) * GRAIN } else { HEADER };
        // SAFETY: the block is longer than `new` by what is skipped.
        unsafe {
            let moved = block.add(skipped);
            ptr::copy(block, moved, new);
            if old > SMALL {
                self.adopt(block.cast());
            }
            moved
        }
    }

    /// # Safety
    /// The chunk is a block of the system that nobody else frees.
    unsafe fn adopt(&self, chunk: *mut Chunk) {
        // SAFETY: a block of the system is large enough for the header.
        unsafe { (*chunk).next = self.chunks.get() };
        self.chunks.set(chunk);
    }

    /// A block from what is left, or from a new chunk. What is to be aligned to 16 is cut from the far end, which is.
    #[cold]
    fn cut(&self, class: usize) -> *mut u8 {
        let size = class * GRAIN;
        if self.left.get() < size && !self.recycle(size) && !self.grow(size) {
            return ptr::null_mut();
        }
        let (start, left) = (self.cut.get(), self.left.get() - size);
        self.left.set(left);
        match size.is_multiple_of(16) {
            true => start.wrapping_add(left),
            false => {
                self.cut.set(start.wrapping_add(size));
                start
            }
        }
    }

    /// Cuts from now on from this part of a chunk; what is left of the one before becomes a free block.
    ///
    /// # Safety
    /// It is nobody's; its far end is a multiple of 16.
    unsafe fn cut_from(&self, start: *mut u8, size: usize) {
        let left = self.left.replace(size);
        let rest = self.cut.replace(start);
        if left > 0 {
            // SAFETY: less than a block, and nobody's; as its far end is a multiple of 16, it is aligned as its class is.
            unsafe { self.list(rest, class(left)) };
        }
    }

    /// Cuts on from the largest free block that a block of `size` fits in. In a small VM, which has grown out of blocks
    /// that nothing needs again; a large one would split those that it does need.
    fn recycle(&self, size: usize) -> bool {
        if self.held.get() > RECYCLES_MOST {
            return false;
        }
        let least = class(size.max(RECYCLED_LEAST));
        for class in (least..CLASSES).rev().filter(|class| class.is_multiple_of(2)) {
            let first = self.free[class].get();
            if !first.is_null() {
                // SAFETY: a listed block is free and holds the link. One whose size is a multiple of 16 begins at one, so
                // it ends at one.
                unsafe {
                    self.free[class].set((*first).next);
                    self.cut_from(first.cast(), class * GRAIN);
                }
                return true;
            }
        }
        false
    }

    /// Begins a chunk that a block of `size` fits in.
    fn grow(&self, size: usize) -> bool {
        let share = (self.held.get() / CHUNK_SHARE).next_multiple_of(16);
        let total = share.clamp(CHUNK_MIN, CHUNK_MAX).max(HEADER + size);
        let total = total.next_multiple_of(16);
        let chunk = system_block(total);
        if chunk.is_null() {
            return false;
        }
        // SAFETY: a fresh block of `total` bytes.
        unsafe {
            self.adopt(chunk.cast());
            self.cut_from(chunk.add(HEADER), total - HEADER);
        }
        self.held.set(self.held.get() + total);
        true
    }
}

impl Default for Arena {
    fn default() -> Self {
        Arena {
            cut: Cell::new(ptr::null_mut()),
            left: Cell::new(0),
            held: Cell::new(0),
            chunks: Cell::new(ptr::null_mut()),
            free: [const { Cell::new(ptr::null_mut()) }; CLASSES],
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = self.chunks.get();
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
    // SAFETY: malloc(3) takes any size.
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

/// Larger blocks of the executable's VM are malloc's: it gives the pages of those back to the system at once, and grows
/// them in place.
#[cfg(feature = "vendored")]
pub(crate) mod general {
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr;

    /// The largest block that is mimalloc's, which takes a third of the time of malloc(3).
    pub(crate) const SMALL: usize = 32 * 1024;

    // Neither is in the crate's list of options.
    unsafe extern "C" {
        fn mi_option_set(option: c_int, value: c_long);
    }

    /// Whether an arena has all its memory from the beginning. With it, a system that backs large mappings by huge pages
    /// gives a small program 5 MiB that it does not use.
    const ARENA_EAGER_COMMIT: c_int = 4;

    /// So much at the end of its heap the C library may keep for the next large blocks. glibc's own limit is 128 KiB, two
    /// messages of 64 KiB, whose pages would come from the system again and again; it is twice the largest block that was
    /// freed, up to 64 MiB.
    const KEPT: usize = 2 << 20;

    /// Prepares both allocators; called before the first block is taken.
    pub(crate) fn prepare() {
        // SAFETY: sets an option of mimalloc's; frees what was taken.
        unsafe {
            mi_option_set(ARENA_EAGER_COMMIT, 0);
            libc::free(std::hint::black_box(libc::malloc(KEPT / 2)));
        }
    }

    /// As [`Memory::reallocate`](super::Memory::reallocate); blocks of up to `SMALL` bytes are mimalloc's, others malloc's.
    ///
    /// # Safety
    /// As for that, with the same `SMALL` for all calls.
    #[inline(always)]
    pub(crate) unsafe fn reallocate<const SMALL: usize>(block: *mut u8, old: usize, new: usize) -> *mut u8 {
        let block: *mut c_void = block.cast();
        // SAFETY: the size of each block says whose it is.
        unsafe {
            if block.is_null() {
                // Then `old` is a kind of object. Size 0 when Lua frees what it never had.
                return match new {
                    0 => ptr::null_mut(),
                    _ => create::<SMALL>(new).cast(),
                };
            }
            let moved = match (old <= SMALL, new <= SMALL) {
                (true, _) if new == 0 => {
                    libmimalloc_sys::mi_free(block);
                    ptr::null_mut()
                }
                (false, _) if new == 0 => {
                    libc::free(block);
                    ptr::null_mut()
                }
                (true, true) => libmimalloc_sys::mi_realloc(block, new),
                (false, false) => libc::realloc(block, new),
                (was_small, _) => {
                    let moved = create::<SMALL>(new);
                    if !moved.is_null() {
                        let size = old.min(new);
                        ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast::<u8>(), size);
                        if was_small { libmimalloc_sys::mi_free(block) } else { libc::free(block) }
                    }
                    moved
                }
            };
            moved.cast()
        }
    }

    fn create<const SMALL: usize>(size: usize) -> *mut c_void {
        // SAFETY: neither allocator asks anything of a size.
        unsafe { if size <= SMALL { libmimalloc_sys::mi_malloc(size) } else { libc::malloc(size) } }
    }
}
