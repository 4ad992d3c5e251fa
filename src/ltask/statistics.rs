//! Statistics of a service, and flags that other threads set, whether or not the service is running.

use super::message::ServiceId;
use super::run_limits::RunLimits;
use super::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Statistics of a service, and flags that other threads set.
#[derive(Default)]
pub(crate) struct Statistics {
    label: Mutex<String>,
    /// The total time of the service's slices on workers, in nanoseconds.
    busy: AtomicU64,
    /// The clockid_t of the CPU clock of the service's thread; 0 if the service has no thread.
    pub(super) clock: AtomicI32,
    pub(crate) resumes: AtomicU64,
    pub(crate) memory: AtomicUsize,
    pub(crate) memory_peak: AtomicUsize,
    pub(crate) coroutines: AtomicU64,
    /// Whether the service is configured to have its own thread (G1).
    pub(crate) exclusive: AtomicBool,
    /// The service's own limits of the time without a wait.
    pub(crate) limits: RunLimits,
    /// Whether the service must end after its current slice.
    pub(crate) must_end: AtomicBool,
    /// Whether the watchdog has reported a slice of the service since `core.take_long_slice_report` was last called.
    pub(crate) long_slice_reported: AtomicBool,
    /// The requests that the service had not answered when it died: sender and session.
    pub(crate) unanswered: Mutex<Vec<(ServiceId, i64)>>,
}

impl Statistics {
    /// Returns the service's label.
    pub(crate) fn label(&self) -> String {
        lock(&self.label).clone()
    }

    /// Returns how long the service has run, in nanoseconds: the time of its slices on workers, plus the CPU time of
    /// the service's thread, if it has one.
    pub(crate) fn busy(&self) -> u64 {
        let busy = self.busy.load(Ordering::Relaxed);
        busy + super::thread_clock::nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Adds a slice of `nanos` nanoseconds. `memory` and `peak` are the current and the largest size of the VM in
    /// bytes.
    pub(crate) fn add_slice(&self, nanos: u64, memory: usize, peak: usize) {
        let add = |cell: &AtomicU64, more| {
            cell.store(cell.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        if self.clock.load(Ordering::Relaxed) == 0 {
            add(&self.busy, nanos);
        }
        add(&self.resumes, 1);
        self.memory.store(memory, Ordering::Relaxed);
        self.memory_peak.store(peak, Ordering::Relaxed);
    }

    /// Changes the label.
    pub(crate) fn set_label(&self, text: &str) {
        text.clone_into(&mut lock(&self.label));
    }
}
