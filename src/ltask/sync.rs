//! The synchronization primitives of `mailbox.rs`, `sleep.rs`, `ready_queues.rs` and `worker_queue.rs`. Those files
//! import the primitives only from this file, so that the models in `tests/loom` can replace them with loom's.

pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The maximum number of services that a worker takes from the hand-off slot in a row while other services wait in the
/// deque.
pub(crate) const MAX_HAND_OFFS: u32 = 64;
/// Each time a worker has chosen this many services, it checks the injector first, so that a busy deque does not starve
/// the services in the injector.
pub(crate) const INJECTOR_INTERVAL: u32 = 61;
/// The number of times that a worker searches before it parks. A wakeup costs more than a search.
pub(crate) const SEARCH_ROUNDS: u32 = 16;

/// Locks a mutex, even if a thread has panicked while it held the lock: no critical section of the scheduler leaves
/// broken data behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
