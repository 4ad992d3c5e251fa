//! Returns memory that is not in use to the system: the chunks of a VM in which every block is free, and the free pages
//! of malloc(3). Measures the latter.

use super::arena::{Arena, Chunk, Free, GRAIN, HEADER, Memory};
use std::ptr;

/// A chunk, while its free blocks are counted.
struct Counted {
    start: usize,
    end: usize,
    free: usize,
}

/// The chunks of an arena, in the order of their addresses.
struct Chunks {
    list: Vec<Counted>,
    /// The place of the chunk that was found last. Blocks that are freed together often come from one chunk.
    last: usize,
}

impl Chunks {
    fn of(arena: &Arena) -> Chunks {
        let mut list = Vec::new();
        let mut chunk = arena.chunks.get();
        while !chunk.is_null() {
            // SAFETY: `chunk` comes from the arena's list of chunks, which are freed only when they leave it.
            let Chunk { next, size } = unsafe { ptr::read(chunk) };
            list.push(Counted { start: chunk.addr(), end: chunk.addr() + size, free: 0 });
            chunk = next;
        }
        list.sort_unstable_by_key(|chunk| chunk.start);
        Chunks { list, last: 0 }
    }

    /// Returns the chunk that contains the address.
    fn find(&mut self, address: usize) -> &mut Counted {
        let is_in = |chunk: &Counted| chunk.start <= address && address < chunk.end;
        if !self.list.get(self.last).is_some_and(is_in) {
            self.last = self.list.partition_point(|chunk| chunk.end <= address);
        }
        &mut self.list[self.last]
    }
}

impl Counted {
    /// Whether all its blocks are free.
    fn is_free(&self) -> bool {
        self.free == self.end - self.start - HEADER
    }
}

impl Memory {
    /// Frees the chunks in which every block is free.
    pub(crate) fn trim(&self) {
        self.arena.trim();
        self.forget_shrinking();
    }
}

impl Arena {
    fn trim(&self) {
        let mut chunks = Chunks::of(self);
        if chunks.list.is_empty() {
            return;
        }
        self.count_free(&mut chunks);
        self.remove_free_blocks(&mut chunks);
        self.free_chunks(&mut chunks);
    }

    /// Counts the free bytes of each chunk.
    fn count_free(&self, chunks: &mut Chunks) {
        if self.rest_size.get() > 0 {
            chunks.find(self.rest.get().addr()).free += self.rest_size.get();
        }
        for (class, first) in self.free.iter().enumerate() {
            let mut block = first.get();
            while !block.is_null() {
                chunks.find(block.addr()).free += class * GRAIN;
                // SAFETY: no code uses a block of the list, so its first bytes are still the link.
                block = unsafe { (*block).next };
            }
        }
    }

    /// Removes the blocks of free chunks from the free lists. The other blocks keep their order.
    fn remove_free_blocks(&self, chunks: &mut Chunks) {
        if self.rest_size.get() > 0 && chunks.find(self.rest.get().addr()).is_free() {
            self.rest_size.set(0);
            self.rest.set(ptr::null_mut());
        }
        for first in &self.free {
            let mut block = first.replace(ptr::null_mut());
            let mut last: *mut Free = ptr::null_mut();
            while !block.is_null() {
                // SAFETY: the block was in the list until now, so it begins with the link.
                let next = unsafe { (*block).next };
                if !chunks.find(block.addr()).is_free() {
                    match last.is_null() {
                        true => first.set(block),
                        // SAFETY: `last` is a block of the new list, which is free and has room for a link.
                        false => unsafe { (*last).next = block },
                    }
                    last = block;
                }
                block = next;
            }
            if !last.is_null() {
                // SAFETY: the last block of the new list is free; its old link may lead to a chunk that will be freed.
                unsafe { (*last).next = ptr::null_mut() };
            }
        }
    }

    /// Frees the free chunks.
    fn free_chunks(&self, chunks: &mut Chunks) {
        let mut chunk = self.chunks.replace(ptr::null_mut());
        while !chunk.is_null() {
            // SAFETY: the chunk was in the list until now, so it exists. If it is free, it has no block in use and none in
            // a free list, and nothing refers to it.
            unsafe {
                let Chunk { next, size } = ptr::read(chunk);
                if chunks.find(chunk.addr()).is_free() {
                    self.chunk_bytes.set(self.chunk_bytes.get() - size);
                    libc::free(chunk.cast());
                } else {
                    (*chunk).next = self.chunks.replace(chunk);
                }
                chunk = next;
            }
        }
    }
}

/// Returns the free pages of malloc(3) to the system. Only glibc keeps them.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim(3) has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns how many bytes of the process's resident memory belong to no block of malloc(3): mostly free pages, which
/// [`trim_heap`] may return, but also stacks and the memory of other allocators. `None` if the system does not say.
pub(crate) fn unused_heap() -> Option<usize> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    return Some(anonymous_memory()?.saturating_sub(heap_in_use()?));
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Returns the resident bytes that are not pages of files (proc_pid_statm(5)).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn anonymous_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map_while(|field| field.parse::<usize>().ok());
    let (resident, of_files) = (pages.next()?, pages.next()?);
    // SAFETY: sysconf(3) has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(resident.saturating_sub(of_files) * usize::try_from(page).ok()?)
}

/// Returns the bytes in blocks of malloc(3). glibc has the function since 2.33.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn heap_in_use() -> Option<usize> {
    // SAFETY: the name ends with a NUL. If glibc has a function of this name, it has this type.
    let info = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr());
        std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn() -> libc::mallinfo2>>(found)
    };
    // SAFETY: mallinfo2(3) has no preconditions.
    let info = unsafe { info?() };
    Some(info.uordblks + info.hblkhd)
}
