//! Free coroutines. A task that returned leaves its coroutine with an empty stack, on which the next function is
//! resumed. Up to `MOST` are kept. Every `ROUNDS` rounds of the run queue, half of those that no round needed since the
//! last review are left to the collector, down to `KEPT`.

use super::entry::TaskId;

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

impl Pool {
    /// Takes a coroutine out, the one that was kept last.
    #[inline]
    pub(super) fn take(&mut self) -> Option<TaskId> {
        let id = self.free.pop()?;
        self.low = self.low.min(self.free.len());
        Some(id)
    }

    /// Whether there was room for a coroutine more.
    #[inline]
    pub(super) fn keep(&mut self, id: TaskId) -> bool {
        let has_room = self.free.len() < MOST;
        if has_room {
            self.free.push(id);
        }
        has_room
    }

    /// Counts a round of the run queue. Whether a review is due.
    #[inline]
    pub(super) fn ends_rounds(&mut self) -> bool {
        self.rounds += 1;
        self.rounds >= ROUNDS
    }

    /// Takes those out that are left to the collector.
    #[cold]
    pub(super) fn review(&mut self) -> Vec<TaskId> {
        self.rounds = 0;
        // The list is a stack: what was not needed lies at its bottom.
        let surplus = self.low.saturating_sub(KEPT).div_ceil(2);
        let gone = self.free.drain(..surplus).collect();
        self.low = self.free.len();
        gone
    }
}
