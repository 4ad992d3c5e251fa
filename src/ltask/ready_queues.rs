//! The ready queues: which services can run, and where.
//!
//! The state in a service's mailbox ensures that the service is in at most one queue. Each worker has a deque from
//! which other workers steal, a hand-off slot for the service that it made ready last, and a queue of services bound to
//! it. Services that other threads make ready go to the injector. No worker steals from a hand-off slot: the service in
//! it runs next, on the worker whose cache has its message, and no thread is woken. If the worker's current slice takes
//! long, the watchdog moves the service to the injector.

use super::message::ServiceId;
use super::sync::{AtomicU32, AtomicUsize, Deque, Injector, Mutex, Ordering, Steal, Stealer, lock};
use std::collections::VecDeque;

/// The queues of one worker, except for its deque. Each lane has its own cache line, to avoid false sharing.
#[repr(align(64))]
struct Lane {
    /// The service in the hand-off slot; 0 if it is empty.
    hand_off: AtomicU32,
    /// The services bound to this worker, and their number.
    bound: Mutex<VecDeque<ServiceId>>,
    bound_count: AtomicUsize,
}

/// All ready queues.
pub(crate) struct ReadyQueues {
    injector: Injector<ServiceId>,
    stealers: Box<[Stealer<ServiceId>]>,
    lanes: Box<[Lane]>,
}

impl ReadyQueues {
    /// Creates the queues of `workers` workers, and the deques that the workers will own.
    pub(crate) fn new(workers: usize) -> (ReadyQueues, Vec<Deque<ServiceId>>) {
        let deques: Vec<_> = (0..workers).map(|_| Deque::new_fifo()).collect();
        let ready = ReadyQueues {
            injector: Injector::new(),
            stealers: deques.iter().map(Deque::stealer).collect(),
            lanes: (0..workers)
                .map(|_| Lane {
                    hand_off: AtomicU32::new(0),
                    bound: Mutex::new(VecDeque::new()),
                    bound_count: AtomicUsize::new(0),
                })
                .collect(),
        };
        (ready, deques)
    }

    /// Queues a service for any worker.
    pub(crate) fn inject(&self, id: ServiceId) {
        self.injector.push(id);
    }

    /// Queues a service for one worker.
    pub(crate) fn bind(&self, worker: usize, id: ServiceId) {
        let lane = &self.lanes[worker];
        let mut bound = lock(&lane.bound);
        bound.push_back(id);
        lane.bound_count.store(bound.len(), Ordering::SeqCst);
    }

    /// Takes a service bound to `worker`.
    pub(crate) fn take_bound(&self, worker: usize) -> Option<ServiceId> {
        let lane = &self.lanes[worker];
        if lane.bound_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut bound = lock(&lane.bound);
        let id = bound.pop_front();
        lane.bound_count.store(bound.len(), Ordering::SeqCst);
        id
    }

    /// Puts a service into the worker's hand-off slot. Returns the service that was in the slot before; None if the
    /// slot was empty.
    pub(crate) fn hand_off(&self, worker: usize, id: ServiceId) -> Option<ServiceId> {
        let before = self.lanes[worker].hand_off.swap(id, Ordering::AcqRel);
        (before != 0).then_some(before)
    }

    /// Takes the service in a worker's hand-off slot.
    pub(crate) fn take_hand_off(&self, worker: usize) -> Option<ServiceId> {
        let hand_off = &self.lanes[worker].hand_off;
        if hand_off.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let id = hand_off.swap(0, Ordering::AcqRel);
        (id != 0).then_some(id)
    }

    /// Moves a batch from the injector to `deque`, except for the first service of the batch. Returns that service.
    pub(crate) fn take_injected(&self, deque: &Deque<ServiceId>) -> Option<ServiceId> {
        loop {
            match self.injector.steal_batch_and_pop(deque) {
                Steal::Success(id) => return Some(id),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    /// Moves half of another worker's deque to `deque`, except for the first service. Returns that service. `thief` is
    /// the number of the stealing worker, which tries its next neighbour first.
    pub(crate) fn steal(&self, thief: usize, deque: &Deque<ServiceId>) -> Option<ServiceId> {
        let count = self.stealers.len();
        loop {
            let mut again = false;
            for distance in 1..count {
                match self.stealers[(thief + distance) % count].steal_batch_and_pop(deque) {
                    Steal::Success(id) => return Some(id),
                    Steal::Empty => {}
                    Steal::Retry => again = true,
                }
            }
            if !again {
                return None;
            }
        }
    }

    /// Whether the worker's hand-off slot is empty and no service bound to it is ready.
    pub(crate) fn is_lane_empty(&self, worker: usize) -> bool {
        let lane = &self.lanes[worker];
        lane.hand_off.load(Ordering::Relaxed) == 0 && lane.bound_count.load(Ordering::Relaxed) == 0
    }

    /// Whether there is a service that `worker` could take.
    pub(crate) fn has_work_for(&self, worker: usize) -> bool {
        self.has_shared() || self.lanes[worker].bound_count.load(Ordering::SeqCst) > 0
    }

    /// Whether there is a service that any worker could take.
    pub(crate) fn has_shared(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }
}
