//! The chain of coroutines that programs have resumed, from the running coroutine outwards.

use super::anchors::Coroutine;
use super::places::{Link, Threads};
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::stack::Stack;
use crate::lua::state::State;
use mlua::ffi::lua_State;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Why a wait cannot reach the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// Another library has resumed a coroutine.
    Foreign,
    /// A coroutine is in a function that cannot yield. The number is the coroutine's depth: 0 is the running coroutine,
    /// 1 is the coroutine that has resumed it, and so on.
    Unyieldable(u32),
}

impl Threads {
    /// Checks that the running step can yield up to the `resume` call that runs the coroutine `own`. Returns the number
    /// of `resume` calls by programs in between.
    #[inline(always)]
    pub(crate) fn yield_depth(&self, stack: &Stack, own: Coroutine) -> Result<u32, Obstacle> {
        if !stack.is_yieldable() {
            return Err(Obstacle::Unyieldable(0));
        }
        match self.links.load(Ordering::Relaxed).is_null() && stack.state == self.state(own).state {
            true => Ok(0),
            false => self.yield_depth_through_links(stack, own),
        }
    }

    /// Like [`Threads::yield_depth`], for a coroutine that a program has resumed.
    #[inline(never)]
    fn yield_depth_through_links(&self, stack: &Stack, own: Coroutine) -> Result<u32, Obstacle> {
        let (mut inner, mut depth) = (stack.state, 0);
        for (from, to) in self.linked() {
            if to.state != inner {
                return Err(Obstacle::Foreign);
            }
            inner = from.state;
            depth += 1;
            if !from.is_yieldable() {
                return Err(Obstacle::Unyieldable(depth));
            }
        }
        match inner == self.state(own).state {
            true => Ok(depth),
            false => Err(Obstacle::Foreign),
        }
    }

    /// Iterates over the links, from the innermost outwards. Each item consists of the coroutine that calls `resume`,
    /// and the coroutine that it resumes.
    #[inline(always)]
    fn linked(&self) -> impl Iterator<Item = (State, State)> {
        let mut link: *const Link = self.links.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            if link.is_null() {
                return None;
            }
            // SAFETY: a link is complete before it is stored, and removed before its frame ends. Its coroutines are on
            // the C stack.
            unsafe {
                let Link { outer, from, to } = std::ptr::read(link);
                link = outer;
                Some((State::new(from), State::new(to)))
            }
        })
    }

    /// Returns the coroutine at `depth`: 0 is the running one, 1 the coroutine that has resumed it, and so on.
    pub(in crate::lua) fn outwards(&self, stack: &Stack, depth: usize) -> Option<*mut lua_State> {
        let outer = self.linked().map(|(from, _)| from.state);
        std::iter::once(stack.state).chain(outer).nth(depth)
    }

    /// Calls `visit` with the innermost coroutine that a method of this type is resuming, if there is one. If
    /// `outwards` is true, also calls `visit` with the coroutines that are waiting for it in a program's `resume`. Only
    /// for interrupts, on the thread that runs the VM.
    pub(in crate::lua) fn for_each_running(&self, outwards: bool, mut visit: impl FnMut(*mut lua_State)) {
        let running = self.running.load(Ordering::Relaxed);
        if !running.is_null() {
            visit(running);
        }
        if outwards {
            self.linked().for_each(|(from, _)| visit(from.state));
        }
    }

    /// Pushes the coroutines on the C stack that the running task is resuming, from the innermost outwards. Returns the
    /// index of the first pushed coroutine.
    pub(crate) fn push_nested(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        let first = stack.count() + 1;
        for (_, mut to) in self.linked() {
            stack.reserve(1)?;
            if to.has_room(1) {
                to.push_thread();
                if to.state != stack.state {
                    to.move_to(stack, 1);
                }
            }
        }
        Ok(first)
    }

    /// Anchors the coroutines of [`Threads::push_nested`], from the outermost inwards. If this fails for one coroutine,
    /// none stays anchored.
    #[cold]
    pub(crate) fn anchor_nested(self: &Rc<Self>, call: &mut Call<'_>) -> Result<Vec<Coroutine>, Fault> {
        let mut all = Vec::new();
        let linked: Vec<_> = self.linked().collect();
        for (_, to) in linked.into_iter().rev() {
            match self.anchor(call, to) {
                Ok(co) => all.push(co),
                Err(fault) => {
                    all.into_iter().for_each(|co| self.release(co));
                    return Err(fault);
                }
            }
        }
        Ok(all)
    }

    /// Anchors a coroutine that is on the C stack.
    pub(super) fn anchor(self: &Rc<Self>, call: &mut Call<'_>, mut thread: State) -> Result<Coroutine, Fault> {
        if self.places.borrow().free.is_empty() {
            let count = 16 + self.places.borrow().states.len() / 2;
            self.create_places(call, count, None)?;
        }
        let co = self.next_place();
        match self.anchors.are_of(call.vm()) && self.anchors.anchor(&mut thread, co) {
            true => {
                self.fill_place(co, thread.state);
                Ok(co)
            }
            false => Err(Fault::message("stack overflow")),
        }
    }

    /// Sets whether a yield that reaches a program's `resume` is part of a wait, which continues up to the scheduler.
    #[inline]
    pub(crate) fn set_unwinding(&self, unwinding: bool) {
        self.unwinding.set(unwinding);
    }
}
