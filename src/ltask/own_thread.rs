//! Threads that run one service each: exclusive ones (G1), and those with an event descriptor (G2).

use super::lifecycle;
use super::message::{Message, SYSTEM, kind};
use super::progress::Progress;
use super::service::{Body, System};
use super::sync::lock;
use super::{thread_clock, threads};
use crate::event::clock::monotonic_nanos;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A service that got an event descriptor goes on on a thread of its own.
pub(super) fn detach(system: &Arc<System>, mut service: Body) {
    service.detach = false;
    if let (Some(slot), Some(event)) = (system.registry.get(service.id), service.event.clone()) {
        slot.mailbox.own(event);
    }
    start(system, service);
}

/// Starts the thread of a service that no worker runs any more.
pub(super) fn start(system: &Arc<System>, service: Body) {
    let name = format!("lio-{}", service.statistics.label());
    let id = service.id;
    // Where the service is found again when there is no thread for it.
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
            lifecycle::retire(system, service);
        }
    }
}

/// Runs one service until it ends or the system does. It blocks by itself; an exclusive one (G1) is
/// resumed right after each yield, one with an event descriptor (G2) is told when it has nothing to do.
fn run_slices(system: &Arc<System>, mut service: Body, progress: &Progress) {
    let exclusive = service.statistics.exclusive.load(Ordering::Relaxed);
    while !system.is_quitting() {
        let again = std::mem::take(&mut service.again);
        // Also before a slice that goes on: it may block in it, and who was refused is told that there is room.
        let has_messages = !service.batch.is_empty() || service.find_more();
        if !again && !has_messages && !exclusive {
            let id = service.id;
            service.batch.push_back(Message::bare(SYSTEM, id, 0, kind::IDLE));
        }
        if service.run_counted(progress, monotonic_nanos()).is_none() {
            return lifecycle::retire(system, service);
        }
    }
    lock(&system.left_over).push(service);
}
