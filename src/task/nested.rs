//! Waits inside coroutines that a program has created: how they reach the scheduler, and how the coroutines continue.
//!
//! A `resume` of `lio.coroutine` is a plain nested `lua_resume`, and the core records which coroutine resumes which.
//! When the innermost coroutine waits, all coroutines from the task's own to the innermost become the task's *chain*,
//! and the innermost one its *front*. Each `resume` on the C stack then yields in turn, until control returns to the
//! scheduler's thread. From then on the chain is flat: a wakeup resumes the front directly. The values that the front
//! yields or returns, or its error, are moved to the next coroutine outwards, which is suspended in its `resume` and
//! continues with them. A later `resume` nests again.
//!
//! So a program that never waits inside its coroutines pays only for recording one link per resume. The first wait
//! costs one yield and one anchor per level. Further waits of the front cost nothing per level.
//!
//! A program may close or resume a member with the plain coroutine library of a stock interpreter. Therefore a chain is
//! valid up to the first member, counted from the task's own coroutine inwards, that is not suspended. The coroutine
//! that was resuming that member continues with an error. `TaskTable::count_intact` counts the valid members.

use super::Tasks;
use super::entry::{Phase, TaskId};
use super::table::TaskTable;
use crate::lua::{Coroutine, Light, Resumed, Stack};

/// The maximum number of coroutines in a chain. Lua's own limit of about 200 nested C calls does not count coroutines
/// that have waited.
pub(super) const MAX_CHAIN: usize = 10_000;

/// Why a suspended `resume` returns false and a message.
#[derive(Clone, Copy)]
pub(super) enum ResumeError {
    /// The resumed coroutine was closed while it waited.
    Closed,
    /// The plain coroutine library has resumed the waiting coroutine.
    Taken,
    /// The stack of the resuming coroutine has no room for the results.
    TooMany,
}

/// One byte for each error. Its address represents the message until there is a stack on which the message can be
/// created. This is a static because the address of a constant is not unique.
static MARKS: [u8; 3] = [0; 3];

impl ResumeError {
    const ALL: [ResumeError; 3] = [ResumeError::Closed, ResumeError::Taken, ResumeError::TooMany];

    /// Returns the value that represents the error on a coroutine's stack.
    fn mark(self) -> Light {
        Light((&raw const MARKS[self as usize]).addr())
    }

    fn text(self) -> &'static str {
        match self {
            ResumeError::Closed => "coroutine was closed",
            ResumeError::Taken => "coroutine was resumed by other code while it waited",
            ResumeError::TooMany => "too many results to resume",
        }
    }
}

/// Returns the message for the mark at `index`; `None` if there is another value.
pub(crate) fn resume_error_at(stack: &Stack, index: i32) -> Option<&'static str> {
    let mark = stack.light(index)?;
    let error = ResumeError::ALL.into_iter().find(|error| error.mark() == mark)?;
    Some(error.text())
}

impl Tasks {
    /// Makes the front of a severed task, which is suspended in `resume`, continue with false and `error`. Returns the
    /// number of these values; `None` if no coroutine is left.
    #[cold]
    pub(super) fn fail_front(&self, id: TaskId, error: ResumeError) -> Option<i32> {
        let table = &mut *self.table.borrow_mut();
        let kept = table.count_intact(id);
        table.truncate_chain(id, kept);
        match kept {
            0 => None,
            _ => self.fail_resume(table.task(id).front(), error),
        }
    }

    /// Pushes false and a mark onto the stack of a coroutine that is suspended in `resume`. Returns the number of these
    /// values; `None` if the coroutine is in another state, or if its stack is full.
    fn fail_resume(&self, front: Coroutine, error: ResumeError) -> Option<i32> {
        let pushed = self.threads.push_to(front, false) && self.threads.push_to(front, error.mark());
        pushed.then_some(2)
    }

    /// Called when the front has returned, has failed, or has yielded outside a wait. Moves its results, or its error,
    /// to the next coroutine outwards, which becomes the front. Returns the number of values; `None` if no coroutine is
    /// left.
    pub(super) fn pass_outwards(&self, id: TaskId, resumed: Resumed) -> Option<i32> {
        let table = &mut *self.table.borrow_mut();
        let child = table.task(id).front();
        let outer = table.task(id).members().len() - 1;
        let kept = table.count_intact_outer(id);
        let (ok, count) = match resumed {
            Resumed::Yielded(results) | Resumed::Returned(results) => (true, results),
            Resumed::Failed => (false, 1),
        };
        let mut passed = None;
        if kept == outer && outer > 0 {
            let front = table.task(id).members()[outer - 1];
            passed = match self.transfer_outwards(child, front, ok, count) {
                Some(count) => Some(count),
                None => {
                    self.threads.drop_values(child, count);
                    self.fail_resume(front, ResumeError::TooMany)
                }
            };
        }
        table.truncate_chain(id, kept);
        match kept {
            0 => None,
            _ if kept < outer => self.fail_resume(table.task(id).front(), ResumeError::Taken),
            _ => passed,
        }
    }

    /// Pushes `ok` onto the stack of `front`, and moves the topmost `count` values of `child` there. Returns how many
    /// values `front` has received; `None` if its stack is full.
    fn transfer_outwards(&self, child: Coroutine, front: Coroutine, ok: bool, count: i32) -> Option<i32> {
        if !self.threads.push_to(front, ok) {
            return None;
        }
        match self.threads.move_between(child, front, count) {
            Ok(()) => Some(count + 1),
            Err(_) => {
                self.threads.drop_values(front, 1);
                None
            }
        }
    }
}

impl TaskTable {
    /// Counts like [`TaskTable::count_intact`], but without the front.
    fn count_intact_outer(&self, id: TaskId) -> usize {
        let task = self.task(id);
        let outer = &task.members()[..task.members().len() - 1];
        let untouched = outer.len().min(task.untouched as usize);
        self.threads.count_suspended(&outer[..untouched])
    }

    /// Removes the coroutine at `position`, and the coroutines inside it, from the chain of a task that does not run.
    /// The caller is about to close these coroutines.
    pub(super) fn sever(&mut self, id: TaskId, position: usize) {
        self.truncate_chain(id, position);
        self.enqueue_once(id, Phase::Severed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_own_mark() {
        let [closed, taken, many] = ResumeError::ALL.map(ResumeError::mark);
        assert!(closed != taken && taken != many && closed != many);
    }
}
