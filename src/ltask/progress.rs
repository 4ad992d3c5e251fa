//! The progress of a thread that runs services: whether a slice runs, whose, and since when.
//!
//! The monitor thread reads it. To report where a service hangs, or to end it when the system quits, it has the thread
//! interrupted (`lua::interrupt`).

use super::message::ServiceId;
use super::monitor::Monitor;
use crate::event::pause::{self, Pause};
use crate::lua::interrupt::Target;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    /// Of a thread that runs one service.
    static OWN: RefCell<Option<(Arc<Monitor>, Arc<Progress>)>> = const { RefCell::new(None) };
}

/// See the file's head.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Progress {
    /// The thread's CPU clock, where slices are mostly waiting; 0 elsewhere.
    pub(super) clock: i32,
    /// Odd while a slice runs; counts up at its begin and end.
    turn: AtomicU64,
    service: AtomicU32,
    target: Target,
    /// The last turn whose traceback was logged.
    reported: AtomicU64,
    /// How often the thread has begun and ended to wait in a selector or for its event: odd while it waits.
    waits: AtomicU64,
    /// Since when it has not paused, as the watchdog that interrupts it knows.
    pub(super) since: AtomicU64,
}

impl Progress {
    /// Of a thread whose CPU time counts.
    pub(super) fn with_clock(clock: i32) -> Arc<Progress> {
        Arc::new(Progress { clock, ..Progress::default() })
    }

    /// The calling thread is the one.
    pub(super) fn enter(&self) {
        self.target.enter();
    }

    /// The thread ends.
    pub(super) fn leave(&self) {
        self.target.leave();
    }

    /// The calling thread runs one service: its waits are counted until [`Progress::leave_own`].
    pub(super) fn enter_own(self: &Arc<Progress>, monitor: &Arc<Monitor>) {
        self.enter();
        OWN.set(Some((monitor.clone(), self.clone())));
        pause::observe(paused);
    }

    /// The calling thread's service has ended.
    pub(super) fn leave_own(&self) {
        OWN.set(None);
        self.leave();
    }

    /// That of the calling thread, if it runs one service.
    pub(super) fn own() -> Option<Arc<Progress>> {
        OWN.with_borrow(|own| own.as_ref().map(|(_, progress)| progress.clone()))
    }

    /// A slice begins.
    pub(super) fn begin(&self, service: ServiceId) {
        self.service.store(service, Ordering::Relaxed);
        self.end();
    }

    /// It ended.
    pub(super) fn end(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// The turn, and the service whose slice runs.
    pub(super) fn slice(&self) -> (u64, Option<ServiceId>) {
        let turn = self.turn.load(Ordering::Acquire);
        let service = self.service.load(Ordering::Relaxed);
        (turn, (turn % 2 == 1).then_some(service))
    }

    /// Whether a traceback of turn `turn` was logged.
    pub(super) fn has_reported(&self, turn: u64) -> bool {
        self.reported.load(Ordering::Acquire) == turn
    }

    /// A traceback of the present turn was logged.
    pub(super) fn set_reported(&self) {
        self.reported.store(self.turn.load(Ordering::Relaxed), Ordering::Release);
    }

    /// How often the thread has begun and ended to wait.
    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the running slice log where it is, or, when the system quits, raise an error.
    pub(super) fn interrupt(&self) {
        self.target.interrupt();
    }
}

/// The calling thread begins or ends to wait. After a wait the monitor samples it: either it finds the wait
/// counted before it goes dormant, or this thread finds that it has.
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
