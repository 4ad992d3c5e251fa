//! The coroutines of a VM, by place number.
//!
//! A [`Coroutine`] is the number of a place. Each method here relies on the rule that a coroutine with a place is
//! anchored (see `anchors`), so its state is valid. A program that has a coroutine as a value can resume or close it.
//! Therefore a coroutine's status is checked before each use.

use super::anchors::{Anchors, Coroutine, place};
use crate::lua::fault::Fault;
use crate::lua::stack::Stack;
use crate::lua::state::State;
use crate::lua::work::Work;
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;

/// Identifies a coroutine, for comparison and lookup. The coroutine may have been freed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity(pub(super) usize);

/// An identity that no coroutine has.
pub(super) const NO_COROUTINE: Identity = Identity(0);

impl Default for Identity {
    fn default() -> Self {
        NO_COROUTINE
    }
}

/// Returns the identity of the coroutine that has this stack.
pub(super) fn coroutine_identity(of: &State) -> Identity {
    Identity(of.state.addr())
}

/// The error for a stack that cannot grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// A program's `resume` call that is on the C stack.
pub(super) struct Link {
    /// The next outer link; null if there is none.
    pub(super) outer: *const Link,
    /// The coroutine that calls `resume`, and the coroutine that it resumes.
    pub(super) from: *mut lua_State,
    pub(super) to: *mut lua_State,
}

/// The coroutines of a VM, and which of them is running.
#[derive(Default)]
pub(crate) struct Threads {
    pub(super) anchors: Anchors,
    pub(super) places: RefCell<Places>,
    /// The innermost coroutine that a method of this type is resuming; null if there is none. This field and `links`
    /// are atomic because the signal handler reads them.
    pub(super) running: AtomicPtr<lua_State>,
    /// The innermost `resume` that a program has called since `Threads::resume` was called; null if there is none.
    pub(super) links: AtomicPtr<Link>,
    /// The coroutine that `Threads::resume` has just resumed, until a step of that coroutine calls `take_last_resumed`.
    pub(super) last_resumed: Cell<Identity>,
    /// Whether the coroutines between a waiting coroutine and `Threads::resume` are yielding, one after the other.
    pub(super) unwinding: Cell<bool>,
    /// The piece of work that the VM is doing.
    pub(crate) work: Rc<Work>,
}

/// The places of a VM.
#[derive(Default)]
pub(super) struct Places {
    /// The state at each place; null if the place is free.
    pub(super) states: Vec<*mut lua_State>,
    pub(super) free: Vec<u32>,
    pub(super) orphans: Vec<Coroutine>,
}

impl Threads {
    /// Whether coroutines can be used. This is false after the VM has closed, or after a program has removed the
    /// anchors.
    #[inline]
    pub(crate) fn are_open(&self) -> bool {
        self.anchors.exist()
    }

    /// Returns the stack of the coroutine at a place.
    #[inline(always)]
    pub(super) fn state(&self, co: Coroutine) -> State {
        let state = self.places.borrow().states[co.number()];
        if state.is_null() || !self.anchors.exist() {
            self.invalid_state(state);
        }
        // SAFETY: a coroutine with a place is anchored.
        unsafe { State::new(state) }
    }

    /// Returns the stack of the coroutine at a place, for moving values to or from another stack of the same VM.
    #[inline(always)]
    pub(super) fn other_state(&self, stack: &Stack, co: Coroutine) -> State {
        let state = self.state(co);
        if state.state == stack.state || self.anchors.vm.get() != stack.vm() {
            self.invalid_state(state.state);
        }
        state
    }

    /// Panics with the reason why a coroutine cannot be used.
    #[cold]
    #[inline(never)]
    pub(super) fn invalid_state(&self, state: *mut lua_State) -> ! {
        assert!(!state.is_null(), "the coroutine was released");
        assert!(self.anchors.exist(), "the VM's coroutines are lost");
        panic!("the coroutine belongs to another VM or is running")
    }

    /// Whether the coroutine `thread` is at the place `number`.
    pub(super) fn holds(&self, number: i64, thread: *mut lua_State) -> bool {
        let places = self.places.borrow();
        let state = usize::try_from(number).ok().and_then(|number| places.states.get(number));
        state == Some(&thread) && !thread.is_null()
    }

    /// Returns the place for the next coroutine: a free place, or a new place after all others.
    pub(super) fn next_place(&self) -> Coroutine {
        let places = self.places.borrow();
        let free = places.free.last().copied();
        Coroutine(free.unwrap_or(places.states.len() as u32))
    }

    /// Returns the place after all others.
    pub(super) fn new_place(&self) -> Coroutine {
        Coroutine(self.places.borrow().states.len() as u32)
    }

    /// Adds a free place. `co` is the place that `new_place` has returned.
    pub(super) fn add_free_place(&self, co: Coroutine) {
        let places = &mut *self.places.borrow_mut();
        places.states.push(null_mut());
        places.free.push(co.0);
    }

    /// Puts a coroutine in the place that `next_place` has returned.
    pub(super) fn fill_place(&self, co: Coroutine, thread: *mut lua_State) {
        let places = &mut *self.places.borrow_mut();
        match places.free.pop() {
            Some(_) => places.states[co.number()] = thread,
            None => places.states.push(thread),
        }
    }

    /// Adds a task's own coroutine to the list of orphans for [`Threads::take_orphan`].
    pub(super) fn orphan(&self, co: Coroutine) {
        self.places.borrow_mut().orphans.push(co);
    }

    /// Removes a task's own coroutine from the list of orphans and returns it; `None` if the list is empty. The task's
    /// token is no longer referenced, and the task's coroutines are anchored again.
    #[inline]
    pub(crate) fn take_orphan(&self) -> Option<Coroutine> {
        self.places.borrow_mut().orphans.pop()
    }

    /// Releases a coroutine: from now on, the collector may free it.
    pub(crate) fn release(&self, co: Coroutine) {
        self.anchors.release(co);
        let places = &mut *self.places.borrow_mut();
        let state = &mut places.states[co.number()];
        if !std::mem::replace(state, null_mut()).is_null() {
            places.free.push(co.0);
        }
    }

    /// Returns the identity of a coroutine.
    #[inline]
    pub(crate) fn identity(&self, co: Coroutine) -> Identity {
        Identity(self.places.borrow().states[co.number()].addr())
    }

    /// Pushes a coroutine. Returns its index.
    pub(crate) fn push(&self, stack: &mut Stack, co: Coroutine) -> Result<c_int, Fault> {
        self.push_anchored(stack, place(co))
    }

    /// Pushes the value that the anchors' table has under the key `number`. Returns the index of the pushed value.
    pub(super) fn push_anchored(&self, stack: &mut Stack, number: i64) -> Result<c_int, Fault> {
        stack.reserve(1)?;
        match self.anchors.are_of(stack.vm()) && self.anchors.get(stack, number) {
            true => Ok(stack.count()),
            false => Err(anchors_lost()),
        }
    }

    /// Whether the coroutine is suspended by a yield.
    #[inline(always)]
    pub(crate) fn is_suspended(&self, co: Coroutine) -> bool {
        self.state(co).status() == ffi::LUA_YIELD
    }

    /// Returns how many coroutines in `all` come before the first coroutine that is not suspended.
    #[inline]
    pub(crate) fn count_suspended(&self, all: &[Coroutine]) -> usize {
        all.iter().take_while(|&&co| self.is_suspended(co)).count()
    }

    /// Whether the coroutine has not started, and its stack contains a function and `arguments` arguments.
    pub(crate) fn is_fresh(&self, co: Coroutine, arguments: c_int) -> bool {
        let state = self.state(co);
        state.status() == ffi::LUA_OK && state.count() == arguments + 1 && !state.is_active()
    }

    /// Whether the coroutine has returned or was never used, and its stack is empty, so that a function can run on it.
    #[inline]
    pub(crate) fn is_unused(&self, co: Coroutine) -> bool {
        let state = self.state(co);
        state.status() == ffi::LUA_OK && state.count() == 0
    }
}

/// Returns the error for an operation that needs the anchors after they have been lost.
#[cold]
pub(super) fn anchors_lost() -> Fault {
    Fault::message("the VM's coroutines are lost")
}
