//! Threads that run one service each: exclusive services (G1), and services with an event descriptor (G2).

use super::message::{Message, SYSTEM, kind};
use super::progress::Progress;
use super::service::{ServiceVm, System};
use super::sync::lock;
use super::{lifecycle, thread_clock, threads};
use crate::event::clock::monotonic_nanos;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Moves a service with a new event descriptor to its own thread.
pub(super) fn detach(system: &Arc<System>, mut service: ServiceVm) {
    service.needs_own_thread = false;
    if let (Some(slot), Some(event)) = (system.registry.get(service.id), service.event.clone()) {
        slot.mailbox.detach_running(event);
    }
    start(system, service);
}

/// Starts the thread of a service that no worker runs any longer.
pub(super) fn start(system: &Arc<System>, service: ServiceVm) {
    let name = format!("lio-{}", service.statistics.label());
    let id = service.id;
    // If the thread cannot be started, this thread takes the service back.
    let place = Arc::new(Mutex::new(Some(service)));
    let taken = place.clone();
    let started = threads::spawn(system, name, true, move |system| {
        let Some(service) = lock(&taken).take() else { return };
        let progress = Progress::with_clock(thread_clock::own());
        service.statistics.clock.store(progress.clock, Ordering::Relaxed);
        lock(&system.own_progress).push(progress.clone());
        progress.enter_own(&system.monitor);
        system.monitor.end_dormancy();
        run_slices(system, service, &progress);
        lock(&system.own_progress).retain(|other| !Arc::ptr_eq(other, &progress));
        progress.leave_own();
    });
    if let Err(message) = started {
        system.log_text(id, &message);
        if let Some(service) = lock(&place).take() {
            lifecycle::end(system, service);
        }
    }
}

/// Runs one service until the service or the system ends. The service itself blocks when it has nothing to do. An
/// exclusive service (G1) is resumed right after each yield. A service with an event descriptor (G2) gets an IDLE
/// message when it has no message to read.
fn run_slices(system: &Arc<System>, mut service: ServiceVm, progress: &Progress) {
    let is_exclusive = service.statistics.exclusive.load(Ordering::Relaxed);
    while !system.is_quitting() {
        let wants_slice = std::mem::take(&mut service.wants_slice);
        // The batch is also refilled if the service requests another slice: the service may block in that slice, and
        // refused senders must be notified when there is room.
        let has_messages = !service.batch.is_empty() || service.refill_or_notify();
        if !wants_slice && !has_messages && !is_exclusive {
            let id = service.id;
            service.batch.push_back(Message::without_payload(SYSTEM, id, 0, kind::IDLE));
        }
        if service.run_counted(progress, monotonic_nanos()).is_none() {
            return lifecycle::end(system, service);
        }
    }
    lock(&system.remaining).push(service);
}
