//! Starts and ends the threads of a system.

use super::event::Event;
use super::message::SYSTEM;
use super::service::System;
use super::sync::lock;
use super::threads::spawn;
use super::{monitor_thread, own_thread, worker};
use crate::lua::interrupt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Starts all threads.
pub(crate) fn start(system: &Arc<System>) {
    interrupt::install();
    for number in 0..system.config.worker {
        let name = format!("lio-worker-{number}");
        let started = spawn(system, name, true, move |system| worker::run(system, number));
        must_start(system, started);
    }
    for service in std::mem::take(&mut *lock(&system.exclusive)) {
        own_thread::start(system, service);
    }
    let started = spawn(system, "lio-timer".into(), false, |system| {
        struct Finished<'a>(&'a System);
        impl Drop for Finished<'_> {
            fn drop(&mut self) {
                self.0.finished.wake();
            }
        }
        let _finished = Finished(system);
        monitor_thread::run(system);
    });
    if !must_start(system, started) {
        system.finished.wake();
    }
}

/// Waits until every thread has ended, then closes every VM. When a process signal arrives, calls `interrupted`, which
/// returns whether the system must end. Returns the exit code.
pub(crate) fn wait(system: &Arc<System>, interrupted: impl Fn() -> bool) -> i32 {
    loop {
        if system.finished.wait_once() {
            break;
        }
        if interrupted() {
            system.quit();
        }
    }
    join(system)
}

/// Closes the remaining VMs: those of services with their own threads, and those in mailboxes. Root's VM is closed
/// last.
pub(crate) fn close_all(system: &Arc<System>) {
    let mut services = std::mem::take(&mut *lock(&system.remaining));
    services.append(&mut lock(&system.exclusive));
    for slot in system.registry.all() {
        services.extend(slot.mailbox.take_vm());
    }
    services.sort_by_key(|service| std::cmp::Reverse(service.id));
    for service in services {
        service.end();
    }
    for slot in system.registry.all() {
        drop(slot.mailbox.take_messages());
    }
}

/// Makes a service exclusive (G1): the service gets its own thread, which starts when the system starts. On failure,
/// returns an error message.
pub(crate) fn make_exclusive(system: &System, id: u32) -> Result<(), String> {
    let slot = system.registry.get(id);
    let event = Event::new().map_err(|error| format!("eventfd: {error}"))?;
    let service = slot.and_then(|slot| slot.mailbox.detach(id, event.clone()));
    let (Some(mut service), Some(slot)) = (service, slot) else {
        return Err(format!("there is no service {id}, or the service already has a thread"));
    };
    match service.event.clone() {
        // The VM took a descriptor before it became a service, and may have registered the descriptor with a selector.
        Some(kept) => slot.mailbox.replace_waker(id, kept),
        None => service.event = Some(event),
    }
    service.needs_own_thread = false;
    service.statistics.exclusive.store(true, Ordering::Relaxed);
    lock(&system.exclusive).push(service);
    Ok(())
}

/// Ends the system if a thread that it needs could not be started. Returns whether the thread was started.
fn must_start(system: &Arc<System>, started: Result<(), String>) -> bool {
    let Err(message) = started else { return true };
    system.log_text(SYSTEM, &message);
    system.fail_boot(&message);
    system.quit();
    false
}

/// Joins the threads and closes the VMs of a system that has ended.
fn join(system: &Arc<System>) -> i32 {
    for thread in std::mem::take(&mut *lock(&system.threads)) {
        // A thread whose slice cannot be interrupted is abandoned; see `monitor_thread.rs`.
        if system.running.load(Ordering::SeqCst) > 0 && !thread.is_finished() {
            continue;
        }
        // If the thread panicked, the panic hook has already reported the panic on standard error.
        let _ = thread.join();
    }
    interrupt::uninstall();
    close_all(system);
    system.exit_code.load(Ordering::SeqCst)
}
