//! What a VM of ours has beside Lua's own, and how it is found from any state of the VM: by the VM's allocator. A VM that is
//! not ours has only a store, in its registry; that one is never freed before the process ends: a script can call its
//! finalizer when it likes, which only closes it, see `registry`.

use super::block::{shared_key, type_number};
use super::state::State;
use super::store::Store;
use crate::memory::Memory;
use mlua::ffi::{self, lua_State};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::rc::Rc;

/// What a VM of ours has beside Lua's own: the allocator is given it, so it is found from any state of the VM.
pub(super) struct Home {
    pub(super) memory: Memory,
    pub(super) store: Store,
    /// The data's type, 0 once it is dropped; and where it is.
    pub(super) kind: Cell<u64>,
    pub(super) data: *mut (),
    /// The main state; null once it is closed.
    pub(super) base: Cell<*mut lua_State>,
    /// The coroutine of the main function; null when there is none, and once the VM is being closed.
    pub(super) main: Cell<*mut lua_State>,
    /// A panic has unwound a call of the VM: nothing may enter that again.
    pub(super) is_broken: Cell<bool>,
    /// What an interrupt sets, see `interrupt`.
    pub(super) on_interrupt: OnceCell<ffi::lua_Hook>,
    #[cfg(feature = "vendored")]
    pub(super) warnings: Cell<Warnings>,
    /// The `Threads` whose coroutines are interrupted with the main function.
    pub(super) threads: OnceCell<Rc<dyn Any>>,
}

/// Whether warnings are written.
#[cfg(feature = "vendored")]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Warnings {
    /// Only `warn("@on")` counts. A new VM of Lua 5.4 begins so.
    #[cfg_attr(not(feature = "lua55"), default)]
    Off,
    /// A new VM of Lua 5.5 begins so.
    #[cfg_attr(feature = "lua55", default)]
    On,
    /// A piece of a warning was written, and more follows.
    Continued,
}

/// What the registry of a VM that is not ours holds.
pub(super) struct Place(pub(super) &'static Store);

/// What has a VM of ours; `None` for any other. It is there as long as the VM.
#[inline]
pub(super) fn of<'h>(state: &State) -> Option<&'h Home> {
    let mut home = ptr::null_mut();
    // SAFETY: only our allocators are given a home.
    unsafe {
        let allocator = ffi::lua_getallocf(state.state, &mut home);
        let is_ours = ptr::fn_addr_eq(allocator, ALLOCATORS[0]) || is_general(allocator);
        is_ours.then(|| &*home.cast::<Home>())
    }
}

/// Tells types of data apart; not 0.
#[inline(always)]
pub(super) fn kind_of<T: 'static>() -> u64 {
    type_number::<T>() | 1
}

/// Not inlined, so that the usual case is one comparison.
#[inline(never)]
fn is_general(allocator: ffi::lua_Alloc) -> bool {
    let is_same = |ours: &ffi::lua_Alloc| ptr::fn_addr_eq(allocator, *ours);
    ALLOCATORS[1..].iter().any(is_same)
}

/// Which VM a state is of, if that is known (null): the home of one of ours, or the address of another's registry, made odd.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin(*const Home);

impl Origin {
    pub(super) const UNKNOWN: Origin = Origin(ptr::null());

    #[inline]
    pub(super) fn of(state: &State) -> Origin {
        match of(state) {
            Some(home) => Origin(home),
            None => Origin(ptr::without_provenance(state.registry().addr() | 1)),
        }
    }

    /// What has a VM of ours; `None` for any other. It is there as long as the VM.
    #[inline]
    pub(super) fn home<'h>(self) -> Option<&'h Home> {
        match self.address() & 1 {
            // SAFETY: null, or a home, which is at an even address and exists as long as a state of its VM is in use.
            0 => unsafe { self.0.as_ref() },
            _ => None,
        }
    }

    /// An identity of the VM.
    #[inline]
    pub(super) fn address(self) -> usize {
        self.0.addr()
    }
}

impl State {
    /// Which VM this is of: an identity and nothing else.
    pub(super) fn vm(&self) -> usize {
        Origin::of(self).address()
    }
}

impl Home {
    /// The main state of a service's VM, which no program reaches, while nothing runs on it: it has nothing but the main
    /// function's coroutine then.
    pub(super) fn idle_base(&self) -> Option<State> {
        if self.main.get().is_null() || self.base.get().is_null() {
            return None;
        }
        // SAFETY: not null, so it is open.
        let base = unsafe { State::new(self.base.get()) };
        (base.count() == 1 && !base.is_active()).then_some(base)
    }

    /// The stack of the main function's coroutine, if there is one.
    pub(super) fn main(&self) -> Option<State> {
        let main = self.main.get();
        // SAFETY: the coroutine lies on the main state, where nothing of Lua's can reach it, until that is closed.
        (!main.is_null()).then(|| unsafe { State::new(main) })
    }

    /// Where the data of the VM is, when it is of this type.
    #[inline]
    pub(super) fn data_as<T: 'static>(&self) -> Option<NonNull<T>> {
        let is_there = self.kind.get() == kind_of::<T>();
        is_there.then(|| NonNull::new(self.data.cast())).flatten()
    }
}

/// The store of the VM; `None` when it has none yet, or a script has taken it away. Takes the room of one value meanwhile. It
/// lives as long as the VM, longer than any frame that uses it.
#[inline]
pub(super) fn store_of(state: &mut State) -> Option<&'static Store> {
    match of(state) {
        Some(home) => Some(&home.store),
        None => in_registry(state),
    }
}

/// The store of a VM that is not ours.
#[inline(never)]
fn in_registry(state: &mut State) -> Option<&'static Store> {
    state.push_registered(shared_key::<Store>());
    let place = state.find::<Place>(state.count());
    // SAFETY: it lies on the stack; the store itself is never freed.
    let store = place.map(|place| unsafe { (*place).0 });
    state.drop_top();
    store
}

/// The `lua_Alloc`s of VMs of ours, by whose address these are known: read from here alone, as a function may have several.
#[cfg(feature = "vendored")]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 3] =
    [allocate, allocate_general::<{ crate::memory::general::SMALL }>, allocate_general::<0>];
#[cfg(not(feature = "vendored"))]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 1] = [allocate];

unsafe extern "C" fn allocate(home: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: Lua passes what the VM was made with, tells the size of each block rightly, and frees it once.
    unsafe {
        let home = &*home.cast::<Home>();
        home.memory.reallocate(block.cast(), old, new).cast()
    }
}

#[cfg(feature = "vendored")]
unsafe extern "C" fn allocate_general<const SMALL: usize>(
    _: *mut c_void, block: *mut c_void, old: usize, new: usize,
) -> *mut c_void {
    // SAFETY: each block was made by the same instance, of the size that Lua tells.
    unsafe { crate::memory::general::reallocate::<SMALL>(block.cast(), old, new).cast() }
}
