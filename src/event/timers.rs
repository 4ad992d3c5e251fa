//! Timers ordered by due time: a heap whose entries may be stale.
//!
//! When a timer is cleared or moved to a later time, its heap entry is not changed; the entry is corrected when it
//! reaches the top. A connection usually postpones its deadline many times, and the timer rarely fires. Postponing
//! costs no heap operation. Stale entries are removed when they outnumber the timers, so the memory is proportional to
//! the number of timers and each operation is O(log n) amortized. Timers with the same due time fire in the order in
//! which they were set.

use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NEVER: u64 = u64::MAX;

/// Identifies a timer. The id of a freed timer is never valid again.
pub(crate) type Id = u64;

struct Timer {
    /// Nanoseconds on the monotonic clock, or `NEVER`.
    due: u64,
    /// The order in which timers were set, for timers with the same due time.
    order: u64,
    /// The heap entry of this timer, if any: its due time and stamp.
    entry: Option<(u64, u64)>,
    generation: u32,
    once: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: u64,
    order: u64,
    stamp: u64,
    slot: usize,
}

/// The timers of one loop.
#[derive(Default)]
pub(crate) struct Queue {
    timers: Slab<Timer>,
    heap: BinaryHeap<Reverse<Entry>>,
    counter: u64,
    generation: u32,
}

impl Queue {
    /// Returns the number of timers, set or not.
    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    /// Creates a timer that is not set. If `once` is true, the timer is freed when it fires.
    pub(crate) fn create(&mut self, once: bool) -> Id {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let slot = self.timers.insert(Timer { due: NEVER, order: 0, entry: None, generation, once });
        u64::from(generation) << 32 | slot as u64
    }

    /// Returns the slot of a timer, which is reused only after the timer is freed.
    pub(crate) fn slot(id: Id) -> usize {
        (id & 0xffff_ffff) as usize
    }

    /// Sets a timer to fire at `due`. Returns false if the id is invalid.
    pub(crate) fn set(&mut self, id: Id, due: u64) -> bool {
        self.counter += 1;
        let order = self.counter;
        let Some(timer) = self.timer(id) else { return false };
        timer.due = due;
        timer.order = order;
        if timer.entry.is_some_and(|(entered, _)| entered <= due) {
            return true;
        }
        self.enter(Self::slot(id));
        true
    }

    /// Clears a timer: it does not fire until it is set again. Returns false if the id is invalid.
    pub(crate) fn clear(&mut self, id: Id) -> bool {
        self.timer(id).map(|timer| timer.due = NEVER).is_some()
    }

    /// Frees a timer. Returns false if the id is invalid.
    pub(crate) fn free(&mut self, id: Id) -> bool {
        if self.timer(id).is_none() {
            return false;
        }
        self.timers.remove(Self::slot(id));
        self.sweep_if_stale();
        true
    }

    /// Returns the due time of the next timer. To find it, corrects entries at the top of the heap until the top entry
    /// is valid.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        loop {
            let Reverse(top) = self.heap.peek()?;
            let (slot, stamp, due, order) = (top.slot, top.stamp, top.due, top.order);
            let timer = self.timers.get_mut(slot);
            let current = timer.filter(|t| t.entry.is_some_and(|(_, s)| s == stamp));
            let Some(timer) = current else {
                self.heap.pop();
                continue;
            };
            // A timer that was set again for the same time is now the last timer of that time.
            if timer.due == due && timer.order == order {
                return Some(due);
            }
            timer.entry = None;
            let again = timer.due != NEVER;
            self.heap.pop();
            if again {
                self.enter(slot);
            }
        }
    }

    /// Clears the next timer that is due at `now`, or frees it if it was created with `once`. Returns its id, and
    /// whether it was freed.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(Id, bool)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        let timer = &mut self.timers[entry.slot];
        timer.entry = None;
        timer.due = NEVER;
        let id = u64::from(timer.generation) << 32 | entry.slot as u64;
        let freed = timer.once;
        if freed {
            self.timers.remove(entry.slot);
        }
        Some((id, freed))
    }

    fn timer(&mut self, id: Id) -> Option<&mut Timer> {
        let generation = (id >> 32) as u32;
        self.timers.get_mut(Self::slot(id)).filter(|timer| timer.generation == generation)
    }

    fn enter(&mut self, slot: usize) {
        self.counter += 1;
        let stamp = self.counter;
        let timer = &mut self.timers[slot];
        timer.entry = Some((timer.due, stamp));
        self.heap.push(Reverse(Entry { due: timer.due, order: timer.order, stamp, slot }));
        self.sweep_if_stale();
    }

    /// Removes the stale entries if they outnumber the timers.
    fn sweep_if_stale(&mut self) {
        if self.heap.len() <= 2 * self.timers.len() + 64 {
            return;
        }
        let timers = &mut self.timers;
        self.heap.retain(|Reverse(entry)| {
            let Some(timer) = timers.get_mut(entry.slot) else { return false };
            let current = timer.entry.is_some_and(|(_, stamp)| stamp == entry.stamp);
            if current && timer.due == NEVER {
                timer.entry = None;
                return false;
            }
            current
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timers_fire_by_due_time_then_in_the_order_of_setting() {
        let mut queue = Queue::default();
        let ids: Vec<Id> = (0..4).map(|_| queue.create(true)).collect();
        queue.set(ids[0], 20);
        queue.set(ids[1], 10);
        queue.set(ids[2], 20);
        queue.set(ids[3], 10);
        let fired: Vec<Id> = std::iter::from_fn(|| queue.expire(30)).map(|f| f.0).collect();
        assert_eq!(fired, [ids[1], ids[3], ids[0], ids[2]]);
    }

    #[test]
    fn a_timer_set_again_for_the_same_time_fires_after_the_others() {
        let mut queue = Queue::default();
        let (first, second) = (queue.create(false), queue.create(false));
        queue.set(first, 4);
        queue.set(second, 4);
        queue.set(first, 4);
        assert_eq!(queue.expire(4), Some((second, false)));
        assert_eq!(queue.expire(4), Some((first, false)));
        assert_eq!(queue.expire(4), None);
    }

    #[test]
    fn a_timer_postponed_a_million_times_keeps_the_heap_small() {
        let mut queue = Queue::default();
        let id = queue.create(false);
        for due in 0..1_000_000 {
            queue.set(id, due);
        }
        assert_eq!(queue.heap.len(), 1);
        assert_eq!(queue.expire(999_998), None);
        assert_eq!(queue.expire(999_999), Some((id, false)));
    }

    #[test]
    fn cancelled_timers_with_distant_due_times_leave_no_memory_behind() {
        let mut queue = Queue::default();
        for _ in 0..100_000 {
            let id = queue.create(true);
            queue.set(id, 1 << 50);
            assert!(queue.free(id));
            assert!(!queue.free(id));
        }
        assert!(queue.heap.len() <= 65);
    }

    proptest! {
        #[test]
        fn the_queue_agrees_with_a_sorted_list(steps in prop::collection::vec((0u8..5, 0usize..8, 0u64..100), 1..200)) {
            let mut queue = Queue::default();
            let mut model: Vec<(Id, Option<(u64, usize)>)> = Vec::new();
            for (count, (what, which, time)) in steps.into_iter().enumerate() {
                let at = which.min(model.len().saturating_sub(1));
                match what {
                    0 => model.push((queue.create(false), None)),
                    1 | 2 if !model.is_empty() => {
                        queue.set(model[at].0, time);
                        model[at].1 = Some((time, count));
                    }
                    3 if !model.is_empty() => {
                        queue.clear(model[at].0);
                        model[at].1 = None;
                    }
                    4 if !model.is_empty() && time > 90 => {
                        prop_assert!(queue.free(model.remove(at).0));
                    }
                    _ => {
                        let mut due: Vec<_> = model
                            .iter_mut()
                            .filter(|(_, set)| set.is_some_and(|(d, _)| d <= time))
                            .map(|(id, set)| (set.take(), *id))
                            .collect();
                        due.sort();
                        let want: Vec<Id> = due.into_iter().map(|(_, id)| id).collect();
                        let got: Vec<Id> = std::iter::from_fn(|| queue.expire(time)).map(|f| f.0).collect();
                        prop_assert_eq!(got, want);
                    }
                }
            }
        }
    }
}
