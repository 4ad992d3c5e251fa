//! Wakeups: values are moved to the coroutine that waits, which is queued or resumed.

use super::Tasks;
use super::books::{Phase, Reason, TaskId};
use super::token::Token;
use crate::lua::{Full, Plain, Stack};

/// How a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It returns the values.
    Returns,
    /// It raises the value.
    Raises,
}

impl Tasks {
    /// Takes out the task that waits on a token. The caller hands values over, and queues or resumes it.
    #[inline]
    pub(crate) fn take_waiter(&self, token: Token) -> Option<TaskId> {
        let books = &mut *self.books.borrow_mut();
        let id = books.waiting.remove(token)?;
        if !books.is_suspended(id) {
            books.lose(id);
            return None;
        }
        books.hold(id);
        books.task_mut(id).phase = Phase::Taken;
        Some(id)
    }

    /// Lets a task wait again that `take_waiter` gave.
    #[cold]
    pub(crate) fn put_back(&self, id: TaskId) {
        let books = &mut *self.books.borrow_mut();
        let (token, cycle) = (books.task(id).token, books.cycle);
        books.waiting.insert(token, id);
        books.task_mut(id).phase = Phase::Waiting { cycle, weak: false };
    }

    /// Moves the topmost `count` values of the step's stack to the coroutine of a task that was acquired or taken.
    #[inline]
    pub(crate) fn hand_over(&self, stack: &mut Stack, id: TaskId, count: i32) -> Result<(), Full> {
        let front = self.books.borrow().task(id).front();
        self.threads.hand_over(stack, front, count)
    }

    /// Queues a task that `take_waiter` gave, with `values` values that were handed over.
    #[inline]
    pub(crate) fn wake(&self, id: TaskId, values: i32, ending: Ending) {
        let raises = ending == Ending::Raises;
        self.books.borrow_mut().queue(id, Phase::Woken { values, raises });
    }

    /// Wakes the task that waits on the token with the topmost `count` values of the step's stack. → whether one did
    #[inline]
    pub(crate) fn wakeup(&self, stack: &mut Stack, token: Token, count: i32, ending: Ending) -> Result<bool, Full> {
        let Some(id) = self.take_waiter(token) else {
            return Ok(false);
        };
        if let Err(full) = self.hand_over(stack, id, count) {
            self.put_back(id);
            return Err(full);
        }
        self.wake(id, count, ending);
        Ok(true)
    }

    /// The same with one value that takes no memory. → whether a task did, whose stack could take it
    #[inline]
    pub(crate) fn wakeup_with(&self, token: Token, value: impl Plain) -> bool {
        let Some(id) = self.take_waiter(token) else {
            return false;
        };
        let front = self.books.borrow().task(id).front();
        if self.threads.hand_over_plain(front, value).is_err() {
            self.put_back(id);
            return false;
        }
        self.wake(id, 1, Ending::Returns);
        true
    }

    /// The session of a task that waits for an answer of `service`, of those from `first` on; with the task.
    pub(crate) fn next_call_to(&self, first: TaskId, service: u32) -> Option<(TaskId, i64)> {
        let books = self.books.borrow();
        let mut tasks = books.tasks.iter().enumerate().skip(first as usize);
        tasks.find_map(|(id, task)| match (task.token, task.phase) {
            (Token::Session(session), Phase::Waiting { .. }) if task.reason == Reason::Call(service) => {
                Some((id as TaskId, session))
            }
            _ => None,
        })
    }
}
