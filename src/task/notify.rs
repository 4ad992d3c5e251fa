//! Who is told what becomes of tasks: the functions of `on_abandon`, `on_end` and `on_error`, a host, or standard error.

use super::Tasks;
use super::entry::{Reason, Tag, TaskId};
use crate::lua::{
    Argument, Call, Coroutine, ERROR_TEXT, Fault, Function, Kind, Next, Outcome, TO_TEXT, ThreadTraceback, then,
};
use std::io::Write;
use std::rc::Rc;

/// What is kept: the module, whose `on_error` is called; the functions of `on_abandon` and of `on_end`.
pub(super) const MODULE: u8 = 0;
pub(super) const ABANDON: u8 = 1;
pub(super) const END: u8 = 2;

/// What the tasks of services are for. Nothing here may raise; it runs outside of the task, which has ended already.
pub(crate) trait Host {
    /// A task with a session returned: so many results are on the stack of its coroutine. They are dropped afterwards.
    fn finished(&self, call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32, tag: Tag);
    /// A task, with a session or not, raised: the indexes of its coroutine, whose frames are there still, and of the
    /// error.
    fn failed(&self, call: &mut Call<'_>, co: i32, error: i32, tag: Tag);
    /// A task with a session was killed, or its coroutine closed by a program, before it returned.
    fn killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag);
    /// A wait on a session is off that was for this.
    fn cancelled(&self, call: &mut Call<'_>, reason: Reason);
}

impl Tasks {
    /// Sets the function of `on_abandon`, at `index`: it is called with the token when a wait ends without what it waited
    /// for.
    pub(crate) fn set_on_abandon(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.keep(call, ABANDON, index)
    }

    /// Sets the function of `on_end`, at `index`: it is called with the coroutine of a task that fails, or ends and is
    /// watched.
    pub(crate) fn set_on_end(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.keep(call, END, index)
    }

    /// Sets the table, at `index`, whose function `on_error` is called with the error and the coroutine of a task that
    /// fails.
    pub(crate) fn set_module(&self, call: &mut Call<'_>, index: i32) -> Result<(), Fault> {
        self.threads.keep(call, MODULE, index)
    }

    /// The end of the running task is one that `on_end` is told of.
    pub(crate) fn watch_end(&self) {
        if let Some(id) = self.current() {
            self.books.borrow_mut().task_mut(id).watched = true;
        }
    }

    /// The wait on the value at `index` has ended without its waker, or cannot begin.
    #[cold]
    pub(crate) fn abandon(self: &Rc<Self>, call: &mut Call<'_>, index: i32) {
        self.call_kept(call, ABANDON, index, "error in on_abandon: ");
    }

    /// Calls the function of `on_end` if it is to be told of this task, whose coroutine is still there.
    #[inline]
    pub(super) fn tell_end(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        if self.books.borrow().task(id).watched {
            self.tell_watched(call, id);
        }
    }

    #[cold]
    fn tell_watched(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let own = {
            let task = &mut self.books.borrow_mut().tasks[id as usize];
            task.watched = false;
            task.own
        };
        let height = call.count();
        if let Ok(index) = self.threads.push(call, own) {
            self.call_on_end(call, index);
        }
        call.drop_to(height);
    }

    /// The same for the coroutine at `index`.
    #[cold]
    pub(super) fn call_on_end(self: &Rc<Self>, call: &mut Call<'_>, index: i32) {
        self.call_kept(call, END, index, "error in on_end: ");
    }

    /// Calls a function that is kept with the value at `index`. There is no better place for an error in it than the log,
    /// and none for a lack of memory.
    fn call_kept(self: &Rc<Self>, call: &mut Call<'_>, number: u8, index: i32, what: &'static str) {
        let height = call.count();
        if let Ok(function) = self.threads.push_kept(call, number)
            && !matches!(call.kind(function), Kind::Nil | Kind::Boolean)
            && call.push(Argument(index)).is_ok()
            && let Ok(false) = self.threads.call(call, 1)
        {
            self.complain(call, what, function);
        }
        call.drop_to(height);
    }

    /// Calls `on_error` with the values at two indexes, an error and a coroutine.
    pub(super) fn tell_error(self: &Rc<Self>, call: &mut Call<'_>, error: i32, co: i32) -> Result<(), Fault> {
        let height = call.count();
        let function = call.push(Function::new(call_on_error))?;
        self.threads.push_kept(call, MODULE)?;
        call.push(Argument(error))?;
        call.push(Argument(co))?;
        if !self.threads.call(call, 3)? {
            self.complain(call, "error in on_error: ", function);
        }
        call.drop_to(height);
        Ok(())
    }

    /// Closes the coroutine of a failed task, at `co`, which raised the error at `error`.
    pub(super) fn close_failed(self: &Rc<Self>, call: &mut Call<'_>, co: i32, error: i32) -> Result<(), Fault> {
        if !self.threads.close(call, co)? {
            let index = call.count();
            if !call.is_same(index, error) {
                self.complain(call, "error while closing a task: ", index);
            }
        }
        Ok(())
    }

    /// Tells the host that a task with a session will not return.
    pub(super) fn tell_killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag) {
        if tag.session != 0
            && let Some(host) = self.host()
        {
            host.killed(call, id, tag);
        }
    }

    /// Runs `f` with no limit to the VM's memory.
    pub(super) fn without_limit<R>(&self, call: &mut Call<'_>, f: impl FnOnce(&mut Call<'_>) -> R) -> R {
        let limit = call.memory().map(|memory| memory.set_limit(0));
        let result = f(call);
        if let (Some(memory), Some(limit)) = (call.memory(), limit) {
            memory.set_limit(limit);
        }
        result
    }

    /// Writes `what` and the value at `index` to standard error, if there is memory for that.
    #[cold]
    pub(super) fn complain(self: &Rc<Self>, call: &mut Call<'_>, what: &'static str, index: i32) {
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
    // There is nowhere to complain of a failure.
    let _ = std::io::stderr().write_all(&line);
}

/// `(module, error, co)`: calls the module's `on_error`.
fn call_on_error(call: &mut Call<'_>) -> Result<Next, Fault> {
    let function = call.raw_field(1, "on_error")?;
    if call.is_none(function) {
        if call.kind(1) != Kind::Table {
            return Ok(Next::returns(()));
        }
        // It comes into the table when it is used first.
        call.push(ON_ERROR)?;
    }
    call.push(Argument(2))?;
    call.push(Argument(3))?;
    Ok(Next::call(2, then(|_, _| Ok(())), 0))
}

/// `task.on_error(message [, co])`: called with the error of a task that raised, and its coroutine, if that still has its
/// stack. Another function in its place logs elsewhere. This one writes message and traceback to standard error.
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
