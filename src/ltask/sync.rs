//! The primitives of `mailbox.rs`, `sleep.rs`, `ready_queues.rs` and `worker_queue.rs`. Those files import them only
//! from here, so that the models in `tests/loom` can replace them by loom's.

pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Services that may come from the hand-off slot in a row while others wait in the deque.
pub(crate) const MAX_HAND_OFFS: u32 = 64;
/// A worker checks the injector first each time it has chosen this many services, so that a busy deque does not starve
/// it.
pub(crate) const INJECTOR_INTERVAL: u32 = 61;
/// How often a worker searches before it parks, since a wakeup costs more than a search.
pub(crate) const SEARCH_ROUNDS: u32 = 16;

/// Locks a mutex. A panic in another thread does not spread, since no section of the scheduler leaves broken data
/// behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
