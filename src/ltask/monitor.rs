//! The data that other threads share with the monitor thread: the timers, the wakeup of the monitor thread, and the
//! number of blocked workers.

use super::message::ServiceId;
use super::sync::lock;
use super::timers::Timers;
use crate::event::clock::monotonic_nanos;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The shared state of the monitor thread.
#[derive(Default)]
pub(crate) struct Monitor {
    pub(crate) timers: Timers,
    woken: Mutex<bool>,
    wakeup: Condvar,
    /// Whether the monitor thread sleeps without taking samples.
    dormant: AtomicBool,
    /// Whether the monitor thread must return free memory to the system.
    trim_requested: AtomicBool,
    /// The number of long slices, and the number of spare workers, which replace the workers of long slices.
    pub(super) long_slices: AtomicUsize,
    pub(super) spare_workers: AtomicUsize,
}

impl Monitor {
    /// Wakes the monitor thread.
    pub(crate) fn wake(&self) {
        *lock(&self.woken) = true;
        self.wakeup.notify_one();
    }

    /// Makes the monitor thread return the free memory of malloc(3) to the system soon.
    pub(super) fn request_trim(&self) {
        self.trim_requested.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether [`Monitor::request_trim`] was called since the last call.
    pub(super) fn take_trim_request(&self) -> bool {
        self.trim_requested.swap(false, Ordering::AcqRel)
    }

    /// Called when a worker or the thread of a service wakes. Makes the monitor thread take samples again.
    pub(crate) fn end_dormancy(&self) {
        fence(Ordering::SeqCst);
        if self.dormant.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Stops taking samples until [`Monitor::end_dormancy`] is called, unless `is_awake` returns true because a thread
    /// has just woken. Returns whether sampling has stopped.
    pub(super) fn begin_dormancy(&self, is_awake: impl FnOnce() -> bool) -> bool {
        self.dormant.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let awake = is_awake();
        if awake {
            self.dormant.store(false, Ordering::SeqCst);
        }
        !awake
    }

    /// Sleeps until the first timer expires, until the time `next_sample`, or until [`Monitor::wake`] is called.
    /// Returns whether the monitor thread was dormant.
    pub(super) fn sleep(&self, next_sample: u64) -> bool {
        let until = self.timers.plan_wakeup(next_sample);
        let limit = Duration::from_nanos(until.saturating_sub(monotonic_nanos()));
        let waited = self.wakeup.wait_timeout_while(lock(&self.woken), limit, |woken| !*woken);
        let (mut woken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *woken = false;
        self.dormant.swap(false, Ordering::SeqCst)
    }

    /// Sets a timer of `service` that expires at `deadline` nanoseconds of the monotonic clock. Returns the timer's id.
    pub(crate) fn add_timer(&self, service: ServiceId, session: i64, deadline: u64) -> u64 {
        let (id, is_earlier) = self.timers.add(service, session, deadline);
        if is_earlier {
            self.wake();
        }
        id
    }

    /// Like [`Monitor::add_timer`], but also cancels the timer `previous` of the service, if it has not expired.
    pub(crate) fn move_timer(&self, service: ServiceId, previous: Option<u64>, session: i64, deadline: u64) -> u64 {
        if let Some(previous) = previous {
            self.timers.cancel(service, previous);
        }
        self.add_timer(service, session, deadline)
    }

    /// Whether there are more spare workers than long slices. If so, the calling spare worker must end.
    pub(super) fn has_surplus_spares(&self) -> bool {
        self.spare_workers.load(Ordering::SeqCst) > self.long_slices.load(Ordering::SeqCst)
    }
}
