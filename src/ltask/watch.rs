//! How a slice that takes too long is seen, and interrupted, from outside.
//!
//! Each thread that runs services has a `Watch`: whether a slice runs and whose. To say where a service
//! hangs, or to end it when the system quits, the timekeeper has the thread interrupted (`lua::interrupt`).

use super::message::ServiceId;
use super::service::Service;
use super::system::System;
use super::worker;
use crate::event::pause::{self, Pause};
use crate::lua::interrupt::Target;
use crate::lua::{Call, Fault};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    /// The system and the watch of a thread that runs one service.
    static OWN: RefCell<Option<(Arc<System>, Arc<Watch>)>> = const { RefCell::new(None) };
}

/// The calling thread runs one service: its waits are counted.
pub(crate) fn observe(system: &Arc<System>, watch: &Arc<Watch>) {
    OWN.set(Some((system.clone(), watch.clone())));
    pause::observe(paused);
}

/// The thread's service has ended.
pub(crate) fn forget() {
    OWN.set(None);
}

/// The calling thread begins or ends to wait. After a wait the timekeeper looks at it: either it finds the wait
/// counted before it stops looking, or this thread finds that it has stopped.
pub(crate) fn paused(pause: Pause) {
    OWN.with_borrow(|own| {
        let Some((system, watch)) = own else { return };
        let waits = watch.waits.load(Ordering::Relaxed);
        let next = match pause {
            Pause::Begins => (waits + 1) | 1,
            Pause::Ends => (waits + 2) & !1,
        };
        watch.waits.store(next, Ordering::Release);
        if pause == Pause::Ends {
            system.keeper.stir();
        }
    });
}

/// See the file's head.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Watch {
    /// The thread's CPU clock, where slices are mostly waiting; 0 elsewhere.
    pub(crate) clock: i32,
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

impl Watch {
    /// Of a thread whose CPU time counts.
    pub(crate) fn with_clock(clock: i32) -> Watch {
        Watch { clock, ..Watch::default() }
    }

    /// The calling thread is the one to watch.
    pub(crate) fn enter(&self) {
        self.target.enter();
    }

    /// The thread goes.
    pub(crate) fn leave(&self) {
        self.target.leave();
    }

    /// A slice begins.
    pub(crate) fn begin(&self, service: ServiceId) {
        self.service.store(service, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// It ended.
    pub(crate) fn end(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// The turn, if a slice runs, and whose.
    pub(crate) fn look(&self) -> (u64, Option<ServiceId>) {
        let turn = self.turn.load(Ordering::Acquire);
        let service = self.service.load(Ordering::Relaxed);
        (turn, (turn % 2 == 1).then_some(service))
    }

    /// Whether the hook has logged a traceback of turn `turn`.
    pub(crate) fn has_reported(&self, turn: u64) -> bool {
        self.reported.load(Ordering::Acquire) == turn
    }

    /// How often the thread has begun and ended to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the running slice log where it is, or, when the system quits, raise an error.
    pub(crate) fn interrupt(&self) {
        self.target.interrupt();
    }
}

/// Runs between two instructions of a service that was interrupted.
pub(crate) fn interrupted(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_quitting = |service: &mut Service| service.system().is_quitting();
    if call.data::<Service>().is_some_and(is_quitting) {
        return Err(Fault::message("the system has ended"));
    }
    let traceback = call.traceback(0);
    if let (Some(traceback), Some(service)) = (traceback, call.data::<Service>()) {
        log(service, &traceback);
    }
    Ok(())
}

fn log(service: &Service, traceback: &str) {
    let system = service.system();
    let own = super::system::lock(&system.own_watches).clone();
    let watch = match worker::number() {
        Some(number) => system.watches.get(number),
        None => own.iter().find(|watch| watch.service.load(Ordering::Relaxed) == service.id).map(|watch| &**watch),
    };
    // On a thread of its own a slice is mostly waiting.
    let since = watch.map_or(0, |watch| watch.since.load(Ordering::Relaxed));
    let text = format!(
        "service {} ({}) has not paused for {:.1} s; {}",
        service.id,
        service.statistics.label(),
        (crate::event::clock::monotonic_nanos() - since.max(service.began)) as f64 / 1e9,
        traceback
    );
    system.log_text(service.id, &text);
    if let Some(watch) = watch {
        watch.reported.store(watch.turn.load(Ordering::Relaxed), Ordering::Release);
    }
}
