//! Guards: the coroutines of a waiting task stay alive only as long as the task's token is referenced.

use super::anchors::{BY_PLACE, Coroutine, FIRST, GUARD_META, GUARDS, TABLE, place};
use super::create::{push_block, push_metatable, push_weak, set_block_metatable};
use super::places::Threads;
use crate::lua::call::Call;
use crate::lua::returns::{Push, Pusher};
use crate::lua::state::{Kind, State};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::rc::Rc;

/// The userdata block of a guard. When a guard is finalized, no code can wake the task whose own coroutine is `own`.
/// The guard's user value is a table that maps places to the task's coroutines.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    threads: *const Threads,
    own: Coroutine,
    armed: bool,
}

impl Threads {
    /// Keeps the coroutines of a task alive only as long as its token is referenced. `members` are the task's
    /// coroutines, its own coroutine first. The token is the first value in the frame in which `front`, one of the
    /// members, waits. When the token is no longer referenced, [`Threads::take_orphan`] returns the task's own
    /// coroutine. Returns false, without an effect, if this is impossible.
    #[cold]
    pub(crate) fn weaken(self: &Rc<Self>, call: &mut Call<'_>, members: &[Coroutine], front: Coroutine) -> bool {
        let front = self.other_state(call, front);
        if front.status() != ffi::LUA_YIELD || front.count() == 0 {
            return false;
        }
        let height = call.count();
        let mut done = false;
        let weaken = Weaken { threads: self.clone(), members, front, done: &mut done };
        // If there is not enough memory, nothing has changed.
        let _ = call.create(weaken);
        call.drop_to(height);
        done
    }

    /// Undoes [`Threads::weaken`]: the task's coroutines stay alive whether or not its token is referenced.
    #[cold]
    pub(crate) fn strengthen(&self, own: Coroutine) {
        let Some(mut anchor_thread) = self.anchors.anchor_thread() else { return };
        anchor_thread.push_element(TABLE, BY_PLACE);
        anchor_thread.push_element(TABLE + 1, place(own));
        if anchor_thread.kind(TABLE + 2) == Kind::Userdata {
            let mut same = anchor_thread.reborrow();
            // SAFETY: the values at these places of the table are guards that `weaken` has created.
            unsafe {
                restore(
                    ffi::lua_touserdata(anchor_thread.state, TABLE + 2).cast(),
                    &mut same,
                    TABLE + 2,
                    &mut anchor_thread,
                )
            };
        }
        anchor_thread.shorten(TABLE);
    }
}

/// Anchors the coroutines of a guard, and disarms the guard. The guard's userdata is at `index` on `stack`, which has
/// room for 4 more values. A coroutine is left out if its place now belongs to another coroutine.
unsafe fn restore(guard: *mut Guard, stack: &mut State, index: c_int, anchor_thread: &mut State) {
    // SAFETY: the guard's user value is the table that was created for it, and the anchor thread's table has these
    // places.
    unsafe {
        if !std::mem::replace(&mut (*guard).armed, false) {
            return;
        }
        let threads = &*(*guard).threads;
        stack.push_user_value(index, 1);
        let list = stack.count();
        stack.push_nil();
        while ffi::lua_next(stack.state, list) != 0 {
            let number = stack.to_integer(list + 1).unwrap_or(-1);
            if stack.coroutine_at(list + 2).is_some_and(|thread| threads.holds(number, thread.state)) {
                stack.push_copy(list + 2);
                if stack.state != anchor_thread.state {
                    stack.move_to(anchor_thread, 1);
                }
                ffi::lua_rawseti(anchor_thread.state, TABLE, FIRST + number);
            }
            stack.shorten(list + 1);
        }
        stack.push_nil();
        ffi::lua_setiuservalue(stack.state, index, 1);
        stack.shorten(list - 1);
    }
}

/// The operation of [`Threads::weaken`]. Sets `done` if it succeeds. Pushes nil.
pub(super) struct Weaken<'a> {
    pub(super) threads: Rc<Threads>,
    pub(super) members: &'a [Coroutine],
    pub(super) front: State,
    pub(super) done: &'a mut bool,
}

impl Push for Weaken<'_> {
    fn push(&mut self, mut to: Pusher<'_>) {
        // All operations that can raise an error come before the first change.
        to.need(16, None);
        let anchors = &self.threads.anchors;
        let (Some(&own), true) = (self.members.first(), anchors.are_of(to.vm())) else { return to.push_nil() };
        if !self.front.has_room(1) || !anchors.push_table(&mut to) {
            return to.push_nil();
        }
        let table = to.count();
        to.push_element(table, GUARDS);
        if to.kind(table + 1) != Kind::Table {
            to.drop_top();
            push_weak(&mut to, c"k");
            push_metatable(&mut to, finalize_guard);
            // Stores the two new tables in `table`; `set_item` needs the table below the new item.
            for number in [GUARD_META, GUARDS] {
                to.push_copy(table);
                let below = to.count() - 1;
                to.insert_top(below);
                to.set_item(number);
                to.drop_top();
            }
            to.push_element(table, GUARDS);
        }
        let guard = push_block(&mut to, Guard { threads: std::ptr::null(), own, armed: false });
        let block = table + 2;
        to.push_table(0, self.members.len() as c_int);
        for &member in self.members {
            to.push_element(table, place(member));
            to.set_item(member.number() as i64);
        }
        to.set_user_value(block, 1, block + 1);
        to.drop_top();
        to.push_element(table, GUARD_META);
        set_block_metatable(&mut to, block);
        to.push_element(table, BY_PLACE);
        to.push_copy(block);
        to.set_item(place(own));
        to.drop_top();
        to.push_copy(table + 1);
        self.front.push_copy(1);
        self.front.move_to(&mut to, 1);
        to.push_copy(block);
        to.set_pair();
        // SAFETY: this is the block of the guard, which is on the stack.
        unsafe {
            (*guard).threads = Rc::into_raw(self.threads.clone());
            (*guard).armed = true;
        }
        to.shorten(table);
        for &member in self.members {
            to.push_boolean(false);
            to.set_item(place(member));
        }
        *self.done = true;
        to.shorten(table - 1);
        to.push_nil();
    }
}

/// The finalizer of a guard.
unsafe extern "C-unwind" fn finalize_guard(state: *mut lua_State) -> c_int {
    // SAFETY: no program can get the guards' metatable, so only the collector calls this, with a guard.
    unsafe {
        let mut stack = State::new(state);
        stack.shorten(1);
        let guard: *mut Guard = ffi::lua_touserdata(state, 1).cast();
        let threads = std::mem::replace(&mut (*guard).threads, std::ptr::null());
        if threads.is_null() {
            return 0;
        }
        let threads = Rc::from_raw(threads);
        if let Some(mut anchor_thread) = threads.anchors.anchor_thread()
            && (*guard).armed
        {
            (*guard).threads = &raw const *threads;
            restore(guard, &mut stack, 1, &mut anchor_thread);
            (*guard).threads = std::ptr::null();
            threads.orphan((*guard).own);
        }
        0
    }
}
