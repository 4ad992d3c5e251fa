//! Births and deaths of services.
//!
//! A death is one order of steps, by the thread that has the body: the mailbox closes (from here on
//! sends fail), what was unread and unanswered is noted for root, timers go, the VM is closed, and
//! then root gets its signal. Root answers what was noted and frees the number.

use super::mailbox::Affinity;
use super::message::{Message, ROOT, SYSTEM, ServiceId, kind};
use super::service::{Body, Service, System};
use super::sync::lock;
use crate::lua::Chunk;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Makes a service in a place that was opened for it. On failure the place is freed; the error is a
/// message.
pub(crate) fn make(system: &Arc<System>, id: ServiceId, label: &str, main: Chunk<'_>) -> Result<Body, String> {
    let made = Body::new(system, id, label).and_then(|mut body| {
        body.set_main(main)?;
        Ok(body)
    });
    if made.is_err() {
        discard(system, id);
    }
    made
}

/// Frees the place of a service that was never finished.
pub(crate) fn discard(system: &System, id: ServiceId) {
    if let Some(slot) = system.registry.get(id) {
        let mut left = Vec::new();
        if slot.mailbox.seize(id, &mut left).is_some() {
            left.iter().for_each(|message| system.refuse(message));
            system.registry.free(id);
        }
    }
}

/// Lets a service be scheduled.
pub(crate) fn install(system: &System, mut service: Body, affinity: Affinity) {
    let id = service.id;
    service.affinity = affinity;
    if let Some(slot) = system.registry.get(id) {
        let wake = slot.mailbox.install(service, affinity);
        system.wake(id, wake);
    }
}

/// Ends a service whose main function has ended, or that root closes.
pub(crate) fn retire(system: &System, mut service: Body) {
    let id = service.id;
    let failed = service.failed && !system.is_quitting();
    let Some(slot) = system.registry.get(id) else { return };
    service.dead = true;
    for message in std::mem::take(&mut service.sending) {
        if matches!(message.kind, kind::RESPONSE | kind::ERROR) {
            // Accepted, and still behind others: it has room in any mailbox.
            let _ = system.post(message, 0);
        }
    }
    let mut left: Vec<Message> = service.batch.drain(..).collect();
    let refused = slot.mailbox.die(&mut left);
    note_unanswered(&mut service, &left);
    let statistics = service.statistics.clone();
    // Freed by this thread, before the death is reported.
    drop(left);
    system.monitor.timers.forget(id);
    for waiting in refused {
        system.send_room(id, waiting);
    }
    service.end();
    statistics.memory.store(0, Ordering::Relaxed);
    if id == ROOT {
        if failed {
            system.exit_code.store(1, Ordering::SeqCst);
        }
        return system.quit();
    }
    let signal = Message::bare(id, ROOT, 0, kind::SIGNAL);
    if system.post(signal, 0).is_err() {
        // No root that could do it.
        for (from, session) in take_unanswered(system, id) {
            system.answer_dead(id, from, session);
        }
        system.registry.free(id);
    }
}

fn note_unanswered(service: &mut Service, left: &[Message]) {
    let mut unanswered = lock(&service.statistics.unanswered);
    unanswered.extend(service.unanswered.drain());
    unanswered.extend(requests(left));
}

/// Senders and sessions of the requests among messages.
fn requests(messages: &[Message]) -> impl Iterator<Item = (ServiceId, i64)> {
    messages.iter().filter(|message| message.wants_answer()).map(|message| (message.from, message.session))
}

/// Takes the requests that died with a service.
fn take_unanswered(system: &System, id: ServiceId) -> Vec<(ServiceId, i64)> {
    system.statistics(id).map_or_else(Vec::new, |statistics| std::mem::take(&mut *lock(&statistics.unanswered)))
}

/// Root closes a service: one that is dead already, or one that is not running, which dies now. One that
/// runs at this moment dies when its slice ends, with a signal. Returns the requests that died with it.
pub(crate) fn close(system: &System, id: ServiceId) -> Vec<(ServiceId, i64)> {
    let Some(slot) = system.registry.get(id) else { return Vec::new() };
    if slot.mailbox.is_dead(id) {
        return take_unanswered(system, id);
    }
    let mut left = Vec::new();
    let Some((service, refused)) = slot.mailbox.seize(id, &mut left) else {
        if slot.mailbox.is_alive(id)
            && let Some(statistics) = slot.statistics()
        {
            // It ends with its slice, which may have ended just now: this brings another one.
            statistics.condemned.store(true, Ordering::SeqCst);
            system.send_room(SYSTEM, id);
            system.wake_thread(id);
        }
        return Vec::new();
    };
    system.monitor.timers.forget(id);
    for waiting in refused {
        system.send_room(id, waiting);
    }
    match service {
        Some(mut service) => {
            service.dead = true;
            left.extend(service.batch.drain(..));
            note_unanswered(&mut service, &left);
            service.end();
            take_unanswered(system, id)
        }
        None => requests(&left).collect(),
    }
}
