//! Event descriptors of module `ltask`, for services that block in their own selector.

use super::arguments::{on_service, service};
use crate::ltask::event::Event;
use crate::ltask::service::Service;
use crate::lua::{Call, Fault, Function, FunctionTable, Light, functions};
use crate::socket::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const FUNCTIONS: FunctionTable = functions! { eventinit, eventreset };

/// Lends the service's descriptor to its VM.
fn lend(call: &mut Call<'_>, event: &Event) -> Result<Light, Fault> {
    let number = event.descriptor();
    call.shared::<Table>()?.lend(number);
    Ok(Light(number as usize))
}

/// Creates a descriptor for the service. The descriptor is readable at first.
fn open(service: &mut Service) -> Result<Arc<Event>, Fault> {
    let event = Event::new().map_err(|error| Fault::message(format_args!("eventfd: {error}")))?;
    event.wake();
    service.event = Some(event.clone());
    Ok(event)
}

/// `ltask.eventinit()`: returns a wait function and a descriptor (lightuserdata). A service can call this function only
/// once. The service moves to its own thread, and gets an IDLE message whenever its mailbox is empty.
pub(super) fn eventinit(call: &mut Call<'_>) -> Result<(Function, Option<Light>), Fault> {
    let service = service(call)?;
    if service.has_descriptor {
        return Err(Fault::message("eventinit: this service already has a descriptor"));
    }
    let exclusive = service.statistics.exclusive.load(Ordering::Relaxed);
    let event = if exclusive { service.event.clone() } else { Some(open(service)?) };
    service.has_descriptor = true;
    service.needs_own_thread = !exclusive;
    let Some(event) = event else { return Ok((WAIT, None)) };
    if exclusive {
        event.wake();
    }
    Ok((WAIT, Some(lend(call, &event)?)))
}

/// `ltask.eventreset()`: returns a new descriptor. The old descriptor is closed.
pub(super) fn eventreset(call: &mut Call<'_>) -> Result<Option<Light>, Fault> {
    let service = service(call)?;
    if !service.has_descriptor {
        return Err(Fault::message("eventreset: this service has no descriptor; see eventinit"));
    }
    let event = open(service)?;
    let (id, system) = (service.id, service.system());
    let Some(slot) = system.registry.get(id) else { return Ok(None) };
    slot.mailbox.replace_waker(id, event.clone());
    Ok(Some(lend(call, &event)?))
}

/// The wait function: blocks until the descriptor is readable, drains it, and returns true.
const WAIT: Function = on_service(|service| {
    service.wait();
    true
});
