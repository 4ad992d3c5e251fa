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
//! Each member is anchored by the next one outwards, in whose frame of `resume` it lies, and the one that
//! runs by who resumed it. Somebody may close or resume a member with the plain library of a stock
//! interpreter; then those inside of it may be collected at any time. So a chain is looked at from
//! outside inwards, and as far as each member is suspended; the first that is not ends it, and the one that
//! resumed that goes on with an error. A member that was resumed leaves a null.

use super::core::{Core, Phase, Slot};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int, c_void};
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

/// Why a `resume` that is suspended goes on with false and a message.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    /// The coroutine that it resumed was closed while it waited.
    Closed,
    /// The plain library has resumed that coroutine.
    Taken,
    TooMany,
}

/// A byte for each refusal: its address stands for the message until there is a stack on which that may be made.
/// A static, as the address of a constant is not always the same.
static MARKS: [u8; 3] = [0; 3];

impl Refusal {
    const ALL: [Refusal; 3] = [Refusal::Closed, Refusal::Taken, Refusal::TooMany];

    fn mark(self) -> *mut c_void {
        (&raw const MARKS[self as usize]).cast_mut().cast()
    }

    fn text(self) -> &'static CStr {
        match self {
            Refusal::Closed => c"coroutine was closed",
            Refusal::Taken => c"coroutine was resumed by somebody else while it waited",
            Refusal::TooMany => c"too many results to resume",
        }
    }
}

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

    /// Calls `f(from, to)` for each coroutine that resumes another one on the C stack, since the core resumed
    /// the running task: from the innermost outwards. Also for a signal's handler.
    ///
    /// # Safety
    /// Called on the thread that runs the VM; `f` resumes nothing and does not raise.
    pub(crate) unsafe fn for_each_link(&self, mut f: impl FnMut(*mut lua_State, *mut lua_State)) {
        let mut link = self.links;
        while !link.is_null() {
            // SAFETY: a link is complete before it is entered, and taken out before its frame ends.
            let Link { up, from, to } = unsafe { ptr::read(link) };
            f(from, to);
            link = up;
        }
    }

    /// The task whose chain this coroutine is in, its own included.
    #[inline]
    pub(super) fn member_of(&mut self, thread: *mut lua_State) -> Option<Slot> {
        let &slot = self.threads.get(&thread.addr())?;
        self.check_member(slot, thread)
    }

    /// The same when the books say it is: those inside of a lost member may be stale.
    fn check_member(&mut self, slot: Slot, thread: *mut lua_State) -> Option<Slot> {
        let living = self.is_living(slot);
        (living && self.threads.get(&thread.addr()) == Some(&slot)).then_some(slot)
    }

    /// How many of the chain's members outside of the front are suspended, as they must be, from the
    /// task's own inwards.
    #[inline]
    pub(super) fn intact(&self, slot: Slot) -> usize {
        let parents = &self.tasks[slot as usize].parents;
        let is_intact = |parent: &&*mut lua_State| {
            // SAFETY: the status is a plain field; the members outside of it are intact, so it is anchored.
            !parent.is_null() && unsafe { ffi::lua_status(**parent) } == ffi::LUA_YIELD
        };
        parents.iter().take_while(is_intact).count()
    }

    /// Those inside of the first `kept` members are members no more. Their states are not touched.
    pub(super) fn cut_off(&mut self, slot: Slot, kept: usize) {
        let task = &mut self.tasks[slot as usize];
        if task.parents.is_empty() {
            return;
        }
        let own = task.thread.addr();
        for gone in task.parents.drain(kept..).chain([task.front]) {
            if gone.addr() != own {
                self.threads.remove(&gone.addr());
            }
        }
        task.front = task.thread;
    }

    /// Forgets the members of a severed task that somebody closed meanwhile.
    pub(super) fn trim(&mut self, slot: Slot) {
        let kept = self.intact(slot);
        self.cut_off(slot, kept);
    }

    /// A coroutine is running although the core did not resume it. If it was in a chain, it is no more.
    pub(super) fn taken_over(&mut self, thread: *mut lua_State) {
        let Some(&slot) = self.threads.get(&thread.addr()) else {
            return;
        };
        let task = &mut self.tasks[slot as usize];
        if let Some(place) = task.parents.iter_mut().find(|parent| **parent == thread) {
            *place = ptr::null_mut();
            if task.thread != thread {
                self.threads.remove(&thread.addr());
            }
        }
        // It is not suspended, so this ends its task or cuts its chain; what runs goes on.
        self.is_living(slot);
    }

    /// Member number `place` of a task that does not run is about to be closed, with those inside of it.
    pub(super) fn sever(&mut self, slot: Slot, place: usize) {
        self.cut_off(slot, place);
        let task = &mut self.tasks[slot as usize];
        let before = std::mem::replace(&mut task.phase, Phase::Severed);
        if !before.is_queued() {
            self.queue.push_back(slot);
        }
    }

    /// The front is a member no more: the next one outwards that still waits for it becomes the front.
    /// False when there is none. `lost`: when one in between is gone.
    fn retreat(&mut self, slot: Slot, lost: &mut bool) -> bool {
        let before = self.tasks[slot as usize].parents.len();
        let kept = self.intact(slot);
        *lost = kept < before;
        self.cut_off(slot, kept);
        let task = &mut self.tasks[slot as usize];
        match task.parents.pop() {
            Some(parent) => {
                task.front = parent;
                true
            }
            None => false,
        }
    }
}

/// Puts false and a message on a coroutine that is suspended in `resume`, which goes on with them; 2. The
/// message is only marked, as nothing may be allocated there: see `settle_message`.
unsafe fn refuse(front: *mut lua_State, why: Refusal) -> c_int {
    // SAFETY: the frame of a C function has room for them.
    unsafe {
        ffi::lua_pushboolean(front, 0);
        ffi::lua_pushlightuserdata(front, why.mark());
        2
    }
}

/// The front is gone; the next one outwards becomes the front, with false and `why` as what its `resume`
/// gives. How many values that are; `None` when there is nobody.
pub(super) fn cut(core: &mut Core, slot: Slot, why: Refusal) -> Option<c_int> {
    let mut lost = false;
    if !core.retreat(slot, &mut lost) {
        return None;
    }
    let why = if lost { Refusal::Taken } else { why };
    // SAFETY: `retreat` found it suspended, and its parent anchors it.
    Some(unsafe { refuse(core.thread(slot), why) })
}

/// Anchors the front while it runs, on the running `state`'s stack; false when there was no room on its own.
///
/// # Safety
/// `state` is the running state, with a free stack slot.
pub(super) unsafe fn hold_front(state: *mut lua_State, front: *mut lua_State) -> bool {
    // SAFETY: a suspended coroutine may push itself.
    unsafe {
        if ffi::lua_checkstack(front, 1) == 0 {
            return false;
        }
        ffi::lua_pushthread(front);
        ffi::lua_xmove(front, state, 1);
        true
    }
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
        let why = if lost {
            Refusal::Taken
        } else {
            Refusal::TooMany
        };
        Some(refuse(front, why))
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
        let mark = ffi::lua_touserdata(state, index);
        if let Some(why) = Refusal::ALL.into_iter().find(|why| why.mark() == mark) {
            let index = ffi::lua_absindex(state, index);
            ffi::lua_pushstring(state, why.text().as_ptr());
            ffi::lua_replace(state, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_becomes_its_own_message_and_other_values_stay() {
        // SAFETY: a state of its own with room for the values.
        unsafe {
            let state = ffi::luaL_newstate();
            for why in Refusal::ALL {
                assert_eq!(refuse(state, why), 2);
                settle_message(state, -1);
                assert_eq!(CStr::from_ptr(ffi::lua_tostring(state, -1)), why.text());
                assert_eq!(ffi::lua_gettop(state), 2);
                ffi::lua_settop(state, 0);
            }
            // Neither the address of an equal text nor one behind the marks is a mark.
            let behind = MARKS.as_ptr_range().end.cast_mut();
            for other in [
                Refusal::Closed.text().as_ptr().cast_mut().cast(),
                behind.cast(),
            ] {
                ffi::lua_pushlightuserdata(state, other);
                settle_message(state, -1);
                assert_eq!(ffi::lua_touserdata(state, -1), other);
            }
            ffi::lua_close(state);
        }
    }
}
