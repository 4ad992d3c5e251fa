//! The progress of a thread that runs services: whether a slice runs, which service it belongs to, and since when.
//!
//! The monitor thread reads it. To report where a service hangs, or to end it when the system quits, the monitor thread
//! interrupts the thread (`lua::interrupt`).

use super::message::ServiceId;
use super::monitor::Monitor;
use crate::event::pause::{self, Pause};
use crate::lua::interrupt::Target;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    /// The progress of a thread that runs one service.
    static OWN: RefCell<Option<(Arc<Monitor>, Arc<Progress>)>> = const { RefCell::new(None) };
}

/// The progress of one thread.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Progress {
    /// The CPU clock of a thread that waits during most of its slices; 0 elsewhere.
    pub(super) clock: i32,
    /// Odd while a slice runs. Incremented when a slice begins and when it ends.
    turn: AtomicU64,
    service: AtomicU32,
    target: Target,
    /// The last turn whose traceback was logged.
    reported: AtomicU64,
    /// How often the thread has begun and ended a wait in a selector or for its event. Odd while it waits.
    waits: AtomicU64,
    /// Since when the thread has not paused, set by the watchdog before it interrupts the thread.
    pub(super) since: AtomicU64,
}

impl Progress {
    /// The progress of a thread whose CPU time counts.
    pub(super) fn with_clock(clock: i32) -> Arc<Progress> {
        Arc::new(Progress { clock, ..Progress::default() })
    }

    /// Declares the calling thread as the one to be interrupted.
    pub(super) fn enter(&self) {
        self.target.enter();
    }

    /// Called by the thread when it ends.
    pub(super) fn leave(&self) {
        self.target.leave();
    }

    /// Declares the calling thread as one that runs one service. Its waits are counted until [`Progress::leave_own`].
    pub(super) fn enter_own(self: &Arc<Progress>, monitor: &Arc<Monitor>) {
        self.enter();
        OWN.set(Some((monitor.clone(), self.clone())));
        pause::observe(paused);
    }

    /// Called by the thread when its service has ended.
    pub(super) fn leave_own(&self) {
        OWN.set(None);
        self.leave();
    }

    /// The progress of the calling thread, if it runs one service.
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

    /// Returns the turn, and the service whose slice runs.
    pub(super) fn running_slice(&self) -> (u64, Option<ServiceId>) {
        let turn = self.turn.load(Ordering::Acquire);
        let service = self.service.load(Ordering::Relaxed);
        (turn, (turn % 2 == 1).then_some(service))
    }

    /// Whether a traceback of turn `turn` was logged.
    pub(super) fn has_reported(&self, turn: u64) -> bool {
        self.reported.load(Ordering::Acquire) == turn
    }

    /// Records that a traceback of the present turn was logged.
    pub(super) fn set_reported(&self) {
        self.reported.store(self.turn.load(Ordering::Relaxed), Ordering::Release);
    }

    /// How often the thread has begun and ended a wait.
    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the running slice log its traceback, or raise an error if the system quits.
    pub(super) fn interrupt(&self) {
        self.target.interrupt();
    }
}

/// Called when the calling thread begins or ends a wait. After a wait the monitor thread must take samples: either it
/// sees that wait counted before it becomes dormant, or this thread sees it dormant and wakes it.
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
