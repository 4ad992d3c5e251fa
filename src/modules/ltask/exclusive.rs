//! Module `ltask.exclusive` (G1), for services that are configured to have their own threads.

use super::arguments::{message, on_service, service};
use super::event;
use super::handlers::empty_table;
use super::time::timer_sleep;
use crate::ltask::message::{SYSTEM, kind};
use crate::lua::{Call, Fault, Function, FunctionTable, List, Module, functions};
use std::sync::atomic::Ordering;

const FUNCTIONS: FunctionTable = functions! {
    send, scheduling, timer_update, sleep = timer_sleep, event::eventinit, event::eventreset,
};

/// Opens `ltask.exclusive`.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let service = service(call)?;
    // A VM that `preinit` creates has the id `SYSTEM` until it becomes a service, which may have its own thread.
    if service.id != SYSTEM && !service.statistics.exclusive.load(Ordering::Relaxed) {
        return Err(Fault::message("ltask.exclusive: this service is not configured to have its own thread"));
    }
    Ok(Module(FUNCTIONS))
});

/// `exclusive.send(to, session, type, pointer, size)`: posts a message and returns true. A message to a full mailbox
/// waits in the send queue until there is room. If the send queue is full, returns nothing, and the block still belongs
/// to the caller.
fn send(call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
    let from = service(call)?.id;
    if from == SYSTEM {
        return Err(Fault::message("exclusive.send: this VM is not a service yet: wait until yield returns nothing"));
    }
    let message = message(call, from)?;
    let service = service(call)?;
    let (to, session) = (message.to, message.session);
    let is_response = matches!(message.kind, kind::RESPONSE | kind::ERROR);
    let must_queue = service.send_queue.iter().any(|other| other.to == to);
    let delivered = if must_queue { Err(message) } else { service.deliver(message) };
    if let Err(message) = delivered {
        if service.send_queue.len() >= service.system().config.queue_sending {
            message.payload.into_raw();
            return Ok(None);
        }
        service.send_queue.push_back(message);
    }
    if is_response {
        service.unanswered.remove(to, session);
    }
    Ok(Some(true))
}

/// `exclusive.scheduling()`: returns a function that delivers the queued messages now.
fn scheduling(_: &mut Call<'_>) -> Result<Function, Fault> {
    Ok(on_service(|service| service.flush_send_queue()))
}

/// `exclusive.timer_update([blocked])`: returns an empty list, since timers are delivered without this call.
fn timer_update(_: &mut Call<'_>) -> Result<List<i64>, Fault> {
    Ok(empty_table())
}
