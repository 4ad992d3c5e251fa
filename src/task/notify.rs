//! Notifications when tasks end or fail. Each notification goes to `on_error`, to the `on_abandon` or `on_end`
//! callback, to a host, or to standard error.

use super::Tasks;
use super::entry::{Reason, Tag, TaskId};
use crate::lua::{
    Argument, Call, Coroutine, ERROR_TEXT, Fault, Function, Kind, Next, Outcome, TO_TEXT, ThreadTraceback, then,
};
use std::io::Write;
use std::rc::Rc;

/// The keys of the values that `threads` keeps: the module, whose `on_error` is called, and the `on_abandon` and
/// `on_end` callbacks.
pub(super) const MODULE: u8 = 0;
pub(super) const ABANDON: u8 = 1;
pub(super) const END: u8 = 2;

/// The owner of tasks with sessions: a service. Its methods must not raise. They run outside the task, which has
/// already ended.
pub(crate) trait Host {
    /// A task with a session has returned. `results` results are on the stack of its coroutine; they are dropped
    /// afterwards.
    fn finished(&self, call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32, tag: Tag);
    /// A task, with or without a session, has failed. `co` is the index of its coroutine, whose frames still exist, and
    /// `error` is the index of the error.
    fn failed(&self, call: &mut Call<'_>, co: i32, error: i32, tag: Tag);
    /// A task with a session was killed, or a program has closed its coroutine, before it returned.
    fn killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag);
    /// A wait on a session was cancelled; `reason` is the purpose of the wait.
    fn cancelled(&self, call: &mut Call<'_>, reason: Reason);
}

impl Tasks {
    /// Sets the `on_abandon` callback to the value at `index`. The callback is called with the token when a wait ends
    /// without a wakeup.
    pub(crate) fn set_on_abandon(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.store(call, ABANDON, index)
    }

    /// Sets the `on_end` callback to the value at `index`. The callback is called with the coroutine of a task that
    /// fails, or that ends and is watched.
    pub(crate) fn set_on_end(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.store(call, END, index)
    }

    /// Sets the module to the table at `index`. Its function `on_error` is called with the error and the coroutine of a
    /// task that fails.
    pub(crate) fn set_module(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.store(call, MODULE, index)
    }

    /// Makes lio call the `on_end` callback when the running task ends.
    pub(crate) fn watch_end(&self) {
        if let Some(id) = self.current() {
            self.table.borrow_mut().task_mut(id).watched = true;
        }
    }

    /// Calls the `on_abandon` callback with the token at `index`, because the wait on it has ended without a wakeup, or
    /// cannot begin.
    #[cold]
    pub(crate) fn abandon(self: &Rc<Self>, call: &mut Call<'_>, index: i32) {
        self.call_stored(call, ABANDON, index, "error in on_abandon: ");
    }

    /// Calls the `on_end` callback if the task is watched. The task's coroutine still exists.
    #[inline]
    pub(super) fn notify_end(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        if self.table.borrow().task(id).watched {
            self.notify_watched_end(call, id);
        }
    }

    #[cold]
    fn notify_watched_end(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let own = {
            let task = &mut self.table.borrow_mut().tasks[id as usize];
            task.watched = false;
            task.own
        };
        let height = call.count();
        if let Ok(index) = self.threads.push(call, own) {
            self.call_on_end(call, index);
        }
        call.drop_to(height);
    }

    /// Calls the `on_end` callback with the coroutine at `index`.
    #[cold]
    pub(super) fn call_on_end(self: &Rc<Self>, call: &mut Call<'_>, index: i32) {
        self.call_stored(call, END, index, "error in on_end: ");
    }

    /// Calls the stored function with the key `number`, with the value at `index` as the argument. If the function
    /// raises an error, writes the error to standard error. Does nothing if there is not enough memory.
    fn call_stored(self: &Rc<Self>, call: &mut Call<'_>, number: u8, index: i32, what: &'static str) {
        let height = call.count();
        if let Ok(function) = self.threads.push_stored(call, number)
            && !matches!(call.kind(function), Kind::Nil | Kind::Boolean)
            && call.push(Argument(index)).is_ok()
            && let Ok(false) = self.threads.call(call, 1)
        {
            self.log_error(call, what, function);
        }
        call.drop_to(height);
    }

    /// Calls `on_error` with the error at index `error` and the coroutine at index `co`.
    pub(super) fn report_error(self: &Rc<Self>, call: &mut Call<'_>, error: i32, co: i32) -> Result<(), Fault> {
        let height = call.count();
        let function = call.push(Function::new(call_on_error))?;
        self.threads.push_stored(call, MODULE)?;
        call.push(Argument(error))?;
        call.push(Argument(co))?;
        if !self.threads.call(call, 3)? {
            self.log_error(call, "error in on_error: ", function);
        }
        call.drop_to(height);
        Ok(())
    }

    /// Closes a failed task's coroutine, at the index `co`. Writes an error to standard error, unless it is the task's
    /// own error, at the index `error`.
    pub(super) fn close_failed(self: &Rc<Self>, call: &mut Call<'_>, co: i32, error: i32) -> Result<(), Fault> {
        if !self.threads.close(call, co)? {
            let index = call.count();
            if !call.is_same(index, error) {
                self.log_error(call, "error while closing a task: ", index);
            }
        }
        Ok(())
    }

    /// Notifies the host that a task with a session will not return.
    pub(super) fn notify_killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag) {
        if tag.session != 0
            && let Some(host) = self.host()
        {
            host.killed(call, id, tag);
        }
    }

    /// Writes `what` and the value at `index` to standard error, if there is enough memory.
    #[cold]
    pub(super) fn log_error(self: &Rc<Self>, call: &mut Call<'_>, what: &'static str, index: i32) {
        let height = call.count();
        if let Ok(function) = call.push(TO_TEXT)
            && call.push(Argument(index)).is_ok()
            && let Ok(true) = self.threads.call(call, 1)
        {
            write_line(what, call.string(function).unwrap_or_default());
        }
        call.drop_to(height);
    }
}

fn write_line(what: &str, text: &[u8]) {
    let line = [b"lio: ", what.as_bytes(), text, b"\n"].concat();
    // A failed write cannot be reported anywhere.
    let _ = std::io::stderr().write_all(&line);
}

/// `(module, error, co)`: calls the module's `on_error`.
fn call_on_error(call: &mut Call<'_>) -> Result<Next, Fault> {
    let function = call.raw_field(1, "on_error")?;
    if call.is_none(function) {
        if call.kind(1) != Kind::Table {
            return Ok(Next::returns(()));
        }
        // A lazy module gets its `on_error` when a program first reads it. Until then, the default is called.
        call.push(ON_ERROR)?;
    }
    call.push(Argument(2))?;
    call.push(Argument(3))?;
    Ok(Next::call(2, then(|_, _| Ok(())), 0))
}

/// `task.on_error(message [, co])`: called with the error of a failed task and, if the task's stack still exists, with
/// the task's coroutine. A program can replace this function to log elsewhere. The default writes the message and a
/// traceback to standard error.
pub(crate) const ON_ERROR: Function = Function::new(on_error);

fn on_error(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.push(ERROR_TEXT)?;
    call.push(Argument(1))?;
    Ok(Next::call(1, then(write_error), 0))
}

fn write_error(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    let text = match call.coroutine(2) {
        Some(_) => call.create(ThreadTraceback { of: 2, message: outcome.first })?,
        None => outcome.first,
    };
    write_line("", call.string(text).unwrap_or_default());
    Ok(())
}
