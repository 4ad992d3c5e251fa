//! The monitor thread. It posts the messages of timers, flushes the log's counts of repeated lines, and runs the
//! watchdog.
//!
//! It sleeps until the next timer expires. While workers are awake, it also samples their slices every few
//! milliseconds. When all workers have slept for about 200 ms, it stops taking samples, so an idle system does nothing.

use super::message::{IO_TIMER, Message, SYSTEM, kind};
use super::progress::Progress;
use super::service::System;
use super::sync::lock;
use super::timers::ExpiredTimer;
use super::watchdog::{Watchdog, label};
use crate::event::clock::monotonic_nanos;
use crate::memory::trim_heap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MILLI: u64 = 1_000_000;
/// The time between two samples, in nanoseconds: `BUSY_TICK` while slices run, `QUIET_TICK` while all workers are idle.
const BUSY_TICK: u64 = 2 * MILLI;
const QUIET_TICK: u64 = 10 * MILLI;
/// Sampling stops after this many samples in a row that find all workers idle.
const QUIET_SAMPLES: u32 = 20;
/// A slice that is still running this long (in nanoseconds) after the shutdown began is interrupted.
const INTERRUPT_AFTER: u64 = 1000 * MILLI;
/// A slice that is still running this long (in nanoseconds) after the shutdown began is abandoned.
const ABANDON_AFTER: u64 = 6000 * MILLI;
/// The shortest time between two returns of free memory to the system, in nanoseconds: other threads that use malloc(3)
/// wait meanwhile.
const TRIM_INTERVAL: u64 = 5000 * MILLI;

/// Runs until the system is ending and its other threads have ended or were abandoned.
pub(super) fn run(system: &Arc<System>) {
    let mut watchdog = Watchdog::new(system);
    let mut expired: Vec<ExpiredTimer> = Vec::new();
    let (mut next_sample, mut quiet) = (0, 0);
    let mut ended = 0;
    let (mut trim_at, mut earliest_trim) = (u64::MAX, 0);
    loop {
        let now = monotonic_nanos();
        deliver(system, now, &mut expired);
        system.flush_log(now);
        if system.is_quitting() {
            let main_runs = system.main_progress.running_slice().1.is_some();
            if system.running.load(Ordering::SeqCst) == 0 && !main_runs {
                return;
            }
            ended = if ended == 0 { now } else { ended };
            end(system, now - ended);
            if now - ended > ABANDON_AFTER {
                return abandon(system);
            }
            next_sample = now + QUIET_TICK;
        } else if now >= next_sample {
            let busy = watchdog.sample(system, now);
            quiet = if busy { 0 } else { quiet + 1 };
            next_sample = now + if busy { BUSY_TICK } else { QUIET_TICK };
            if quiet >= QUIET_SAMPLES {
                let is_dormant = system.monitor.begin_dormancy(|| watchdog.is_thread_awake(system));
                next_sample = if is_dormant { u64::MAX } else { monotonic_nanos() + QUIET_TICK };
            }
        }
        if system.monitor.take_trim_request() {
            trim_at = earliest_trim;
        }
        if now >= trim_at {
            trim_heap();
            (trim_at, earliest_trim) = (u64::MAX, now + TRIM_INTERVAL);
        }
        if system.monitor.sleep(next_sample.min(system.log.next_flush()).min(trim_at)) {
            (next_sample, quiet) = (0, QUIET_SAMPLES - 1);
        }
    }
}

fn deliver(system: &System, now: u64, expired: &mut Vec<ExpiredTimer>) {
    loop {
        expired.clear();
        system.monitor.timers.expire(now, 256, expired);
        for timer in expired.iter() {
            let kind = if timer.session == IO_TIMER { kind::IO } else { kind::RESPONSE };
            let message = Message::without_payload(SYSTEM, timer.service, timer.session, kind);
            // A service that has just died does not need the message.
            let _ = system.post(message, 0);
        }
        if expired.len() < 256 {
            return;
        }
    }
}

/// Wakes all threads that run services, so that they end. From `INTERRUPT_AFTER` on, also interrupts the slices that
/// are still running. `since` is the time since the shutdown began, in nanoseconds.
fn end(system: &System, since: u64) {
    system.scheduler.sleepers.notify_all();
    system.wake_threads();
    if since < INTERRUPT_AFTER {
        return;
    }
    let own = lock(&system.own_progress);
    let own = own.iter().map(|progress| &**progress);
    for progress in system.progress.iter().chain(own).chain([&system.main_progress]) {
        if progress.running_slice().1.is_some() {
            progress.interrupt();
        }
    }
}

/// Reports the slices that are still running: they cannot be interrupted, because they block in C or loop in a
/// coroutine that the program has created. Their threads are abandoned, so that the process can end.
fn abandon(system: &System) {
    let all = system.progress.iter().chain([&system.main_progress]);
    for (_, service) in all.map(Progress::running_slice) {
        if let Some(id) = service {
            let text =
                format!("service {id} ({}) does not end and is abandoned", label(system.statistics(id).as_deref()));
            system.log_text(id, &text);
        }
    }
}
