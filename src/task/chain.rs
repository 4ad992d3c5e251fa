//! Waits inside coroutines that the user made: how they reach the scheduler, and how the coroutines go on.
//!
//! A `resume` of ours (coroutine.rs) is a plain nested `lua_resume`; while it runs, a `Link` on the C stack
//! tells who resumed whom. When the innermost coroutine waits, the links become the task's *chain*: the
//! coroutines that are resuming each other, from the task's own to the innermost, its *front*. Each
//! `resume` on the C stack then yields in turn, until the scheduler has the thread back. From then on the
//! chain is flat: a wakeup resumes the front directly, and what it yields, returns or raises is handed to
//! the next coroutine outwards, which is suspended in its `resume` and goes on with it. A `resume` that
//! comes later nests again.
//!
//! So a program that never waits inside its coroutines pays for one link per resume, the first wait costs
//! one yield per level, and further waits of the front cost nothing per level.
//!
//! Somebody may close or resume a member with the plain library of a stock interpreter. A member that
//! was taken in that way leaves a null in the chain; its `resume` then ends with an error for the next
//! one outwards.

use super::core::{Core, Phase, Slot};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::ptr;

/// A `resume` that is on the C stack.
pub(super) struct Link {
    pub(super) up: *const Link,
    pub(super) from: *mut lua_State,
    pub(super) to: *mut lua_State,
}

/// The most coroutines in a chain. Lua's own limit of some 200 nested calls of C does not count what waited.
const MOST: usize = 10_000;

/// What `resume` of a member reports.
pub(super) const WAITS: &CStr = c"cannot resume a coroutine that is waiting";
/// What the one that resumed it gets when a waiting coroutine is closed.
pub(super) const CLOSED: &CStr = c"coroutine was closed";
/// The same, when the plain library resumed it.
const TAKEN: &CStr = c"coroutine was resumed by somebody else while it waited";
const TOO_MANY: &CStr = c"too many results to resume";

/// What kept a wait from reaching the scheduler.
#[derive(Clone, Copy)]
pub(super) enum Obstacle {
    /// No task runs.
    Outside,
    /// A coroutine was resumed by the plain library.
    Foreign,
    /// This coroutine is inside a function that cannot yield.
    Rigid(*mut lua_State),
    /// Too many coroutines are resuming each other.
    Deep,
}

impl Core {
    /// Whether a wait of the running `state` reaches the scheduler.
    ///
    /// # Safety
    /// `state` is the running state; the links are those on the C stack.
    pub(super) unsafe fn check_way(core: *mut Core, state: *mut lua_State) -> Result<(), Obstacle> {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(slot) = (*core).current else {
                return Err(Obstacle::Outside);
            };
            if ffi::lua_isyieldable(state) == 0 {
                return Err(Obstacle::Rigid(state));
            }
            let mut inner = state;
            let mut link = (*core).links;
            let mut depth = (*core).task(slot).parents.len();
            while !link.is_null() {
                depth += 1;
                if (*link).to != inner {
                    return Err(Obstacle::Foreign);
                }
                inner = (*link).from;
                if ffi::lua_isyieldable(inner) == 0 {
                    return Err(Obstacle::Rigid(inner));
                }
                link = (*link).up;
            }
            if depth > MOST {
                return Err(Obstacle::Deep);
            }
            match inner == (*core).thread(slot) {
                true => Ok(()),
                false => Err(Obstacle::Foreign),
            }
        }
    }

    /// The running task is about to wait: what the links tell becomes its chain.
    pub(super) fn extend_chain(&mut self, slot: Slot) {
        let task = &mut self.tasks[slot as usize];
        let start = task.parents.len();
        let mut link = self.links;
        while !link.is_null() {
            // SAFETY: the links are those on the C stack below.
            let Link { up, from, to } = unsafe { ptr::read(link) };
            task.parents.push(from);
            self.threads.insert(to.addr(), slot);
            link = up;
        }
        task.parents[start..].reverse();
        task.front = self.running;
        self.unwinding = true;
    }

    /// Calls `f` with each coroutine that is resuming another one on the C stack, from the innermost outwards.
    /// For a signal's handler on the thread that runs the VM.
    ///
    /// # Safety
    /// As said.
    pub(crate) unsafe fn for_each_outer(&self, f: impl Fn(*mut lua_State)) {
        let mut link = self.links;
        while !link.is_null() {
            // SAFETY: a link is complete before it is entered, and taken out before its frame ends.
            let Link { up, from, .. } = unsafe { ptr::read(link) };
            f(from);
            link = up;
        }
    }

    /// The task whose chain this coroutine is in, its own coroutine included.
    #[inline]
    pub(super) fn member_of(&self, thread: *mut lua_State) -> Option<Slot> {
        let &slot = self.threads.get(&thread.addr())?;
        self.tasks[slot as usize].phase.is_living().then_some(slot)
    }

    /// A coroutine of the chain is running although the core did not resume it: it is a member no more.
    pub(super) fn taken_over(&mut self, thread: *mut lua_State) {
        let Some(&slot) = self.threads.get(&thread.addr()) else {
            return;
        };
        let task = &mut self.tasks[slot as usize];
        if !task.phase.is_living() {
            return;
        }
        if task.front == thread {
            if task.phase != Phase::Running {
                self.lose(slot);
            }
            return;
        }
        if let Some(place) = task.parents.iter_mut().find(|parent| **parent == thread) {
            *place = ptr::null_mut();
            if task.thread != thread {
                self.threads.remove(&thread.addr());
            }
        }
    }

    /// Member number `place` of a task that does not run is about to be closed, with those inside of it.
    pub(super) fn sever(&mut self, slot: Slot, place: usize, thread: *mut lua_State) {
        let task = &mut self.tasks[slot as usize];
        self.threads.remove(&task.front.addr());
        for gone in task.parents.drain(place..) {
            self.threads.remove(&gone.addr());
        }
        task.front = thread;
        let before = std::mem::replace(&mut task.phase, Phase::Severed);
        if !before.is_queued() {
            self.queue.push_back(slot);
        }
    }

    /// The front is a member no more: the next one outwards that still waits for it becomes the front.
    /// False when there is none. True, and `lost`, when one in between was taken over.
    fn retreat(&mut self, slot: Slot, lost: &mut bool) -> bool {
        let task = &mut self.tasks[slot as usize];
        if task.front != task.thread {
            self.threads.remove(&task.front.addr());
        }
        while let Some(parent) = task.parents.pop() {
            // SAFETY: a member is anchored by the one that resumes it; the status is a plain field.
            if !parent.is_null() && unsafe { ffi::lua_status(parent) } == ffi::LUA_YIELD {
                task.front = parent;
                return true;
            }
            *lost = true;
            if !parent.is_null() && parent != task.thread {
                self.threads.remove(&parent.addr());
            }
        }
        task.front = task.thread;
        false
    }
}

/// Puts false and a message on a coroutine that is suspended in `resume`, which goes on with them; 2. The
/// message is the text's address, as nothing may be allocated there: see `settle_message`.
unsafe fn refuse(front: *mut lua_State, why: &'static CStr) -> c_int {
    // SAFETY: the frame of a C function has room for them.
    unsafe {
        ffi::lua_pushboolean(front, 0);
        ffi::lua_pushlightuserdata(front, why.as_ptr().cast_mut().cast());
        2
    }
}

/// The front is gone; the next one outwards becomes the front, with false and `why` as what its `resume`
/// gives. How many values that are; `None` when there is nobody.
pub(super) fn cut(core: &mut Core, slot: Slot, why: &'static CStr) -> Option<c_int> {
    let mut lost = false;
    if !core.retreat(slot, &mut lost) {
        return None;
    }
    // SAFETY: `retreat` found it suspended, and its parent anchors it.
    Some(unsafe { refuse(core.thread(slot), if lost { TAKEN } else { why }) })
}

/// The front yielded (not in a wait), returned or raised: its `results`, or the error, go to the next one
/// outwards, which becomes the front. How many values that are; `None` when there is nobody.
///
/// # Safety
/// The results are on top of the front's stack.
pub(super) unsafe fn hand_up(
    core: &mut Core,
    slot: Slot,
    status: c_int,
    results: c_int,
) -> Option<c_int> {
    // SAFETY: who left the chain is still anchored by the one that resumed it.
    unsafe {
        let child = core.thread(slot);
        let failed = status != ffi::LUA_OK && status != ffi::LUA_YIELD;
        let count = if failed { 1 } else { results };
        let mut lost = false;
        if !core.retreat(slot, &mut lost) {
            return None;
        }
        let front = core.thread(slot);
        if !lost && ffi::lua_checkstack(front, count + 1) != 0 {
            ffi::lua_pushboolean(front, (!failed).into());
            ffi::lua_xmove(child, front, count);
            return Some(count + 1);
        }
        ffi::lua_pop(child, count);
        Some(refuse(front, if lost { TAKEN } else { TOO_MANY }))
    }
}

/// Makes a message that `refuse` left at `index` a string.
///
/// # Safety
/// `state` is the running state, with a free stack slot; may raise a memory error.
pub(super) unsafe fn settle_message(state: *mut lua_State, index: c_int) {
    // SAFETY: compares addresses.
    unsafe {
        if ffi::lua_type(state, index) != ffi::LUA_TLIGHTUSERDATA {
            return;
        }
        let value = ffi::lua_touserdata(state, index);
        for text in [CLOSED, TAKEN, TOO_MANY] {
            if value.cast_const() == text.as_ptr().cast() {
                let index = ffi::lua_absindex(state, index);
                ffi::lua_pushstring(state, text.as_ptr());
                ffi::lua_replace(state, index);
                return;
            }
        }
    }
}
