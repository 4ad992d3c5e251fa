//! Ends a service that is no longer used: a service without handlers, tasks or timers.

use super::arguments::service;
use super::calls::TIMEOUTS;
use super::handlers::{IDLE, REQUESTS, is_unused};
use super::system::SYSTEM_CALLS;
use crate::ltask::service::Service;
use crate::lua::{Call, Fault};
use crate::task::Tasks;
use std::sync::atomic::Ordering;

/// Returns whether the service has nothing left to do: it has no request handlers, does not poll I/O, its file has
/// returned, no task is left except those that wait for the end of the service, and no message is unread or waits to be
/// delivered.
pub(super) fn has_finished(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    !(library.is_starting || library.has_handlers || library.polls_io && !library.ends_with_tasks)
        && library.timeouts == 0
        && tasks.count() <= library.end_waits
        && service.batch.is_empty()
        && service.send_queue.is_empty()
        && library.outbox.is_empty()
}

/// Ends the service, unless it has handlers of requests or system messages, an idle handler, or functions for timeouts.
#[cold]
pub(super) fn end_if_unused<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Service, Fault> {
    let mut is_unused = true;
    let owns_loop = service(call)?.library.ends_with_tasks;
    for name in [&REQUESTS, &TIMEOUTS, &SYSTEM_CALLS, &IDLE] {
        // The idle handler of such a service only runs the loop.
        if owns_loop && std::ptr::eq(name, &IDLE) {
            continue;
        }
        is_unused &= self::is_unused(call, name)?;
    }
    let is_exclusive = service(call)?.statistics.exclusive.load(Ordering::Relaxed);
    if is_unused && !(is_exclusive && has_on_idle(call)?) {
        service(call)?.library.is_ending = true;
    }
    call.drop_to(0);
    service(call)
}

/// Returns whether the service has assigned `ltask.on_idle` (G1).
fn has_on_idle(call: &mut Call<'_>) -> Result<bool, Fault> {
    let ltask = call.loaded("ltask")?;
    let handler = call.raw_field(ltask, "on_idle")?;
    Ok(!call.is_none(handler))
}
