//! What anchors coroutines is made, and coroutines, and probes of the cycles of the collector.

use super::anchors::{
    Anchors, CLOSE, Coroutine, FIRST, KEEPER, Keeper, MOST_SPARES, REFUSALS, SPARES, TABLE, TEXTS, WEAK, place,
};
use super::hook::Hook;
use super::places::Threads;
use crate::lua::block::shared_key;
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::returns::sealed::Sealed;
use crate::lua::returns::{Push, Pusher};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::rc::Rc;

/// The block of the sentinel.
#[derive(Clone, Copy)]
pub(super) struct Sentinel {
    threads: *const Threads,
    keeper: *mut lua_State,
}

/// The block of a probe: when it is finalized, the collector has ended a cycle.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    threads: *const Threads,
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

    /// New coroutines with empty stacks: as many as asked for, or fewer, but one at least.
    #[cold]
    pub(crate) fn create(self: &Rc<Self>, call: &mut Call<'_>, count: usize) -> Result<Vec<Coroutine>, Fault> {
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

    pub(super) fn grow(
        self: &Rc<Self>, call: &mut Call<'_>, count: usize, coroutines: Option<&mut Vec<Coroutine>>,
    ) -> Result<(), Fault> {
        let height = call.count();
        let threads = self.clone();
        let grown = call.create(Grow { threads, hook: Hook::of(call), count, coroutines });
        if grown.is_ok() {
            call.drop_to(height);
        }
        grown.map(drop)
    }

    /// Whether the collector has ended a cycle since this was asked last.
    #[inline]
    pub(crate) fn cycle_has_ended(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        self.anchors.cycle_has_ended() && self.begin_cycle(call)
    }

    #[cold]
    pub(super) fn begin_cycle(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        if self.anchors.begin_cycle() {
            return true;
        }
        let height = call.count();
        // Short of memory, the next one tries again.
        let _ = call.create(Renew(self.clone()));
        call.drop_to(height);
        self.anchors.begin_cycle()
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
            push_block(state, Sentinel { threads: std::ptr::null(), keeper });
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
            anchors.vm.set(to.vm());
            ffi::lua_pushnil(state);
        }
    }
}

/// Pushes a userdata with this in it and one user value.
pub(super) unsafe fn push_block<T: Copy>(state: *mut lua_State, block: T) {
    // SAFETY: the block is large enough, and aligned for pointers.
    unsafe {
        let place: *mut T = ffi::lua_newuserdatauv(state, size_of::<T>(), 1).cast();
        place.write(block);
    }
}

/// Pushes a metatable with this finalizer. Nobody else has it, so nobody can change it.
pub(super) unsafe fn push_metatable(state: *mut lua_State, finalizer: ffi::lua_CFunction) {
    // SAFETY: a pusher has made room for the userdata, whose block is as large and aligned as the value.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushcfunction(state, finalizer);
        ffi::lua_setfield(state, -2, c"__gc".as_ptr());
    }
}

/// Pushes a table whose keys or values are weak.
pub(super) unsafe fn push_weak(state: *mut lua_State, mode: &CStr) {
    // SAFETY: there is room for table and function, which whoever pushes has asked for.
    unsafe {
        ffi::lua_createtable(state, 1, 0);
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushstring(state, mode.as_ptr());
        ffi::lua_setfield(state, -2, c"__mode".as_ptr());
        ffi::lua_setmetatable(state, -2);
    }
}

/// Pushes a probe, whose metatable is on top.
pub(super) unsafe fn push_probe(state: *mut lua_State, threads: &Rc<Threads>) {
    // SAFETY: the pushers make room; the block refers to the coroutines when nothing more can raise.
    unsafe {
        push_block(state, Probe { threads: std::ptr::null() });
        ffi::lua_pushvalue(state, -2);
        ffi::lua_setmetatable(state, -2);
        let probe: *mut Probe = ffi::lua_touserdata(state, -1).cast();
        (*probe).threads = Rc::into_raw(threads.clone());
    }
}

/// A probe's finalizer.
unsafe extern "C-unwind" fn end_cycle(state: *mut lua_State) -> c_int {
    // SAFETY: called by the collector alone, with a probe, since nobody else ever has its metatable.
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
pub(super) unsafe fn push_close_of_lua(state: *mut lua_State) {
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
    // SAFETY: called by the collector alone, with the sentinel, which lies below the keeper's first frame.
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
    /// For the new coroutines.
    pub(super) hook: Hook,
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
            if !anchors.are_of(to.vm()) || !push_table(anchors, state) {
                ffi::luaL_error(state, c"the VM's coroutines are gone".as_ptr());
            }
            let table = ffi::lua_gettop(state);
            for _ in 0..self.count {
                match &mut self.coroutines {
                    Some(entered) => {
                        let co = self.threads.next_place();
                        let thread = ffi::lua_newthread(state);
                        self.hook.set(thread);
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
pub(super) unsafe fn push_table(anchors: &Anchors, state: *mut lua_State) -> bool {
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
        // SAFETY: a pusher's state; room is asked for here, and nothing is owned when that raises.
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
