//! Calling functions on a separate Lua thread, and values that the users of `Threads` keep.

use super::anchors::{CALL_THREAD, CLOSE, stored_number};
use super::places::{Threads, anchors_lost};
use super::status::{NewThread, Status};
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::function::Function;
use crate::lua::returns::Argument;
use crate::lua::stack::Stack;
use crate::lua::state::Kind;
use mlua::ffi;
use std::ffi::c_int;
use std::rc::Rc;

impl Threads {
    /// Calls the function below the topmost `arguments` values in protected mode, on a separate Lua thread. Replaces
    /// the function and its arguments with two results, or with the error. Returns whether the call succeeded.
    #[cold]
    pub(crate) fn call(self: &Rc<Self>, call: &mut Call<'_>, arguments: c_int) -> Result<bool, Fault> {
        self.push_call_thread(call)?;
        call.resume_collector();
        self.call_on_pushed(call, arguments, 2)
    }

    /// Calls a function of Lua that runs no Lua code, like [`Threads::call`], and returns `wanted` results (0 to 3).
    /// The collector is paused, so no finalizer runs.
    #[cold]
    pub(crate) fn call_of_lua(
        self: &Rc<Self>, call: &mut Call<'_>, arguments: c_int, wanted: c_int,
    ) -> Result<bool, Fault> {
        self.push_call_thread(call)?;
        call.pause_collector();
        self.call_on_pushed(call, arguments, wanted)
    }

    /// Calls the function below the topmost `arguments` values on the thread on top of the stack.
    fn call_on_pushed(self: &Rc<Self>, call: &mut Call<'_>, arguments: c_int, wanted: c_int) -> Result<bool, Fault> {
        assert!((0..=MAX_RESULTS).contains(&wanted));
        let function = call.count() - arguments - 1;
        assert!(arguments >= 0 && function >= 1, "no function was pushed");
        let mut thread = call.coroutine_at(function + arguments + 1).ok_or_else(anchors_lost)?;
        // The thread stays on the step's stack, which keeps it alive, until it is stored for the next call.
        call.insert_top(function);
        let moved = arguments + 1;
        if !thread.has_room(moved + 1) {
            return Err(Fault::message("stack overflow"));
        }
        // The hook of a program gets only the program's events, but an interrupt also takes effect on this thread.
        let hook = call.pending_interrupt();
        if hook.events != 0 || thread.has_debug_hook() {
            thread.set_debug_hook(hook);
        }
        thread.push_function(PROTECT.0);
        call.move_to(&mut thread, moved);
        let (status, results) = thread.resume(call, moved);
        let ok = status == ffi::LUA_OK && (results == 0 || thread.is_true(1));
        let wanted = if ok { wanted } else { 1 };
        // The values are true and the results. After an error, values of the failed function may be below the error.
        if ok && thread.count() > wanted + 1 {
            thread.shorten(wanted + 1);
        }
        // There are fewer results if the function has closed its own coroutine.
        let found = wanted.min(thread.count());
        thread.move_to(call, found);
        call.shorten(function + wanted);
        if status == ffi::LUA_OK && call.coroutine_at(function).is_some_and(|own| own.state == thread.state) {
            thread.shorten(0);
            call.push_copy(function);
            self.anchors.set(call, CALL_THREAD);
        }
        call.remove(function);
        Ok(ok)
    }

    /// Pushes an idle thread for [`Threads::call`].
    pub(super) fn push_call_thread(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        call.reserve(5)?;
        assert!(self.anchors.are_of(call.vm()), "the coroutines belong to another VM");
        if self.anchors.take_call_thread(call) {
            let index = call.count();
            if call.status(index) == Some(Status::Dead) && !call.error_status(index).failed {
                return Ok(());
            }
            call.drop_to(index - 1);
        }
        call.create(NewThread::without_function()).map(drop)
    }

    /// Closes the coroutine at `index` and its `<close>` variables. Returns true if `coroutine.close` reports no error;
    /// otherwise pushes the error and returns false. If the VM has no `coroutine.close`, does nothing and returns true.
    #[cold]
    pub(crate) fn close(self: &Rc<Self>, call: &mut Call<'_>, index: c_int) -> Result<bool, Fault> {
        let function = self.push_close(call)?;
        if call.kind(function) != Kind::Function {
            call.drop_to(function - 1);
            return Ok(true);
        }
        call.push(Argument(index))?;
        let returned = self.call(call, 1)?;
        if returned && call.is_true(function) {
            call.drop_to(function - 1);
            return Ok(true);
        }
        if returned {
            // The two results are `false` and the error.
            call.replace_with_top(function);
        }
        Ok(false)
    }

    /// Pushes Lua's own `coroutine.close`, or false if the VM has none. Returns the index of the pushed value.
    pub(crate) fn push_close(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        self.push_anchored(stack, CLOSE)
    }

    /// Pushes the value that was stored under `number` (0 to 3); false if no value was stored. Returns the index of the
    /// pushed value.
    pub(crate) fn push_stored(&self, stack: &mut Stack, number: u8) -> Result<c_int, Fault> {
        self.push_anchored(stack, stored_number(number))
    }

    /// Stores the value at `index` under `number` (0 to 3).
    pub(crate) fn store(&self, stack: &mut Stack, number: u8, index: c_int) -> Result<(), Fault> {
        stack.push(Argument(index))?;
        if !self.anchors.are_of(stack.vm()) {
            return Err(anchors_lost());
        }
        self.anchors.set(stack, stored_number(number));
        Ok(())
    }
}

/// The highest number of results of a call.
const MAX_RESULTS: c_int = 3;

/// `(f, ...)`: calls `f(...)` in protected mode. Returns true and the results, or false and the error.
const PROTECT: Function = Function::native(|mut to| {
    let arguments = to.count() - 1;
    let ok = to.call_protected(arguments, MAX_RESULTS) == ffi::LUA_OK;
    to.push_boolean(ok);
    to.insert_top(1);
    to.count()
});
