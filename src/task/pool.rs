//! Free coroutines. A task that returned leaves its coroutine with an empty stack, on which the next function is
//! resumed. Up to `MOST` are kept. Every `ROUNDS` rounds of the run queue, half of those that no round needed since the
//! last review are left to the collector, down to `KEPT`.

use super::books::{Phase, TaskId};
use super::{Books, Tasks};
use crate::lua::{Call, Fault};

/// The most free coroutines that are kept; about 1 KiB each.
const MOST: usize = 32 * 1024;
/// So many are never let go.
const KEPT: usize = 16;
/// How many rounds of the run queue lie between two reviews.
const ROUNDS: u32 = 256;

/// The free coroutines.
#[derive(Default)]
pub(super) struct Pool {
    free: Vec<TaskId>,
    /// Numbers without a coroutine.
    pub(super) vacant: Vec<TaskId>,
    /// The fewest that were free since the last review.
    low: usize,
    rounds: u32,
    pub(super) created: u64,
}

impl Tasks {
    /// A coroutine for a task, with an empty stack: a free one, or a new one. It is no task yet.
    #[inline]
    pub(crate) fn acquire(&self, call: &mut Call<'_>) -> Result<TaskId, Fault> {
        let books = &mut *self.books.borrow_mut();
        while let Some(id) = books.pool.free.pop() {
            books.pool.low = books.pool.low.min(books.pool.free.len());
            if self.threads.is_unused(books.task(id).own) {
                books.task_mut(id).phase = Phase::Acquired;
                return Ok(id);
            }
            books.discard(id);
        }
        self.grow(call, books)
    }

    #[cold]
    fn grow(&self, call: &mut Call<'_>, books: &mut Books) -> Result<TaskId, Fault> {
        let count = 1 + (books.pool.created / 8).min(512) as usize;
        // Nothing of Lua's runs meanwhile.
        let made = self.threads.create(call, count)?;
        for &own in &made[1..] {
            let id = books.enter(own);
            books.keep(id);
        }
        Ok(books.enter(made[0]))
    }

    /// Pushes the own coroutine of a task. → its index
    pub(crate) fn push_own(&self, call: &mut Call<'_>, id: TaskId) -> Result<i32, Fault> {
        let own = {
            let books = &mut *self.books.borrow_mut();
            books.hold(id);
            books.task(id).own
        };
        self.threads.push(call, own)
    }

    /// Gives a coroutine of `acquire` back.
    #[cold]
    pub(crate) fn release(&self, id: TaskId) {
        let books = &mut *self.books.borrow_mut();
        self.threads.clear(books.task(id).own);
        books.keep(id);
    }

    /// Counts a round of the run queue, and now and then lets coroutines go.
    #[inline]
    pub(super) fn end_round(&self) {
        let books = &mut *self.books.borrow_mut();
        books.pool.rounds += 1;
        if books.pool.rounds >= ROUNDS {
            books.review();
        }
    }
}

impl Books {
    /// Keeps the coroutine of a task that returned, whose stack is empty.
    #[inline]
    pub(super) fn keep(&mut self, id: TaskId) {
        self.task_mut(id).phase = Phase::Pooled;
        match self.pool.free.len() < MOST {
            true => self.pool.free.push(id),
            false => self.discard(id),
        }
    }

    #[cold]
    fn review(&mut self) {
        let pool = &mut self.pool;
        pool.rounds = 0;
        // The list is a stack: what was not needed lies at its bottom.
        let surplus = pool.low.saturating_sub(KEPT).div_ceil(2);
        let gone: Vec<TaskId> = pool.free.drain(..surplus).collect();
        pool.low = pool.free.len();
        for id in gone {
            self.discard(id);
        }
    }
}
