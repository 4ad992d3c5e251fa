//! Wakers: with a waker, any thread can end the current or the next wait of a selector.
//!
//! Many wakes in a row cost one system call: a waker writes only if the selector has received the waker's last write.
//! Handles are numbers in a process-wide table, so an invalid handle is an error and never an invalid pointer. The
//! table is locked when a handle is created or resolved, not by a wake.

use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The waker of a selector.
pub(crate) struct Waker {
    inner: mio::Waker,
    /// Whether a wake is pending: the selector has not received it yet.
    pending: AtomicBool,
}

impl Waker {
    pub(super) fn new(inner: mio::Waker) -> Self {
        Waker { inner, pending: AtomicBool::new(false) }
    }

    /// Wakes the selector, or ends its next wait. Earlier writes of the caller are visible to the woken thread.
    pub(crate) fn wake(&self) -> io::Result<()> {
        if self.pending.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.inner.wake()
    }

    /// Records that the selector has received the wake, so that the next wake writes again.
    pub(super) fn taken(&self) {
        self.pending.swap(false, Ordering::AcqRel);
    }
}

/// The next handle, and the wakers by handle.
type Handles = (usize, FxHashMap<usize, Weak<Waker>>);

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

/// Returns a number that identifies `waker` in this process until its selector is dropped.
pub(crate) fn handle_of(waker: &Arc<Waker>) -> usize {
    let mut guard = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let (next, wakers) = guard.get_or_insert_with(|| (1, FxHashMap::default()));
    wakers.retain(|_, other| other.strong_count() > 0);
    let known = wakers.iter().find(|(_, other)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(waker)));
    if let Some((&handle, _)) = known {
        return handle;
    }
    let handle = *next;
    *next += 1;
    wakers.insert(handle, Arc::downgrade(waker));
    handle
}

/// Returns the waker of `handle`, if its selector or another reference to the waker still exists.
pub(crate) fn of_handle(handle: usize) -> Option<Arc<Waker>> {
    let guard = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, wakers) = guard.as_ref()?;
    wakers.get(&handle)?.upgrade()
}

#[cfg(test)]
mod tests {
    use crate::event::Selector;
    use std::time::{Duration, Instant};

    #[test]
    fn a_wake_from_another_thread_ends_a_blocked_wait() {
        let selector = Selector::new(16).unwrap();
        let waker = selector.waker().unwrap();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || waker.wake().unwrap());
        selector.wait(Some(Duration::from_secs(20)), || false).unwrap();
        thread.join().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert!(selector.next().is_none());
    }

    #[test]
    fn a_hundred_wakes_before_a_wait_end_that_wait_only() {
        let selector = Selector::new(16).unwrap();
        let waker = selector.waker().unwrap();
        for _ in 0..100 {
            waker.wake().unwrap();
        }
        selector.wait(None, || false).unwrap();
        let begin = Instant::now();
        selector.wait(Some(Duration::from_millis(30)), || false).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn a_handle_identifies_its_waker_until_the_selector_is_dropped() {
        let selector = Selector::new(16).unwrap();
        let waker = selector.waker().unwrap();
        let handle = super::handle_of(&waker);
        assert_eq!(handle, super::handle_of(&waker));
        assert!(super::of_handle(handle).is_some());
        drop(waker);
        drop(selector);
        assert!(super::of_handle(handle).is_none());
        assert!(super::of_handle(handle + 1000).is_none());
    }
}
