//! The queue of one worker: which service the worker runs next, and whether the other services in the queue are
//! announced.
//!
//! Only the worker's own thread uses the queue; other workers steal from the worker's deque (`ready_queues.rs`).
//! Invariant: when a slice begins, every service in the deque has been announced (`sleep.rs`) since it was pushed,
//! because the slice may block. Only the service that runs next needs no announcement. The models in `tests/loom` check
//! this file together with `ready_queues.rs` and `sleep.rs`.

use super::message::ServiceId;
use super::ready_queues::ReadyQueues;
use super::sleep::Sleepers;
use super::sync::{Deque, INJECTOR_INTERVAL, MAX_HAND_OFFS, SEARCH_ROUNDS, spin_loop};
use std::cell::Cell;

/// The queue of one worker.
pub(crate) struct WorkerQueue {
    /// The worker's number, which is its lane in the ready queues.
    pub(crate) number: usize,
    deque: Deque<ServiceId>,
    /// How many services in a row came from the hand-off slot.
    hand_offs: Cell<u32>,
    /// The number of calls to `pick`.
    turn: Cell<u32>,
    /// Whether the deque may contain a service that has not been announced.
    has_unannounced: Cell<bool>,
}

impl WorkerQueue {
    /// Creates the queue of worker `number`.
    pub(crate) fn new(number: usize, deque: Deque<ServiceId>) -> WorkerQueue {
        WorkerQueue { number, deque, hand_offs: Cell::new(0), turn: Cell::new(0), has_unannounced: Cell::new(false) }
    }

    /// Queues a service that this worker's slice made ready: the service runs next on this worker. The service that was
    /// in the hand-off slot before is left to any free worker.
    pub(crate) fn hand_off(&self, ready: &ReadyQueues, sleepers: &Sleepers, id: ServiceId) {
        if let Some(before) = ready.hand_off(self.number, id) {
            self.deque.push(before);
            sleepers.notify();
        }
    }

    /// Queues a service that has more to do, behind the other services. If there are no other services, this worker
    /// most likely runs the service next, so no other worker is woken; `next` announces the service if another service
    /// comes first.
    pub(crate) fn requeue(&self, ready: &ReadyQueues, sleepers: &Sleepers, id: ServiceId) {
        let alone = self.deque.is_empty() && ready.is_lane_empty(self.number);
        self.deque.push(id);
        if alone {
            self.has_unannounced.set(true);
        } else {
            sleepers.notify();
        }
    }

    /// Takes the service to run next, from this queue or the injector.
    pub(crate) fn next(&self, ready: &ReadyQueues, sleepers: &Sleepers) -> Option<ServiceId> {
        let id = self.pick(ready);
        self.announce(sleepers);
        id
    }

    /// Announces the services in the deque that were not announced, because another service runs before them: a service
    /// that has arrived meanwhile, or the first service of a batch.
    fn announce(&self, sleepers: &Sleepers) {
        if self.has_unannounced.replace(false) && !self.deque.is_empty() {
            sleepers.notify();
        }
    }

    /// Moves a batch from the injector to the deque, except for the first service of the batch. Returns that service,
    /// which runs now.
    fn take_injected(&self, ready: &ReadyQueues) -> Option<ServiceId> {
        self.has_unannounced.set(true);
        ready.take_injected(&self.deque)
    }

    fn pick(&self, ready: &ReadyQueues) -> Option<ServiceId> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        if turn.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(id) = self.take_injected(ready)
        {
            return Some(id);
        }
        // Bound services alternate with other services.
        if turn.is_multiple_of(2)
            && let Some(id) = ready.take_bound(self.number)
        {
            return Some(id);
        }
        if self.hand_offs.get() < MAX_HAND_OFFS {
            if let Some(id) = ready.take_hand_off(self.number) {
                self.hand_offs.set(self.hand_offs.get() + 1);
                return Some(id);
            }
        } else if let Some(id) = ready.take_hand_off(self.number) {
            self.deque.push(id);
            self.has_unannounced.set(true);
        }
        self.hand_offs.set(0);
        self.deque.pop().or_else(|| ready.take_bound(self.number)).or_else(|| self.take_injected(ready))
    }

    /// Moves half of another worker's deque to this deque, except for the first service. Returns that service, which
    /// runs now.
    pub(crate) fn steal(&self, ready: &ReadyQueues, sleepers: &Sleepers) -> Option<ServiceId> {
        let id = ready.steal(self.number, &self.deque);
        self.has_unannounced.set(true);
        self.announce(sleepers);
        id
    }

    /// Searches all queues for a service, and sleeps while there is none. Returns None when `has_ended` returns true.
    /// `woken` is called after each sleep.
    pub(crate) fn search(
        &self, ready: &ReadyQueues, sleepers: &Sleepers, has_ended: impl Fn() -> bool, woken: impl Fn(),
    ) -> Option<ServiceId> {
        sleepers.search();
        loop {
            for _ in 0..SEARCH_ROUNDS {
                let found = self.pick(ready).or_else(|| ready.steal(self.number, &self.deque));
                if found.is_some() || has_ended() {
                    // `found` also announces the services that are left in the deque.
                    self.has_unannounced.set(false);
                    sleepers.found();
                    return found;
                }
                spin_loop();
            }
            sleepers.sleep(self.number, || has_ended() || ready.has_work_for(self.number));
            woken();
        }
    }

    /// Called when the worker ends. Moves the services of this queue to the injector. Returns the deque, which is
    /// empty.
    pub(crate) fn leave(self, ready: &ReadyQueues, sleepers: &Sleepers) -> Deque<ServiceId> {
        let mut left = false;
        while let Some(id) = self.deque.pop().or_else(|| ready.take_hand_off(self.number)) {
            ready.inject(id);
            left = true;
        }
        if left {
            sleepers.notify();
        }
        self.deque
    }
}

/// Moves the service in the hand-off slot of worker `number`, which is busy, to the injector.
pub(crate) fn release_hand_off(ready: &ReadyQueues, sleepers: &Sleepers, number: usize) {
    if let Some(id) = ready.take_hand_off(number) {
        ready.inject(id);
        sleepers.notify();
    }
}
