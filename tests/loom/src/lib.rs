//! Loom's models of the scheduler's synchronised parts. The files under test are included as they
//! are; what they take from their `sync` module comes from loom here, so that each model runs in every
//! interleaving and with every value that the memory model lets a load return.
//!
//! A model that waits for something that never comes is reported by loom as a deadlock: so no model has
//! a timeout, and none polls. `LOOM_MAX_PREEMPTIONS` changes how deep they look.
#![cfg(test)]
// The scheduler uses more of the files than the models do.
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

/// The names of src/ltask/sync.rs, by loom. Numbers of turns are small here, so that each case is reached.
mod sync {
    pub(crate) use crate::deque::{Deque, Injector, Steal, Stealer};
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// Not loom's, which lets the others go first: a search is over after one round.
    pub(crate) fn spin_loop() {}

    pub(crate) const MAX_HAND_OFFS: u32 = 1;
    pub(crate) const INJECTOR_INTERVAL: u32 = 3;
    pub(crate) const SEARCH_ROUNDS: u32 = 1;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        // Not poisoned: a panic ends the model.
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

/// Runs a model. `preemptions`: how often at most a thread is interrupted where it could go on, unless
/// the environment says otherwise; most mistakes show with two.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}
