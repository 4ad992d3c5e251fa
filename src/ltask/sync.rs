//! The primitives under `mailbox.rs` and `sleep.rs`. Those two files take them from here alone, so that
//! the models in `tests/loom` can put loom's in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere does not spread, since no section of ours leaves broken data behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
