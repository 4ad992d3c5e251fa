//! Coroutines: made, resumed, waited in, closed. Nobody else has a `lua_State`.
//!
//! A [`Coroutine`] is the number of a place; a coroutine with a place is anchored (see `anchors`), so that its state is
//! valid, which each method here stands on. What others do to a coroutine of which they have the value is found by its
//! status, which is asked for before each use: they may have resumed or closed it.
//!
//! `resume` and `call` are the two that run Lua code in the middle of a step. They take the call as a whole, so that no
//! reference into an object or a string lives across them; what they run is on another thread than the step, so that an
//! error or, in Lua 5.5, a coroutine that closes itself never skips the step's frames. The values of the step's own
//! function stay at their indexes, but `debug.setlocal` may have changed them.

use super::anchors::{Anchors, Grow, Make, Renew, Weaken};
use super::call::Call;
use super::fault::Fault;
use super::function::Function;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::{Stack, at};
use super::values::Plain;
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

/// A coroutine that is anchored: the number of its place. One that was released is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coroutine(u32);

/// Which coroutine, to compare and look up. Says nothing about whether it exists still.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity(usize);

/// How a coroutine came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resumed {
    /// So many values are on top of its stack.
    Yielded(c_int),
    Returned(c_int),
    /// The error is on top of its stack, whose frames are there still.
    Failed,
}

/// How one that a program resumes came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Back {
    /// So many values were moved over.
    Values(c_int),
    /// The error was moved over.
    Failed,
    /// A function inside waits: whoever resumed it has to yield.
    Waits,
}

/// What a coroutine is doing, as Lua's library tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Running,
    Suspended,
    Normal,
    Dead,
}

/// Whether a coroutine ended by an error, and whether that was a lack of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) failed: bool,
    pub(crate) for_memory: bool,
}

/// What keeps a wait from reaching the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// A coroutine was resumed by another library.
    Foreign,
    /// A coroutine is inside a function that cannot yield: the running one (0), or one that resumes others.
    Rigid(usize),
}

/// A stack cannot grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// A `resume` of a program that is on the C stack.
struct Link {
    up: *const Link,
    from: *mut lua_State,
    to: *mut lua_State,
}

/// The coroutines of a VM, and which of them runs.
#[derive(Default)]
pub(crate) struct Threads {
    anchors: Anchors,
    places: RefCell<Places>,
    /// The innermost coroutine that runs in a `resume` of these; null when none does. Atomic, as the next one, for the
    /// handler of a signal.
    running: AtomicPtr<lua_State>,
    /// The innermost `resume` of a program since `resume` was called.
    links: AtomicPtr<Link>,
    /// The coroutine that `resume` has just resumed, until its continuation has asked.
    handed: Cell<Identity>,
    /// The coroutines between one that waits and `resume` yield, one after the other.
    unwinding: Cell<bool>,
}

#[derive(Default)]
struct Places {
    /// Null: free.
    states: Vec<*mut lua_State>,
    free: Vec<u32>,
    orphans: Vec<Coroutine>,
}

const NOBODY: Identity = Identity(0);

impl Default for Identity {
    fn default() -> Self {
        NOBODY
    }
}

impl Coroutine {
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }
}

fn identity(state: *mut lua_State) -> Identity {
    Identity(state.addr())
}

impl Stack {
    /// The coroutine at `index`.
    #[inline]
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Identity> {
        let thread = self.thread_at(index);
        (!thread.is_null()).then(|| identity(thread))
    }

    #[inline]
    fn thread_at(&self, index: c_int) -> *mut lua_State {
        // SAFETY: any value can be asked; null when it is no thread.
        unsafe { ffi::lua_tothread(self.state, at(index)) }
    }

    /// The coroutine that the step runs in.
    #[inline]
    pub(crate) fn running(&self) -> Identity {
        identity(self.state)
    }

    /// Pushes the coroutine that the step runs in. → its index
    #[inline]
    pub(crate) fn push_running(&mut self) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room.
        unsafe {
            ffi::lua_pushthread(self.state);
            Ok(ffi::lua_gettop(self.state))
        }
    }

    /// What the coroutine at `index` is doing; `None` when none is there.
    pub(crate) fn status(&self, index: c_int) -> Option<Status> {
        let thread = self.thread_at(index);
        match thread.is_null() {
            true => None,
            // SAFETY: the value on the stack keeps it.
            false if thread != self.state => Some(unsafe { status(thread) }),
            false => Some(Status::Running),
        }
    }

    /// Whether the coroutine at `index` ended by an error.
    pub(crate) fn failure(&self, index: c_int) -> Failed {
        let thread = self.thread_at(index);
        let status = match thread.is_null() {
            true => ffi::LUA_OK,
            // SAFETY: the value on the stack keeps it.
            false => unsafe { ffi::lua_status(thread) },
        };
        Failed {
            failed: !matches!(status, ffi::LUA_OK | ffi::LUA_YIELD),
            for_memory: status == ffi::LUA_ERRMEM,
        }
    }
}

/// What a coroutine that is not the step's own is doing.
unsafe fn status(thread: *mut lua_State) -> Status {
    let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
    // SAFETY: reads plain fields; `lua_getstack` writes the record only.
    unsafe {
        match ffi::lua_status(thread) {
            ffi::LUA_YIELD => Status::Suspended,
            ffi::LUA_OK if ffi::lua_getstack(thread, 0, frame.as_mut_ptr()) != 0 => Status::Normal,
            ffi::LUA_OK if ffi::lua_gettop(thread) != 0 => Status::Suspended,
            _ => Status::Dead,
        }
    }
}

impl Threads {
    /// Makes what anchors coroutines, once per VM. Lua's own `coroutine.close` must not have been replaced yet.
    pub(crate) fn set_up(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        if !self.anchors.were_made() {
            let made = call.create(Make(self.clone()))?;
            call.drop_to(made - 1);
        }
        Ok(())
    }

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
    fn beside(&self, stack: &Stack, co: Coroutine) -> *mut lua_State {
        let state = self.places.borrow().states[co.number()];
        let is_other = state != stack.state && self.anchors.are_of(stack.vm());
        if state.is_null() || !is_other {
            self.no_state(state);
        }
        state
    }

    #[cold]
    #[inline(never)]
    fn no_state(&self, state: *mut lua_State) -> ! {
        assert!(!state.is_null(), "the coroutine was released");
        assert!(self.anchors.exist(), "the VM's coroutines are gone");
        panic!("a coroutine of another VM, or the running one")
    }

    pub(super) fn is_at(&self, number: i64, thread: *mut lua_State) -> bool {
        let places = self.places.borrow();
        let state = usize::try_from(number)
            .ok()
            .and_then(|number| places.states.get(number));
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

    /// New coroutines with empty stacks: as many as asked for, or fewer, but one at least.
    #[cold]
    pub(crate) fn create(
        self: &Rc<Self>,
        call: &mut Call<'_>,
        count: usize,
    ) -> Result<Vec<Coroutine>, Fault> {
        let height = call.count();
        let mut made = Vec::with_capacity(count);
        match self.grow(call, count, Some(&mut made)) {
            Err(fault) if made.is_empty() => Err(fault),
            _ => {
                call.drop_to(height);
                Ok(made)
            }
        }
    }

    fn grow(
        self: &Rc<Self>,
        call: &mut Call<'_>,
        count: usize,
        coroutines: Option<&mut Vec<Coroutine>>,
    ) -> Result<(), Fault> {
        let height = call.count();
        let threads = self.clone();
        let grown = call.create(Grow {
            threads,
            count,
            coroutines,
        });
        if grown.is_ok() {
            call.drop_to(height);
        }
        grown.map(drop)
    }

    /// Anchors a coroutine that is on the C stack.
    fn anchor(
        self: &Rc<Self>,
        call: &mut Call<'_>,
        thread: *mut lua_State,
    ) -> Result<Coroutine, Fault> {
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
        // SAFETY: as for `push_close`.
        self.push_by(stack, |state| unsafe { self.anchors.push(state, co) })
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
            // SAFETY: as for `is_suspended`.
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

    /// Moves the topmost `count` values of the step's stack to a coroutine that is suspended or has not begun.
    #[inline(always)]
    pub(crate) fn hand_over(
        &self,
        stack: &mut Stack,
        co: Coroutine,
        count: c_int,
    ) -> Result<(), Full> {
        let state = self.beside(stack, co);
        assert!((0..=stack.count()).contains(&count), "no such values");
        // SAFETY: the values are there, and there is room for them; both stacks are of one VM.
        unsafe {
            if ffi::lua_checkstack(state, count) == 0 {
                return Err(Full);
            }
            ffi::lua_xmove(stack.state, state, count);
        }
        Ok(())
    }

    /// Pushes a value to a coroutine that is suspended.
    #[inline]
    pub(crate) fn hand_over_plain(&self, co: Coroutine, value: impl Plain) -> Result<(), Full> {
        let state = self.state(co);
        // SAFETY: there is room, and such a value takes no memory.
        unsafe {
            if ffi::lua_checkstack(state, 1) == 0 {
                return Err(Full);
            }
            value.push_plain(state);
        }
        Ok(())
    }

    /// Moves the topmost `count` values of one coroutine to another one.
    pub(crate) fn pass(&self, from: Coroutine, to: Coroutine, count: c_int) -> Result<(), Full> {
        let (from, to) = (self.state(from), self.state(to));
        // SAFETY: as for `hand_over`.
        unsafe {
            assert!(from != to && (0..=ffi::lua_gettop(from)).contains(&count));
            if ffi::lua_checkstack(to, count) == 0 {
                return Err(Full);
            }
            ffi::lua_xmove(from, to, count);
        }
        Ok(())
    }

    /// Moves the topmost `count` values of a coroutine to the step's stack. → the index of the first
    #[inline]
    pub(crate) fn take(
        &self,
        stack: &mut Stack,
        co: Coroutine,
        count: c_int,
    ) -> Result<c_int, Full> {
        let state = self.beside(stack, co);
        stack.reserve(count).map_err(|_| Full)?;
        // SAFETY: as for `hand_over`.
        unsafe {
            assert!(
                (0..=ffi::lua_gettop(state)).contains(&count),
                "no such values"
            );
            ffi::lua_xmove(state, stack.state, count);
            Ok(ffi::lua_gettop(stack.state) - count + 1)
        }
    }

    /// Drops the topmost `count` values of a coroutine.
    #[inline]
    pub(crate) fn drop_values(&self, co: Coroutine, count: c_int) {
        let state = self.state(co);
        // SAFETY: shortens the stack.
        unsafe { ffi::lua_settop(state, (ffi::lua_gettop(state) - count.max(0)).max(0)) }
    }

    /// Empties the stack of a coroutine that has returned or not begun. Any other is left as it is.
    #[inline]
    pub(crate) fn clear(&self, co: Coroutine) {
        let state = self.state(co);
        // SAFETY: nothing runs on it, so its stack holds only values that nobody closes.
        unsafe {
            if ffi::lua_status(state) == ffi::LUA_OK {
                ffi::lua_settop(state, 0);
            }
        }
    }

    /// Pushes the first value in the frame that a suspended coroutine waits in. → its index
    pub(crate) fn first_value(&self, stack: &mut Stack, co: Coroutine) -> Result<c_int, Full> {
        let state = self.beside(stack, co);
        stack.reserve(1).map_err(|_| Full)?;
        // SAFETY: there is room on both stacks; a frame without values has no first one.
        unsafe {
            if ffi::lua_checkstack(state, 1) == 0 {
                return Err(Full);
            }
            match ffi::lua_gettop(state) {
                0 => ffi::lua_pushnil(state),
                _ => ffi::lua_pushvalue(state, 1),
            }
            ffi::lua_xmove(state, stack.state, 1);
            Ok(ffi::lua_gettop(stack.state))
        }
    }

    /// Resumes a coroutine with the `count` values that were handed over.
    #[inline]
    pub(crate) fn resume(&self, call: &mut Call<'_>, co: Coroutine, count: c_int) -> Resumed {
        call.wake_collector();
        let state = self.beside(call, co);
        // SAFETY: the values are there, below them the function of one that has not begun. Any other case `lua_resume`
        // refuses, with a text that it need not make, so that it does not raise.
        unsafe {
            let fresh = c_int::from(ffi::lua_status(state) != ffi::LUA_YIELD);
            assert!(
                (0..=ffi::lua_gettop(state) - fresh).contains(&count),
                "no such values"
            );
            // One that resumes another in the middle of a step goes on afterwards.
            let outer = (
                self.running.load(Ordering::Relaxed),
                self.links.load(Ordering::Relaxed),
            );
            self.set_running(state, null());
            self.handed.set(identity(state));
            let mut results = 0;
            let status = ffi::lua_resume(state, call.state, count, &mut results);
            self.set_running(outer.0, outer.1);
            self.handed.set(NOBODY);
            came_back(status, results)
        }
    }

    #[inline]
    fn set_running(&self, running: *mut lua_State, links: *const Link) {
        // For the handler of a signal, which follows the links.
        compiler_fence(Ordering::SeqCst);
        self.links.store(links.cast_mut(), Ordering::Relaxed);
        self.running.store(running, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Resumes the coroutine at `index`, which is suspended and has no place, with the topmost `count` values of the
    /// step's stack. What it comes back with is moved there;
    /// `status_first`: behind whether it went well.
    #[inline]
    pub(crate) fn resume_at(
        &self,
        call: &mut Call<'_>,
        index: c_int,
        count: c_int,
        status_first: bool,
    ) -> Result<Back, &'static str> {
        call.wake_collector();
        let co = call.thread_at(index);
        assert!((0..=call.count()).contains(&count), "no such values");
        // SAFETY: the value at the index keeps it, as that of Lua's own `resume` does. The link is taken off before its
        // frame ends, as `lua_resume` does not raise: what it would refuse is refused before.
        unsafe {
            if co.is_null() {
                return Err("cannot resume dead coroutine");
            }
            if ffi::lua_status(co) != ffi::LUA_YIELD {
                match status(co) {
                    Status::Suspended if co != call.state => {}
                    Status::Dead => return Err("cannot resume dead coroutine"),
                    _ => return Err("cannot resume non-suspended coroutine"),
                }
            }
            if ffi::lua_checkstack(co, count) == 0 {
                return Err("too many arguments to resume");
            }
            ffi::lua_xmove(call.state, co, count);
            let outer = self.running.load(Ordering::Relaxed);
            let link = Link {
                up: self.links.load(Ordering::Relaxed),
                from: call.state,
                to: co,
            };
            self.set_running(co, &raw const link);
            let mut results = 0;
            let status = ffi::lua_resume(co, call.state, count, &mut results);
            self.set_running(outer, link.up);
            if status == ffi::LUA_YIELD && self.unwinding.get() {
                return Ok(Back::Waits);
            }
            let (moved, back) = match came_back(status, results) {
                Resumed::Failed => (1, Back::Failed),
                _ => (results, Back::Values(results)),
            };
            if call.reserve(moved + 1).is_err() {
                ffi::lua_settop(co, -moved - 1);
                return Err("too many results to resume");
            }
            if status_first {
                ffi::lua_pushboolean(call.state, (back != Back::Failed).into());
            }
            ffi::lua_xmove(co, call.state, moved);
            Ok(back)
        }
    }

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
    fn linked(&self) -> Vec<(*mut lua_State, *mut lua_State)> {
        let mut all = Vec::new();
        self.for_each_link(|from, to| all.push((from, to)));
        all
    }

    fn for_each_link(&self, mut visit: impl FnMut(*mut lua_State, *mut lua_State)) {
        let mut link: *const Link = self.links.load(Ordering::Relaxed);
        while !link.is_null() {
            // SAFETY: a link is complete before it is entered, and taken out before its frame ends.
            let Link { up, from, to } = unsafe { std::ptr::read(link) };
            visit(from, to);
            link = up;
        }
    }

    /// The running coroutine, or the one that many `resume`s of programs outwards.
    pub(super) fn outwards(&self, stack: &Stack, depth: usize) -> Option<*mut lua_State> {
        let mut all = vec![stack.state];
        self.for_each_link(|from, _| all.push(from));
        all.get(depth).copied()
    }

    /// Calls `visit` with the innermost coroutine that runs in a `resume` of these, if one does, and with those that resume
    /// each other outside of it (`outwards`). For the handler of a signal on the thread that runs the VM.
    pub(super) fn for_each_running(&self, outwards: bool, mut visit: impl FnMut(*mut lua_State)) {
        let running = self.running.load(Ordering::Relaxed);
        if !running.is_null() {
            visit(running);
        }
        if outwards {
            self.for_each_link(|from, _| visit(from));
        }
    }

    /// Which coroutines the running one's task is resuming on the C stack, from the innermost outwards.
    pub(crate) fn nested(&self) -> Vec<Identity> {
        let linked = self.linked();
        linked.into_iter().map(|(_, to)| identity(to)).collect()
    }

    /// Pushes the coroutines of [`Threads::nested`]. → the index of the first
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
    pub(crate) fn anchor_nested(
        self: &Rc<Self>,
        call: &mut Call<'_>,
    ) -> Result<Vec<Coroutine>, Fault> {
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

    /// From now on, or not any more, what a program's `resume` gets is a wait on its way to the scheduler.
    #[inline]
    pub(crate) fn set_unwinding(&self, unwinding: bool) {
        self.unwinding.set(unwinding);
    }

    /// The step's coroutine is about to yield, and nobody has resumed it.
    #[inline]
    pub(crate) fn forget_handed(&self) {
        self.handed.set(NOBODY);
    }

    /// Whether the step, which follows a yield, was resumed by `resume`, and not by another library.
    #[inline]
    pub(crate) fn take_handed(&self, stack: &Stack) -> bool {
        let handed = self.handed.get() == identity(stack.state);
        self.handed.set(NOBODY);
        handed
    }

    /// Calls the function below the topmost `arguments` values, protected, on a thread of its own. In their place come
    /// two results, or the error. → whether it returned
    #[cold]
    pub(crate) fn call(
        self: &Rc<Self>,
        call: &mut Call<'_>,
        arguments: c_int,
    ) -> Result<bool, Fault> {
        let function = call.count() - arguments;
        assert!(arguments >= 0 && function >= 1, "no function was pushed");
        self.push_helper(call)?;
        let thread = call.thread_at(function + arguments + 1);
        call.wake_collector();
        // SAFETY: the thread stays on the step's stack until it is kept for the next call; nothing runs on it. There is
        // room for what is moved. `protect` catches errors of the function, and returns three or two values.
        unsafe {
            let state = call.state;
            ffi::lua_rotate(state, function, 1);
            let moved = arguments + 1;
            if ffi::lua_checkstack(thread, moved + 1) == 0 {
                return Err(Fault::message("stack overflow"));
            }
            Function::foreign(protect).push(thread, 0);
            ffi::lua_xmove(state, thread, moved);
            let mut results = 0;
            let status = ffi::lua_resume(thread, state, moved, &mut results);
            let ok = status == ffi::LUA_OK && (results == 0 || ffi::lua_toboolean(thread, 1) != 0);
            let wanted = if ok { 2 } else { 1 };
            // Fewer when it has closed its own coroutine.
            let found = wanted.min(ffi::lua_gettop(thread));
            ffi::lua_xmove(thread, state, found);
            ffi::lua_settop(state, function + wanted);
            if status == ffi::LUA_OK && ffi::lua_tothread(state, function) == thread {
                ffi::lua_settop(thread, 0);
                ffi::lua_pushvalue(state, function);
                self.anchors.return_helper(state);
            }
            ffi::lua_rotate(state, function, -1);
            ffi::lua_settop(state, -2);
            Ok(ok)
        }
    }

    /// Pushes a thread for `call`, on which nothing runs.
    fn push_helper(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        call.reserve(5)?;
        assert!(self.anchors.are_of(call.vm()), "another VM");
        // SAFETY: there is room.
        if unsafe { self.anchors.take_helper(call.state) } {
            let index = call.count();
            if call.status(index) == Some(Status::Dead) && !call.failure(index).failed {
                return Ok(());
            }
            call.drop_to(index - 1);
        }
        call.create(NewThread(None)).map(drop)
    }

    /// Closes the coroutine at `index`, which runs its `<close>` variables. → whether they raised nothing; else the error
    /// is pushed
    #[cold]
    pub(crate) fn close(self: &Rc<Self>, call: &mut Call<'_>, index: c_int) -> Result<bool, Fault> {
        let function = self.push_close(call)?;
        if call.kind(function) != super::Kind::Function {
            call.drop_to(function - 1);
            return Ok(true);
        }
        call.push(super::Argument(index))?;
        let returned = self.call(call, 1)?;
        if returned && call.is_true(function) {
            call.drop_to(function - 1);
            return Ok(true);
        }
        if returned {
            // Behind false.
            call.replace_with_top(function);
        }
        Ok(false)
    }

    /// Pushes Lua's own `coroutine.close`, or false when the VM has none. → its index
    pub(crate) fn push_close(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        // SAFETY: there is room, and the anchors are of this VM.
        self.push_by(stack, |state| unsafe { self.anchors.push_close(state) })
    }

    /// Pushes the value that is kept under `number` (0 to 3), false at first. → its index
    pub(crate) fn push_kept(&self, stack: &mut Stack, number: u8) -> Result<c_int, Fault> {
        // SAFETY: as for `push_close`.
        self.push_by(stack, |state| unsafe {
            self.anchors.push_kept(state, number)
        })
    }

    fn push_by(
        &self,
        stack: &mut Stack,
        push: impl FnOnce(*mut lua_State) -> bool,
    ) -> Result<c_int, Fault> {
        stack.reserve(1)?;
        match self.anchors.are_of(stack.vm()) && push(stack.state) {
            true => Ok(stack.count()),
            false => Err(gone()),
        }
    }

    /// Keeps the value at `index` under `number` (0 to 3).
    pub(crate) fn keep(&self, stack: &mut Stack, number: u8, index: c_int) -> Result<(), Fault> {
        stack.push(super::Argument(index))?;
        if !self.anchors.are_of(stack.vm()) {
            return Err(gone());
        }
        // SAFETY: the value on top was just pushed, in this VM.
        unsafe { self.anchors.keep(stack.state, number) };
        Ok(())
    }

    /// Whether the collector has ended a cycle since this was asked last.
    #[inline]
    pub(crate) fn cycle_has_ended(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        self.anchors.cycle_has_ended() && self.begin_cycle(call)
    }

    #[cold]
    fn begin_cycle(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        if self.anchors.begin_cycle() {
            return true;
        }
        let height = call.count();
        // Short of memory, the next one tries again.
        let _ = call.create(Renew(self.clone()));
        call.drop_to(height);
        self.anchors.begin_cycle()
    }

    /// Lets the coroutines of a task, its own first, be collected when nothing refers to the first value in the frame any
    /// more that `front`, one of them, waits in. Then its own is what [`Threads::take_orphan`] gives.
    #[cold]
    pub(crate) fn weaken(
        self: &Rc<Self>,
        call: &mut Call<'_>,
        members: &[Coroutine],
        front: Coroutine,
    ) -> bool {
        let front = self.beside(call, front);
        // SAFETY: reads plain fields of a state that is valid.
        if unsafe { ffi::lua_status(front) != ffi::LUA_YIELD || ffi::lua_gettop(front) == 0 } {
            return false;
        }
        let height = call.count();
        let mut done = false;
        let weaken = Weaken {
            threads: self.clone(),
            members,
            front,
            done: &mut done,
        };
        // Short of memory, nothing has changed.
        let _ = call.create(weaken);
        call.drop_to(height);
        done
    }

    /// The coroutines of a task for which `weaken` was called stay, whatever refers to the value.
    #[cold]
    pub(crate) fn strengthen(&self, own: Coroutine) {
        self.anchors.strengthen(own);
    }

    /// A task's own coroutine that waits for a value which nothing referred to any more. Its coroutines are anchored
    /// again.
    #[inline]
    pub(crate) fn take_orphan(&self) -> Option<Coroutine> {
        self.places.borrow_mut().orphans.pop()
    }
}

#[cold]
fn gone() -> Fault {
    Fault::message("the VM's coroutines are gone")
}

#[inline]
fn came_back(status: c_int, results: c_int) -> Resumed {
    match status {
        ffi::LUA_YIELD => Resumed::Yielded(results),
        ffi::LUA_OK => Resumed::Returned(results),
        _ => Resumed::Failed,
    }
}

/// Calls its first argument with the others, and returns whether that went well, and two results or the error.
unsafe extern "C-unwind" fn protect(state: *mut lua_State) -> c_int {
    // SAFETY: `call` gives it a function and its arguments; owns nothing.
    unsafe {
        let status = ffi::lua_pcall(state, ffi::lua_gettop(state) - 1, 2, 0);
        ffi::lua_pushboolean(state, (status == ffi::LUA_OK).into());
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_gettop(state)
    }
}

/// A new coroutine, whose function is the one at an index; or a thread without one.
pub(crate) struct NewThread(pub(crate) Option<c_int>);

impl Sealed for NewThread {}
impl Push for NewThread {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; a new thread has room.
        unsafe {
            let thread = ffi::lua_newthread(state);
            if let Some(index) = self.0 {
                ffi::lua_pushvalue(state, at(index));
                ffi::lua_xmove(state, thread, 1);
            }
        }
    }
}

/// The traceback of the coroutine at an index, behind a message.
pub(crate) struct ThreadTraceback {
    pub(crate) of: c_int,
    /// The index of a string.
    pub(crate) message: c_int,
}

impl Sealed for ThreadTraceback {}
impl Push for ThreadTraceback {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise. Nothing is pushed on the other coroutine, whose stack may be full.
        unsafe {
            ffi::luaL_checkstack(state, 20, null());
            let thread = ffi::lua_tothread(state, at(self.of));
            let is_text = ffi::lua_type(state, at(self.message)) == ffi::LUA_TSTRING;
            match is_text && !thread.is_null() {
                true => {
                    let text = ffi::lua_tostring(state, self.message);
                    ffi::luaL_traceback(state, thread, text, 0);
                }
                false => ffi::lua_pushvalue(state, self.message),
            }
        }
    }
}
