//! Taking coroutines for tasks from the pool, and returning them.

use super::Tasks;
use super::books::Books;
use super::entry::{Phase, TaskId};
use crate::lua::{Call, Fault};

impl Tasks {
    /// Returns a coroutine for a new task, with an empty stack: a free one, or a new one. The task has not begun yet.
    #[inline]
    pub(crate) fn acquire(&self, call: &mut Call<'_>) -> Result<TaskId, Fault> {
        let books = &mut *self.books.borrow_mut();
        while let Some(id) = books.pool.take() {
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
        // No Lua code runs meanwhile.
        let made = self.threads.create(call, count)?;
        for &own in &made[1..] {
            let id = books.enter(own);
            books.keep(id);
        }
        Ok(books.enter(made[0]))
    }

    /// Pushes the own coroutine of a task. Returns its index.
    pub(crate) fn push_own(&self, call: &mut Call<'_>, id: TaskId) -> Result<i32, Fault> {
        let own = {
            let books = &mut *self.books.borrow_mut();
            books.hold(id);
            books.task(id).own
        };
        self.threads.push(call, own)
    }

    /// Returns a coroutine of `acquire` to the pool.
    #[cold]
    pub(crate) fn release(&self, id: TaskId) {
        let books = &mut *self.books.borrow_mut();
        self.threads.clear(books.task(id).own);
        books.keep(id);
    }

    /// Counts a round of the ready queue, and releases unneeded coroutines from time to time.
    #[inline]
    pub(super) fn end_round(&self) {
        let books = &mut *self.books.borrow_mut();
        if books.pool.ends_rounds() {
            for id in books.pool.review() {
                books.discard(id);
            }
        }
    }
}

impl Books {
    /// Keeps the coroutine of a task that has returned. Its stack is empty.
    #[inline]
    pub(super) fn keep(&mut self, id: TaskId) {
        self.task_mut(id).phase = Phase::Pooled;
        if !self.pool.keep(id) {
            self.discard(id);
        }
    }
}
