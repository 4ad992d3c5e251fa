//! How services start and end.
//!
//! When a service dies, the thread that owns its VM does the following, in this order: it closes the mailbox (from then
//! on, sends fail), records unread and unanswered requests for root, removes the timers, closes the VM, and sends root
//! a signal. Root answers the recorded requests and frees the id.

use super::mailbox::Affinity;
use super::message::{Message, ROOT, SYSTEM, ServiceId, kind};
use super::service::{Service, ServiceVm, System};
use super::sync::lock;
use crate::lua::Chunk;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Creates a service in the slot that was opened for `id`. On failure, frees the slot and returns an error message.
pub(crate) fn create(system: &Arc<System>, id: ServiceId, label: &str, main: Chunk<'_>) -> Result<ServiceVm, String> {
    let created = ServiceVm::new(system, id, label).and_then(|mut vm| {
        vm.set_main(main)?;
        Ok(vm)
    });
    if created.is_err() {
        discard(system, id);
    }
    created
}

/// Frees the slot of a service whose creation has failed.
pub(crate) fn discard(system: &System, id: ServiceId) {
    if let Some(slot) = system.registry.get(id) {
        let mut left = Vec::new();
        if slot.mailbox.kill(id, &mut left).is_some() {
            left.iter().for_each(|message| system.answer_undelivered(message));
            system.registry.free(id);
        }
    }
}

/// Makes a new service available to the scheduler.
pub(crate) fn install(system: &System, mut service: ServiceVm, affinity: Affinity) {
    let id = service.id;
    service.affinity = affinity;
    if let Some(slot) = system.registry.get(id) {
        let wake = slot.mailbox.install(service, affinity);
        system.wake(id, wake);
    }
}

/// Ends a service because its main function has ended or because root closes it.
pub(crate) fn end(system: &System, mut service: ServiceVm) {
    let id = service.id;
    let failed = service.has_failed && !system.is_quitting();
    let Some(slot) = system.registry.get(id) else { return };
    service.is_dead = true;
    for message in std::mem::take(&mut service.send_queue) {
        if matches!(message.kind, kind::RESPONSE | kind::ERROR) {
            // `exclusive.send` has accepted the message, but has queued it behind other messages. Responses are never
            // refused because a mailbox is full.
            let _ = system.post(message, 0);
        }
    }
    let mut left: Vec<Message> = service.batch.drain(..).collect();
    let refused = slot.mailbox.close(&mut left);
    record_unanswered(&mut service, &left);
    let statistics = service.statistics.clone();
    // This thread frees the messages before it reports that the service is dead.
    drop(left);
    system.monitor.timers.remove_all(id);
    for waiting in refused {
        system.send_room(id, waiting);
    }
    let was_large = service.memory().was_large();
    service.end();
    if was_large {
        system.monitor.request_trim();
    }
    statistics.memory.store(0, Ordering::Relaxed);
    if id == ROOT {
        if failed {
            system.exit_code.store(1, Ordering::SeqCst);
        }
        return system.quit();
    }
    let signal = Message::without_payload(id, ROOT, 0, kind::SIGNAL);
    if system.post(signal, 0).is_err() {
        // There is no root, so this function answers the requests.
        for (from, session) in take_unanswered(system, id) {
            system.answer_dead(id, from, session);
        }
        system.registry.free(id);
    }
}

/// Closes a service on behalf of root. If the service is running, returns an empty vector: the service dies after its
/// slice, and then root gets a signal. Otherwise ends the service, unless it is already dead, and returns its
/// unanswered requests.
pub(crate) fn close(system: &System, id: ServiceId) -> Vec<(ServiceId, i64)> {
    let Some(slot) = system.registry.get(id) else { return Vec::new() };
    if slot.mailbox.is_dead(id) {
        return take_unanswered(system, id);
    }
    let mut left = Vec::new();
    let Some((service, refused)) = slot.mailbox.kill(id, &mut left) else {
        if slot.mailbox.is_alive(id)
            && let Some(statistics) = slot.statistics()
        {
            // The service ends after its slice. If the slice has just ended, the ROOM message causes another slice.
            statistics.must_end.store(true, Ordering::SeqCst);
            system.send_room(SYSTEM, id);
            system.wake_thread(id);
        }
        return Vec::new();
    };
    system.monitor.timers.remove_all(id);
    for waiting in refused {
        system.send_room(id, waiting);
    }
    match service {
        Some(mut service) => {
            service.is_dead = true;
            left.extend(service.batch.drain(..));
            record_unanswered(&mut service, &left);
            service.end();
            take_unanswered(system, id)
        }
        None => requests(&left).collect(),
    }
}

fn record_unanswered(service: &mut Service, left: &[Message]) {
    let mut unanswered = lock(&service.statistics.unanswered);
    unanswered.extend(service.unanswered.drain());
    unanswered.extend(requests(left));
}

/// Returns the senders and the sessions of the requests among `messages`.
fn requests(messages: &[Message]) -> impl Iterator<Item = (ServiceId, i64)> {
    messages.iter().filter(|message| message.wants_response()).map(|message| (message.from, message.session))
}

/// Takes and returns the requests that service `id` had not answered when it died.
fn take_unanswered(system: &System, id: ServiceId) -> Vec<(ServiceId, i64)> {
    system.statistics(id).map_or_else(Vec::new, |statistics| std::mem::take(&mut *lock(&statistics.unanswered)))
}
