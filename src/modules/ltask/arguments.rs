//! How the functions of these modules read arguments and return results: the calling service, service ids, messages.

use crate::ltask::log::Entry;
use crate::ltask::message::{Message, Payload, ServiceId};
use crate::ltask::service::Service;
use crate::lua::{Call, Extended, Fault, Function, Light, Maybe, Returns, Stack};

/// The calling service; an error outside a service.
#[inline]
pub(super) fn service<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Service, Fault> {
    call.data().ok_or_else(outside)
}

#[cold]
fn outside() -> Fault {
    Fault::message("this works inside a service only")
}

/// A function that only returns what `act` returns for the calling service.
pub(super) const fn on_service<F, R>(act: F) -> Function
where
    F: Fn(&mut Service) -> R + Copy + 'static,
    R: Returns,
{
    Function::new(move |call: &mut Call<'_>| Ok(act(service(call)?)))
}

/// The service id at `index`.
#[inline]
pub(super) fn service_id(stack: &Stack, index: i32) -> Result<ServiceId, Fault> {
    let id = stack.integer_in(index, 0..=u32::MAX.into(), "service id")?;
    Ok(id as ServiceId)
}

/// The time in centiseconds at `index`, rounded up.
pub(super) fn ticks(stack: &Stack, index: i32) -> Result<i64, Fault> {
    let ticks = stack.number(index)?;
    match ticks.is_nan() {
        true => Err(Fault::argument(index, "time is not a number")),
        false => Ok(ticks.ceil() as i64),
    }
}

/// The address at `index` and the size in the next argument; zeros for nil. The block still belongs to the caller.
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

/// The message type at `index`.
pub(super) fn kind(stack: &Stack, index: i32, name: &str) -> Result<u8, Fault> {
    Ok(stack.integer_in(index, 0..=254, name)? as u8)
}

/// The message `to, session, type [, pointer, size]` from argument 1 on, which takes the block. `from` is the sender.
pub(super) fn message(stack: &Stack, from: ServiceId) -> Result<Message, Fault> {
    let to = service_id(stack, 1)?;
    let session = stack.integer(2)?;
    let kind = kind(stack, 3, "message type")?;
    let (address, size) = block(stack, 4)?;
    Ok(Message { from, to, session, kind, payload: Payload::from_raw(address, size) })
}

/// Values, followed by the pointer and size of a payload, if there is one.
pub(super) type WithPayload<V> = Extended<V, (Light, i64)>;

/// The values, followed by the payload, which belongs to the Lua program from then on.
pub(super) fn with_payload<V>(values: V, payload: Payload) -> WithPayload<V> {
    let (address, size) = payload.into_raw();
    Extended(values, (address != 0).then_some((Light(address), size as i64)))
}

/// An entry of the log: time in centiseconds, service id, pointer and size of its payload.
pub(super) fn log_entry(entry: Option<Entry>) -> Maybe<WithPayload<(i64, ServiceId)>> {
    Maybe(entry.map(|entry| with_payload((entry.time as i64, entry.service), entry.payload)))
}

/// The same, with the service's label after its id.
pub(super) type LabelledEntry = Maybe<WithPayload<(i64, ServiceId, Option<String>)>>;

pub(super) fn labelled_entry(entry: Option<Entry>) -> LabelledEntry {
    Maybe(entry.map(|entry| {
        let label = entry.statistics.map(|statistics| statistics.label());
        with_payload((entry.time as i64, entry.service, label), entry.payload)
    }))
}
