//! Loom models of the scheduler's synchronised parts. The files under test are included unchanged; here their
//! `sync` module provides loom's types, so that each model runs in every interleaving, up to a number of preemptions,
//! and with every value that the memory model allows a load to return.
//!
//! Loom reports a model that waits forever as a deadlock, so no model has a timeout, and none polls.
//! `LOOM_MAX_PREEMPTIONS` changes the number of preemptions that the models explore.
#![cfg(test)]
// The models use only some of the items in these files.
#![allow(dead_code)]

#[path = "../../../src/ltask/mailbox.rs"]
mod mailbox;
#[path = "../../../src/ltask/ready_queues.rs"]
mod ready_queues;
#[path = "../../../src/ltask/sleep.rs"]
mod sleep;
#[path = "../../../src/ltask/worker_queue.rs"]
mod worker_queue;

mod message {
    pub(crate) type ServiceId = u32;
}

/// The items of src/ltask/sync.rs, with loom's types. The limits are small here, so that each case is reached.
mod sync {
    pub(crate) use crate::deque::{Deque, Injector, Steal, Stealer};
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// Does nothing. Loom's `spin_loop` would yield to the other threads, which is not needed, because a search ends
    /// after one round.
    pub(crate) fn spin_loop() {}

    pub(crate) const MAX_HAND_OFFS: u32 = 1;
    pub(crate) const INJECTOR_INTERVAL: u32 = 3;
    pub(crate) const SEARCH_ROUNDS: u32 = 1;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        // The mutex is never poisoned: a panic ends the model.
        mutex.lock().unwrap()
    }
}

mod bound;
mod death;
mod deque;
mod fixture;
mod idle;
mod order;
mod own_thread;
mod worker;

/// Runs a model. `preemptions` is the maximum number of times that a thread which could continue is preempted, unless
/// the environment sets another number. Two preemptions reveal most mistakes.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}
