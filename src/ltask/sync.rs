//! The primitives under `mailbox.rs`, `sleep.rs`, `ready.rs` and `queue.rs`. Those files take them from here
//! alone, so that the models in `tests/loom` can put loom's in their place.

pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many services in a row may come from the hand-off slot while others wait in the deque.
pub(crate) const HANDED_MOST: u32 = 64;
/// Every so many turns the injector comes first, so that a busy deque does not starve it.
pub(crate) const INJECTED_EVERY: u32 = 61;
/// A worker searches so often before it parks: a wake-up costs more.
pub(crate) const SEARCHES: u32 = 16;

/// Locks; a panic elsewhere does not spread, since no section of ours leaves broken data behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
