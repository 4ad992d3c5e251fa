//! Which coroutines resume each other, from the running one outwards.

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

/// What keeps a wait from reaching the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// A coroutine was resumed by another library.
    Foreign,
    /// A coroutine is inside a function that cannot yield: the running one (0), or one that resumes others.
    Rigid(u32),
}

impl Threads {
    /// Whether the running step can yield up to the `resume` of the coroutine `own`, and through how many `resume`s of
    /// programs.
    #[inline(always)]
    pub(crate) fn way(&self, stack: &Stack, own: Coroutine) -> Result<u32, Obstacle> {
        if !stack.is_yieldable() {
            return Err(Obstacle::Rigid(0));
        }
        match self.links.load(Ordering::Relaxed).is_null() && stack.state == self.state(own).state {
            true => Ok(0),
            false => self.way_through(stack, own),
        }
    }

    /// The same for a coroutine inside of others.
    #[inline(never)]
    fn way_through(&self, stack: &Stack, own: Coroutine) -> Result<u32, Obstacle> {
        let (mut inner, mut depth) = (stack.state, 0);
        for (from, to) in self.linked() {
            if to.state != inner {
                return Err(Obstacle::Foreign);
            }
            inner = from.state;
            depth += 1;
            if !from.is_yieldable() {
                return Err(Obstacle::Rigid(depth));
            }
        }
        match inner == self.state(own).state {
            true => Ok(depth),
            false => Err(Obstacle::Foreign),
        }
    }

    /// The coroutines that the links tell of, from the innermost outwards: whoever resumes, and whom.
    #[inline(always)]
    fn linked(&self) -> impl Iterator<Item = (State, State)> {
        let mut link: *const Link = self.links.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            if link.is_null() {
                return None;
            }
            // SAFETY: a link is complete before it is entered, and taken out before its frame ends; its coroutines run.
            unsafe {
                let Link { up, from, to } = std::ptr::read(link);
                link = up;
                Some((State::new(from), State::new(to)))
            }
        })
    }

    /// The running coroutine, or the one that many `resume`s of programs outwards.
    pub(in crate::lua) fn outwards(&self, stack: &Stack, depth: usize) -> Option<*mut lua_State> {
        let outer = self.linked().map(|(from, _)| from.state);
        std::iter::once(stack.state).chain(outer).nth(depth)
    }

    /// Calls `visit` with the innermost coroutine that runs in a `resume` of these, if one does, and with those that resume
    /// each other outside of it (`outwards`). For the handler of a signal on the thread that runs the VM.
    pub(in crate::lua) fn for_each_running(&self, outwards: bool, mut visit: impl FnMut(*mut lua_State)) {
        let running = self.running.load(Ordering::Relaxed);
        if !running.is_null() {
            visit(running);
        }
        if outwards {
            self.linked().for_each(|(from, _)| visit(from.state));
        }
    }

    /// Pushes the coroutines that the running one's task is resuming on the C stack, from the innermost outwards. → the
    /// index of the first
    pub(crate) fn push_nested(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        let first = stack.count() + 1;
        for (_, mut to) in self.linked() {
            stack.reserve(1)?;
            if to.has_room(1) {
                to.push_thread();
                if to.state != stack.state {
                    to.give(stack, 1);
                }
            }
        }
        Ok(first)
    }

    /// Anchors the coroutines of [`Threads::nested`], from the outermost inwards: all, or none.
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
            self.grow(call, count, None)?;
        }
        let co = self.next_place();
        match self.anchors.are_of(call.vm()) && self.anchors.anchor(&mut thread, co) {
            true => {
                self.enter(co, thread.state);
                Ok(co)
            }
            false => Err(Fault::message("stack overflow")),
        }
    }

    /// From now on, or not any more, what a program's `resume` gets is a wait on its way to the scheduler.
    #[inline]
    pub(crate) fn set_unwinding(&self, unwinding: bool) {
        self.unwinding.set(unwinding);
    }
}
