//! Tasks that wait for what can no longer come: their token is an object that nothing refers to but their
//! own stacks.
//!
//! The anchors' table keeps every task's coroutine alive, also one that nobody can wake. So a wait that
//! has lasted over a whole cycle of the collector (see `tend`) is taken out of it and put into a table with weak
//! keys: token → guard, where the guard, a userdata, refers to the coroutine. As long as anything else
//! refers to the token, all of it stays. When nothing does, the collector finalizes the guard, which puts
//! the task back into the anchors' table and queues it as lost; in its turn it is reported and killed.
//! A wait that is shorter, as nearly all are, costs nothing.
//!
//! Invariant: a task has a guard exactly when the anchors' table has false in its coroutine's place; it is
//! then in the phase `Waiting`, and its guard has not been finalized.

use super::core::{Core, Phase, Slot, Tag};
use super::ends::{Ended, end_task, push_thread};
use super::hooks::{GUARDS, LOST, complain, tell_error};
use super::pool::{push_anchors, push_coroutine};
use super::token::Token;
use crate::raw::object::{self, Key, Object};
use crate::raw::{Function, Text, function, raise};
use mlua::ffi::{self, lua_State};
use std::convert::Infallible;
use std::ffi::{CStr, c_int};

const MESSAGE: &CStr = c"a task is lost: it waits for something that nothing refers to any more, so nobody can wake it";

/// Its user value is the coroutine of the task.
pub(crate) struct Guard {
    core: *mut Core,
    slot: Option<Slot>,
}

impl Object for Guard {
    const NAME: &'static CStr = c"lio.task.guard";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the core's block is freed after the last finalizer.
        unsafe {
            if let Some(slot) = self.slot
                && object::is_alive(self.core)
            {
                (*self.core).lost(slot);
            }
        }
    }
}

/// Puts what this file needs into the new anchors' table on top of the stack.
///
/// # Safety
/// `state` is valid, with 4 free stack slots; may raise.
pub(super) unsafe fn enter(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushstring(state, MESSAGE.as_ptr());
        ffi::lua_rawseti(state, -2, LOST);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushstring(state, c"k".as_ptr());
        ffi::lua_setfield(state, -2, c"__mode".as_ptr());
        ffi::lua_setmetatable(state, -2);
        ffi::lua_rawseti(state, -2, GUARDS);
        ffi::lua_createtable(state, 1, 0);
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushstring(state, c"v".as_ptr());
        ffi::lua_setfield(state, -2, c"__mode".as_ptr());
        ffi::lua_setmetatable(state, -2);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, PROBE.pointer());
        renew_probe(state);
    }
}

/// Registry key of a table with weak values that holds one object: when that is gone, the collector has
/// ended a cycle. (A finalizer would tell as well, but in the middle of other things, a stack overflow for
/// instance.)
static PROBE: Key = Key::new(6);

impl Core {
    /// Looks whether the collector has ended a cycle; then waits that have lasted for long are made weak.
    /// To be called now and then.
    ///
    /// # Safety
    /// `state` is the running state, with 6 free stack slots.
    #[inline]
    pub(crate) unsafe fn tend(core: *mut Core, state: *mut lua_State) {
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, PROBE.pointer());
            let ended = ffi::lua_rawgeti(state, -1, 1) == ffi::LUA_TNIL;
            ffi::lua_pop(state, 2);
            if ended {
                tend_now(core, state);
            }
        }
    }
}

#[cold]
unsafe fn tend_now(core: *mut Core, state: *mut lua_State) {
    // SAFETY: the call is protected; after an error, a lack of memory, the next look tries again.
    unsafe {
        let top = ffi::lua_gettop(state);
        function!(end_cycle).push(state, 0);
        ffi::lua_pushlightuserdata(state, core.cast());
        ffi::lua_pcall(state, 1, 0, 0);
        ffi::lua_settop(state, top);
    }
}

/// (core)
unsafe extern "C-unwind" fn end_cycle(state: *mut lua_State) -> c_int {
    // SAFETY: called by `tend_now`.
    unsafe {
        ffi::luaL_checkstack(state, 12, std::ptr::null());
        let core: *mut Core = ffi::lua_touserdata(state, 1).cast();
        renew_probe(state);
        let ended = (*core).cycle;
        (*core).cycle += 1;
        let mut slot = 0;
        while (slot as usize) < (*core).tasks.len() {
            let task = (*core).task(slot);
            if task.phase == Phase::Waiting && task.cycle < ended && task.guard.is_null() {
                weaken(core, state, slot);
            }
            slot += 1;
        }
        0
    }
}

unsafe fn renew_probe(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, PROBE.pointer());
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_rawseti(state, -2, 1);
        ffi::lua_pop(state, 1);
    }
}

/// Whether the collector can find the token unreachable.
fn is_collectable(token: Token) -> bool {
    matches!(
        token,
        Token::Object(
            ffi::LUA_TTABLE | ffi::LUA_TFUNCTION | ffi::LUA_TUSERDATA | ffi::LUA_TTHREAD,
            _
        )
    )
}

/// From now on the task lives as long as something refers to its token.
unsafe fn weaken(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: what may raise comes first, and what it may run can end the task's wait: hence the
    // second look. A wait's token is in the first slot of its frame.
    unsafe {
        let task = (*core).task(slot);
        let front = task.front;
        if !is_collectable(task.token)
            || !(*core).is_living(slot)
            || ffi::lua_checkstack(front, 1) == 0
        {
            return;
        }
        let (token, cycle) = ((*core).task(slot).token, (*core).task(slot).cycle);
        let top = ffi::lua_gettop(state);
        push_anchors(state);
        ffi::lua_rawgeti(state, -1, GUARDS);
        ffi::lua_pushvalue(front, 1);
        ffi::lua_xmove(front, state, 1);
        let Ok(guard) = object::push_new(state, || Ok::<_, Infallible>(Guard { core, slot: None }));
        ffi::lua_pushvalue(state, top + 3);
        ffi::lua_pushvalue(state, top + 4);
        ffi::lua_rawset(state, top + 2);
        let task = (*core).task(slot);
        if task.phase == Phase::Waiting && task.token == token && task.cycle == cycle {
            push_thread(state, (*core).task(slot).thread);
            ffi::lua_setiuservalue(state, top + 4, 1);
            ffi::lua_pushboolean(state, 0);
            ffi::lua_rawseti(state, top + 1, i64::from(slot) + 1);
            (*guard).slot = Some(slot);
            (*core).task(slot).guard = guard;
        }
        ffi::lua_settop(state, top);
    }
}

impl Core {
    /// The anchors' table keeps the task's coroutine alive again, as its wait ends.
    #[cold]
    pub(super) fn hold(&mut self, slot: Slot) {
        let guard = std::mem::replace(&mut self.task(slot).guard, std::ptr::null_mut());
        // SAFETY: a guard that a task has is not finalized.
        unsafe { (*guard).slot = None };
        self.anchor(slot);
    }

    /// Nothing refers to the token of this waiting task, and its guard is being finalized.
    fn lost(&mut self, slot: Slot) {
        self.task(slot).guard = std::ptr::null_mut();
        self.anchor(slot);
        if self.is_living(slot) && self.task(slot).phase == Phase::Waiting {
            let token = self.task(slot).token;
            self.waiting.remove(token);
            self.task(slot).phase = Phase::Lost;
            self.queue.push_back(slot);
        }
    }

    fn anchor(&mut self, slot: Slot) {
        let (thread, front) = (self.task(slot).thread, self.task(slot).front);
        let waits = self.is_suspended(slot);
        // SAFETY: the guard, finalized or not, kept the coroutine; its frame, one of a C function, has room,
        // as has that of the wait. The keys are in their tables, so that nothing is allocated.
        unsafe {
            push_anchors(thread);
            ffi::lua_pushthread(thread);
            ffi::lua_rawseti(thread, -2, i64::from(slot) + 1);
            ffi::lua_pop(thread, 1);
            if !waits || ffi::lua_checkstack(front, 4) == 0 {
                return;
            }
            // The guard would keep it for as long as there is the token.
            push_anchors(front);
            ffi::lua_rawgeti(front, -1, GUARDS);
            ffi::lua_pushvalue(front, 1);
            if ffi::lua_rawget(front, -2) != ffi::LUA_TNIL {
                ffi::lua_pushvalue(front, 1);
                ffi::lua_pushnil(front);
                ffi::lua_rawset(front, -4);
            }
            ffi::lua_pop(front, 3);
        }
    }
}

/// The turn of a lost task: it is reported, as an error of its own would be, and killed.
///
/// # Safety
/// `state` is the running state, with 8 free stack slots, outside of any task.
#[cold]
pub(super) unsafe fn bury(core: *mut Core, state: *mut lua_State, slot: Slot) {
    // SAFETY: the call is protected: an error out of it is a lack of memory.
    unsafe {
        let top = ffi::lua_gettop(state);
        // Its turn in the queue is over.
        (*core).task(slot).phase = Phase::Buried;
        function!(report).push(state, 0);
        ffi::lua_pushlightuserdata(state, core.cast());
        push_coroutine(state, slot);
        if ffi::lua_pcall(state, 2, 0, 0) != ffi::LUA_OK && (*core).task(slot).phase == Phase::Lost
        {
            (*core).queue.push_back(slot);
        }
        ffi::lua_settop(state, top);
    }
}

/// (core, coroutine)
unsafe extern "C-unwind" fn report(state: *mut lua_State) -> c_int {
    // SAFETY: called by `bury`; the message is moved onto the innermost coroutine for the host, as an error.
    unsafe {
        let core: *mut Core = ffi::lua_touserdata(state, 1).cast();
        let Some(slot) = (*core).slot_of(ffi::lua_tothread(state, 2)) else {
            return 0;
        };
        let (front, tag) = ((*core).thread(slot), (*core).tag(slot));
        // What is called may take the front out of the chain.
        push_thread(state, front);
        push_anchors(state);
        ffi::lua_rawgeti(state, -1, LOST);
        match (*core).host {
            Some(host) => {
                if ffi::lua_checkstack(front, 4) == 0 {
                    raise(state, Text::new("not enough memory"));
                }
                let depth = ffi::lua_gettop(front);
                ffi::lua_xmove(state, front, 1);
                (host.failed)(host.data, state, front, tag);
                // It may have been closed meanwhile.
                if ffi::lua_status(front) == ffi::LUA_YIELD && ffi::lua_gettop(front) > depth {
                    ffi::lua_settop(front, depth);
                }
                if (*core).slot_of(ffi::lua_tothread(state, 2)) == Some(slot) {
                    // It has its answer.
                    (*core).set_tag(slot, Tag { session: 0, ..tag });
                }
            }
            None => {
                push_thread(state, front);
                tell_error(state);
            }
        }
        if end_task(core, state, 2, false) != Ended::Yes {
            ffi::lua_pushstring(state, c"it could not be killed\n".as_ptr());
            complain(state, c"");
        }
        0
    }
}
