//! The memory of a service's VM: what Lua allocates from, counts of it, and a limit.
//!
//! Made by a service for its `lua_newstate`, with [`allocate`] for the function. One thread at a time
//! allocates, the one that runs the service; the figures may be read from any thread. The blocks
//! themselves are the business of `memory/arena.rs`.

mod arena;
#[cfg(test)]
mod tests;

use arena::Arena;
use mlua::ffi::{self, lua_State};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many kinds of objects are told apart.
pub(crate) const KINDS: usize = 8;

/// What [`Memory::counts`] counts, in its order.
pub(crate) const KIND_NAMES: [&str; KINDS] = [
    "other",
    "string",
    "table",
    "function",
    "userdata",
    "thread",
    "upvalue",
    "prototype",
];

/// Lua's memory for one VM. Its address is what `lua_newstate` gets, so it stays boxed; it is dropped
/// after `lua_close`.
#[repr(C)]
pub(crate) struct Memory {
    owner: *mut c_void,
    used: AtomicUsize,
    peak: AtomicUsize,
    limit: AtomicUsize,
    counts: [AtomicU64; KINDS],
    arena: UnsafeCell<Arena>,
}

// SAFETY: the arena is touched by `allocate` alone, which Lua calls on the one thread that runs the VM;
// handing the VM over orders one thread's calls before the other's. `owner` is only stored here.
unsafe impl Send for Memory {}
// SAFETY: as above; everything else that `&self` reaches is atomic or never changes.
unsafe impl Sync for Memory {}

impl Memory {
    /// An empty memory without a limit. `owner` is for whoever finds this by [`of`].
    pub(crate) fn new(owner: *mut c_void) -> Box<Memory> {
        Box::new(Memory {
            owner,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            counts: [const { AtomicU64::new(0) }; KINDS],
            arena: UnsafeCell::new(Arena::new()),
        })
    }

    /// What [`Memory::new`] was given.
    pub(crate) fn owner(&self) -> *mut c_void {
        self.owner
    }

    /// Bytes that Lua holds.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most bytes that Lua ever held.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Bytes that Lua may hold; 0 is no limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Sets the limit and returns the previous one. What Lua holds beyond it stays: only growing is
    /// refused, with `not enough memory`.
    pub(crate) fn set_limit(&self, limit: usize) -> usize {
        self.limit.swap(limit, Relaxed)
    }

    /// How many objects of each kind Lua has ever made, in the order of [`KIND_NAMES`]; "other" are
    /// the parts of objects: arrays, stacks and such. Lua does not say what it frees, so these only grow.
    pub(crate) fn counts(&self) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.counts[kind].load(Relaxed))
    }

    /// Whether Lua may hold `more` bytes beyond what it does.
    #[inline]
    fn allows(&self, more: usize) -> bool {
        let limit = self.limit();
        limit == 0 || self.used().saturating_add(more) <= limit
    }

    /// Books a change. Plain loads and stores: there is but one writer.
    #[inline]
    fn book(&self, old: usize, new: usize) {
        let used = self.used().wrapping_sub(old).wrapping_add(new);
        self.used.store(used, Relaxed);
        if used > self.peak() {
            self.peak.store(used, Relaxed);
        }
    }

    #[inline]
    unsafe fn create(&self, kind: usize, size: usize) -> *mut u8 {
        if !self.allows(size) {
            return ptr::null_mut();
        }
        // SAFETY: only `allocate` comes here, one at a time.
        let block = unsafe { (*self.arena.get()).take(size) };
        if block.is_null() {
            return block;
        }
        self.book(0, size);
        let count = &self.counts[kind_of(kind)];
        count.store(count.load(Relaxed) + 1, Relaxed);
        block
    }

    #[inline(never)]
    unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new > old && !self.allows(new - old) {
            return ptr::null_mut();
        }
        // SAFETY: as for `create`; the block is the arena's, of `old` bytes.
        let block = unsafe { (*self.arena.get()).resize(block, old, new) };
        if !block.is_null() {
            self.book(old, new);
        }
        block
    }
}

/// Where in the counts an object with Lua's type tag stands: 4 is string … 8 thread, then the two kinds
/// that only Lua itself sees.
#[inline]
fn kind_of(tag: usize) -> usize {
    let kind = tag.wrapping_sub(ffi::LUA_TSTRING as usize - 1);
    if kind < KINDS { kind } else { 0 }
}

/// The `lua_Alloc` of a VM whose user data is a [`Memory`]. Shrinking never fails.
///
/// # Safety
/// Called by Lua, with the `Memory` that the VM was made with.
pub(crate) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: Lua tells the size of each block rightly, and frees it once.
    unsafe {
        let memory = &*memory.cast::<Memory>();
        if block.is_null() {
            return match new {
                0 => ptr::null_mut(),
                // For a new block Lua gives the kind of the object instead of an old size.
                _ => memory.create(old, new).cast(),
            };
        }
        if new != 0 {
            return memory.resize(block.cast(), old, new).cast();
        }
        (*memory.arena.get()).give(block.cast(), old);
        memory.book(old, 0);
        ptr::null_mut()
    }
}

/// The memory of a VM that was made with [`allocate`]; none of any other.
///
/// # Safety
/// `state` is valid.
pub(crate) unsafe fn of(state: *mut lua_State) -> Option<*mut Memory> {
    // SAFETY: reads two pointers of the VM.
    unsafe {
        let mut memory = ptr::null_mut();
        let function = ffi::lua_getallocf(state, &mut memory);
        let ours: ffi::lua_Alloc = allocate;
        std::ptr::fn_addr_eq(function, ours).then_some(memory.cast())
    }
}
