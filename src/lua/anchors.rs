//! Where a VM's coroutines are kept alive: a table out of the program's reach.
//!
//! The table and a *sentinel* are the only values on the stack of a thread that never runs, the *keeper*. No function of
//! Lua's, the debug library included, reads or changes what lies below a thread's first frame, so nobody else ever has
//! the two. The table holds the keeper. A program can still take the keeper out of the registry, or close it. Then table
//! and sentinel become unreachable in the same cycle of the collector; the sentinel has a finalizer and refers to the
//! table, so that all in it lives until the finalizer has run. That marks the anchors as gone, and from then on no
//! coroutine is touched. Hence the invariant that `thread` stands on: *unless the anchors are gone, what is in the table
//! exists.*

use super::block::shared_key;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::vm_of;
use super::thread::{Coroutine, Threads};
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::rc::Rc;

/// The keeper's stack.
const SENTINEL: c_int = 1;
const TABLE: c_int = 2;
/// Of the table: the keeper itself.
const KEEPER: i64 = 1;
/// Lua's own `coroutine.close`, or false.
const CLOSE: i64 = 2;
/// A thread for calls, when one is free.
const HELPER: i64 = 3;
/// A weak table with a probe at 1: when that is gone, the collector has ended a cycle. (Its finalizer tells, unless it
/// could not run, in the middle of a stack overflow for instance.) Behind it, guard by place.
const WEAK: i64 = 4;
/// A table with weak keys, token → guard.
const GUARDS: i64 = 5;
/// The guards' metatable.
const GUARD_META: i64 = 6;
/// What `lua_resume` says when it refuses, kept so that it finds the strings and takes no memory.
const TEXTS: i64 = 7;
/// Values that the users of `Threads` keep.
const KEPT: i64 = 10;
const MOST_KEPT: i64 = 4;
/// Probes for `WEAK`, made several at a time: each creation in the middle of a step begins a cycle.
const SPARES: i64 = KEPT + MOST_KEPT;
const MOST_SPARES: i64 = 4;
/// The first coroutine.
const FIRST: i64 = SPARES + MOST_SPARES;

const REFUSALS: [&CStr; 3] = [
    c"C stack overflow",
    c"cannot resume non-suspended coroutine",
    c"cannot resume dead coroutine",
];

/// How often the weak table is looked into for one look at what the finalizer has told.
const LOOKS: u32 = 64;

/// The keeper of a VM's anchors.
#[derive(Default)]
pub(super) struct Anchors {
    /// The address of the registry, by which the VM is known; null until there is a keeper.
    vm: Cell<usize>,
    keeper: Cell<Option<Keeper>>,
    /// A probe was finalized since the last one began to wait.
    ended: Cell<bool>,
    looks: Cell<u32>,
}

#[derive(Clone, Copy, PartialEq)]
struct Keeper(*mut lua_State);

/// The block of the sentinel.
#[derive(Clone, Copy)]
struct Sentinel {
    threads: *const Threads,
    keeper: *mut lua_State,
}

/// The block of a probe: when it is finalized, the collector has ended a cycle.
#[derive(Clone, Copy)]
struct Probe {
    threads: *const Threads,
}

/// The block of a guard: when it is finalized, nothing can wake the task whose coroutine is at `own`. Its user value is
/// a table of the task's coroutines by their places.
#[derive(Clone, Copy)]
struct Guard {
    threads: *const Threads,
    own: Coroutine,
    armed: bool,
}

fn place(co: Coroutine) -> i64 {
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
    fn keeper(&self) -> Option<*mut lua_State> {
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
    unsafe fn get(&self, state: *mut lua_State, number: i64) -> bool {
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
    unsafe fn set(&self, state: *mut lua_State, number: i64) {
        // SAFETY: as for `get`.
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
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe { self.get(state, CLOSE) }
    }

    /// Pushes the value kept under `number`; false, with nothing pushed, when there is no table.
    ///
    /// # Safety
    /// As for `get`.
    pub(super) unsafe fn push_kept(&self, state: *mut lua_State, number: u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.get(state, kept(number)) }
    }

    /// Keeps the value on top under `number`, and takes it off.
    ///
    /// # Safety
    /// As for `set`.
    pub(super) unsafe fn keep(&self, state: *mut lua_State, number: u8) {
        // SAFETY: the caller's promise.
        unsafe { self.set(state, kept(number)) }
    }

    /// Takes a free thread for calls out of the table and pushes it; false, with nothing pushed, when there is none.
    ///
    /// # Safety
    /// As for `get`, with two free stack slots.
    pub(super) unsafe fn take_helper(&self, state: *mut lua_State) -> bool {
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe { self.set(state, HELPER) }
    }

    /// Whether the collector has ended a cycle since this was true last.
    #[inline]
    pub(super) fn cycle_has_ended(&self) -> bool {
        self.looks.set(self.looks.get().wrapping_add(1));
        self.ended.get() || self.looks.get() % LOOKS == 0 && self.has_lost_probe()
    }

    #[cold]
    fn has_lost_probe(&self) -> bool {
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

    /// A guarded coroutine and the others of its task are anchored again.
    pub(super) fn strengthen(&self, own: Coroutine) {
        let Some(keeper) = self.keeper() else { return };
        // SAFETY: as for `get`; the weak table's values at these places are guards of ours, with a user value.
        unsafe {
            ffi::lua_rawgeti(keeper, TABLE, WEAK);
            if ffi::lua_rawgeti(keeper, -1, place(own)) == ffi::LUA_TUSERDATA {
                let guard: *mut Guard = ffi::lua_touserdata(keeper, -1).cast();
                restore(guard, keeper, ffi::lua_gettop(keeper), keeper);
            }
            ffi::lua_settop(keeper, TABLE);
        }
    }
}

fn kept(number: u8) -> i64 {
    assert!(i64::from(number) < MOST_KEPT, "so many values are kept");
    KEPT + i64::from(number)
}

/// Anchors what a guard holds, whose block is at `index` of `state`, and disarms it.
unsafe fn restore(guard: *mut Guard, state: *mut lua_State, index: c_int, keeper: *mut lua_State) {
    // SAFETY: the guard's user value is the table that was made for it; the keeper's has these places. A coroutine that
    // has another one's place by now is not put there.
    unsafe {
        if !(*guard).armed {
            return;
        }
        (*guard).armed = false;
        let threads = &*(*guard).threads;
        ffi::lua_getiuservalue(state, index, 1);
        let list = ffi::lua_gettop(state);
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, list) != 0 {
            let number = ffi::lua_tointegerx(state, -2, null_mut());
            if threads.is_at(number, ffi::lua_tothread(state, -1)) {
                ffi::lua_pushvalue(state, -1);
                if state != keeper {
                    ffi::lua_xmove(state, keeper, 1);
                }
                ffi::lua_rawseti(keeper, TABLE, FIRST + number);
            }
            ffi::lua_settop(state, -2);
        }
        ffi::lua_pushnil(state);
        ffi::lua_setiuservalue(state, index, 1);
        ffi::lua_settop(state, list - 1);
    }
}

/// Makes the anchors of a VM; pushes nil.
pub(super) struct Make(pub(super) Rc<Threads>);

impl Sealed for Make {}
impl Push for Make {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; the keeper is known when all is there.
        unsafe {
            ffi::luaL_checkstack(state, 20, std::ptr::null());
            let keeper = ffi::lua_newthread(state);
            push_block(
                state,
                Sentinel {
                    threads: std::ptr::null(),
                    keeper,
                },
            );
            let sentinel: *mut Sentinel = ffi::lua_touserdata(state, -1).cast();
            ffi::lua_createtable(state, (FIRST + 2) as c_int, 0);
            let table = ffi::lua_gettop(state);
            ffi::lua_pushvalue(state, table);
            ffi::lua_setiuservalue(state, table - 1, 1);
            for number in 1..FIRST {
                ffi::lua_pushboolean(state, 0);
                ffi::lua_rawseti(state, table, number);
            }
            ffi::lua_pushvalue(state, table - 2);
            ffi::lua_rawseti(state, table, KEEPER);
            for (number, text) in (TEXTS..).zip(REFUSALS) {
                ffi::lua_pushstring(state, text.as_ptr());
                ffi::lua_rawseti(state, table, number);
            }
            push_close_of_lua(state);
            ffi::lua_rawseti(state, table, CLOSE);
            push_weak(state, c"v");
            push_metatable(state, end_cycle);
            push_probe(state, &self.0);
            ffi::lua_rawseti(state, -3, 1);
            ffi::lua_settop(state, -2);
            ffi::lua_rawseti(state, table, WEAK);
            push_metatable(state, lost_keeper);
            ffi::lua_setmetatable(state, table - 1);
            ffi::lua_pushvalue(state, table - 2);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, shared_key::<Threads>());
            (*sentinel).threads = Rc::into_raw(self.0.clone());
            ffi::lua_xmove(state, keeper, 2);
            ffi::lua_settop(state, -2);
            let anchors = self.0.anchors();
            anchors.keeper.set(Some(Keeper(keeper)));
            let vm = ffi::lua_topointer(state, ffi::LUA_REGISTRYINDEX);
            anchors.vm.set(vm.addr());
            ffi::lua_pushnil(state);
        }
    }
}

/// Pushes a userdata with this in it and one user value.
unsafe fn push_block<T: Copy>(state: *mut lua_State, block: T) {
    // SAFETY: the block is large enough, and aligned for pointers.
    unsafe {
        let place: *mut T = ffi::lua_newuserdatauv(state, size_of::<T>(), 1).cast();
        place.write(block);
    }
}

/// Pushes a metatable with this finalizer. Nobody else has it, so nobody can change it.
unsafe fn push_metatable(state: *mut lua_State, finalizer: ffi::lua_CFunction) {
    // SAFETY: the pushers make room.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushcfunction(state, finalizer);
        ffi::lua_setfield(state, -2, c"__gc".as_ptr());
    }
}

/// Pushes a table whose keys or values are weak.
unsafe fn push_weak(state: *mut lua_State, mode: &CStr) {
    // SAFETY: the pushers make room.
    unsafe {
        ffi::lua_createtable(state, 1, 0);
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushstring(state, mode.as_ptr());
        ffi::lua_setfield(state, -2, c"__mode".as_ptr());
        ffi::lua_setmetatable(state, -2);
    }
}

/// Pushes a probe, whose metatable is on top.
unsafe fn push_probe(state: *mut lua_State, threads: &Rc<Threads>) {
    // SAFETY: the pushers make room; the block refers to the coroutines when nothing more can raise.
    unsafe {
        push_block(
            state,
            Probe {
                threads: std::ptr::null(),
            },
        );
        ffi::lua_pushvalue(state, -2);
        ffi::lua_setmetatable(state, -2);
        let probe: *mut Probe = ffi::lua_touserdata(state, -1).cast();
        (*probe).threads = Rc::into_raw(threads.clone());
    }
}

/// A probe's finalizer.
unsafe extern "C-unwind" fn end_cycle(state: *mut lua_State) -> c_int {
    // SAFETY: only the collector has this function and its argument.
    unsafe {
        let probe: *mut Probe = ffi::lua_touserdata(state, 1).cast();
        let threads = std::mem::replace(&mut (*probe).threads, std::ptr::null());
        if !threads.is_null() {
            Rc::from_raw(threads).anchors().ended.set(true);
        }
        0
    }
}

/// Pushes the function `coroutine.close` if that is one of C, else false.
unsafe fn push_close_of_lua(state: *mut lua_State) {
    // SAFETY: raw reads of what is a table.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_pushstring(state, c"coroutine".as_ptr());
        if ffi::lua_rawget(state, top + 1) == ffi::LUA_TTABLE {
            ffi::lua_pushstring(state, c"close".as_ptr());
            ffi::lua_rawget(state, top + 2);
        }
        if ffi::lua_iscfunction(state, -1) == 0 {
            ffi::lua_pushboolean(state, 0);
        }
        ffi::lua_replace(state, top + 1);
        ffi::lua_settop(state, top + 1);
    }
}

/// The sentinel's finalizer.
unsafe extern "C-unwind" fn lost_keeper(state: *mut lua_State) -> c_int {
    // SAFETY: only the collector has this function and its argument.
    unsafe {
        let sentinel: *mut Sentinel = ffi::lua_touserdata(state, 1).cast();
        let threads = std::mem::replace(&mut (*sentinel).threads, std::ptr::null());
        if !threads.is_null() {
            let threads = Rc::from_raw(threads);
            if threads.anchors().keeper.get() == Some(Keeper((*sentinel).keeper)) {
                threads.anchors().keeper.set(None);
            }
        }
        0
    }
}

/// New places: with new coroutines in them, or free ones. Pushes nil.
///
/// Several at a time: after each creation in the middle of a step the collector begins a new cycle early.
pub(super) struct Grow<'a> {
    pub(super) threads: Rc<Threads>,
    pub(super) count: usize,
    /// The places with coroutines; `None`: they are to be free.
    pub(super) coroutines: Option<&'a mut Vec<Coroutine>>,
}

impl Sealed for Grow<'_> {}
impl Push for Grow<'_> {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise. A place is entered when the table has it.
        unsafe {
            ffi::luaL_checkstack(state, 10, std::ptr::null());
            let anchors = self.threads.anchors();
            if !anchors.are_of(vm_of(state)) || !push_table(anchors, state) {
                ffi::luaL_error(state, c"the VM's coroutines are gone".as_ptr());
            }
            let table = ffi::lua_gettop(state);
            for _ in 0..self.count {
                match &mut self.coroutines {
                    Some(entered) => {
                        let co = self.threads.next_place();
                        let thread = ffi::lua_newthread(state);
                        ffi::lua_rawseti(state, table, place(co));
                        self.threads.enter(co, thread);
                        entered.push(co);
                    }
                    None => {
                        let co = self.threads.last_place();
                        ffi::lua_pushboolean(state, 0);
                        ffi::lua_rawseti(state, table, place(co));
                        self.threads.enter_free(co);
                    }
                }
            }
            ffi::lua_pushnil(state);
        }
    }
}

/// Pushes the table itself, for what may take memory.
unsafe fn push_table(anchors: &Anchors, state: *mut lua_State) -> bool {
    let Some(keeper) = anchors.keeper() else {
        return false;
    };
    // SAFETY: as for `Anchors::get`. Nothing of Lua's runs until it is taken off again.
    unsafe {
        ffi::lua_pushvalue(keeper, TABLE);
        ffi::lua_xmove(keeper, state, 1);
    }
    true
}

/// Makes spare objects for [`Anchors::begin_cycle`]; pushes nil.
pub(super) struct Renew(pub(super) Rc<Threads>);

impl Sealed for Renew {}
impl Push for Renew {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise.
        unsafe {
            ffi::luaL_checkstack(state, 6, std::ptr::null());
            push_metatable(state, end_cycle);
            for number in SPARES..SPARES + MOST_SPARES {
                push_probe(state, &self.0);
                self.0.anchors().set(state, number);
            }
            ffi::lua_pushnil(state);
            ffi::lua_replace(state, -2);
        }
    }
}

/// Lets the coroutines of a task be collected when nothing refers to the token any more, which is the first value in the
/// frame that `front` waits in; pushes nil.
pub(super) struct Weaken<'a> {
    pub(super) threads: Rc<Threads>,
    pub(super) members: &'a [Coroutine],
    pub(super) front: *mut lua_State,
    pub(super) done: &'a mut bool,
}

impl Sealed for Weaken<'_> {}
impl Push for Weaken<'_> {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; `front` is anchored and waits, so that it has a first value. What may raise comes
        // before anything changes.
        unsafe {
            ffi::luaL_checkstack(state, 16, std::ptr::null());
            let anchors = self.threads.anchors();
            let (Some(&own), true) = (self.members.first(), anchors.are_of(vm_of(state))) else {
                return ffi::lua_pushnil(state);
            };
            if ffi::lua_checkstack(self.front, 1) == 0 || !push_table(anchors, state) {
                return ffi::lua_pushnil(state);
            }
            let table = ffi::lua_gettop(state);
            if ffi::lua_rawgeti(state, table, GUARDS) != ffi::LUA_TTABLE {
                push_weak(state, c"k");
                ffi::lua_copy(state, -1, table + 1);
                ffi::lua_rawseti(state, table, GUARDS);
                push_metatable(state, orphaned);
                ffi::lua_rawseti(state, table, GUARD_META);
            }
            let guard = Guard {
                threads: std::ptr::null(),
                own,
                armed: false,
            };
            push_block(state, guard);
            let guard: *mut Guard = ffi::lua_touserdata(state, -1).cast();
            ffi::lua_createtable(state, 0, self.members.len() as c_int);
            for &member in self.members {
                ffi::lua_rawgeti(state, table, place(member));
                ffi::lua_rawseti(state, -2, member.number() as i64);
            }
            ffi::lua_setiuservalue(state, table + 2, 1);
            ffi::lua_rawgeti(state, table, GUARD_META);
            ffi::lua_setmetatable(state, table + 2);
            ffi::lua_rawgeti(state, table, WEAK);
            ffi::lua_pushvalue(state, table + 2);
            ffi::lua_rawseti(state, -2, place(own));
            ffi::lua_pushvalue(self.front, 1);
            ffi::lua_xmove(self.front, state, 1);
            ffi::lua_pushvalue(state, table + 2);
            ffi::lua_rawset(state, table + 1);
            (*guard).threads = Rc::into_raw(self.threads.clone());
            (*guard).armed = true;
            for &member in self.members {
                ffi::lua_pushboolean(state, 0);
                ffi::lua_rawseti(state, table, place(member));
            }
            *self.done = true;
            ffi::lua_settop(state, table - 1);
            ffi::lua_pushnil(state);
        }
    }
}

/// A guard's finalizer.
unsafe extern "C-unwind" fn orphaned(state: *mut lua_State) -> c_int {
    // SAFETY: only the collector has this function and its argument.
    unsafe {
        ffi::lua_settop(state, 1);
        let guard: *mut Guard = ffi::lua_touserdata(state, 1).cast();
        let threads = std::mem::replace(&mut (*guard).threads, std::ptr::null());
        if threads.is_null() {
            return 0;
        }
        let threads = Rc::from_raw(threads);
        if let Some(keeper) = threads.anchors().keeper()
            && (*guard).armed
        {
            (*guard).threads = &raw const *threads;
            restore(guard, state, 1, keeper);
            (*guard).threads = std::ptr::null();
            threads.orphan((*guard).own);
        }
        0
    }
}
