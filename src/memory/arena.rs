//! The blocks of one VM. Small blocks are cut from chunks, and return to a free list of their size when they are freed.
//! Large blocks come from malloc(3). All raw memory is allocated in this file and in `trim`, so they may contain `unsafe`.
//!
//! No block has a header: Lua passes the size of each block, which determines whether it is small. Chunks are freed
//! with the arena, or by [`Memory::trim`]. A free block is reused only for blocks of its size; a small VM can also split
//! it.

use super::usage::Usage;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::size_of;
use std::ops::Deref;
use std::ptr;

/// The size of the largest block that is cut from a chunk: 0 with the feature `plain_malloc`, so that memory checkers
/// see every block.
pub(super) const SMALL: usize = if cfg!(feature = "plain_malloc") { 0 } else { 512 };
/// Sizes are rounded up to a multiple of this. A block whose size is a multiple of 16 is aligned to 16. Objects that
/// need this alignment have a size that is a multiple of 16.
pub(super) const GRAIN: usize = 8;
const CLASSES: usize = SMALL / GRAIN + 1;
pub(super) const HEADER: usize = size_of::<Chunk>();
/// The size of a new chunk is a fixed share of the memory that is already in chunks, so a small VM wastes little
/// memory, and a large VM needs few chunks.
const CHUNK_MIN: usize = 1024;
const CHUNK_MAX: usize = 32 * 1024;
const CHUNK_SHARE: usize = 16;
/// Free blocks are split only while a VM has at most `MAX_SPLITTING_SIZE` bytes in chunks, and only blocks of at least
/// `MIN_SPLIT_BLOCK` bytes.
const MAX_SPLITTING_SIZE: usize = 64 * 1024;
const MIN_SPLIT_BLOCK: usize = 64;

/// The start of a chunk. The blocks follow it.
#[repr(C, align(16))]
pub(super) struct Chunk {
    pub(super) next: *mut Chunk,
    /// The number of bytes, with this header.
    pub(super) size: usize,
}

/// A free block.
pub(super) struct Free {
    pub(super) next: *mut Free,
}

/// The memory of one VM. It has no limit at first. Only the thread that runs the VM uses it.
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

/// The blocks of one VM.
pub(super) struct Arena {
    /// The part of a chunk that blocks are cut from: its start, a multiple of 8, and its length. Its end is a multiple
    /// of 16.
    pub(super) rest: Cell<*mut u8>,
    pub(super) rest_size: Cell<usize>,
    /// The number of bytes in chunks.
    pub(super) chunk_bytes: Cell<usize>,
    pub(super) chunks: Cell<*mut Chunk>,
    /// The free lists, by size in grains.
    pub(super) free: [Cell<*mut Free>; CLASSES],
}

// SAFETY: an arena's blocks belong to no thread, and one thread at a time uses the arena (it is not `Sync`).
unsafe impl Send for Arena {}

/// Returns the size as a number of grains, rounded up.
#[inline]
fn class(size: usize) -> usize {
    size.div_ceil(GRAIN)
}

impl Memory {
    /// The operation of a Lua allocator. If `block` is null, allocates `new` bytes for an object with the type tag
    /// `old`. If `new` is 0, frees the block. Otherwise changes the size of the block from `old` to `new` bytes.
    /// Returns the block; null if it was freed, if the limit would be exceeded, or if the system has no memory.
    /// Shrinking a block never fails.
    ///
    /// # Safety
    /// `block` is null, or a block of this memory with `old` bytes. After a successful call, it is not used at its old
    /// address.
    #[inline(always)]
    pub(crate) unsafe fn reallocate(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if block.is_null() {
            return match new {
                0 => ptr::null_mut(),
                // For a new block, Lua passes the kind of the object instead of an old size.
                _ => self.create(old, new),
            };
        }
        // SAFETY: by the caller's promise, the block belongs to this memory and has `old` bytes.
        unsafe {
            if new != 0 {
                return self.resize(block, old, new);
            }
            self.arena.free_block(block, old);
        }
        self.account(old, 0);
        ptr::null_mut()
    }

    /// Allocates a block for an object with Lua's type tag `tag`.
    #[inline]
    fn create(&self, tag: usize, size: usize) -> *mut u8 {
        if !self.allows(size) {
            return ptr::null_mut();
        }
        let block = self.arena.allocate(size);
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
        // SAFETY: only `reallocate` calls this, with a block of this memory and its true size.
        let block = unsafe { self.arena.resize(block, old, new) };
        if !block.is_null() {
            self.account(old, new);
        }
        block
    }
}

impl Arena {
    /// Returns the number of bytes in chunks, and the number of these bytes that are free.
    #[cfg(test)]
    pub(super) fn idle(&self) -> (usize, usize) {
        let mut idle = self.rest_size.get();
        for (class, first) in self.free.iter().enumerate() {
            let mut block = first.get();
            while !block.is_null() {
                idle += class * GRAIN;
                // SAFETY: a block in a free list is free and contains its link.
                block = unsafe { (*block).next };
            }
        }
        (self.chunk_bytes.get(), idle)
    }

    /// Returns a block of `size` bytes; null if the system has no memory. `size` must not be 0.
    #[inline(always)]
    fn allocate(&self, size: usize) -> *mut u8 {
        if size > SMALL {
            return system_block(size);
        }
        let class = class(size);
        let first = self.free[class].get();
        if first.is_null() {
            return self.cut_block(class);
        }
        // SAFETY: the first block of the list is free, so it begins with its link.
        self.free[class].set(unsafe { (*first).next });
        first.cast()
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block belongs to this arena, has `size` bytes, and is no longer used.
    #[inline(always)]
    unsafe fn free_block(&self, block: *mut u8, size: usize) {
        // SAFETY: the block is unused, and its size determines whether malloc(3) or a free list gets it.
        unsafe {
            if size > SMALL {
                return libc::free(block.cast());
            }
            self.add_free(block, class(size));
        }
    }

    /// Adds a block to a free list.
    ///
    /// # Safety
    /// The block has the size of `class`, and is not in use.
    #[inline]
    unsafe fn add_free(&self, block: *mut u8, class: usize) {
        let block: *mut Free = block.cast();
        // SAFETY: the caller promises an unused block; it is large enough and aligned for a link.
        unsafe { (*block).next = self.free[class].get() };
        self.free[class].set(block);
    }

    /// Changes the size of a block from `old` to `new` bytes, both not 0, and returns its new address. If the system
    /// has no memory, returns null and leaves the block unchanged; this never happens when the block shrinks.
    ///
    /// # Safety
    /// The block belongs to this arena, has `old` bytes, and after a successful call is not used at its old address.
    unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: large blocks belong to malloc(3) and small ones to chunks, so each block is returned to its origin.
        unsafe {
            match (old > SMALL, new > SMALL) {
                (false, false) if class(old) == class(new) => return block,
                (true, true) => {
                    let moved = system_resize(block, new);
                    return if moved.is_null() && new <= old { block } else { moved };
                }
                _ => {}
            }
            let moved = self.allocate(new);
            if moved.is_null() {
                return if new <= old { self.shrink_in_place(block, old, new) } else { moved };
            }
            ptr::copy_nonoverlapping(block, moved, old.min(new));
            self.free_block(block, old);
            moved
        }
    }

    /// Shrinks a block in its own memory, because there is no memory for another block.
    ///
    /// # Safety
    /// The conditions of [`Arena::resize`] apply. `new` is a smaller size, in another class.
    unsafe fn shrink_in_place(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // When the block is freed, it enters the free list of the smaller size, so it needs the alignment of that size.
        // A block from the system becomes a chunk, because it has room for a header and for any small block.
        let is_misaligned = class(new).is_multiple_of(2) && !block.addr().is_multiple_of(16);
        let skipped = if old <= SMALL { usize::from(is_misaligned) * GRAIN } else { HEADER };
        // SAFETY: the block has at least `skipped` bytes more than `new`.
        unsafe {
            let moved = block.add(skipped);
            ptr::copy(block, moved, new);
            if old > SMALL {
                let size = HEADER + class(new) * GRAIN;
                self.add_chunk(block.cast(), size);
                self.chunk_bytes.set(self.chunk_bytes.get() + size);
            }
            moved
        }
    }

    /// Adds a chunk of `size` bytes to the arena.
    ///
    /// # Safety
    /// The chunk is a block of the system with at least `size` bytes, and no other code frees it.
    unsafe fn add_chunk(&self, chunk: *mut Chunk, size: usize) {
        // SAFETY: each block of the system is large enough for the header.
        unsafe { chunk.write(Chunk { next: self.chunks.get(), size }) };
        self.chunks.set(chunk);
    }

    /// Cuts a block from the unused rest. If the rest is too small, a free block or a new chunk replaces it first.
    /// Returns null if the system has no memory. A block with alignment 16 is cut from the end, which has that
    /// alignment.
    #[cold]
    fn cut_block(&self, class: usize) -> *mut u8 {
        let size = class * GRAIN;
        if self.rest_size.get() < size && !self.split_free_block(size) && !self.allocate_chunk(size) {
            return ptr::null_mut();
        }
        let (start, left) = (self.rest.get(), self.rest_size.get() - size);
        self.rest_size.set(left);
        match size.is_multiple_of(16) {
            true => start.wrapping_add(left),
            false => {
                self.rest.set(start.wrapping_add(size));
                start
            }
        }
    }

    /// Makes the `size` bytes at `start` the part that blocks are cut from. The rest of the previous part becomes a
    /// free block.
    ///
    /// # Safety
    /// The part is not in use, and its end is a multiple of 16.
    unsafe fn set_rest(&self, start: *mut u8, size: usize) {
        let left = self.rest_size.replace(size);
        let rest = self.rest.replace(start);
        if left > 0 {
            // SAFETY: the rest is smaller than a block and unused. Its end is a multiple of 16, so it has the alignment
            // of its class.
            unsafe { self.add_free(rest, class(left)) };
        }
    }

    /// Makes the largest free block with room for `size` bytes the part that blocks are cut from. Returns false if
    /// there is none. Only small VMs do this, because their free blocks often have sizes that are no longer needed. A
    /// large VM would split blocks that it still needs.
    fn split_free_block(&self, size: usize) -> bool {
        if self.chunk_bytes.get() > MAX_SPLITTING_SIZE {
            return false;
        }
        let least = class(size.max(MIN_SPLIT_BLOCK));
        for class in (least..CLASSES).rev().filter(|class| class.is_multiple_of(2)) {
            let first = self.free[class].get();
            if !first.is_null() {
                // SAFETY: a free block contains its link. A block whose size is a multiple of 16 starts at an address
                // that is a multiple of 16, and so does its end.
                unsafe {
                    self.free[class].set((*first).next);
                    self.set_rest(first.cast(), class * GRAIN);
                }
                return true;
            }
        }
        false
    }

    /// Allocates a chunk that has room for a block of `size` bytes, and makes it the part that blocks are cut from.
    /// Returns false if the system has no memory.
    fn allocate_chunk(&self, size: usize) -> bool {
        let share = (self.chunk_bytes.get() / CHUNK_SHARE).next_multiple_of(16);
        let total = share.clamp(CHUNK_MIN, CHUNK_MAX).max(HEADER + size);
        let total = total.next_multiple_of(16);
        let chunk = system_block(total);
        if chunk.is_null() {
            return false;
        }
        // SAFETY: the system has just returned a block of `total` bytes.
        unsafe {
            self.add_chunk(chunk.cast(), total);
            self.set_rest(chunk.add(HEADER), total - HEADER);
        }
        self.chunk_bytes.set(self.chunk_bytes.get() + total);
        true
    }
}

impl Default for Arena {
    fn default() -> Self {
        Arena {
            rest: Cell::new(ptr::null_mut()),
            rest_size: Cell::new(0),
            chunk_bytes: Cell::new(0),
            chunks: Cell::new(ptr::null_mut()),
            free: [const { Cell::new(ptr::null_mut()) }; CLASSES],
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = self.chunks.get();
        while !chunk.is_null() {
            // SAFETY: each chunk is a block of the system, and is in the list once.
            unsafe {
                let next = (*chunk).next;
                libc::free(chunk.cast());
                chunk = next;
            }
        }
    }
}

/// Allocates a block from the system; returns null if the system has no memory. Each block is large enough to become a
/// chunk with one small block.
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
    // SAFETY: the caller passes a block of the system.
    unsafe { libc::realloc(block.cast::<c_void>(), size.max(HEADER + SMALL)).cast() }
}

/// The allocator of the executable's VM. Large blocks come from malloc(3), which returns their pages to the system
/// immediately, and can grow them in place.
#[cfg(feature = "vendored")]
pub(crate) mod general {
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr;

    /// The size of the largest block that comes from mimalloc, which takes a third of the time of malloc(3).
    pub(crate) const SMALL: usize = 32 * 1024;

    // The crate `libmimalloc-sys` does not list these functions.
    unsafe extern "C" {
        fn mi_option_set(option: c_int, value: c_long);
        fn mi_collect(force: bool);
    }

    /// mimalloc's option to commit the whole memory of an arena at once. On a system that backs large mappings with
    /// huge pages, the option would cost a small program 5 MiB of unused memory.
    const ARENA_EAGER_COMMIT: c_int = 4;

    /// The maximum number of bytes that the C library may keep at the end of its heap for the next large blocks.
    /// glibc's default is 128 KiB, the size of two messages of 64 KiB, whose pages would be requested from the system
    /// again and again. glibc sets this threshold to twice the size of the largest freed block, up to 64 MiB.
    const KEPT: usize = 2 << 20;

    /// Prepares both allocators. Call this before the first allocation.
    pub(crate) fn prepare() {
        // SAFETY: this sets an option of mimalloc, and frees a block that malloc(3) has just returned.
        unsafe {
            mi_option_set(ARENA_EAGER_COMMIT, 0);
            libc::free(std::hint::black_box(libc::malloc(KEPT / 2)));
        }
    }

    /// The operation of a Lua allocator, like [`Memory::reallocate`](super::Memory::reallocate). Blocks of up to
    /// `SMALL` bytes come from mimalloc, larger ones from malloc(3).
    ///
    /// # Safety
    /// The conditions of [`Memory::reallocate`](super::Memory::reallocate) apply. All calls must have the same `SMALL`.
    #[inline(always)]
    pub(crate) unsafe fn reallocate<const SMALL: usize>(block: *mut u8, old: usize, new: usize) -> *mut u8 {
        let block: *mut c_void = block.cast();
        // SAFETY: the size of each block determines which allocator it comes from.
        unsafe {
            if block.is_null() {
                // For a new block, `old` is the kind of the object. Lua may also free a null block, whose size is 0.
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

    /// Returns free memory of mimalloc to the system.
    pub(crate) fn trim() {
        // SAFETY: this only frees memory that is not in use.
        unsafe { mi_collect(true) };
    }

    fn create<const SMALL: usize>(size: usize) -> *mut c_void {
        // SAFETY: both allocators accept any size.
        unsafe { if size <= SMALL { libmimalloc_sys::mi_malloc(size) } else { libc::malloc(size) } }
    }
}
