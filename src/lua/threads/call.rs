//! Functions called on a thread of their own, and values that the coroutines' users keep.

use super::places::{Threads, gone};
use super::status::{NewThread, Status};
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::returns::Argument;
use crate::lua::stack::Stack;
use crate::lua::state::Kind;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::rc::Rc;

impl Threads {
    /// Calls the function below the topmost `arguments` values, protected, on a thread of its own. In their place come
    /// two results, or the error. → whether it returned
    #[cold]
    pub(crate) fn call(self: &Rc<Self>, call: &mut Call<'_>, arguments: c_int) -> Result<bool, Fault> {
        let function = call.count() - arguments;
        assert!(arguments >= 0 && function >= 1, "no function was pushed");
        self.push_helper(call)?;
        let thread = call.thread_at(function + arguments + 1);
        call.wake_collector();
        // SAFETY: the thread stays on the step's stack until it is kept for the next call; nothing runs on it. There is
        // room for what is moved. `protect` catches errors of the function, and returns three or two values.
        unsafe {
            let state = call.state;
            ffi::lua_rotate(state, function, 1);
            let moved = arguments + 1;
            if ffi::lua_checkstack(thread, moved + 1) == 0 {
                return Err(Fault::message("stack overflow"));
            }
            ffi::lua_pushcfunction(thread, protect);
            ffi::lua_xmove(state, thread, moved);
            let mut results = 0;
            let status = ffi::lua_resume(thread, state, moved, &mut results);
            let ok = status == ffi::LUA_OK && (results == 0 || ffi::lua_toboolean(thread, 1) != 0);
            let wanted = if ok { 2 } else { 1 };
            // Fewer when it has closed its own coroutine.
            let found = wanted.min(ffi::lua_gettop(thread));
            ffi::lua_xmove(thread, state, found);
            ffi::lua_settop(state, function + wanted);
            if status == ffi::LUA_OK && ffi::lua_tothread(state, function) == thread {
                ffi::lua_settop(thread, 0);
                ffi::lua_pushvalue(state, function);
                self.anchors.return_helper(state);
            }
            ffi::lua_rotate(state, function, -1);
            ffi::lua_settop(state, -2);
            Ok(ok)
        }
    }

    /// Pushes a thread for `call`, on which nothing runs.
    pub(super) fn push_helper(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        call.reserve(5)?;
        assert!(self.anchors.are_of(call.vm()), "another VM");
        // SAFETY: `reserve` has made room for the thread that is pushed.
        if unsafe { self.anchors.take_helper(call.state) } {
            let index = call.count();
            if call.status(index) == Some(Status::Dead) && !call.failure(index).failed {
                return Ok(());
            }
            call.drop_to(index - 1);
        }
        let thread = NewThread::new(call, None);
        call.create(thread).map(drop)
    }

    /// Closes the coroutine at `index`, which runs its `<close>` variables. → whether they raised nothing; else the error
    /// is pushed
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
            // Behind false.
            call.replace_with_top(function);
        }
        Ok(false)
    }

    /// Pushes Lua's own `coroutine.close`, or false when the VM has none. → its index
    pub(crate) fn push_close(&self, stack: &mut Stack) -> Result<c_int, Fault> {
        // SAFETY: there is room, and the anchors are of this VM.
        self.push_by(stack, |state| unsafe { self.anchors.push_close(state) })
    }

    /// Pushes the value that is kept under `number` (0 to 3), false at first. → its index
    pub(crate) fn push_kept(&self, stack: &mut Stack, number: u8) -> Result<c_int, Fault> {
        // SAFETY: the anchors are of this VM, and room was made for one value.
        self.push_by(stack, |state| unsafe { self.anchors.push_kept(state, number) })
    }

    /// Keeps the value at `index` under `number` (0 to 3).
    pub(crate) fn keep(&self, stack: &mut Stack, number: u8, index: c_int) -> Result<(), Fault> {
        stack.push(Argument(index))?;
        if !self.anchors.are_of(stack.vm()) {
            return Err(gone());
        }
        // SAFETY: the value on top was just pushed, in this VM.
        unsafe { self.anchors.keep(stack.state, number) };
        Ok(())
    }
}

/// Calls its first argument with the others, and returns whether that went well, and two results or the error.
unsafe extern "C-unwind" fn protect(state: *mut lua_State) -> c_int {
    // SAFETY: `call` gives it a function and its arguments; owns nothing.
    unsafe {
        let status = ffi::lua_pcall(state, ffi::lua_gettop(state) - 1, 2, 0);
        ffi::lua_pushboolean(state, (status == ffi::LUA_OK).into());
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_gettop(state)
    }
}
