//! Queries about a coroutine that a step has as a value.

use super::places::{Identity, coroutine_identity};
use crate::lua::coroutine::Running;
use crate::lua::fault::Fault;
use crate::lua::hook::Hook;
use crate::lua::returns::{Push, Pusher};
use crate::lua::stack::Stack;
use crate::lua::state::{Kind, State};
use mlua::ffi;
use std::ffi::c_int;

/// The status of a coroutine, as Lua's coroutine library defines it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Running,
    Suspended,
    Normal,
    Dead,
}

/// Whether a coroutine ended with an error, and whether this was a memory error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorStatus {
    pub(crate) failed: bool,
    pub(crate) out_of_memory: bool,
}

impl Stack {
    /// Returns the identity of the coroutine at `index`; `None` if the value is not a coroutine.
    #[inline]
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Identity> {
        self.coroutine_at(index).map(|thread| coroutine_identity(&thread))
    }

    /// Returns the identity of the coroutine that the step runs in.
    #[inline]
    pub(crate) fn running(&self) -> Identity {
        coroutine_identity(self)
    }

    /// Pushes the coroutine that the step runs in. Returns its index.
    #[inline]
    pub(crate) fn push_running(&mut self) -> Result<c_int, Fault> {
        self.push(Running)
    }

    /// Returns the status of the coroutine at `index`; `None` if the value is not a coroutine.
    pub(crate) fn status(&self, index: c_int) -> Option<Status> {
        let thread = self.coroutine_at(index)?;
        Some(match thread.state == self.state {
            true => Status::Running,
            false => status(&thread),
        })
    }

    /// Returns whether and how the coroutine at `index` failed.
    pub(crate) fn error_status(&self, index: c_int) -> ErrorStatus {
        let status = self.coroutine_at(index).map_or(ffi::LUA_OK, |thread| thread.status());
        ErrorStatus {
            failed: !matches!(status, ffi::LUA_OK | ffi::LUA_YIELD),
            out_of_memory: status == ffi::LUA_ERRMEM,
        }
    }
}

/// Returns the status of a coroutine other than the step's own.
pub(super) fn status(thread: &State) -> Status {
    match thread.status() {
        ffi::LUA_YIELD => Status::Suspended,
        ffi::LUA_OK if thread.is_active() => Status::Normal,
        ffi::LUA_OK if thread.count() != 0 => Status::Suspended,
        _ => Status::Dead,
    }
}

/// A new coroutine whose function is the value at a stack index, or a thread without a function.
pub(crate) struct NewThread(Option<c_int>, Hook);

impl NewThread {
    /// Describes a new coroutine with the debug hook of `stack`'s coroutine, and with the function at the index.
    pub(crate) fn new(stack: &Stack, function: c_int) -> NewThread {
        NewThread(Some(function), stack.current_hook())
    }

    /// Describes a thread without a function and without a hook.
    pub(super) fn without_function() -> NewThread {
        NewThread(None, Hook::NONE)
    }
}

impl Push for NewThread {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        let mut thread = to.push_coroutine();
        self.1.set_in_new(&thread);
        if let Some(index) = self.0 {
            to.push_copy(index);
            to.move_to(&mut thread, 1);
        }
    }
}

/// A traceback of the coroutine at the index `of`, preceded by a message. If the message is not a string, only the
/// message is pushed.
pub(crate) struct ThreadTraceback {
    pub(crate) of: c_int,
    /// The index of the message.
    pub(crate) message: c_int,
}

impl Push for ThreadTraceback {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(20, None);
        match to.coroutine_at(self.of) {
            // The other coroutine's stack may be full, so nothing is pushed onto it.
            Some(thread) if to.kind(self.message) == Kind::String => to.trace(&thread, Some(self.message), 0),
            _ => to.push_copy(self.message),
        }
    }
}
