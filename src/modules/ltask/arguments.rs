//! How the functions in this folder read arguments and return results: the calling service, service ids, messages.

use crate::ltask::log::Entry;
use crate::ltask::message::{Message, Payload, ServiceId};
use crate::ltask::service::Service;
use crate::lua::{Call, Extended, Fault, Function, Light, Maybe, Returns, Stack};

/// Returns the calling service. Fails outside a service.
#[inline]
pub(super) fn service<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Service, Fault> {
    call.data().ok_or_else(outside)
}

#[cold]
fn outside() -> Fault {
    Fault::message("this function works only inside a service")
}

/// Creates a function that calls `act` with the calling service and returns its result.
pub(super) const fn on_service<F, R>(act: F) -> Function
where
    F: Fn(&mut Service) -> R + Copy + 'static,
    R: Returns,
{
    Function::new(move |call: &mut Call<'_>| Ok(act(service(call)?)))
}

/// Reads the service id at `index`.
#[inline]
pub(super) fn service_id(stack: &Stack, index: i32) -> Result<ServiceId, Fault> {
    let id = stack.integer_in(index, 0..=u32::MAX.into(), "service id")?;
    Ok(id as ServiceId)
}

/// Reads the time in centiseconds at `index`, and rounds it up.
pub(super) fn ticks(stack: &Stack, index: i32) -> Result<i64, Fault> {
    let ticks = stack.number(index)?;
    match ticks.is_nan() {
        true => Err(Fault::argument(index, "time is not a number")),
        false => Ok(ticks.ceil() as i64),
    }
}

/// Reads the address of a block at `index`, and its size in the next argument; zeros if the address is nil. The block
/// still belongs to the caller.
pub(super) fn block(stack: &Stack, index: i32) -> Result<(usize, usize), Fault> {
    if stack.is_none(index) {
        return Ok((0, 0));
    }
    let Some(Light(address)) = stack.light(index) else {
        return Err(Fault::expected(index, "pointer"));
    };
    let size = stack.integer_in(index + 1, 0..=i64::MAX, "size")?;
    Ok((address, size as usize))
}

/// Reads the message type at `index`.
pub(super) fn kind(stack: &Stack, index: i32, name: &str) -> Result<u8, Fault> {
    Ok(stack.integer_in(index, 0..=254, name)? as u8)
}

/// Reads the message `to, session, type [, pointer, size]` from argument 1 on. The message takes ownership of the
/// block. `from` is the sender.
pub(super) fn message(stack: &Stack, from: ServiceId) -> Result<Message, Fault> {
    let to = service_id(stack, 1)?;
    let session = stack.integer(2)?;
    let kind = kind(stack, 3, "message type")?;
    let (address, size) = block(stack, 4)?;
    Ok(Message { from, to, session, kind, payload: Payload::from_raw(address, size) })
}

/// Values, followed by the pointer and the size of a payload, if there is one.
pub(super) type WithPayload<V> = Extended<V, (Light, i64)>;

/// Returns the values, followed by the payload, which then belongs to the Lua program.
pub(super) fn with_payload<V>(values: V, payload: Payload) -> WithPayload<V> {
    let (address, size) = payload.into_raw();
    Extended(values, (address != 0).then_some((Light(address), size as i64)))
}

/// Returns an entry of the log: the time in centiseconds, the service id, and the pointer and the size of the payload;
/// nothing if there is no entry.
pub(super) fn log_entry(entry: Option<Entry>) -> Maybe<WithPayload<(i64, ServiceId)>> {
    Maybe(entry.map(|entry| with_payload((entry.time as i64, entry.service), entry.payload)))
}

/// The result of [`log_entry`], with the service's label after the service id.
pub(super) type LabelledEntry = Maybe<WithPayload<(i64, ServiceId, Option<String>)>>;

pub(super) fn labelled_entry(entry: Option<Entry>) -> LabelledEntry {
    Maybe(entry.map(|entry| {
        let label = entry.statistics.map(|statistics| statistics.label());
        with_payload((entry.time as i64, entry.service, label), entry.payload)
    }))
}
