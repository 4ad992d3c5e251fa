//! The coroutines: made, anchored in a table of Lua's, kept for the next task, let go.
//!
//! A task that returned leaves its coroutine with an empty stack, on which the next function is resumed;
//! a task that raised or was killed does not. Up to `MOST` free ones are kept. Every `ROUNDS` rounds of
//! the run queue, half of those that no round needed since the last look are left to the collector, down
//! to `KEPT`.

use super::core::{Core, Errand, Phase, Slot, Tag, Task};
use super::token::Token;
use crate::raw::object::Key;
use mlua::ffi::{self, lua_State};

/// The most free coroutines that are kept; about 1 KiB each.
const MOST: usize = 32 * 1024;
/// So many are never let go.
const KEPT: usize = 16;
/// How many rounds of the run queue lie between two looks.
const ROUNDS: u32 = 256;

/// Registry key of the table that anchors the coroutines: slot + 1 → coroutine. What stands at the
/// indices below 1 is named in hooks.rs.
pub(super) static ANCHORS: Key = Key::new(5);

/// The free coroutines.
#[derive(Default)]
pub(super) struct Pool {
    free: Vec<Slot>,
    /// Slots without a coroutine.
    vacant: Vec<Slot>,
    /// The fewest that were free since the last look.
    low: usize,
    rounds: u32,
    pub(super) created: u64,
}

/// Pushes the table of the coroutines.
///
/// # Safety
/// `state` is valid, with a free stack slot; the core has been made.
pub(super) unsafe fn push_anchors(state: *mut lua_State) {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, ANCHORS.pointer());
    }
}

/// Pushes the coroutine of a slot.
///
/// # Safety
/// `state` is valid, with 2 free stack slots; the slot has a coroutine.
pub(super) unsafe fn push_coroutine(state: *mut lua_State, slot: Slot) {
    // SAFETY: the caller's promise.
    unsafe {
        push_anchors(state);
        ffi::lua_rawgeti(state, -1, i64::from(slot) + 1);
        ffi::lua_rotate(state, -2, -1);
        ffi::lua_pop(state, 1);
    }
}

impl Core {
    /// A coroutine for a task, with an empty stack: a pooled one, or a new one. It is no task yet.
    ///
    /// # Safety
    /// `state` is the running state, with 3 free stack slots. May raise a memory error on it.
    #[inline]
    pub(crate) unsafe fn acquire(core: *mut Core, state: *mut lua_State) -> Slot {
        // SAFETY: the caller's promise; no reference into the core outlives a statement.
        unsafe {
            let pool = &mut (*core).pool;
            let Some(slot) = pool.free.pop() else {
                return create(core, state);
            };
            pool.low = pool.low.min(pool.free.len());
            (*core).task(slot).phase = Phase::Acquired;
            slot
        }
    }

    /// Gives back a coroutine that `acquire` gave and that was not started.
    ///
    /// # Safety
    /// The slot is as said.
    pub(crate) unsafe fn release(core: *mut Core, slot: Slot) {
        // SAFETY: the coroutine is not running, so its stack may be cleared.
        unsafe {
            ffi::lua_settop((*core).thread(slot), 0);
            (*core).task(slot).phase = Phase::Pooled;
            (*core).pool.free.push(slot);
        }
    }
}

#[cold]
unsafe fn create(core: *mut Core, state: *mut lua_State) -> Slot {
    // SAFETY: what may raise comes before the books are touched. `lua_newthread` may run finalizers, and
    // with them other calls of the core: the slot is chosen after it. `lua_rawseti` runs none.
    unsafe {
        push_anchors(state);
        let thread = ffi::lua_newthread(state);
        let vacant = (*core).pool.vacant.last().copied();
        let slot = vacant.unwrap_or((*core).tasks.len() as Slot);
        ffi::lua_rawseti(state, -2, i64::from(slot) + 1);
        ffi::lua_pop(state, 1);
        let task = Task {
            thread,
            front: thread,
            parents: Vec::new(),
            token: Token::Session(0),
            tag: Tag::default(),
            values: 0,
            phase: Phase::Acquired,
            interrupted: false,
            watched: false,
            errand: Errand::Other,
            born: 0,
            cycle: 0,
            guard: std::ptr::null_mut(),
            spent: 0,
            since: 0,
        };
        if vacant.is_some() {
            (*core).pool.vacant.pop();
            *(*core).task(slot) = task;
        } else {
            (*core).tasks.push(task);
        }
        (*core).threads.insert(thread.addr(), slot);
        (*core).pool.created += 1;
        slot
    }
}

/// Keeps the coroutine of a task that returned, whose stack is empty.
///
/// # Safety
/// `state` is the running state, with 2 free stack slots.
#[inline]
pub(super) unsafe fn keep(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*core).pool.free.len() >= MOST {
            return discard(core, state, slot);
        }
        (*core).task(slot).phase = Phase::Pooled;
        (*core).pool.free.push(slot);
    }
}

/// Leaves the slot's coroutine to the collector. The slot is vacant afterwards, or when its turn in the
/// run queue comes.
///
/// # Safety
/// `state` is the running state, with 2 free stack slots.
#[cold]
pub(super) unsafe fn discard(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: nil for a key that is there allocates nothing, so nothing raises.
    unsafe {
        push_anchors(state);
        ffi::lua_pushnil(state);
        ffi::lua_rawseti(state, -2, i64::from(slot) + 1);
        ffi::lua_pop(state, 1);
        let task = (*core).task(slot);
        let thread = std::mem::replace(&mut task.thread, std::ptr::null_mut());
        let front = std::mem::replace(&mut task.front, std::ptr::null_mut());
        let parents = std::mem::take(&mut task.parents);
        let queued = task.phase.is_queued();
        task.phase = if queued { Phase::Dead } else { Phase::Vacant };
        task.watched = false;
        (*core).threads.remove(&thread.addr());
        if !parents.is_empty() {
            for member in parents.into_iter().chain([front]) {
                (*core).threads.remove(&member.addr());
            }
        }
        if !queued {
            (*core).pool.vacant.push(slot);
        }
    }
}

/// Makes a slot vacant whose task was killed while it was queued, as its turn has come.
pub(super) fn vacate(core: &mut Core, slot: Slot) {
    core.task(slot).phase = Phase::Vacant;
    core.pool.vacant.push(slot);
}

/// Counts a round of the run queue, and now and then lets coroutines go.
///
/// # Safety
/// `state` is the running state, with 2 free stack slots.
#[inline]
pub(super) unsafe fn end_round(core: *mut Core, state: *mut lua_State) {
    // SAFETY: the caller's promise.
    unsafe {
        (*core).pool.rounds += 1;
        if (*core).pool.rounds >= ROUNDS {
            review(core, state);
        }
    }
}

#[cold]
unsafe fn review(core: *mut Core, state: *mut lua_State) {
    // SAFETY: `discard` runs no code of Lua's, so the list does not change meanwhile.
    unsafe {
        let pool = &mut (*core).pool;
        pool.rounds = 0;
        // The list is a stack: what was not needed lies at its bottom.
        let surplus = pool.low.saturating_sub(KEPT).div_ceil(2);
        let gone: Vec<Slot> = pool.free.drain(..surplus).collect();
        pool.low = pool.free.len();
        for slot in gone {
            discard(core, state, slot);
        }
    }
}
