//! What can be asked of a coroutine of which a step has the value.

use super::hook::Hook;
use super::places::{Identity, identity};
use crate::lua::fault::Fault;
use crate::lua::returns::sealed::Sealed;
use crate::lua::returns::{Push, Pusher};
use crate::lua::stack::Stack;
use crate::lua::state::{Kind, at};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// What a coroutine is doing, as Lua's library tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Running,
    Suspended,
    Normal,
    Dead,
}

/// Whether a coroutine ended by an error, and whether that was a lack of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) failed: bool,
    pub(crate) for_memory: bool,
}

impl Stack {
    /// The coroutine at `index`.
    #[inline]
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Identity> {
        let thread = self.thread_at(index);
        (!thread.is_null()).then(|| identity(thread))
    }

    #[inline]
    pub(super) fn thread_at(&self, index: c_int) -> *mut lua_State {
        self.coroutine_at(index).map_or(null_mut(), |thread| thread.state)
    }

    /// The coroutine that the step runs in.
    #[inline]
    pub(crate) fn running(&self) -> Identity {
        identity(self.state)
    }

    /// Pushes the coroutine that the step runs in. → its index
    #[inline]
    pub(crate) fn push_running(&mut self) -> Result<c_int, Fault> {
        self.reserve(1)?;
        self.push_thread();
        Ok(self.count())
    }

    /// What the coroutine at `index` is doing; `None` when none is there.
    pub(crate) fn status(&self, index: c_int) -> Option<Status> {
        let thread = self.thread_at(index);
        match thread.is_null() {
            true => None,
            // SAFETY: the status of a thread is read, which the value at the index keeps alive meanwhile.
            false if thread != self.state => Some(unsafe { status(thread) }),
            false => Some(Status::Running),
        }
    }

    /// Whether the coroutine at `index` ended by an error.
    pub(crate) fn failure(&self, index: c_int) -> Failed {
        let status = self.coroutine_at(index).map_or(ffi::LUA_OK, |thread| thread.status());
        Failed { failed: !matches!(status, ffi::LUA_OK | ffi::LUA_YIELD), for_memory: status == ffi::LUA_ERRMEM }
    }
}

/// What a coroutine that is not the step's own is doing.
pub(super) unsafe fn status(thread: *mut lua_State) -> Status {
    let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
    // SAFETY: reads plain fields; `lua_getstack` writes the record only.
    unsafe {
        match ffi::lua_status(thread) {
            ffi::LUA_YIELD => Status::Suspended,
            ffi::LUA_OK if ffi::lua_getstack(thread, 0, frame.as_mut_ptr()) != 0 => Status::Normal,
            ffi::LUA_OK if ffi::lua_gettop(thread) != 0 => Status::Suspended,
            _ => Status::Dead,
        }
    }
}

/// A new coroutine, whose function is the one at an index; or a thread without one.
pub(crate) struct NewThread(Option<c_int>, Hook);

impl NewThread {
    /// With the hook of `stack`'s coroutine.
    pub(crate) fn new(stack: &Stack, function: Option<c_int>) -> NewThread {
        NewThread(function, Hook::of(stack))
    }
}

impl Sealed for NewThread {}

impl Push for NewThread {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; a new thread has room.
        unsafe {
            let thread = ffi::lua_newthread(state);
            self.1.set(thread);
            if let Some(index) = self.0 {
                ffi::lua_pushvalue(state, at(index));
                ffi::lua_xmove(state, thread, 1);
            }
        }
    }
}

/// The traceback of the coroutine at an index, behind a message.
pub(crate) struct ThreadTraceback {
    pub(crate) of: c_int,
    /// The index of a string.
    pub(crate) message: c_int,
}

impl Sealed for ThreadTraceback {}

impl Push for ThreadTraceback {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(20, None);
        // Nothing is pushed on the other coroutine, whose stack may be full.
        match to.coroutine_at(self.of) {
            Some(thread) if to.kind(self.message) == Kind::String => to.trace(&thread, Some(self.message), 0),
            _ => to.push_copy(self.message),
        }
    }
}
