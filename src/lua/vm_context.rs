//! The Rust data of a VM that the core creates. It can be reached from any state of the VM, through the VM's allocator.
//! Other VMs have only a store, in their registry. That store is not freed before the process ends, because a script
//! can call its finalizer at any time. The finalizer only closes the store, see `registry`.

use super::block::{shared_key, type_number};
use super::hook::Hook;
use super::state::State;
use super::store::Store;
use crate::memory::Memory;
use mlua::ffi::{self, lua_State};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, compiler_fence};

/// The Rust data of a VM that the core creates. It is the context of the VM's allocator, so it can be found from any
/// state of the VM.
pub(super) struct VmContext {
    pub(super) memory: Memory,
    pub(super) store: Store,
    /// The type of the data (0 after the data has been dropped), and the address of the data.
    pub(super) data_type: Cell<u64>,
    pub(super) data: *mut (),
    /// The main state; null after it has been closed.
    pub(super) main_state: Cell<*mut lua_State>,
    /// The coroutine of the main function; null if there is none, or if the VM is being closed.
    pub(super) main_coroutine: Cell<*mut lua_State>,
    /// Whether a panic has unwound a call into the VM. If so, the VM must not be entered again.
    pub(super) is_broken: Cell<bool>,
    pub(super) on_interrupt: OnceCell<OnInterrupt>,
    #[cfg(feature = "vendored")]
    pub(super) warnings: Cell<Warnings>,
    /// The `Threads` whose coroutines an interrupt reaches in addition to the main function.
    pub(super) threads: OnceCell<Rc<dyn Any>>,
    /// The address of the value in `threads`; null if there is none. The signal handler reads it, so it is one word.
    pub(super) interrupted_threads: Cell<*const ()>,
    /// Whether interrupts are held.
    pub(super) hold: Hold,
    pub(super) replaced_hooks: ReplacedHooks,
    /// The progress of code that has caught the error of an interrupt.
    pub(super) closing: Closing,
}

impl VmContext {
    /// Returns the main state of a service's VM if nothing runs on it. In this case, the main state contains only the
    /// main function's coroutine, and no program can reach it.
    pub(super) fn idle_main_state(&self) -> Option<State> {
        if self.main_coroutine.get().is_null() || self.main_state.get().is_null() {
            return None;
        }
        // SAFETY: the main state is open, since the pointer is not null.
        let main_state = unsafe { State::new(self.main_state.get()) };
        (main_state.count() == 1 && !main_state.is_active()).then_some(main_state)
    }

    /// Whether this is the hook that an interrupt sets.
    pub(super) fn is_of_interrupt(&self, hook: Hook) -> bool {
        self.on_interrupt.get().is_some_and(|on_interrupt| hook.calls(on_interrupt.hook))
    }

    /// Returns the stack of the main function's coroutine, if there is one.
    pub(super) fn main_coroutine(&self) -> Option<State> {
        let main = self.main_coroutine.get();
        // SAFETY: the coroutine is on the main state, where no Lua code can reach it, until that state is closed.
        (!main.is_null()).then(|| unsafe { State::new(main) })
    }

    /// Returns a pointer to the data of the VM, if it has this type.
    #[inline]
    pub(super) fn data_as<T: 'static>(&self) -> Option<NonNull<T>> {
        let is_there = self.data_type.get() == data_type_of::<T>();
        is_there.then(|| NonNull::new(self.data.cast())).flatten()
    }
}

/// The effect of an interrupt on the VM, see `interrupt`.
#[derive(Clone, Copy)]
pub(super) struct OnInterrupt {
    /// The hook that an interrupt sets.
    pub(super) hook: ffi::lua_Hook,
    /// Sets this hook in the VM that the calling thread is running.
    pub(super) set_hooks: fn(&VmContext),
}

/// Whether interrupts of a VM are held, see `interrupt_hold`. Only the thread that runs the VM, and its signal handler,
/// access the fields.
#[derive(Default)]
pub(super) struct Hold {
    /// The number of sections, which may be nested.
    sections: AtomicU32,
    /// Whether an interrupt has to take effect at the end of the outermost section.
    is_pending: AtomicBool,
}

impl Hold {
    /// Called by the signal handler. Returns whether interrupts are held; if so, the interrupt takes effect later.
    pub(super) fn defers(&self) -> bool {
        let is_held = self.sections.load(Relaxed) > 0;
        if is_held {
            self.is_pending.store(true, Relaxed);
        }
        is_held
    }

    /// Begins a section.
    pub(super) fn enter(&self) {
        self.sections.store(self.sections.load(Relaxed) + 1, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Ends a section and returns true, unless an interrupt is pending at the end of the outermost section: then the
    /// section continues, and the caller sets the hooks and calls this again.
    pub(super) fn try_leave(&self) -> bool {
        compiler_fence(SeqCst);
        let outer = self.sections.load(Relaxed) - 1;
        self.sections.store(outer, Relaxed);
        compiler_fence(SeqCst);
        // From here on, signals have an immediate effect, so an interrupt that is pending came before.
        if outer > 0 || !self.is_pending.load(Relaxed) {
            return true;
        }
        self.enter();
        self.is_pending.store(false, Relaxed);
        false
    }
}

/// The hooks of the program that interrupts have replaced, until their coroutines run the next instruction: a coroutine
/// may wait before that. The signal handler also changes this value, so other code uses it only while interrupts are
/// held.
#[derive(Default)]
pub(super) struct ReplacedHooks {
    /// The coroutines and their hooks, from the oldest record on. A coroutine is only compared, because it may have
    /// been freed.
    records: Cell<[(*mut lua_State, Hook); REPLACED_HOOKS]>,
    count: Cell<usize>,
}

/// If interrupts have replaced the hooks of more coroutines that have not run an instruction since, the oldest of these
/// hooks is lost: it is more important that loops can be ended.
const REPLACED_HOOKS: usize = 4;

impl ReplacedHooks {
    /// Records the hook of a coroutine, which replaces a hook that was recorded for it.
    pub(super) fn record(&self, state: &State, hook: Hook) {
        self.take(state);
        if self.count.get() == REPLACED_HOOKS {
            self.remove(0);
        }
        let mut records = self.records.get();
        records[self.count.get()] = (state.state, hook);
        self.records.set(records);
        self.count.set(self.count.get() + 1);
    }

    /// Returns the hook that was replaced in this coroutine, if there is one, and forgets it.
    pub(super) fn take(&self, state: &State) -> Hook {
        let records = self.records.get();
        let place = records[..self.count.get()].iter().position(|record| record.0 == state.state);
        place.map_or(Hook::NONE, |place| {
            self.remove(place);
            records[place].1
        })
    }

    fn remove(&self, place: usize) {
        let mut records = self.records.get();
        records[place..].rotate_left(1);
        self.records.set(records);
        self.count.set(self.count.get() - 1);
    }
}

/// The closing of variables after an error of an interrupt, see `interrupt`.
#[derive(Default)]
pub(super) struct Closing {
    /// The frame of the C function that has caught the error and closes the variables; null if none are closed. Only
    /// compared, because the frame may have ended.
    catcher: AtomicPtr<c_void>,
    /// Whether a signal was ignored since the closing began.
    has_ignored_signal: AtomicBool,
}

impl Closing {
    /// Records that the function with the frame `catcher` is going to close variables.
    pub(super) fn begin(&self, catcher: *mut c_void) {
        self.has_ignored_signal.store(false, Relaxed);
        self.catcher.store(catcher, Relaxed);
    }

    /// Records that no variables are being closed.
    pub(super) fn end(&self) {
        self.catcher.store(ptr::null_mut(), Relaxed);
    }

    /// Whether the function with this frame closes variables.
    pub(super) fn is_of(&self, frame: *mut c_void) -> bool {
        !frame.is_null() && self.catcher.load(Relaxed) == frame
    }

    /// Whether a signal has no effect: it is the first one while variables are closed. Later ones have an effect,
    /// because the variables may be closed by slow C functions.
    pub(super) fn ignores_signal(&self) -> bool {
        !self.catcher.load(Relaxed).is_null() && !self.has_ignored_signal.swap(true, Relaxed)
    }
}

/// Whether and how warnings are written.
#[cfg(feature = "vendored")]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Warnings {
    /// No warning is written until `warn("@on")`. A new VM of Lua 5.4 begins in this state.
    #[cfg_attr(not(feature = "lua55"), default)]
    Off,
    /// Warnings are written. A new VM of Lua 5.5 begins in this state.
    #[cfg_attr(feature = "lua55", default)]
    On,
    /// A part of a warning was written, and more follows.
    Continued,
}

/// The store of a VM that the core did not create, as a value in the VM's registry.
pub(super) struct StoreHandle(pub(super) &'static Store);

/// Returns the context of the VM; `None` if the core did not create the VM. The context exists as long as the VM.
#[inline]
pub(super) fn context_of<'h>(state: &State) -> Option<&'h VmContext> {
    let mut context = ptr::null_mut();
    // SAFETY: the context of these allocators is always a `VmContext`.
    unsafe {
        let allocator = ffi::lua_getallocf(state.state, &mut context);
        let is_ours = ptr::fn_addr_eq(allocator, ALLOCATORS[0]) || is_general(allocator);
        is_ours.then(|| &*context.cast::<VmContext>())
    }
}

/// Returns a number that identifies the data type `T`; never 0.
#[inline(always)]
pub(super) fn data_type_of<T: 'static>() -> u64 {
    type_number::<T>() | 1
}

/// The VM of a state, or null if it is not known yet: the context of a VM that the core created, or the address of
/// another VM's registry with the lowest bit set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct VmRef(*const VmContext);

impl VmRef {
    pub(super) const UNKNOWN: VmRef = VmRef(ptr::null());

    #[inline]
    pub(super) fn of(state: &State) -> VmRef {
        match context_of(state) {
            Some(context) => VmRef(context),
            None => VmRef(ptr::without_provenance(state.registry().addr() | 1)),
        }
    }

    /// Returns the context of the VM; `None` if the core did not create the VM. The context exists as long as the VM.
    #[inline]
    pub(super) fn context<'h>(self) -> Option<&'h VmContext> {
        match self.address() & 1 {
            // SAFETY: an even address is null or a context, which exists as long as a state of its VM is in use.
            0 => unsafe { self.0.as_ref() },
            _ => None,
        }
    }

    /// Returns an identity of the VM.
    #[inline]
    pub(super) fn address(self) -> usize {
        self.0.addr()
    }
}

impl State {
    /// Returns a number that identifies the VM of this state.
    pub(super) fn vm(&self) -> usize {
        VmRef::of(self).address()
    }
}

/// Returns the store of the VM; `None` if it has none yet, or a script has removed it. Needs room for one value. The
/// store exists as long as the VM, which is longer than any frame that uses it.
#[inline]
pub(super) fn store_of(state: &mut State) -> Option<&'static Store> {
    match context_of(state) {
        Some(context) => Some(&context.store),
        None => store_in_registry(state),
    }
}

/// The `lua_Alloc`s of VMs that the core creates. Their addresses identify such VMs. All code takes the addresses from
/// here, because a function may have several addresses.
#[cfg(feature = "vendored")]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 3] =
    [allocate, allocate_general::<{ crate::memory::general::SMALL }>, allocate_general::<0>];
#[cfg(not(feature = "vendored"))]
pub(super) static ALLOCATORS: [ffi::lua_Alloc; 1] = [allocate];

/// Not inlined, so that the common case is one comparison.
#[inline(never)]
fn is_general(allocator: ffi::lua_Alloc) -> bool {
    let is_same = |ours: &ffi::lua_Alloc| ptr::fn_addr_eq(allocator, *ours);
    ALLOCATORS[1..].iter().any(is_same)
}

/// Returns the store of a VM that the core did not create.
#[inline(never)]
fn store_in_registry(state: &mut State) -> Option<&'static Store> {
    state.push_registered(shared_key::<Store>());
    let place = state.find::<StoreHandle>(state.count());
    // SAFETY: the handle is on the stack, and the store that it refers to is never freed.
    let store = place.map(|place| unsafe { (*place).0 });
    state.drop_top();
    store
}

unsafe extern "C" fn allocate(context: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    #[cfg(feature = "alloc_failures")]
    if super::alloc_failures::refuses(context, block, old, new) {
        return ptr::null_mut();
    }
    // SAFETY: Lua passes the context that the VM was created with and the true size of each block, and frees each block
    // once.
    unsafe {
        let context = &*context.cast::<VmContext>();
        context.memory.reallocate(block.cast(), old, new).cast()
    }
}

#[cfg(feature = "vendored")]
unsafe extern "C" fn allocate_general<const SMALL: usize>(
    _context: *mut c_void, block: *mut c_void, old: usize, new: usize,
) -> *mut c_void {
    #[cfg(feature = "alloc_failures")]
    if super::alloc_failures::refuses(_context, block, old, new) {
        return ptr::null_mut();
    }
    // SAFETY: each block was allocated by this instance, with the size that Lua passes.
    unsafe { crate::memory::general::reallocate::<SMALL>(block.cast(), old, new).cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_takes_effect_at_the_end_of_the_outermost_section() {
        let hold = Hold::default();
        assert!(!hold.defers());
        hold.enter();
        hold.enter();
        assert!(hold.defers());
        assert!(hold.try_leave(), "the inner section");
        assert!(hold.defers());
        assert!(!hold.try_leave(), "an interrupt is pending");
        assert!(hold.defers(), "the section continues");
        assert!(!hold.try_leave());
        assert!(hold.try_leave());
        assert!(!hold.defers());
        hold.enter();
        assert!(hold.try_leave(), "nothing is pending");
    }
}
