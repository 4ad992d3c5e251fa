//! Killing tasks, and closing coroutines of tasks. A chain is closed from the innermost coroutine outwards, as a stack
//! would be unwound.

use super::Tasks;
use super::entry::{Phase, TaskId};
use super::token::Token;
use crate::lua::{Call, Fault, Identity};
use std::rc::Rc;

/// The result of ending a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KillResult {
    Killed,
    /// The task was killed. Its own coroutine raised an error when it was closed; the error was pushed.
    Raised,
    /// The task was not killed, because it is running or in the middle of a call.
    Running,
    /// The coroutine belongs to no task.
    NoTask,
}

/// Where to report an error that a task's own coroutine raises when it is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorSink {
    /// Push the error.
    Caller,
    /// Write the error to standard error.
    Log,
}

impl Tasks {
    /// Kills the task whose own coroutine is at `index`: removes it from the task table, then closes its coroutines
    /// from the innermost outwards, which closes their `<close>` variables. Errors that are raised while the coroutines
    /// are closed are written to standard error.
    pub(crate) fn kill(self: &Rc<Self>, call: &mut Call<'_>, index: i32) -> Result<KillResult, Fault> {
        self.end_task(call, index, ErrorSink::Log)
    }

    /// Kills a task like `kill`, but reports an error in the task's own coroutine according to `errors`.
    fn end_task(self: &Rc<Self>, call: &mut Call<'_>, index: i32, errors: ErrorSink) -> Result<KillResult, Fault> {
        let Some(own) = call.coroutine(index) else { return Ok(KillResult::NoTask) };
        let Some(id) = self.alive_task(own) else { return Ok(KillResult::NoTask) };
        if !self.is_idle(id) {
            return Ok(KillResult::Running);
        }
        let height = call.count();
        let last = self.push_members(call, id, 0)?;
        let token = self.push_token(call, id)?;
        let (tag, watched) = {
            let table = &mut *self.table.borrow_mut();
            let (tag, watched) = (table.task(id).tag, table.task(id).watched);
            self.cancel(call, table, id);
            table.count_end(id);
            table.discard(id);
            (tag, watched)
        };
        self.notify_killed(call, id, tag);
        if token {
            self.abandon(call, last + 1);
        }
        let reported = (errors == ErrorSink::Caller).then_some(own);
        let raised = self.close_members(call, height, last, reported);
        if watched {
            self.call_on_end(call, index);
        }
        Ok(if raised { KillResult::Raised } else { KillResult::Killed })
    }

    /// Closes and drops the coroutines at the indexes above `height` up to `last`. The innermost one was pushed last
    /// and is closed first. Returns whether the coroutine `reported` raised an error. If so, the error is on top of the
    /// stack. Other errors are written to standard error.
    fn close_members(self: &Rc<Self>, call: &mut Call<'_>, height: i32, last: i32, reported: Option<Identity>) -> bool {
        for member in (height + 1..=last).rev() {
            call.drop_to(last);
            // If there is not enough memory to close the coroutine, the collector frees it.
            if let Ok(false) = self.close_any(call, member) {
                if reported.is_some() && call.coroutine(member) == reported {
                    call.replace_with_top(height + 1);
                    return true;
                }
                let error = call.count();
                self.log_error(call, "error while closing a task: ", error);
            }
        }
        call.drop_to(height);
        false
    }

    /// Closes the coroutine at `index` like `coroutine.close`, even if the coroutine belongs to a task. Returns true if
    /// closing it raised no error; otherwise pushes the error and returns false.
    pub(crate) fn close_any(self: &Rc<Self>, call: &mut Call<'_>, index: i32) -> Result<bool, Fault> {
        let member = call.coroutine(index).and_then(|co| self.member_of(co));
        let Some(id) = member else { return self.threads.close(call, index) };
        match self.end_task(call, index, ErrorSink::Caller)? {
            KillResult::Killed => Ok(true),
            KillResult::Raised => Ok(false),
            KillResult::NoTask if self.is_idle(id) => self.close_member(call, id, index),
            _ => {
                call.create("cannot close a normal coroutine")?;
                Ok(false)
            }
        }
    }

    /// Closes the coroutine at `index`, a nested coroutine of a waiting task, and the coroutines inside it. The wait is
    /// cancelled, and the coroutine that was resuming the closed one continues with an error. Returns the same as
    /// `close_any`.
    fn close_member(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, index: i32) -> Result<bool, Fault> {
        let height = call.count();
        let thread = call.coroutine(index);
        let position = thread.and_then(|co| self.table.borrow().position_in_chain(id, co));
        let position = position.unwrap_or(1);
        let last = self.push_members(call, id, position)?;
        let token = self.push_token(call, id)?;
        {
            let table = &mut *self.table.borrow_mut();
            self.cancel(call, table, id);
            table.sever(id, position);
        }
        if token {
            self.abandon(call, last + 1);
        }
        Ok(!self.close_members(call, height, last, thread))
    }

    /// Pushes the coroutines of a task, from position `first` to the innermost. Returns the stack index of the last
    /// one.
    pub(super) fn push_members(&self, call: &mut Call<'_>, id: TaskId, first: usize) -> Result<i32, Fault> {
        let table = &mut *self.table.borrow_mut();
        table.keep_strong(id);
        for &co in table.task(id).members().iter().skip(first) {
            self.threads.push(call, co)?;
        }
        Ok(call.count())
    }

    /// Pushes the token of a task that waits, or that was woken and has not continued yet. Returns false if there is no
    /// such token, or if it is a session.
    fn push_token(&self, call: &mut Call<'_>, id: TaskId) -> Result<bool, Fault> {
        let table = self.table.borrow();
        let task = table.task(id);
        let waits = matches!(task.phase, Phase::Waiting { .. } | Phase::Woken { raises: false, .. });
        if !waits || matches!(task.token, Token::Session(_)) {
            return Ok(false);
        }
        let pushed = self.threads.first_value(call, task.front());
        pushed.map_err(|_| Fault::message("not enough memory"))?;
        Ok(true)
    }

    /// Cancels the wait of a task that is about to be closed.
    fn cancel(&self, call: &mut Call<'_>, table: &mut super::TaskTable, id: TaskId) {
        let task = table.task(id);
        if let (Phase::Waiting { .. }, Token::Session(_)) = (task.phase, task.token)
            && let Some(host) = self.host()
        {
            host.cancelled(call, task.reason);
        }
        table.end_wait(id);
    }

    /// Kills all tasks except the running one. Tasks that are forked during the call are killed, too.
    pub(crate) fn kill_all(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        let height = call.count();
        loop {
            let mut again = false;
            let mut id = 0;
            // Code that runs when a task ends may change the task table, so each iteration searches again.
            while let Some(own) = self.next_alive(&mut id) {
                let index = self.threads.push(call, own)?;
                let ended = self.kill(call, index)?;
                again |= ended == KillResult::Killed;
                call.drop_to(height);
            }
            if !again {
                return Ok(());
            }
        }
    }

    /// Returns the coroutine of the first task that has not ended, from the id `next` on. Sets `next` to the following
    /// id.
    pub(crate) fn next_alive(&self, next: &mut TaskId) -> Option<crate::lua::Coroutine> {
        let table = &mut *self.table.borrow_mut();
        while (*next as usize) < table.tasks.len() {
            let id = *next;
            *next += 1;
            if table.is_alive(id) {
                table.keep_strong(id);
                return Some(table.task(id).own);
            }
        }
        None
    }
}
