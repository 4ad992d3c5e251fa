//! Waits inside coroutines that a program made: how they reach the scheduler, and how the coroutines go on.
//!
//! A `resume` of `lio.coroutine` is a plain nested `lua_resume`, and the core knows which coroutine resumes which. When
//! the innermost one waits, they become the task's *chain*, the innermost its *front*. Each `resume` on the C stack then
//! yields in turn, until the scheduler has the thread back. From then on the chain is flat: a wakeup resumes the front
//! directly, and what it yields, returns or raises is handed to the next coroutine outwards, which is suspended in its
//! `resume` and goes on with it. A `resume` that comes later nests again.
//!
//! So a program that never waits inside its coroutines pays for one link per resume, the first wait costs one yield and
//! one anchor per level, and further waits of the front cost nothing per level.
//!
//! A program may close or resume a member by the plain library of a stock interpreter. So a chain counts as far as each
//! member, from the task's own inwards, is suspended; the first that is not ends it, and the one that resumed that goes
//! on with an error.

use super::Tasks;
use super::books::Books;
use super::entry::TaskId;
use crate::lua::{Coroutine, Light, Resumed, Stack};

/// The most coroutines in a chain. Lua's own limit of some 200 nested calls of C does not count what waited.
pub(super) const MOST: usize = 10_000;

/// Why a `resume` that is suspended goes on with false and a message.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    /// The coroutine that it resumed was closed while it waited.
    Closed,
    /// The plain library has resumed that coroutine.
    Taken,
    TooMany,
}

/// A byte for each refusal: its address stands for the message until there is a stack on which that may be made.
/// A static, as the address of a constant is not always the same.
static MARKS: [u8; 3] = [0; 3];

impl Refusal {
    const ALL: [Refusal; 3] = [Refusal::Closed, Refusal::Taken, Refusal::TooMany];

    fn mark(self) -> Light {
        Light((&raw const MARKS[self as usize]).addr())
    }

    fn text(self) -> &'static str {
        match self {
            Refusal::Closed => "coroutine was closed",
            Refusal::Taken => "coroutine was resumed by somebody else while it waited",
            Refusal::TooMany => "too many results to resume",
        }
    }
}

/// The message for which a mark lies at `index`.
pub(crate) fn refusal_at(stack: &Stack, index: i32) -> Option<&'static str> {
    let mark = stack.light(index)?;
    let why = Refusal::ALL.into_iter().find(|why| why.mark() == mark)?;
    Some(why.text())
}

impl Tasks {
    /// The front of a severed task, which is suspended in `resume`, is to go on with false and `why`. → how many values
    /// that are; `None` when there is none
    #[cold]
    pub(super) fn tell_front(&self, id: TaskId, why: Refusal) -> Option<i32> {
        let books = &mut *self.books.borrow_mut();
        let kept = books.intact(id);
        books.cut_off(id, kept);
        match kept {
            0 => None,
            _ => self.refuse_resume(books.task(id).front(), why),
        }
    }

    /// Puts false and a mark on a coroutine that is suspended in `resume`.
    fn refuse_resume(&self, front: Coroutine, why: Refusal) -> Option<i32> {
        let told = self.threads.hand_over_plain(front, false) && self.threads.hand_over_plain(front, why.mark());
        told.then_some(2)
    }

    /// The front yielded (not in a wait), returned or raised: its results, or the error, go to the next one outwards,
    /// which becomes the front. → how many values that are; `None` when there is none
    pub(super) fn hand_up(&self, id: TaskId, resumed: Resumed) -> Option<i32> {
        let books = &mut *self.books.borrow_mut();
        let child = books.task(id).front();
        let outer = books.task(id).members().len() - 1;
        let kept = books.intact_outer(id);
        let (ok, count) = match resumed {
            Resumed::Yielded(results) | Resumed::Returned(results) => (true, results),
            Resumed::Failed => (false, 1),
        };
        let mut passed = None;
        if kept == outer && outer > 0 {
            let front = books.task(id).members()[outer - 1];
            passed = match self.pass_up(child, front, ok, count) {
                Some(count) => Some(count),
                None => {
                    self.threads.drop_values(child, count);
                    self.refuse_resume(front, Refusal::TooMany)
                }
            };
        }
        books.cut_off(id, kept);
        match kept {
            0 => None,
            _ if kept < outer => self.refuse_resume(books.task(id).front(), Refusal::Taken),
            _ => passed,
        }
    }

    fn pass_up(&self, child: Coroutine, front: Coroutine, ok: bool, count: i32) -> Option<i32> {
        if !self.threads.hand_over_plain(front, ok) {
            return None;
        }
        match self.threads.pass(child, front, count) {
            Ok(()) => Some(count + 1),
            Err(_) => {
                self.threads.drop_values(front, 1);
                None
            }
        }
    }
}

impl Books {
    /// How many of a task's coroutines outside of its front are as they must be.
    fn intact_outer(&self, id: TaskId) -> usize {
        let task = self.task(id);
        let outer = &task.members()[..task.members().len() - 1];
        let untouched = outer.len().min(task.untouched as usize);
        self.threads.count_suspended(&outer[..untouched])
    }

    /// The member number `place` of a task that does not run is about to be closed, with those inside of it.
    pub(super) fn sever(&mut self, id: TaskId, place: usize) {
        use super::entry::Phase;
        self.cut_off(id, place);
        let was_queued = self.task(id).phase.is_queued();
        self.task_mut(id).phase = Phase::Severed;
        if !was_queued {
            self.queue.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_mark_of_its_own() {
        let [closed, taken, many] = Refusal::ALL.map(Refusal::mark);
        assert!(closed != taken && taken != many && closed != many);
    }
}
