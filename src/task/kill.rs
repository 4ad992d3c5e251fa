//! Ends of tasks that are no return: kills, and coroutines that a program closes. A chain is closed from the innermost
//! outwards, as a stack would be unwound.

use super::Tasks;
use super::entry::{Phase, TaskId};
use super::token::Token;
use crate::lua::{Call, Fault, Identity};
use std::rc::Rc;

/// What became of a task that was to be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    Yes,
    /// Its own coroutine raised an error meanwhile, which was pushed.
    Raised,
    /// It runs, or is in the middle of a call.
    Running,
    /// It was none.
    NoTask,
}

/// Where an error goes that a task's own coroutine raises when it is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Errors {
    /// It is pushed.
    Caller,
    /// It is written to standard error.
    Log,
}

impl Tasks {
    /// Kills the task whose own coroutine is at `index`: takes it out of the books, then closes its coroutines from the
    /// innermost outwards, which runs the `<close>` variables. Errors of those are written to standard error.
    pub(crate) fn kill(self: &Rc<Self>, call: &mut Call<'_>, index: i32) -> Result<Ended, Fault> {
        self.end_task(call, index, Errors::Log)
    }

    fn end_task(self: &Rc<Self>, call: &mut Call<'_>, index: i32, errors: Errors) -> Result<Ended, Fault> {
        let Some(own) = call.coroutine(index) else { return Ok(Ended::NoTask) };
        let Some(id) = self.living(own) else { return Ok(Ended::NoTask) };
        if !self.is_idle(id) {
            return Ok(Ended::Running);
        }
        let height = call.count();
        let last = self.push_members(call, id, 0)?;
        let token = self.push_token(call, id)?;
        let (tag, watched) = {
            let books = &mut *self.books.borrow_mut();
            let (tag, watched) = (books.task(id).tag, books.task(id).watched);
            self.cancel(call, books, id);
            books.uncount(id);
            books.discard(id);
            (tag, watched)
        };
        self.tell_killed(call, id, tag);
        if token {
            self.abandon(call, last + 1);
        }
        call.drop_to(last);
        let hear = (errors == Errors::Caller).then_some(own);
        // What is innermost was pushed last.
        let raised = self.close_members(call, height + 1, last, hear);
        if watched {
            self.call_on_end(call, index);
        }
        match raised {
            true => {
                call.replace_with_top(height + 1);
                Ok(Ended::Raised)
            }
            false => {
                call.drop_to(height);
                Ok(Ended::Yes)
            }
        }
    }

    /// Closes the coroutines at `first` to `last`, the last one first. → whether `hear` raised an error, which is on top;
    /// others are written to standard error
    fn close_members(self: &Rc<Self>, call: &mut Call<'_>, first: i32, last: i32, hear: Option<Identity>) -> bool {
        for member in (first..=last).rev() {
            let height = call.count();
            // For want of memory, it is left to the collector.
            if let Ok(false) = self.close_any(call, member) {
                if hear.is_some() && call.coroutine(member) == hear {
                    return true;
                }
                let error = call.count();
                self.complain(call, "error while closing a task: ", error);
            }
            call.drop_to(height);
        }
        false
    }

    /// Closes the coroutine at `index`, also one of a task, as `coroutine.close` does. → whether it raised nothing; else
    /// the error is pushed
    pub(crate) fn close_any(self: &Rc<Self>, call: &mut Call<'_>, index: i32) -> Result<bool, Fault> {
        let member = call.coroutine(index).and_then(|co| self.member_of(co));
        let Some(id) = member else { return self.threads.close(call, index) };
        match self.end_task(call, index, Errors::Caller)? {
            Ended::Yes => Ok(true),
            Ended::Raised => Ok(false),
            Ended::NoTask if self.is_idle(id) => self.close_member(call, id, index),
            _ => {
                call.create("cannot close a normal coroutine")?;
                Ok(false)
            }
        }
    }

    /// Closes a coroutine inside of a waiting task's own, at `index`, and what it is resuming: the wait is off, and the
    /// one that was resuming it goes on with an error. → as for `close_any`
    fn close_member(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, index: i32) -> Result<bool, Fault> {
        let height = call.count();
        let thread = call.coroutine(index);
        let place = thread.and_then(|co| self.books.borrow().place_of(id, co));
        let place = place.unwrap_or(1);
        let last = self.push_members(call, id, place)?;
        let token = self.push_token(call, id)?;
        {
            let books = &mut *self.books.borrow_mut();
            self.cancel(call, books, id);
            books.sever(id, place);
        }
        if token {
            self.abandon(call, last + 1);
        }
        call.drop_to(last);
        if self.close_members(call, height + 1, last, thread) {
            call.replace_with_top(height + 1);
            return Ok(false);
        }
        call.drop_to(height);
        Ok(true)
    }

    /// Pushes the coroutines of a task from the number `first` inwards. → the index of the last
    pub(super) fn push_members(&self, call: &mut Call<'_>, id: TaskId, first: usize) -> Result<i32, Fault> {
        let books = &mut *self.books.borrow_mut();
        books.hold(id);
        for &co in books.task(id).members().iter().skip(first) {
            self.threads.push(call, co)?;
        }
        Ok(call.count())
    }

    /// Pushes the token of a task's wait that is not over, or whose end it has not seen. → whether there is one
    fn push_token(&self, call: &mut Call<'_>, id: TaskId) -> Result<bool, Fault> {
        let books = self.books.borrow();
        let task = books.task(id);
        let waits = matches!(task.phase, Phase::Waiting { .. } | Phase::Woken { raises: false, .. });
        if !waits || matches!(task.token, Token::Session(_)) {
            return Ok(false);
        }
        let pushed = self.threads.first_value(call, task.front());
        pushed.map_err(|_| Fault::message("not enough memory"))?;
        Ok(true)
    }

    /// A task that is about to be closed waits no more.
    fn cancel(&self, call: &mut Call<'_>, books: &mut super::Books, id: TaskId) {
        let task = books.task(id);
        if let (Phase::Waiting { .. }, Token::Session(_)) = (task.phase, task.token)
            && let Some(host) = self.host()
        {
            host.cancelled(call, task.reason);
        }
        books.end_wait(id);
    }

    /// Kills every task but the running one, and those that they fork while they end.
    pub(crate) fn kill_all(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        let height = call.count();
        loop {
            let mut again = false;
            let mut id = 0;
            // What the tasks' ends run may change the books, so each step looks anew.
            while let Some(own) = self.living_own(&mut id) {
                let index = self.threads.push(call, own)?;
                let ended = self.kill(call, index)?;
                again |= ended == Ended::Yes;
                call.drop_to(height);
            }
            if !again {
                return Ok(());
            }
        }
    }

    /// The coroutine of the first living task from `next` on, which is set behind it.
    pub(crate) fn living_own(&self, next: &mut TaskId) -> Option<crate::lua::Coroutine> {
        let books = &mut *self.books.borrow_mut();
        while (*next as usize) < books.tasks.len() {
            let id = *next;
            *next += 1;
            if books.is_living(id) {
                books.hold(id);
                return Some(books.task(id).own);
            }
        }
        None
    }
}
