//! The coroutines of a VM, by the numbers of their places.
//!
//! A [`Coroutine`] is the number of a place; a coroutine with a place is anchored (see `anchors`), so that its state is
//! valid, which each method here stands on. What others do to a coroutine of which they have the value is found by its
//! status, which is asked for before each use: they may have resumed or closed it.

use super::anchors::{Anchors, Coroutine};
use crate::lua::fault::Fault;
use crate::lua::stack::Stack;
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;

/// Which coroutine, to compare and look up. Says nothing about whether it exists still.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity(pub(super) usize);

pub(super) const NOBODY: Identity = Identity(0);

impl Default for Identity {
    fn default() -> Self {
        NOBODY
    }
}

pub(super) fn identity(state: *mut lua_State) -> Identity {
    Identity(state.addr())
}

/// A stack cannot grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// A `resume` of a program that is on the C stack.
pub(super) struct Link {
    pub(super) up: *const Link,
    pub(super) from: *mut lua_State,
    pub(super) to: *mut lua_State,
}

/// The coroutines of a VM, and which of them runs.
#[derive(Default)]
pub(crate) struct Threads {
    pub(super) anchors: Anchors,
    pub(super) places: RefCell<Places>,
    /// The innermost coroutine that runs in a `resume` of these; null when none does. Atomic, as the next one, for the
    /// handler of a signal.
    pub(super) running: AtomicPtr<lua_State>,
    /// The innermost `resume` of a program since `resume` was called.
    pub(super) links: AtomicPtr<Link>,
    /// The coroutine that `resume` has just resumed, until its continuation has asked.
    pub(super) handed: Cell<Identity>,
    /// The coroutines between one that waits and `resume` yield, one after the other.
    pub(super) unwinding: Cell<bool>,
}

#[derive(Default)]
pub(super) struct Places {
    /// Null: free.
    pub(super) states: Vec<*mut lua_State>,
    pub(super) free: Vec<u32>,
    pub(super) orphans: Vec<Coroutine>,
}

impl Threads {
    /// Whether coroutines may be used: until the VM closes, or a program has taken away what anchors them.
    #[inline]
    pub(crate) fn are_open(&self) -> bool {
        self.anchors.exist()
    }

    pub(super) fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    /// The state at a place.
    #[inline(always)]
    pub(super) fn state(&self, co: Coroutine) -> *mut lua_State {
        let state = self.places.borrow().states[co.number()];
        if state.is_null() || !self.anchors.exist() {
            self.no_state(state);
        }
        state
    }

    /// The state at a place, for values that go there from the stack of `stack` or back.
    #[inline(always)]
    pub(super) fn beside(&self, stack: &Stack, co: Coroutine) -> *mut lua_State {
        let state = self.places.borrow().states[co.number()];
        let is_other = state != stack.state && self.anchors.are_of(stack.vm());
        if state.is_null() || !is_other {
            self.no_state(state);
        }
        state
    }

    #[cold]
    #[inline(never)]
    pub(super) fn no_state(&self, state: *mut lua_State) -> ! {
        assert!(!state.is_null(), "the coroutine was released");
        assert!(self.anchors.exist(), "the VM's coroutines are gone");
        panic!("a coroutine of another VM, or the running one")
    }

    pub(super) fn is_at(&self, number: i64, thread: *mut lua_State) -> bool {
        let places = self.places.borrow();
        let state = usize::try_from(number).ok().and_then(|number| places.states.get(number));
        state == Some(&thread) && !thread.is_null()
    }

    pub(super) fn next_place(&self) -> Coroutine {
        let places = self.places.borrow();
        let free = places.free.last().copied();
        Coroutine(free.unwrap_or(places.states.len() as u32))
    }

    /// The place behind all others.
    pub(super) fn last_place(&self) -> Coroutine {
        Coroutine(self.places.borrow().states.len() as u32)
    }

    pub(super) fn enter_free(&self, co: Coroutine) {
        let places = &mut *self.places.borrow_mut();
        places.states.push(null_mut());
        places.free.push(co.0);
    }

    pub(super) fn enter(&self, co: Coroutine, thread: *mut lua_State) {
        let places = &mut *self.places.borrow_mut();
        match places.free.pop() {
            Some(_) => places.states[co.number()] = thread,
            None => places.states.push(thread),
        }
    }

    pub(super) fn orphan(&self, co: Coroutine) {
        self.places.borrow_mut().orphans.push(co);
    }

    /// A task's own coroutine that waits for a value which nothing referred to any more. Its coroutines are anchored
    /// again.
    #[inline]
    pub(crate) fn take_orphan(&self) -> Option<Coroutine> {
        self.places.borrow_mut().orphans.pop()
    }

    /// Leaves a coroutine to the collector.
    pub(crate) fn release(&self, co: Coroutine) {
        self.anchors.release(co);
        let places = &mut *self.places.borrow_mut();
        let state = &mut places.states[co.number()];
        if !std::mem::replace(state, null_mut()).is_null() {
            places.free.push(co.0);
        }
    }

    /// Which one it is.
    #[inline]
    pub(crate) fn identity(&self, co: Coroutine) -> Identity {
        identity(self.places.borrow().states[co.number()])
    }

    /// Pushes a coroutine. → its index
    pub(crate) fn push(&self, stack: &mut Stack, co: Coroutine) -> Result<c_int, Fault> {
        // SAFETY: the state is of the VM that the anchors are of, with room: `push_by` has asked for both.
        self.push_by(stack, |state| unsafe { self.anchors.push(state, co) })
    }

    pub(super) fn push_by(&self, stack: &mut Stack, push: impl FnOnce(*mut lua_State) -> bool) -> Result<c_int, Fault> {
        stack.reserve(1)?;
        match self.anchors.are_of(stack.vm()) && push(stack.state) {
            true => Ok(stack.count()),
            false => Err(gone()),
        }
    }

    /// Whether it is suspended by a yield.
    #[inline]
    pub(crate) fn is_suspended(&self, co: Coroutine) -> bool {
        // SAFETY: a plain field of a state that is valid.
        unsafe { ffi::lua_status(self.state(co)) == ffi::LUA_YIELD }
    }

    /// How many of these are suspended, up to the first that is not.
    #[inline]
    pub(crate) fn count_suspended(&self, all: &[Coroutine]) -> usize {
        assert!(self.anchors.exist(), "the VM's coroutines are gone");
        let states = &self.places.borrow().states[..];
        let mut count = 0;
        while count < all.len() {
            let state = states[all[count].0 as usize];
            // SAFETY: `state` has given a thread that is anchored; what is read are plain fields.
            if state.is_null() || unsafe { ffi::lua_status(state) != ffi::LUA_YIELD } {
                break;
            }
            count += 1;
        }
        count
    }

    /// Whether it has not begun, and its stack holds a function and so many arguments.
    pub(crate) fn is_fresh(&self, co: Coroutine, arguments: c_int) -> bool {
        let state = self.state(co);
        let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
        // SAFETY: as for `is_suspended`; `lua_getstack` writes the record only.
        unsafe {
            ffi::lua_status(state) == ffi::LUA_OK
                && ffi::lua_gettop(state) == arguments + 1
                && ffi::lua_getstack(state, 0, frame.as_mut_ptr()) == 0
        }
    }

    /// Whether it has returned or was never used, and its stack is empty: then a function can run on it.
    #[inline]
    pub(crate) fn is_unused(&self, co: Coroutine) -> bool {
        let state = self.state(co);
        // SAFETY: plain fields of a state that is valid.
        unsafe { ffi::lua_status(state) == ffi::LUA_OK && ffi::lua_gettop(state) == 0 }
    }
}

#[cold]
pub(super) fn gone() -> Fault {
    Fault::message("the VM's coroutines are gone")
}
