//! Where a VM's coroutines are kept alive: a table out of the program's reach.
//!
//! The table and a *sentinel* are the only values on the stack of a thread that never runs, the *keeper*. No function of
//! Lua's, the debug library included, reads or changes what lies below a thread's first frame, so nobody else ever has
//! the two. The table holds the keeper. A program can still take the keeper out of the registry, or close it. Then table
//! and sentinel become unreachable in the same cycle of the collector; the sentinel has a finalizer and refers to the
//! table, so that all in it lives until the finalizer has run. That marks the anchors as gone, and from then on no
//! coroutine is touched. Hence the invariant that `places` stands on: *unless the anchors are gone, what is in the table
//! exists.*

use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

/// Where the keeper's stack has the table; below it lies the sentinel.
pub(super) const TABLE: c_int = 2;

/// Of the table: the keeper itself.
pub(super) const KEEPER: i64 = 1;

/// Lua's own `coroutine.close`, or false.
pub(super) const CLOSE: i64 = 2;

/// A thread for calls, when one is free.
pub(super) const HELPER: i64 = 3;

/// A weak table with a probe at 1: when that is gone, the collector has ended a cycle. (Its finalizer tells, unless it
/// could not run, in the middle of a stack overflow for instance.) Behind it, guard by place.
pub(super) const WEAK: i64 = 4;

/// A table with weak keys, token → guard.
pub(super) const GUARDS: i64 = 5;

/// The guards' metatable.
pub(super) const GUARD_META: i64 = 6;

/// What `lua_resume` says when it refuses, kept so that it finds the strings and takes no memory.
pub(super) const TEXTS: i64 = 7;

/// Values that the users of `Threads` keep.
pub(super) const KEPT: i64 = 10;

pub(super) const MOST_KEPT: i64 = 4;

/// Probes for `WEAK`, made several at a time: each creation in the middle of a step begins a cycle.
pub(super) const SPARES: i64 = KEPT + MOST_KEPT;

pub(super) const MOST_SPARES: i64 = 4;

/// The first coroutine.
pub(super) const FIRST: i64 = SPARES + MOST_SPARES;

pub(super) const REFUSALS: [&CStr; 3] =
    [c"C stack overflow", c"cannot resume non-suspended coroutine", c"cannot resume dead coroutine"];

/// How often the weak table is looked into for one look at what the finalizer has told.
pub(super) const LOOKS: u32 = 64;

/// A coroutine that is anchored: the number of its place. One that was released is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coroutine(pub(super) u32);

impl Coroutine {
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }
}

/// The keeper of a VM's anchors.
#[derive(Default)]
pub(super) struct Anchors {
    /// The identity of the VM; 0 until there is a keeper.
    pub(super) vm: Cell<usize>,
    pub(super) keeper: Cell<Option<Keeper>>,
    /// A probe was finalized since the last one began to wait.
    pub(super) ended: Cell<bool>,
    pub(super) looks: Cell<u32>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Keeper(pub(super) *mut lua_State);

pub(super) fn place(co: Coroutine) -> i64 {
    FIRST + co.number() as i64
}

impl Anchors {
    /// Whether there are anchors, which this VM has.
    #[inline]
    pub(super) fn are_of(&self, vm: usize) -> bool {
        self.vm.get() == vm && self.exist()
    }

    /// Whether they were made, and are there still.
    #[inline]
    pub(super) fn exist(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Whether they were made once.
    pub(super) fn were_made(&self) -> bool {
        self.vm.get() != 0
    }

    /// The keeper, if nobody has resumed or closed it: then its stack is as it was made.
    #[inline]
    pub(super) fn keeper(&self) -> Option<*mut lua_State> {
        let Keeper(keeper) = self.keeper.get()?;
        let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
        // SAFETY: it is in the table, so it exists unless the anchors are gone. `lua_getstack` writes the record only.
        let is_idle = unsafe {
            ffi::lua_gettop(keeper) == TABLE
                && ffi::lua_type(keeper, TABLE) == ffi::LUA_TTABLE
                && ffi::lua_getstack(keeper, 0, frame.as_mut_ptr()) == 0
        };
        is_idle.then_some(keeper)
    }

    /// Pushes what the table has at `number`; false, with nothing pushed, when there is no table.
    ///
    /// # Safety
    /// `state` is of this VM, with a free stack slot.
    pub(super) unsafe fn get(&self, state: *mut lua_State, number: i64) -> bool {
        let Some(keeper) = self.keeper() else {
            return false;
        };
        // SAFETY: the keeper's stack has two or three values and room for 18 more; the caller's promise for the other.
        unsafe {
            ffi::lua_rawgeti(keeper, TABLE, number);
            ffi::lua_xmove(keeper, state, 1);
        }
        true
    }

    /// Takes the value on top of `state` off and puts it into the table, at a number that has a value already, so that it
    /// takes no memory.
    ///
    /// # Safety
    /// `state` is of this VM, with a value on top.
    pub(super) unsafe fn set(&self, state: *mut lua_State, number: i64) {
        // SAFETY: as for [`Anchors::get`], the other way round: a value of the same VM moves, and its number has
        // one.
        unsafe {
            match self.keeper() {
                Some(keeper) => {
                    ffi::lua_xmove(state, keeper, 1);
                    ffi::lua_rawseti(keeper, TABLE, number);
                }
                None => ffi::lua_settop(state, -2),
            }
        }
    }

    /// Pushes an anchored coroutine; false when there is none.
    ///
    /// # Safety
    /// As for `get`.
    pub(super) unsafe fn push(&self, state: *mut lua_State, co: Coroutine) -> bool {
        // SAFETY: the state is of this VM and has room, as its own promise says; a place is a number.
        unsafe { self.get(state, place(co)) }
    }

    /// Anchors a coroutine that runs or resumes another, at a place that the table has. → whether there was room
    ///
    /// # Safety
    /// `thread` is of this VM, and on the C stack.
    pub(super) unsafe fn anchor(&self, thread: *mut lua_State, co: Coroutine) -> bool {
        let Some(keeper) = self.keeper() else {
            return false;
        };
        // SAFETY: the caller's promise; there is room on both stacks.
        unsafe {
            if ffi::lua_checkstack(thread, 1) == 0 {
                return false;
            }
            ffi::lua_pushthread(thread);
            ffi::lua_xmove(thread, keeper, 1);
            ffi::lua_rawseti(keeper, TABLE, place(co));
        }
        true
    }

    /// The coroutine is anchored no more.
    pub(super) fn release(&self, co: Coroutine) {
        if let Some(keeper) = self.keeper() {
            // SAFETY: as for `get`; what was there had a place.
            unsafe {
                ffi::lua_pushboolean(keeper, 0);
                ffi::lua_rawseti(keeper, TABLE, place(co));
            }
        }
    }

    /// Pushes Lua's own `coroutine.close`, or false.
    ///
    /// # Safety
    /// As for `get`.
    pub(super) unsafe fn push_close(&self, state: *mut lua_State) -> bool {
        // SAFETY: passes the promise on, for another number: that of Lua's `coroutine.close`.
        unsafe { self.get(state, CLOSE) }
    }

    /// Pushes the value kept under `number`; false, with nothing pushed, when there is no table.
    ///
    /// # Safety
    /// As for `get`.
    pub(super) unsafe fn push_kept(&self, state: *mut lua_State, number: u8) -> bool {
        // SAFETY: passes the promise on, for the number of a kept value.
        unsafe { self.get(state, kept(number)) }
    }

    /// Keeps the value on top under `number`, and takes it off.
    ///
    /// # Safety
    /// As for `set`.
    pub(super) unsafe fn keep(&self, state: *mut lua_State, number: u8) {
        // SAFETY: passes on what `set` asks for: the numbers of kept values have values from the start.
        unsafe { self.set(state, kept(number)) }
    }

    /// Takes a free thread for calls out of the table and pushes it; false, with nothing pushed, when there is none.
    ///
    /// # Safety
    /// As for `get`, with two free stack slots.
    pub(super) unsafe fn take_helper(&self, state: *mut lua_State) -> bool {
        // SAFETY: the state has room for the thread that is looked at and, if it is used, stays.
        unsafe {
            if !self.get(state, HELPER) {
                return false;
            }
            let found = ffi::lua_type(state, -1) == ffi::LUA_TTHREAD;
            match found {
                false => ffi::lua_settop(state, -2),
                true => {
                    ffi::lua_pushboolean(state, 0);
                    self.set(state, HELPER);
                }
            }
            found
        }
    }

    /// Takes a thread off the top, and keeps it for the next call.
    ///
    /// # Safety
    /// As for `set`.
    pub(super) unsafe fn return_helper(&self, state: *mut lua_State) {
        // SAFETY: the number of the helper has a value from the start, so that this takes no memory.
        unsafe { self.set(state, HELPER) }
    }

    /// Whether the collector has ended a cycle since this was true last.
    #[inline]
    pub(super) fn cycle_has_ended(&self) -> bool {
        self.looks.set(self.looks.get().wrapping_add(1));
        self.ended.get() || self.looks.get().is_multiple_of(LOOKS) && self.has_lost_probe()
    }

    #[cold]
    pub(super) fn has_lost_probe(&self) -> bool {
        let Some(keeper) = self.keeper() else {
            return false;
        };
        // SAFETY: as for `get`; the weak table is there from the start.
        unsafe {
            ffi::lua_rawgeti(keeper, TABLE, WEAK);
            let ended = ffi::lua_rawgeti(keeper, -1, 1) == ffi::LUA_TNIL;
            ffi::lua_settop(keeper, TABLE);
            ended
        }
    }

    /// Begins to wait for the end of the next cycle, with a spare object; false when there is none.
    #[cold]
    pub(super) fn begin_cycle(&self) -> bool {
        let Some(keeper) = self.keeper() else {
            return false;
        };
        // SAFETY: as for `cycle_has_ended`; the numbers have values already.
        unsafe {
            ffi::lua_rawgeti(keeper, TABLE, WEAK);
            let spares = SPARES..SPARES + MOST_SPARES;
            let is_there = |&number: &i64| {
                let found = ffi::lua_rawgeti(keeper, TABLE, number) == ffi::LUA_TUSERDATA;
                if !found {
                    ffi::lua_settop(keeper, -2);
                }
                found
            };
            let found = { spares }.find(is_there);
            if let Some(number) = found {
                ffi::lua_rawseti(keeper, -2, 1);
                ffi::lua_pushboolean(keeper, 0);
                ffi::lua_rawseti(keeper, TABLE, number);
            }
            ffi::lua_settop(keeper, TABLE);
            self.ended.set(self.ended.get() && found.is_none());
            found.is_some()
        }
    }
}

pub(super) fn kept(number: u8) -> i64 {
    assert!(i64::from(number) < MOST_KEPT, "so many values are kept");
    KEPT + i64::from(number)
}
