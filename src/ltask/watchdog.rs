//! The watchdog. The monitor thread uses it to check the progress of the threads that run services.
//!
//! If a slice takes long, the service in its worker's hand-off slot is released to the other workers, and a spare
//! worker starts if there is work and no free worker. If a slice takes longer than `config.watchdog`, it is reported.

use super::message::ServiceId;
use super::progress::Progress;
use super::service::System;
use super::statistics::Statistics;
use super::sync::lock;
use super::{thread_clock, worker, worker_queue};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MILLI: u64 = 1_000_000;
/// A slice that takes longer than this (in nanoseconds) counts as blocking its worker.
const LONG_SLICE: u64 = 8 * MILLI;
/// A service with its own thread that runs for this long (in nanoseconds) without waiting is reported as blocked. Other
/// services may then take over its work.
const BLOCKED_AFTER: u64 = 200 * MILLI;
/// How long the watchdog waits for a traceback, in nanoseconds.
const TRACEBACK_TIMEOUT: u64 = 200 * MILLI;

/// The samples of one thread's progress during its current slice.
#[derive(Clone, Default)]
struct Sample {
    turn: u64,
    /// The time of the first sample of the slice.
    since: u64,
    service: ServiceId,
    /// The CPU time of the thread at the first and at the last sample of the slice.
    first_cpu_time: u64,
    cpu_time: u64,
    /// The time at which the watchdog requested a traceback; 0 if it has not.
    requested_at: u64,
    /// The age of the slice at which its thread must check the running time of its task; 0 before the first sample.
    next_check: u64,
    logged: bool,
    /// The service's statistics, kept since the second sample, because the service may be dead when a line is logged.
    statistics: Option<Arc<Statistics>>,
    /// For a service's own thread: the value of [`Progress::waits`], and whether the service was reported as blocked.
    waits: u64,
    is_blocked: bool,
}

/// The samples of all threads.
pub(super) struct Watchdog {
    workers: Vec<Sample>,
    own: Vec<(Arc<Progress>, Sample)>,
}

impl Watchdog {
    /// Creates a watchdog without samples.
    pub(super) fn new(system: &System) -> Watchdog {
        Watchdog { workers: vec![Sample::default(); system.progress.len()], own: Vec::new() }
    }

    /// Samples every thread. Returns whether a thread is busy.
    pub(super) fn sample(&mut self, system: &Arc<System>, now: u64) -> bool {
        self.sample_workers(system, now) | self.sample_own(system, now)
    }

    /// Whether a worker is awake, or a service's own thread has begun or ended a wait since its last sample.
    pub(super) fn is_thread_awake(&self, system: &System) -> bool {
        let has_waited = |(progress, sample): &(Arc<Progress>, Sample)| progress.waits() != sample.waits;
        system.scheduler.sleepers.sleeping() < system.config.worker || self.own.iter().any(has_waited)
    }

    fn sample_workers(&mut self, system: &Arc<System>, now: u64) -> bool {
        let (ready, sleepers) = (&system.scheduler.ready, &system.scheduler.sleepers);
        let (mut long_slices, mut running) = (0, 0);
        for (number, (progress, sample)) in system.progress.iter().zip(&mut self.workers).enumerate() {
            let (turn, service) = progress.running_slice();
            running += usize::from(service.is_some());
            if turn != sample.turn || service.is_none() {
                sample.withdraw(system, progress, now);
                *sample = Sample { turn, since: now, service: service.unwrap_or(0), ..Sample::default() };
                continue;
            }
            worker_queue::release_hand_off(ready, sleepers, number);
            let age = now - sample.since;
            long_slices += usize::from(age >= LONG_SLICE);
            sample.check(system, progress, age, now);
        }
        system.monitor.long_slices.store(long_slices, Ordering::SeqCst);
        let spare_workers = system.monitor.spare_workers.load(Ordering::SeqCst);
        if long_slices > spare_workers && sleepers.sleeping() == 0 && ready.has_shared() {
            worker::start_spare(system);
        }
        running > 0 || sleepers.sleeping() < system.config.worker
    }

    /// Samples services with their own threads. Such a service waits during most of a slice, so the age of the slice is
    /// the CPU time that the thread has used since its last wait. Returns whether one of these threads is using CPU
    /// time, or is awake and not reported as blocked.
    fn sample_own(&mut self, system: &System, now: u64) -> bool {
        let all = lock(&system.own_progress).clone();
        self.own.retain(|(progress, sample)| {
            let is_there = all.iter().any(|other| Arc::ptr_eq(progress, other));
            if !is_there {
                sample.withdraw(system, progress, now);
            }
            is_there
        });
        for progress in all {
            if !self.own.iter().any(|(other, _)| Arc::ptr_eq(&progress, other)) {
                self.own.push((progress, Sample::default()));
            }
        }
        let mut busy = false;
        for (progress, sample) in &mut self.own {
            let waits = progress.waits();
            let (turn, service) = progress.running_slice();
            let cpu_time = thread_clock::nanos(progress.clock);
            // If the thread has not waited yet, only its CPU time is known.
            let is_awake = waits != 0 && waits.is_multiple_of(2);
            if turn != sample.turn || waits != sample.waits || service.is_none() {
                sample.withdraw(system, progress, now);
                let service = service.unwrap_or(0);
                *sample = Sample {
                    turn,
                    waits,
                    since: now,
                    service,
                    first_cpu_time: cpu_time,
                    cpu_time,
                    ..Sample::default()
                };
                busy |= is_awake;
                continue;
            }
            busy |= cpu_time.saturating_sub(sample.cpu_time) > MILLI / 2 || is_awake && !sample.is_blocked;
            sample.cpu_time = cpu_time;
            if is_awake && !sample.is_blocked && now - sample.since >= BLOCKED_AFTER {
                sample.is_blocked = true;
                system.report_blocked(sample.service, true);
            }
            sample.check(system, progress, cpu_time.saturating_sub(sample.first_cpu_time), now);
        }
        busy
    }
}

impl Sample {
    /// Checks the slice, whose age is `age` nanoseconds.
    fn check(&mut self, system: &System, progress: &Progress, age: u64, now: u64) {
        let (watchdog, max_run_time) = self.limits(system);
        if max_run_time != 0 && age >= self.next_check {
            // The first check finds the running task, and a later one finds whether it is still running.
            if self.next_check != 0 {
                progress.interrupt();
            }
            self.next_check = age + max_run_time / 4;
        }
        self.check_watchdog(system, progress, watchdog, age, now);
    }

    /// Returns the watchdog's limit and `max_run_time` for the service, in nanoseconds.
    fn limits(&mut self, system: &System) -> (u64, u64) {
        if self.statistics.is_none() {
            self.statistics = system.statistics(self.service);
        }
        let (config, own) = (&system.config, self.statistics.as_ref().map(|statistics| &statistics.limits));
        let watchdog = own.map_or(config.watchdog, |own| own.watchdog(config.watchdog));
        let max_run_time = own.map_or(config.max_run_time, |own| own.max_run_time(config.max_run_time));
        (watchdog.as_nanos() as u64, max_run_time.as_nanos() as u64)
    }

    /// Reports the slice once, if its age in nanoseconds exceeds the watchdog's limit.
    fn check_watchdog(&mut self, system: &System, progress: &Progress, limit: u64, age: u64, now: u64) {
        if limit == 0 || self.logged || age < limit {
            return;
        }
        if self.requested_at == 0 {
            self.requested_at = now;
            progress.since.store(self.since, Ordering::Relaxed);
            progress.request_traceback(self.turn);
        } else if progress.has_reported(self.turn) {
            self.logged = true;
        } else if now - self.requested_at >= TRACEBACK_TIMEOUT {
            self.logged = true;
            let cause = "; it is blocked in a C function, or is running a coroutine that the program has created";
            self.report(system, b"error", now, "has not paused for", cause);
            if let Some(statistics) = &self.statistics {
                statistics.long_slice_reported.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Called when the slice has ended or its thread has waited. If the slice was reported, reports that it has paused.
    /// If the service was reported as blocked, reports that it is no longer blocked.
    fn withdraw(&self, system: &System, progress: &Progress, now: u64) {
        if self.logged || self.requested_at != 0 && progress.has_reported(self.turn) {
            self.report(system, b"info", now, "has paused again after", "");
        }
        if self.is_blocked {
            system.report_blocked(self.service, false);
        }
    }

    /// Logs the state of the slice, with its service's label, even if the service has died since the watchdog requested
    /// the traceback.
    fn report(&self, system: &System, level: &[u8], now: u64, state: &str, cause: &str) {
        let (id, label) = (self.service, label(self.statistics.as_deref()));
        let seconds = (now - self.since) as f64 / 1e9;
        let text = format!("service {id} ({label}) {state} {seconds:.1} s{cause}");
        system.log_at(level, id, self.statistics.clone(), &text);
    }
}

/// Returns the label of a service; `"dead"` if there are no statistics.
pub(super) fn label(statistics: Option<&Statistics>) -> String {
    statistics.map_or_else(|| "dead".to_owned(), Statistics::label)
}
