//! A worker takes a ready service, runs its slice, and decides what the service does next.

use super::mailbox::Affinity;
use super::message::{SYSTEM, ServiceId};
use super::progress::Progress;
use super::service::System;
use super::worker_queue::WorkerQueue;
use super::{lifecycle, own_thread, threads};
use crate::event::clock::monotonic_nanos;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state of a worker's thread.
struct Worker<'a> {
    system: &'a Arc<System>,
    /// The queue from which the worker takes services.
    queue: &'a WorkerQueue,
    /// The time at which the last slice ended, if the worker has not searched for work since; otherwise 0.
    ended: Cell<u64>,
    /// Whether this is a spare worker, which replaces a blocked worker.
    is_spare: bool,
}

/// Runs worker `number` on the calling thread, until the system ends or the worker is no longer needed.
pub(super) fn run(system: &Arc<System>, number: usize) {
    let Some(queue) = system.scheduler.enter(number) else { return };
    let is_spare = number >= system.config.worker;
    Worker { system, queue: &queue, ended: Cell::new(0), is_spare }.run_slices();
    system.scheduler.leave(queue);
}

/// Starts a spare worker, which replaces a blocked worker. If that fails, ready services wait until a worker is free.
pub(super) fn start_spare(system: &Arc<System>) {
    let Some(number) = system.scheduler.free_number(system.config.worker) else { return };
    system.monitor.spare_workers.fetch_add(1, Ordering::SeqCst);
    let started = threads::spawn(system, "lio-spare".into(), true, move |system| {
        run(system, number);
        system.monitor.spare_workers.fetch_sub(1, Ordering::SeqCst);
    });
    if let Err(message) = started {
        system.monitor.spare_workers.fetch_sub(1, Ordering::SeqCst);
        system.log_text(SYSTEM, &message);
    }
}

impl Worker<'_> {
    fn run_slices(&self) {
        let (ready, sleepers) = (&self.system.scheduler.ready, &self.system.scheduler.sleepers);
        let progress = &self.system.progress[self.queue.number];
        progress.enter();
        while !self.system.is_quitting() {
            if self.is_spare && self.system.monitor.has_surplus_spares() {
                break;
            }
            match self.queue.next(ready, sleepers) {
                Some(id) => self.run_slice(id),
                None if self.is_spare => match self.queue.steal(ready, sleepers) {
                    Some(id) => self.run_slice(id),
                    None => break,
                },
                None => self.find_work(),
            }
        }
        progress.leave();
    }

    /// Searches for a ready service in all queues, sleeps while there is none, and runs a slice of the service.
    fn find_work(&self) {
        self.ended.set(0);
        let (system, scheduler) = (self.system, &self.system.scheduler);
        let has_ended = || system.is_quitting();
        let woken = || system.monitor.end_dormancy();
        if let Some(id) = self.queue.search(&scheduler.ready, &scheduler.sleepers, has_ended, woken) {
            self.run_slice(id);
        }
    }

    fn run_slice(&self, id: ServiceId) {
        let Worker { system, queue, ended, .. } = self;
        // This slice begins when the last slice ended. Reading the clock again would take as long as a small slice.
        let began = || match ended.take() {
            0 => monotonic_nanos(),
            ended => ended,
        };
        let Some((end, next)) = run_slice_of(system, id, &system.progress[queue.number], began) else { return };
        ended.set(end);
        match next {
            None => {}
            Some(Affinity::Any) => queue.requeue(&system.scheduler.ready, &system.scheduler.sleepers, id),
            Some(affinity) => system.scheduler.schedule(id, affinity),
        }
    }
}

/// Runs a slice of a ready service. `began` returns the time at which the slice begins. Returns the time at which the
/// slice ended, and, if the service must be queued again, its affinity. Returns None if no slice ran, or if the service
/// has ended or moves to its own thread.
#[inline]
fn run_slice_of(
    system: &Arc<System>, id: ServiceId, progress: &Progress, began: impl FnOnce() -> u64,
) -> Option<(u64, Option<Affinity>)> {
    let slot = system.registry.get(id)?;
    let mut service = slot.mailbox.begin_slice(id, |service| &mut service.batch)?;
    let mut ended = 0;
    // A service that got an event descriptor before it was installed does not run on this worker.
    if !service.needs_own_thread {
        service.check_overload();
        let began = began();
        let Some(end) = service.run_counted(progress, began) else {
            lifecycle::end(system, service);
            return None;
        };
        ended = end;
    }
    if service.needs_own_thread {
        own_thread::detach(system, service);
        return None;
    }
    // The slice may have read the last message that had arrived.
    if service.batch.is_empty() && !slot.mailbox.has_arrived() {
        service.check_overload();
    }
    let (unread, affinity) = (service.take_work_count(), service.affinity);
    let next = slot.mailbox.end_slice(service, unread, affinity);
    // This check is needed even if the service gets another slice, because this slice may not have taken the mailbox's
    // lock.
    if slot.mailbox.has_refused() {
        system.notify_room(id);
    }
    Some((ended, next))
}

/// Runs one slice of a service on the process's main thread.
pub(crate) fn run_main_slice(system: &Arc<System>, id: ServiceId) {
    system.main_progress.enter();
    let ran = run_slice_of(system, id, &system.main_progress, monotonic_nanos);
    system.main_progress.leave();
    if let Some((_, Some(affinity))) = ran {
        system.scheduler.schedule(id, affinity);
    }
}
