//! What is known of a service from outside, while it runs or not.

use super::message::ServiceId;
use super::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// What is known of a service from outside, while it runs or not.
#[derive(Default)]
pub(crate) struct Statistics {
    label: Mutex<String>,
    /// Nanoseconds that its slices on workers took.
    busy: AtomicU64,
    /// The CPU clock of the thread of its own (clockid_t), 0 when it has none.
    pub(super) clock: AtomicI32,
    pub(crate) resumes: AtomicU64,
    pub(crate) memory: AtomicUsize,
    pub(crate) memory_most: AtomicUsize,
    pub(crate) coroutines: AtomicU64,
    /// One that was configured to have its own thread (G1).
    pub(crate) exclusive: AtomicBool,
    /// To be ended as soon as its slice is over.
    pub(crate) condemned: AtomicBool,
    /// The watchdog has reported a slice of it, and none has asked since.
    pub(crate) endless: AtomicBool,
    /// Requests that died with it: from, session.
    pub(crate) unanswered: Mutex<Vec<(ServiceId, i64)>>,
}

impl Statistics {
    /// The service's label.
    pub(crate) fn label(&self) -> String {
        lock(&self.label).clone()
    }

    /// Nanoseconds that it has run: the time of its slices, and the CPU time of the thread of its own, where
    /// slices are mostly waiting.
    pub(crate) fn busy(&self) -> u64 {
        let busy = self.busy.load(Ordering::Relaxed);
        busy + super::thread_clock::nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Adds a slice of so many nanoseconds, and what the VM holds now and held at most, in bytes.
    pub(crate) fn add_slice(&self, nanos: u64, memory: usize, peak: usize) {
        let add = |cell: &AtomicU64, more| {
            cell.store(cell.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        if self.clock.load(Ordering::Relaxed) == 0 {
            add(&self.busy, nanos);
        }
        add(&self.resumes, 1);
        self.memory.store(memory, Ordering::Relaxed);
        self.memory_most.store(peak, Ordering::Relaxed);
    }

    /// Changes the label.
    pub(crate) fn set_label(&self, text: &str) {
        text.clone_into(&mut lock(&self.label));
    }
}
