//! Which coroutines resume each other, from the running one outwards.

use super::anchors::Coroutine;
use super::places::{Link, Threads};
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::stack::Stack;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// What keeps a wait from reaching the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// A coroutine was resumed by another library.
    Foreign,
    /// A coroutine is inside a function that cannot yield: the running one (0), or one that resumes others.
    Rigid(usize),
}

impl Threads {
    /// Whether the running step can yield up to the `resume` of the coroutine `own`, and through how many `resume`s of
    /// programs.
    #[inline(always)]
    pub(crate) fn way(&self, stack: &Stack, own: Coroutine) -> Result<usize, Obstacle> {
        let state = stack.state;
        // SAFETY: asks for counts; a link is complete while it is on the C stack, and its coroutines run.
        unsafe {
            if ffi::lua_isyieldable(state) == 0 {
                return Err(Obstacle::Rigid(0));
            }
            let (mut inner, mut depth) = (state, 0);
            let mut link: *const Link = self.links.load(Ordering::Relaxed);
            while !link.is_null() {
                if (*link).to != inner {
                    return Err(Obstacle::Foreign);
                }
                inner = (*link).from;
                depth += 1;
                if ffi::lua_isyieldable(inner) == 0 {
                    return Err(Obstacle::Rigid(depth));
                }
                link = (*link).up;
            }
            match inner == self.state(own) {
                true => Ok(depth),
                false => Err(Obstacle::Foreign),
            }
        }
    }

    /// The coroutines that the links tell of, from the innermost outwards: whoever resumes, and whom.
    pub(super) fn linked(&self) -> Vec<(*mut lua_State, *mut lua_State)> {
        let mut all = Vec::new();
        self.for_each_link(|from, to| all.push((from, to)));
        all
    }

    pub(super) fn for_each_link(&self, mut visit: impl FnMut(*mut lua_State, *mut lua_State)) {
        let mut link: *const Link = self.links.load(Ordering::Relaxed);
        while !link.is_null() {
            // SAFETY: a link is complete before it is entered, and taken out before its frame ends.
            let Link { up, from, to } = unsafe { std::ptr::read(link) };
            visit(from, to);
            link = up;
        }
    }

    /// The running coroutine, or the one that many `resume`s of programs outwards.
    pub(in crate::lua) fn outwards(&self, stack: &Stack, depth: usize) -> Option<*mut lua_State> {
        let mut all = vec![stack.state];
        self.for_each_link(|from, _| all.push(from));
        all.get(depth).copied()
    }

    /// Calls `visit` with the innermost coroutine that runs in a `resume` of these, if one does, and with those that resume
    /// each other outside of it (`outwards`). For the handler of a signal on the thread that runs the VM.
    pub(in crate::lua) fn for_each_running(&self, outwards: bool, mut visit: impl FnMut(*mut lua_State)) {
        let running = self.running.load(Ordering::Relaxed);
        if !running.is_null() {
            visit(running);
        }
        if outwards {
            self.for_each_link(|from, _| visit(from));
        }
    }

    /// Pushes the coroutines that the running one's task is resuming on the C stack, from the innermost outwards. → the
    /// index of the first
    pub(crate) fn push_nested(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        let first = stack.count() + 1;
        for (_, to) in self.linked() {
            stack.reserve(1)?;
            // SAFETY: it is on the C stack, and there is room on both.
            unsafe {
                if ffi::lua_checkstack(to, 1) == 0 {
                    continue;
                }
                ffi::lua_pushthread(to);
                if to != stack.state {
                    ffi::lua_xmove(to, stack.state, 1);
                }
            }
        }
        Ok(first)
    }

    /// Anchors the coroutines of [`Threads::nested`], from the outermost inwards: all, or none.
    #[cold]
    pub(crate) fn anchor_nested(self: &Rc<Self>, call: &mut Call<'_>) -> Result<Vec<Coroutine>, Fault> {
        let mut all = Vec::new();
        for (_, to) in self.linked().into_iter().rev() {
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
    pub(super) fn anchor(self: &Rc<Self>, call: &mut Call<'_>, thread: *mut lua_State) -> Result<Coroutine, Fault> {
        if self.places.borrow().free.is_empty() {
            let count = 16 + self.places.borrow().states.len() / 2;
            self.grow(call, count, None)?;
        }
        let co = self.next_place();
        // SAFETY: it is a link's, in this VM.
        match self.anchors.are_of(call.vm()) && unsafe { self.anchors.anchor(thread, co) } {
            true => {
                self.enter(co, thread);
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
