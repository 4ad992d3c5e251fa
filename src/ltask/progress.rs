//! The progress of a thread that runs services: whether a slice is running, which service it belongs to, and when the
//! watchdog first sampled it.
//!
//! The monitor thread reads the progress. It interrupts the thread (`lua::interrupt`) to report where a service hangs,
//! or to end a slice when the system quits.

use super::message::ServiceId;
use super::monitor::Monitor;
use crate::event::pause::{self, Pause};
use crate::lua::interrupt::Target;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    /// The progress of the calling thread, if it is a service's own thread, and the shared state of the monitor thread.
    static OWN: RefCell<Option<(Arc<Monitor>, Arc<Progress>)>> = const { RefCell::new(None) };
}

/// The progress of one thread.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Progress {
    /// The CPU clock of a service's own thread, which waits during most of a slice; 0 for other threads.
    pub(super) clock: i32,
    /// Odd while a slice runs. Incremented when a slice begins and when it ends.
    turn: AtomicU64,
    service: AtomicU32,
    target: Target,
    /// The turn for which a traceback was requested; 0 if there is no request.
    traceback_requested: AtomicU64,
    /// The last turn whose traceback was logged.
    reported: AtomicU64,
    /// Incremented when the thread starts waiting, in a selector or for its event, and when it stops waiting. Odd while
    /// the thread waits.
    waits: AtomicU64,
    /// The time of the watchdog's first sample of the running slice, in nanoseconds of the monotonic clock. The
    /// watchdog sets this field before it interrupts the thread.
    pub(super) since: AtomicU64,
}

impl Progress {
    /// Creates the progress of a thread whose CPU clock is `clock`.
    pub(super) fn with_clock(clock: i32) -> Arc<Progress> {
        Arc::new(Progress { clock, ..Progress::default() })
    }

    /// Makes the calling thread the thread that [`Progress::interrupt`] interrupts.
    pub(super) fn enter(&self) {
        self.target.enter();
    }

    /// Called by the thread when it ends.
    pub(super) fn leave(&self) {
        self.target.leave();
    }

    /// Called by a service's own thread when it begins. The waits of the thread are counted until
    /// [`Progress::leave_own`].
    pub(super) fn enter_own(self: &Arc<Progress>, monitor: &Arc<Monitor>) {
        self.enter();
        OWN.set(Some((monitor.clone(), self.clone())));
        pause::observe(paused);
    }

    /// Called by the service's thread when the service has ended.
    pub(super) fn leave_own(&self) {
        OWN.set(None);
        self.leave();
    }

    /// Returns the progress of the calling thread, if it is a service's own thread.
    pub(super) fn own() -> Option<Arc<Progress>> {
        OWN.with_borrow(|own| own.as_ref().map(|(_, progress)| progress.clone()))
    }

    /// Called when a slice begins.
    pub(super) fn begin_slice(&self, service: ServiceId) {
        self.service.store(service, Ordering::Relaxed);
        self.end_slice();
    }

    /// Called when a slice ends.
    pub(super) fn end_slice(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// Returns the turn, and the service whose slice runs, if any.
    pub(super) fn running_slice(&self) -> (u64, Option<ServiceId>) {
        let turn = self.turn.load(Ordering::Acquire);
        let service = self.service.load(Ordering::Relaxed);
        (turn, (turn % 2 == 1).then_some(service))
    }

    /// Whether a traceback of turn `turn` was logged.
    pub(super) fn has_reported(&self, turn: u64) -> bool {
        self.reported.load(Ordering::Acquire) == turn
    }

    /// Records that a traceback of the current turn was logged.
    pub(super) fn set_reported(&self) {
        self.reported.store(self.turn.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Returns how many times the thread has begun or ended a wait; the number is odd while the thread waits.
    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the slice `turn` log its traceback.
    pub(super) fn request_traceback(&self, turn: u64) {
        self.traceback_requested.store(turn, Ordering::Release);
        self.interrupt();
    }

    /// Returns whether a traceback of the running slice was requested since the last call.
    pub(super) fn take_traceback_request(&self) -> bool {
        self.traceback_requested.swap(0, Ordering::Acquire) == self.turn.load(Ordering::Relaxed)
    }

    /// Makes the running slice check how long its task has run, or raise an error if the system is ending.
    pub(super) fn interrupt(&self) {
        self.target.interrupt();
    }
}

/// Called when the calling thread begins or ends a wait. After a wait the monitor thread must take samples: either the
/// monitor thread finds the wait counted before it becomes dormant, or this thread finds the monitor thread dormant and
/// wakes it.
fn paused(pause: Pause) {
    OWN.with_borrow(|own| {
        let Some((monitor, progress)) = own else { return };
        let waits = progress.waits.load(Ordering::Relaxed);
        let next = match pause {
            Pause::Begins => (waits + 1) | 1,
            Pause::Ends => (waits + 2) & !1,
        };
        progress.waits.store(next, Ordering::Release);
        if pause == Pause::Ends {
            monitor.end_dormancy();
        }
    });
}
