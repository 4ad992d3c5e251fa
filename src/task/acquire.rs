//! Taking coroutines for tasks from the pool, and returning them.

use super::Tasks;
use super::entry::{Phase, TaskId};
use super::table::TaskTable;
use crate::lua::{Call, Fault};

impl Tasks {
    /// Returns the id of a new task, which has a free or a new coroutine with an empty stack. The task has not started
    /// yet.
    #[inline]
    pub(crate) fn acquire(&self, call: &mut Call<'_>) -> Result<TaskId, Fault> {
        let table = &mut *self.table.borrow_mut();
        while let Some(id) = table.pool.take() {
            if self.threads.is_unused(table.task(id).own) {
                table.task_mut(id).phase = Phase::Acquired;
                return Ok(id);
            }
            table.discard(id);
        }
        self.create_coroutines(call, table)
    }

    /// Creates a coroutine for the new task, and further ones for the pool. The more coroutines were created before,
    /// the more are created at once.
    #[cold]
    fn create_coroutines(&self, call: &mut Call<'_>, table: &mut TaskTable) -> Result<TaskId, Fault> {
        let count = 1 + (table.pool.created / 8).min(512) as usize;
        // No Lua code runs here, so `table` can stay borrowed.
        let made = self.threads.create(call, count)?;
        for &own in &made[1..] {
            let id = table.add(own);
            table.return_to_pool(id);
        }
        Ok(table.add(made[0]))
    }

    /// Pushes a task's own coroutine. Returns the coroutine's index.
    pub(crate) fn push_own(&self, call: &mut Call<'_>, id: TaskId) -> Result<i32, Fault> {
        let own = {
            let table = &mut *self.table.borrow_mut();
            table.keep_strong(id);
            table.task(id).own
        };
        self.threads.push(call, own)
    }

    /// Clears the coroutine of an unstarted task, and returns the coroutine to the pool.
    #[cold]
    pub(crate) fn release(&self, id: TaskId) {
        let table = &mut *self.table.borrow_mut();
        self.threads.clear(table.task(id).own);
        table.return_to_pool(id);
    }

    /// Counts a round of the ready queue, and releases unneeded coroutines from time to time.
    #[inline]
    pub(super) fn end_round(&self) {
        let table = &mut *self.table.borrow_mut();
        if table.pool.count_round() {
            for id in table.pool.review() {
                table.discard(id);
            }
        }
    }
}

impl TaskTable {
    /// Returns the coroutine of a task to the pool, or releases the coroutine if the pool is full. The coroutine's
    /// stack must be empty.
    #[inline]
    pub(super) fn return_to_pool(&mut self, id: TaskId) {
        self.task_mut(id).phase = Phase::Pooled;
        if !self.pool.put(id) {
            self.discard(id);
        }
    }
}
