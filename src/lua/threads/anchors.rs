//! Where a VM's coroutines are kept alive: a table out of the program's reach.
//!
//! The table and a *sentinel* are the only values on the stack of a thread that never runs, the *keeper*. No function of
//! Lua's, the debug library included, reads or changes what lies below a thread's first frame, so nobody else ever has
//! the two. The table holds the keeper. A program can still take the keeper out of the registry, or close it. Then table
//! and sentinel become unreachable in the same cycle of the collector; the sentinel has a finalizer and refers to the
//! table, so that all in it lives until the finalizer has run. That marks the anchors as gone, and from then on no
//! coroutine is touched. Hence the invariant that `places` stands on: *unless the anchors are gone, what is in the table
//! exists.*
//!
//! In the VM of a service the main state is the keeper, since no program gets hold of it: the table lies upon the main
//! function's coroutine there, and holds the sentinel, which tells when the VM closes.

use crate::lua::state::{Kind, State};
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::{CStr, c_int};

/// Where the keeper's stack has the table, upon one other value.
pub(super) const TABLE: c_int = 2;

/// Of the table: the keeper itself, or the sentinel.
pub(super) const KEEPER: i64 = 1;

/// Lua's own `coroutine.close`, or false.
pub(super) const CLOSE: i64 = 2;

/// A thread for calls, when one is free.
pub(super) const HELPER: i64 = 3;

/// A weak table with a probe at 1 and nothing else, so that it never grows nor shrinks: when the probe is gone, the collector
/// has ended a cycle. (Its finalizer tells, unless it could not run, in the middle of a stack overflow for instance.)
pub(super) const CYCLE: i64 = 4;

/// A table with weak values, guard by place.
pub(super) const BY_PLACE: i64 = 5;

/// A table with weak keys, token → guard.
pub(super) const GUARDS: i64 = 6;

/// The guards' metatable.
pub(super) const GUARD_META: i64 = 7;

/// What `lua_resume` says when it refuses, kept so that it finds the strings and takes no memory.
pub(super) const TEXTS: i64 = 8;

/// Values that the users of `Threads` keep.
pub(super) const KEPT: i64 = 11;

pub(super) const MOST_KEPT: i64 = 4;

/// Probes for `CYCLE`, made several at a time: each creation in the middle of a step begins a cycle.
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

    /// The keeper, unless a program has resumed or closed it: its stack is as it was made, with room for 18 values more.
    #[inline]
    pub(super) fn keeper(&self) -> Option<State> {
        let Keeper(keeper) = self.keeper.get()?;
        // SAFETY: it is in the table, so it exists unless the anchors are gone.
        let keeper = unsafe { State::new(keeper) };
        let is_idle = keeper.count() == TABLE && keeper.kind(TABLE) == Kind::Table && !keeper.is_active();
        is_idle.then_some(keeper)
    }

    /// Pushes what the table has at `number` to a stack of this VM; false, with nothing pushed, when there is no table.
    pub(super) fn get(&self, to: &mut State, number: i64) -> bool {
        let Some(mut keeper) = self.keeper() else { return false };
        keeper.push_element(TABLE, number);
        keeper.give(to, 1);
        true
    }

    /// Takes the value on top of a stack of this VM off and puts it into the table, at a number that has a value already, so
    /// that it takes no memory.
    pub(super) fn set(&self, from: &mut State, number: i64) {
        match self.keeper() {
            Some(mut keeper) => {
                from.give(&mut keeper, 1);
                put(&mut keeper, number);
            }
            None => from.drop_top(),
        }
    }

    /// Pushes the table itself, for what may take memory, as `get`. Nothing of Lua's runs until it is taken off again.
    pub(super) fn push_table(&self, to: &mut State) -> bool {
        let Some(mut keeper) = self.keeper() else { return false };
        keeper.push_copy(TABLE);
        keeper.give(to, 1);
        true
    }

    /// Anchors a coroutine of this VM that runs or resumes another, at a place that the table has. → whether there was room
    pub(super) fn anchor(&self, thread: &mut State, co: Coroutine) -> bool {
        let Some(mut keeper) = self.keeper().filter(|_| thread.has_room(1)) else { return false };
        thread.push_thread();
        thread.give(&mut keeper, 1);
        put(&mut keeper, place(co));
        true
    }

    /// The coroutine is anchored no more.
    pub(super) fn release(&self, co: Coroutine) {
        if let Some(mut keeper) = self.keeper() {
            keeper.push_boolean(false);
            put(&mut keeper, place(co));
        }
    }

    /// Takes a free thread for calls out of the table and pushes it, as `get`, with room for two; false, with nothing pushed,
    /// when there is none.
    pub(super) fn take_helper(&self, to: &mut State) -> bool {
        if !self.get(to, HELPER) {
            return false;
        }
        let found = to.kind(to.count()) == Kind::Thread;
        match found {
            false => to.drop_top(),
            true => {
                to.push_boolean(false);
                self.set(to, HELPER);
            }
        }
        found
    }

    /// Whether the collector has ended a cycle since this was true last.
    #[inline]
    pub(super) fn cycle_has_ended(&self) -> bool {
        self.looks.set(self.looks.get().wrapping_add(1));
        self.ended.get() || self.looks.get().is_multiple_of(LOOKS) && self.has_lost_probe()
    }

    #[cold]
    pub(super) fn has_lost_probe(&self) -> bool {
        let Some(mut keeper) = self.keeper() else { return false };
        keeper.push_element(TABLE, CYCLE);
        keeper.push_element(TABLE + 1, 1);
        let ended = keeper.kind(TABLE + 2) == Kind::Nil;
        keeper.shorten(TABLE);
        ended
    }

    /// Begins to wait for the end of the next cycle, with a spare object; false when there is none.
    #[cold]
    pub(super) fn begin_cycle(&self) -> bool {
        let Some(mut keeper) = self.keeper() else { return false };
        let found = (SPARES..SPARES + MOST_SPARES).find(|&number| {
            keeper.shorten(TABLE);
            keeper.push_element(TABLE, CYCLE);
            keeper.push_element(TABLE, number);
            keeper.kind(TABLE + 2) == Kind::Userdata
        });
        if let Some(number) = found {
            // SAFETY: the table was made with room for its first element, and has had no other.
            unsafe { ffi::lua_rawseti(keeper.state, TABLE + 1, 1) };
            keeper.push_boolean(false);
            put(&mut keeper, number);
        }
        keeper.shorten(TABLE);
        self.ended.set(self.ended.get() && found.is_none());
        found.is_some()
    }
}

/// Takes the value on top of the keeper off and puts it into the table, at a number that has a value already.
fn put(keeper: &mut State, number: i64) {
    // SAFETY: a keeper's table is there; a number that has a value takes no memory.
    unsafe { ffi::lua_rawseti(keeper.state, TABLE, number) }
}

/// The number of a value that the users of `Threads` keep.
pub(super) fn kept(number: u8) -> i64 {
    assert!(i64::from(number) < MOST_KEPT, "so many values are kept");
    KEPT + i64::from(number)
}
