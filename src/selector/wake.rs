//! Wakers: objects that make a blocked or the next wait return, from any thread.
//!
//! A burst of wakes costs one system call: the bell is written to only when nobody rang since it was
//! last heard. Handles are numbers in a process-wide table, so a wrong one is an error and never a
//! wild pointer; the table is touched when a handle is made or taken, not when a bell rings.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What rings in a selector.
pub(crate) struct Bell {
    waker: mio::Waker,
    ringing: AtomicBool,
}

impl Bell {
    pub(super) fn new(waker: mio::Waker) -> Self {
        Bell {
            waker,
            ringing: AtomicBool::new(false),
        }
    }

    /// Wakes the selector, or its next wait. Everything written before is visible to who wakes.
    pub(crate) fn ring(&self) -> io::Result<()> {
        if self.ringing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.waker.wake()
    }

    /// The selector took the wake-up; a ring from now on writes anew.
    pub(super) fn heard(&self) {
        self.ringing.swap(false, Ordering::AcqRel);
    }
}

/// Next handle, and the bells that handles name.
type Handles = (usize, HashMap<usize, Weak<Bell>>);

static HANDLES: Mutex<Option<Handles>> = Mutex::new(None);

/// A number that names `bell` in this process until its selector is gone.
pub(crate) fn handle_of(bell: &Arc<Bell>) -> usize {
    let mut guard = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let (next, bells) = guard.get_or_insert_with(|| (1, HashMap::new()));
    bells.retain(|_, other| other.strong_count() > 0);
    let known = bells
        .iter()
        .find(|(_, other)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(bell)));
    if let Some((&handle, _)) = known {
        return handle;
    }
    let handle = *next;
    *next += 1;
    bells.insert(handle, Arc::downgrade(bell));
    handle
}

/// The bell that `handle` names, if its selector or another waker is still there.
pub(crate) fn bell_of(handle: usize) -> Option<Arc<Bell>> {
    let guard = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, bells) = guard.as_ref()?;
    bells.get(&handle)?.upgrade()
}

#[cfg(test)]
mod tests {
    use crate::selector::Core;
    use std::time::{Duration, Instant};

    #[test]
    fn a_wake_from_another_thread_ends_a_blocked_wait() {
        let core = Core::new(16).unwrap();
        let bell = core.bell().unwrap();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || bell.ring().unwrap());
        core.wait(Some(Duration::from_secs(20)), || false).unwrap();
        thread.join().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert!(core.next().is_none());
    }

    #[test]
    fn a_hundred_wakes_before_a_wait_end_that_wait_only() {
        let core = Core::new(16).unwrap();
        let bell = core.bell().unwrap();
        for _ in 0..100 {
            bell.ring().unwrap();
        }
        core.wait(None, || false).unwrap();
        let begin = Instant::now();
        core.wait(Some(Duration::from_millis(30)), || false)
            .unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn a_handle_names_its_bell_until_the_selector_is_gone() {
        let core = Core::new(16).unwrap();
        let bell = core.bell().unwrap();
        let handle = super::handle_of(&bell);
        assert_eq!(handle, super::handle_of(&bell));
        assert!(super::bell_of(handle).is_some());
        drop(bell);
        drop(core);
        assert!(super::bell_of(handle).is_none());
        assert!(super::bell_of(handle + 1000).is_none());
    }
}
