//! The I/O threads. A thread starts when a service that owns no loop first uses the network or a timer of `lio.loop`,
//! and posts an IO message to a service when its selector has events (`watcher.rs`).
//!
//! An I/O thread does not read or write: only the thread that runs a service uses its connections. So no data crosses
//! threads, and the system's buffers provide backpressure.

use super::message::{Message, SYSTEM, ServiceId, kind};
use super::service::System;
use super::threads;
use super::watcher::Watcher;
use std::io;
use std::sync::Arc;

/// Returns the watcher that is responsible for a service. Starts its thread if the thread does not run.
///
/// # Errors
/// The system's error if a descriptor or the thread cannot be created.
pub(crate) fn watcher_of(system: &Arc<System>, service: ServiceId) -> io::Result<Arc<Watcher>> {
    system.watchers.watcher_of(service, |watcher, number| {
        let watcher = watcher.clone();
        threads::spawn(system, format!("lio-io-{number}"), false, move |system| run(system, &watcher))
            .map_err(io::Error::other)
    })
}

fn run(system: &System, watcher: &Watcher) {
    let mut services = Vec::new();
    while !system.is_quitting() && watcher.wait(&mut services) {
        for service in services.drain(..) {
            // A service that has just died does not need the message.
            let _ = system.post(Message::without_payload(SYSTEM, service, 0, kind::IO), 0);
        }
    }
}
