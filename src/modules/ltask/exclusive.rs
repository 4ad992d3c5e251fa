//! Module `ltask.exclusive` (G1): for services that have a thread of their own by configuration.

use super::arguments::{message, on_service, service};
use super::event;
use super::handlers::new_table;
use super::time::timer_sleep;
use crate::ltask::message::{SYSTEM, kind};
use crate::lua::{Call, Fault, Function, FunctionTable, List, Module, functions};
use std::sync::atomic::Ordering;

const FUNCTIONS: FunctionTable = functions! {
    send, scheduling, timer_update, sleep = timer_sleep, event::eventinit, event::eventreset,
};

/// Opens `ltask.exclusive`.
pub(crate) const OPEN: Function = Function::new(open);

fn open(call: &mut Call<'_>) -> Result<Module, Fault> {
    let service = service(call)?;
    // A VM of `preinit` may become such a service.
    if service.id != SYSTEM && !service.statistics.exclusive.load(Ordering::Relaxed) {
        return Err(Fault::message("ltask.exclusive: this service has no thread of its own by configuration"));
    }
    Ok(Module(FUNCTIONS))
}

/// `exclusive.send(to, session, type, pointer, size)` → true; nothing when the sending queue is full, and
/// the block is still the caller's. A message to a mailbox that is full lies in the queue until there is
/// room.
fn send(call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
    let from = service(call)?.id;
    if from == SYSTEM {
        return Err(Fault::message("exclusive.send: this VM is no service yet: wait until yield returns nothing"));
    }
    let message = message(call, from)?;
    let service = service(call)?;
    let (to, session) = (message.to, message.session);
    let answers = matches!(message.kind, kind::RESPONSE | kind::ERROR);
    let waits = service.sending.iter().any(|other| other.to == to);
    let kept = match waits {
        true => Err(message),
        false => service.deliver(message),
    };
    if let Err(message) = kept {
        if service.sending.len() >= service.system().config.queue_sending {
            message.payload.give();
            return Ok(None);
        }
        service.sending.push_back(message);
    }
    if answers {
        service.unanswered.remove(to, session);
    }
    Ok(Some(true))
}

/// `exclusive.scheduling()` → a function that delivers what was queued now.
fn scheduling(_: &mut Call<'_>) -> Result<Function, Fault> {
    Ok(on_service(|service| service.flush_sending()))
}

/// `exclusive.timer_update([blocked])` → an empty list: timers are delivered without help.
fn timer_update(_: &mut Call<'_>) -> Result<List<i64>, Fault> {
    Ok(new_table())
}
