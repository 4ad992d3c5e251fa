//! A switch for tests, only in builds with the feature `alloc_failures`: the nth allocation of one VM fails. Lua code sets
//! the switch with `lio.alloc_failures`. A VM that the core did not create gets a wrapper around its allocator.
//!
//! Lua asks again after a collection when an allocation has failed, so the repeated request fails too. The feature also
//! counts the blocks that Rust code owns, so that tests detect leaks. Allocations by Rust code never fail.

use super::state::State;
use mlua::ffi;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The context of the allocator whose allocations are counted; 0 if the switch is off.
static CONTEXT: AtomicUsize = AtomicUsize::new(0);
/// The number of the first allocation that fails.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// Whether all later allocations fail, too.
static FAILS_ON: AtomicBool = AtomicBool::new(false);
/// The numbers of allocations and of failed allocations since the switch was set.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static FAILURES: AtomicU64 = AtomicU64::new(0);
/// The request that has failed last, if its repetition must fail; otherwise 0.
static REPEATED: AtomicUsize = AtomicUsize::new(0);

/// The original allocator of a VM that the core did not create.
struct Wrapped {
    allocator: ffi::lua_Alloc,
    context: *mut c_void,
}

/// Sets the switch for the VM of `state`: from now on, allocation number `first` fails (0: none). If `fails_on` is true,
/// all later allocations fail as well. `is_own`: whether the core has created the VM.
pub(super) fn set(state: &State, is_own: bool, first: u64, fails_on: bool) {
    let context = context(state, is_own);
    FIRST.store(first, Relaxed);
    FAILS_ON.store(fails_on, Relaxed);
    REQUESTS.store(0, Relaxed);
    FAILURES.store(0, Relaxed);
    REPEATED.store(0, Relaxed);
    CONTEXT.store(context, Relaxed);
}

/// Resets the switch, so that no allocation fails. Returns the numbers of allocations and of failures.
pub(crate) fn reset() -> (u64, u64) {
    CONTEXT.store(0, Relaxed);
    (REQUESTS.load(Relaxed), FAILURES.load(Relaxed))
}

/// Runs `step` without failures, as code runs without a memory limit.
pub(super) fn suspended<R>(step: impl FnOnce() -> R) -> R {
    let context = CONTEXT.swap(0, Relaxed);
    let result = step();
    CONTEXT.store(context, Relaxed);
    result
}

/// Returns the number of blocks that Rust code owns, and their size in bytes.
pub(crate) fn live() -> (i64, i64) {
    (BLOCKS.load(Relaxed), BYTES.load(Relaxed))
}

/// Whether a request to the allocator with this context must fail. A request that does not enlarge a block never fails.
pub(super) fn refuses(context: *mut c_void, block: *mut c_void, old: usize, new: usize) -> bool {
    let enlarges = new != 0 && (block.is_null() || new > old);
    if CONTEXT.load(Relaxed) != context.addr() || !enlarges {
        return false;
    }
    let request = (block.addr() ^ old.rotate_left(40) ^ new.rotate_left(20)) | 1;
    let is_repeated = REPEATED.swap(0, Relaxed) == request;
    if !is_repeated {
        let number = REQUESTS.fetch_add(1, Relaxed) + 1;
        let first = FIRST.load(Relaxed);
        if first == 0 || number < first || number > first && !FAILS_ON.load(Relaxed) {
            return false;
        }
        REPEATED.store(request, Relaxed);
        FAILURES.fetch_add(1, Relaxed);
    }
    true
}

/// Returns the context of the VM's allocator, which calls [`refuses`] from now on.
fn context(state: &State, is_own: bool) -> usize {
    let state = state.state;
    let mut context = ptr::null_mut();
    // SAFETY: the state is that of the running call. The wrapper passes each request to the VM's own allocator, with
    // the context that it replaces, and is never freed.
    unsafe {
        let allocator = ffi::lua_getallocf(state, &mut context);
        if !is_own && !ptr::fn_addr_eq(allocator, allocate_wrapped as ffi::lua_Alloc) {
            context = ptr::from_mut(Box::leak(Box::new(Wrapped { allocator, context }))).cast();
            ffi::lua_setallocf(state, allocate_wrapped, context);
        }
    }
    context.addr()
}

unsafe extern "C" fn allocate_wrapped(context: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    if refuses(context, block, old, new) {
        return ptr::null_mut();
    }
    // SAFETY: the context is the wrapper's, which is never freed. The request is passed on unchanged.
    unsafe {
        let wrapped = &*context.cast::<Wrapped>();
        (wrapped.allocator)(wrapped.context, block, old, new)
    }
}

/// Counts the blocks of Rust code.
struct Counting;

static BLOCKS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: each request is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BLOCKS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BLOCKS.fetch_sub(1, Relaxed);
        BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the block comes from `alloc` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
