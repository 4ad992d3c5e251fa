//! Clocks and timers of module `ltask`.

use super::arguments::{on_service, service, ticks};
use crate::event::clock::{monotonic, monotonic_nanos};
use crate::ltask::log::centiseconds;
use crate::ltask::scheduler::worker_number;
use crate::lua::{Argument, Call, Fault, Function, FunctionTable, Kind, Nil, functions};
use std::time::Duration;

pub(super) const FUNCTIONS: FunctionTable =
    functions! { timer_add, timer_update, timer_sleep, now, walltime, counter, cpucost: CPUCOST };

/// `ltask.timer_add(session, centiseconds)`: after this time, a RESPONSE with this session arrives.
fn timer_add(call: &mut Call<'_>) -> Result<(), Fault> {
    let (session, ticks) = (call.integer(1)?, ticks(call, 2)?);
    service(call)?.set_timer(session, ticks);
    Ok(())
}

/// `ltask.timer_update(t)`: clears and returns `t`, since timers are delivered without this call.
fn timer_update(call: &mut Call<'_>) -> Result<Argument, Fault> {
    call.expect(1, Kind::Table, "table")?;
    for number in (1..=call.raw_length(1) as i64).rev() {
        let (key, value) = (call.push(number)?, call.push(Nil)?);
        call.replace(1, key, value)?;
        call.drop_to(key - 1);
    }
    Ok(Argument(1))
}

/// `ltask.timer_sleep(milliseconds)`, `exclusive.sleep(milliseconds)`: sleeps for this time, or until the system ends.
pub(super) fn timer_sleep(call: &mut Call<'_>) -> Result<(), Fault> {
    let millis = call.number(1)?;
    if millis.is_nan() {
        return Err(Fault::argument(1, "time is not a number"));
    }
    let time = Duration::from_secs_f64((millis / 1000.0).clamp(0.0, 1e9));
    service(call)?.system().sleep(time);
    Ok(())
}

/// `ltask.now()`: returns the seconds and the centiseconds since the Unix epoch.
fn now(_: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    let ticks = centiseconds() as i64;
    Ok((ticks / 100, ticks))
}

/// `ltask.walltime()`: returns the centiseconds since the Unix epoch (G1).
fn walltime(_: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(centiseconds() as i64)
}

/// `ltask.counter()`: returns the time of a monotonic clock in seconds, as a float.
fn counter(_: &mut Call<'_>) -> Result<f64, Fault> {
    Ok(monotonic())
}

/// `ltask.cpucost()`: returns how long this service has run, in seconds, as a float.
const CPUCOST: Function = on_service(|service| {
    let mut busy = service.statistics.busy();
    if worker_number().is_some() {
        busy += monotonic_nanos() - service.slice_began;
    }
    busy as f64 / 1e9
});
