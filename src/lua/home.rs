//! What a VM of ours has beside Lua's own, and how it is found from any state of the VM: by the VM's allocator.

use super::interrupt::OnInterrupt;
use super::object::type_number;
use super::store::Store;
use crate::memory::Memory;
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// What a VM of ours has beside Lua's own: the allocator is given it, so it is found from any state of the VM.
pub(super) struct Home {
    pub(super) memory: Memory,
    pub(super) store: Store,
    /// The data's type, 0 once it is dropped; and where it is.
    pub(super) kind: Cell<u64>,
    pub(super) data: *mut (),
    /// The main state; null once it is closed.
    pub(super) base: Cell<*mut lua_State>,
    /// The coroutine of the main function; null when there is none.
    pub(super) main: Cell<*mut lua_State>,
    /// A panic has unwound a call of the VM: nothing may enter that again.
    pub(super) is_broken: Cell<bool>,
    pub(super) on_interrupt: OnceCell<OnInterrupt>,
    pub(super) warnings: super::warning::State,
    /// The coroutines that are interrupted with the main function; null for none.
    pub(super) threads: Cell<*const super::Threads>,
}

/// What has a VM of ours; `None` for any other.
///
/// # Safety
/// `state` is valid; the reference is not used after the VM.
#[inline]
pub(super) unsafe fn of<'h>(state: *mut lua_State) -> Option<&'h Home> {
    let mut home = ptr::null_mut();
    // SAFETY: `state` is valid by promise; only our allocators are given a home.
    unsafe {
        let allocator = ffi::lua_getallocf(state, &mut home);
        let is_ours = ptr::fn_addr_eq(allocator, ALLOCATORS[0]) || is_general(allocator);
        is_ours.then(|| &*home.cast::<Home>())
    }
}

/// Tells types of data apart; not 0.
#[inline(always)]
pub(super) fn kind_of<T: 'static>() -> u64 {
    type_number::<T>() | 1
}

#[inline]
fn is_general(allocator: ffi::lua_Alloc) -> bool {
    let is_same = |ours: &ffi::lua_Alloc| ptr::fn_addr_eq(allocator, *ours);
    ALLOCATORS[1..].iter().any(is_same)
}

/// Where the data of a VM is, when it is of this type. For raw functions as well. // bridge
///
/// # Safety
/// As for [`of`].
#[inline]
pub(crate) unsafe fn data_of<T: 'static>(state: *mut lua_State) -> Option<NonNull<T>> {
    // SAFETY: the state is valid, and the home is not used after the VM.
    let home = unsafe { of(state)? };
    let is_there = home.kind.get() == kind_of::<T>();
    // SAFETY: the data is boxed.
    is_there.then(|| unsafe { NonNull::new_unchecked(home.data.cast()) })
}

/// The memory of a VM of ours, and its main coroutine, for raw functions. // bridge
///
/// # Safety
/// As for [`of`].
pub(crate) unsafe fn memory_of<'h>(state: *mut lua_State) -> Option<&'h Memory> {
    // SAFETY: the memory is in the home, which the caller does not outlive.
    unsafe { of(state).map(|home| &home.memory) }
}

/// As `memory_of`. // bridge
///
/// # Safety
/// As for [`of`].
pub(crate) unsafe fn main_of(state: *mut lua_State) -> Option<*mut lua_State> {
    // SAFETY: `state` is valid: the promise of the caller of this one.
    unsafe { of(state).map(|home| home.main.get()) }
}

/// Names the coroutines of the VM for interrupts; null for none. // bridge
///
/// # Safety
/// As for [`of`]; they live until this is called again.
pub(crate) unsafe fn set_threads(state: *mut lua_State, threads: *const super::Threads) {
    // SAFETY: a valid state has a home, or none.
    if let Some(home) = unsafe { of(state) } {
        home.threads.set(threads);
    }
}

/// The `lua_Alloc`s of VMs of ours, by whose address these are known: read from here alone, as a function may have several.
#[cfg(feature = "vendored")]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 3] = [
    allocate,
    allocate_general::<{ crate::memory::general::SMALL }>,
    allocate_general::<0>,
];
#[cfg(not(feature = "vendored"))]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 1] = [allocate];

unsafe extern "C" fn allocate(
    home: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: Lua passes what the VM was made with, tells the size of each block rightly, and frees it once.
    unsafe {
        let home = &*home.cast::<Home>();
        home.memory.reallocate(block.cast(), old, new).cast()
    }
}

#[cfg(feature = "vendored")]
unsafe extern "C" fn allocate_general<const SMALL: usize>(
    _: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: each block was made by the same instance, of the size that Lua tells.
    unsafe { crate::memory::general::reallocate::<SMALL>(block.cast(), old, new).cast() }
}
