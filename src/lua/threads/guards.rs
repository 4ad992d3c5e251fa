//! Coroutines that stay as long as something else refers to a value.

use super::anchors::{Anchors, Coroutine, FIRST, GUARD_META, GUARDS, TABLE, WEAK, place};
use super::make::{push_block, push_metatable, push_table, push_weak};
use super::places::Threads;
use crate::lua::call::Call;
use crate::lua::returns::sealed::Sealed;
use crate::lua::returns::{Push, Pusher};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::rc::Rc;

/// The block of a guard: when it is finalized, nothing can wake the task whose coroutine is at `own`. Its user value is
/// a table of the task's coroutines by their places.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    threads: *const Threads,
    own: Coroutine,
    armed: bool,
}

impl Threads {
    /// Lets the coroutines of a task, its own first, be collected when nothing refers to the first value in the frame any
    /// more that `front`, one of them, waits in. Then its own is what [`Threads::take_orphan`] gives.
    #[cold]
    pub(crate) fn weaken(self: &Rc<Self>, call: &mut Call<'_>, members: &[Coroutine], front: Coroutine) -> bool {
        let front = self.beside(call, front);
        // SAFETY: reads plain fields of a state that is valid.
        if unsafe { ffi::lua_status(front) != ffi::LUA_YIELD || ffi::lua_gettop(front) == 0 } {
            return false;
        }
        let height = call.count();
        let mut done = false;
        let weaken = Weaken { threads: self.clone(), members, front, done: &mut done };
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
}

impl Anchors {
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

/// Anchors what a guard holds, whose block is at `index` of `state`, and disarms it.
pub(super) unsafe fn restore(guard: *mut Guard, state: *mut lua_State, index: c_int, keeper: *mut lua_State) {
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
            let (Some(&own), true) = (self.members.first(), anchors.are_of(to.vm())) else {
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
            let guard = Guard { threads: std::ptr::null(), own, armed: false };
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
    // SAFETY: called by the collector alone, with the guard that dies, as no metatable of a program's has it.
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
