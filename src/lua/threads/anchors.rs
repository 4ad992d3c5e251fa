//! The anchors of a VM: a table, which no program can reach, that keeps coroutines alive.
//!
//! The table and a *sentinel* are the only values on the stack of a thread that never runs, the *anchor thread*. No Lua
//! function, the debug library included, reads or changes values below a thread's first frame, so no program can get
//! the table or the sentinel. The table contains the anchor thread. A program can still remove the anchor thread from
//! the registry, or close it. Then the table and the sentinel become unreachable in the same collector cycle. The
//! sentinel has a finalizer and refers to the table, so the table's contents exist until the finalizer has run. The
//! finalizer marks the anchors as lost, and from then on no coroutine is used. Hence the invariant that `places` relies
//! on: *unless the anchors are lost, the contents of the table exist.*
//!
//! In the VM of a service the main state is the anchor thread, since no program can get it. Its stack contains the main
//! function's coroutine, and above it the table, which contains the sentinel. The sentinel's finalizer runs when the VM
//! closes.

use crate::lua::state::{Kind, State};
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::{CStr, c_int};

/// The index of the table on the anchor thread's stack. One other value is below it.
pub(super) const TABLE: c_int = 2;

/// The table's key for the anchor thread itself, or for the sentinel.
pub(super) const ANCHOR_THREAD: i64 = 1;

/// The key of the original `coroutine.close`; the value is false if there was no such C function.
pub(super) const CLOSE: i64 = 2;

/// The key of a thread for calls; the value is false if no thread is free.
pub(super) const CALL_THREAD: i64 = 3;

/// The key of a weak table. This table contains a probe under the key 1 and nothing else, so it never grows or shrinks.
/// When the probe is no longer there, the collector has completed a cycle. (The probe's finalizer also reports the end
/// of the cycle, unless it could not run, for instance during a stack overflow.)
pub(super) const CYCLE: i64 = 4;

/// The key of a table with weak values: the guards by place.
pub(super) const BY_PLACE: i64 = 5;

/// The key of a table with weak keys: the guards by token.
pub(super) const GUARDS: i64 = 6;

/// The key of the guards' metatable.
pub(super) const GUARD_META: i64 = 7;

/// The first key of `lua_resume`'s error messages. The table keeps these strings so that Lua finds them and allocates
/// nothing.
pub(super) const RESUME_ERRORS: i64 = 8;

/// The first key of the values that the users of `Threads` keep.
pub(super) const STORED: i64 = 11;

pub(super) const MAX_STORED: i64 = 4;

/// The first key of the spare probes for `CYCLE`. Several probes are created at a time, because each creation in the
/// middle of a step can start a cycle, see `protected`.
pub(super) const SPARES: i64 = STORED + MAX_STORED;

pub(super) const MAX_SPARES: i64 = 4;

/// The key of the coroutine at place 0.
pub(super) const FIRST: i64 = SPARES + MAX_SPARES;

pub(super) const RESUME_ERROR_TEXTS: [&CStr; 3] =
    [c"C stack overflow", c"cannot resume non-suspended coroutine", c"cannot resume dead coroutine"];

/// The weak table is checked only at every `FLAG_CHECKS`th check of the finalizer's flag.
pub(super) const FLAG_CHECKS: u32 = 64;

/// An anchored coroutine: the number of its place. Using a released coroutine panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coroutine(pub(super) u32);

impl Coroutine {
    /// Returns the number of the place.
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }
}

/// The anchors of a VM's coroutines.
#[derive(Default)]
pub(super) struct Anchors {
    /// The identity of the VM; 0 until there is an anchor thread.
    pub(super) vm: Cell<usize>,
    pub(super) anchor_thread: Cell<Option<AnchorThread>>,
    /// Whether a probe has been finalized since the current cycle began.
    pub(super) ended: Cell<bool>,
    pub(super) checks: Cell<u32>,
}

/// The thread whose stack contains the table.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AnchorThread(pub(super) *mut lua_State);

/// Returns a coroutine's key in the table.
pub(super) fn place(co: Coroutine) -> i64 {
    FIRST + co.number() as i64
}

impl Anchors {
    /// Whether the anchors exist and belong to the VM `vm`.
    #[inline]
    pub(super) fn are_of(&self, vm: usize) -> bool {
        self.vm.get() == vm && self.exist()
    }

    /// Whether the anchors were created, and are not lost.
    #[inline]
    pub(super) fn exist(&self) -> bool {
        self.anchor_thread.get().is_some()
    }

    /// Whether the anchors were ever created, even if they are lost now.
    pub(super) fn were_created(&self) -> bool {
        self.vm.get() != 0
    }

    /// Returns the anchor thread; `None` if the anchors do not exist, or if a program has resumed or closed the thread.
    /// Its stack contains only the two original values and has room for 18 more.
    #[inline]
    pub(super) fn anchor_thread(&self) -> Option<State> {
        let AnchorThread(anchor_thread) = self.anchor_thread.get()?;
        // SAFETY: the anchor thread is in the table, so it exists unless the anchors are lost.
        let anchor_thread = unsafe { State::new(anchor_thread) };
        let is_idle =
            anchor_thread.count() == TABLE && anchor_thread.kind(TABLE) == Kind::Table && !anchor_thread.is_active();
        is_idle.then_some(anchor_thread)
    }

    /// Pushes the table's value at `key` onto a stack of this VM. If there is no table, pushes nothing and returns
    /// false.
    pub(super) fn get(&self, to: &mut State, key: i64) -> bool {
        let Some(mut anchor_thread) = self.anchor_thread() else { return false };
        anchor_thread.push_element(TABLE, key);
        anchor_thread.move_to(to, 1);
        true
    }

    /// Pops the value on top of a stack of this VM and stores it in the table under `key`. The key must already exist,
    /// so nothing is allocated.
    pub(super) fn set(&self, from: &mut State, key: i64) {
        match self.anchor_thread() {
            Some(mut anchor_thread) => {
                from.move_to(&mut anchor_thread, 1);
                put(&mut anchor_thread, key);
            }
            None => from.drop_top(),
        }
    }

    /// Pushes the table itself, for operations that may allocate. No Lua code may run until the table is popped. If
    /// there is no table, pushes nothing and returns false.
    pub(super) fn push_table(&self, to: &mut State) -> bool {
        let Some(mut anchor_thread) = self.anchor_thread() else { return false };
        anchor_thread.push_copy(TABLE);
        anchor_thread.move_to(to, 1);
        true
    }

    /// Anchors a coroutine of this VM that is running or has resumed another coroutine, at a place that exists in the
    /// table. Returns false if the coroutine's stack is full, or if the anchors are lost.
    pub(super) fn anchor(&self, thread: &mut State, co: Coroutine) -> bool {
        let Some(mut anchor_thread) = self.anchor_thread().filter(|_| thread.has_room(1)) else { return false };
        thread.push_thread();
        thread.move_to(&mut anchor_thread, 1);
        put(&mut anchor_thread, place(co));
        true
    }

    /// Stops anchoring a coroutine.
    pub(super) fn release(&self, co: Coroutine) {
        if let Some(mut anchor_thread) = self.anchor_thread() {
            anchor_thread.push_boolean(false);
            put(&mut anchor_thread, place(co));
        }
    }

    /// Takes a free thread for calls out of the table and pushes it; needs room for two values. If there is no free
    /// thread, pushes nothing and returns false.
    pub(super) fn take_call_thread(&self, to: &mut State) -> bool {
        if !self.get(to, CALL_THREAD) {
            return false;
        }
        let found = to.kind(to.count()) == Kind::Thread;
        match found {
            false => to.drop_top(),
            true => {
                to.push_boolean(false);
                self.set(to, CALL_THREAD);
            }
        }
        found
    }

    /// Whether the collector has completed a cycle since [`Anchors::begin_cycle`] last succeeded.
    #[inline]
    pub(super) fn cycle_has_ended(&self) -> bool {
        self.checks.set(self.checks.get().wrapping_add(1));
        self.ended.get() || self.checks.get().is_multiple_of(FLAG_CHECKS) && self.has_lost_probe()
    }

    /// Whether the collector has removed the probe from the weak table.
    #[cold]
    pub(super) fn has_lost_probe(&self) -> bool {
        let Some(mut anchor_thread) = self.anchor_thread() else { return false };
        anchor_thread.push_element(TABLE, CYCLE);
        anchor_thread.push_element(TABLE + 1, 1);
        let ended = anchor_thread.kind(TABLE + 2) == Kind::Nil;
        anchor_thread.shorten(TABLE);
        ended
    }

    /// Starts observing the next cycle with a spare probe. Returns false if there is no spare probe.
    #[cold]
    pub(super) fn begin_cycle(&self) -> bool {
        let Some(mut anchor_thread) = self.anchor_thread() else { return false };
        let found = (SPARES..SPARES + MAX_SPARES).find(|&number| {
            anchor_thread.shorten(TABLE);
            anchor_thread.push_element(TABLE, CYCLE);
            anchor_thread.push_element(TABLE, number);
            anchor_thread.kind(TABLE + 2) == Kind::Userdata
        });
        if let Some(number) = found {
            // SAFETY: the table was created with room for its first element, and never gets another element.
            unsafe { ffi::lua_rawseti(anchor_thread.state, TABLE + 1, 1) };
            anchor_thread.push_boolean(false);
            put(&mut anchor_thread, number);
        }
        anchor_thread.shorten(TABLE);
        self.ended.set(self.ended.get() && found.is_none());
        found.is_some()
    }
}

/// Pops the value on top of the anchor thread's stack and stores it in the table under the existing key `key`.
fn put(anchor_thread: &mut State, key: i64) {
    // SAFETY: an anchor thread always has its table, and assigning to an existing key does not allocate.
    unsafe { ffi::lua_rawseti(anchor_thread.state, TABLE, key) }
}

/// Returns the key of a value that the users of `Threads` keep.
pub(super) fn stored_number(number: u8) -> i64 {
    assert!(i64::from(number) < MAX_STORED, "the key of a stored value is out of range");
    STORED + i64::from(number)
}
