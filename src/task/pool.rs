//! The pool of free coroutines. A task that returns leaves its coroutine with an empty stack, on which the next
//! function runs. At most `MAX_FREE` coroutines are kept. Every `ROUNDS` rounds of the ready queue, half of the
//! coroutines that no round has needed since the last review are released to the collector, until `MIN_FREE` are left.

use super::entry::TaskId;

/// The maximum number of free coroutines; about 1 KiB each.
const MAX_FREE: usize = 32 * 1024;
/// The number of free coroutines that are never released.
const MIN_FREE: usize = 16;
/// The number of rounds of the ready queue between two reviews.
const ROUNDS: u32 = 256;

/// The free coroutines.
#[derive(Default)]
pub(super) struct Pool {
    free: Vec<TaskId>,
    /// Ids without a task or a coroutine. New tasks get these ids first.
    pub(super) vacant: Vec<TaskId>,
    /// The lowest number of free coroutines since the last review.
    low: usize,
    rounds: u32,
    pub(super) created: u64,
}

impl Pool {
    /// Takes the coroutine that was returned last.
    #[inline]
    pub(super) fn take(&mut self) -> Option<TaskId> {
        let id = self.free.pop()?;
        self.low = self.low.min(self.free.len());
        Some(id)
    }

    /// Adds a coroutine, unless the pool is full. Returns whether it was added.
    #[inline]
    pub(super) fn put(&mut self, id: TaskId) -> bool {
        let has_room = self.free.len() < MAX_FREE;
        if has_room {
            self.free.push(id);
        }
        has_room
    }

    /// Counts a round of the ready queue. Returns whether a review is due.
    #[inline]
    pub(super) fn count_round(&mut self) -> bool {
        self.rounds += 1;
        self.rounds >= ROUNDS
    }

    /// Removes unneeded coroutines from the pool and returns them.
    #[cold]
    pub(super) fn review(&mut self) -> Vec<TaskId> {
        self.rounds = 0;
        // The list is a stack, so the coroutines that were not needed are at its bottom.
        let surplus = self.low.saturating_sub(MIN_FREE).div_ceil(2);
        let unneeded = self.free.drain(..surplus).collect();
        self.low = self.free.len();
        unneeded
    }
}
