//! Wakeups: values are moved to the coroutine of a waiting task, and the task is queued or resumed.

use super::Tasks;
use super::entry::{Phase, Reason, TaskId};
use super::token::Token;
use crate::lua::{Full, Plain, Stack};

/// How a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The wait returns the values.
    Returns,
    /// The wait raises the value.
    Raises,
}

impl Tasks {
    /// Moves the topmost `count` values of the step's stack to the coroutine of a task that was acquired, or taken from
    /// its wait.
    #[inline]
    pub(crate) fn move_values(&self, stack: &mut Stack, id: TaskId, count: i32) -> Result<(), Full> {
        let front = self.table.borrow().task(id).front();
        self.threads.move_to(stack, front, count)
    }

    /// Queues a task that `take_waiter` has returned, with the `values` values that were moved to it.
    #[inline]
    pub(crate) fn wake(&self, id: TaskId, values: i32, ending: Ending) {
        let raises = ending == Ending::Raises;
        self.table.borrow_mut().enqueue(id, Phase::Woken { values, raises });
    }

    /// Wakes the task that waits on the token, with the topmost `count` values of the step's stack. Returns whether a
    /// task was waiting.
    #[inline]
    pub(crate) fn wakeup(&self, stack: &mut Stack, token: Token, count: i32, ending: Ending) -> Result<bool, Full> {
        let taken = self.table.borrow_mut().take_waiter(token);
        let Some(id) = taken else { return Ok(false) };
        if let Err(full) = self.move_values(stack, id, count) {
            self.table.borrow_mut().wait_again(id);
            return Err(full);
        }
        self.wake(id, count, ending);
        Ok(true)
    }

    /// Wakes the task that waits on the token, with one value that needs no allocation. Returns false if no task was
    /// waiting, or if its stack is full.
    #[inline]
    pub(crate) fn wakeup_with(&self, token: Token, value: impl Plain) -> bool {
        let table = &mut *self.table.borrow_mut();
        let Some(id) = table.waiting.remove(token) else { return false };
        let task = table.task(id);
        let is_whole = if task.chain.is_empty() { task.untouched > 0 } else { table.is_suspended(id) };
        // If the task has no chain, `push_to` checks that its coroutine is suspended.
        let done = is_whole && self.threads.push_to(table.task(id).front(), value);
        match done {
            true => {
                table.keep_strong(id);
                table.enqueue(id, Phase::Woken { values: 1, raises: false });
            }
            false => table.restore_wait(id),
        }
        done
    }

    /// Returns the first task, from the id `first` on, that waits for a response from `service`, and the session of its
    /// request.
    pub(crate) fn next_call_to(&self, first: TaskId, service: u32) -> Option<(TaskId, i64)> {
        let table = self.table.borrow();
        let mut tasks = table.tasks.iter().enumerate().skip(first as usize);
        tasks.find_map(|(id, task)| match (task.token, task.phase) {
            (Token::Session(session), Phase::Waiting { .. }) if task.reason == Reason::Call(service) => {
                Some((id as TaskId, session))
            }
            _ => None,
        })
    }
}
