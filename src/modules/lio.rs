//! `lio`: selectors, clocks, and some functions from other files.

use super::{selector, socket, supervisor, task, waker};
use crate::event::clock::VmClock;
use crate::event::{READ, WRITE};
use crate::lua::{Call, Fault, Function, FunctionTable, ModuleWith, Value, functions};
use std::time::UNIX_EPOCH;

/// `lio.now()`: returns the time of the VM's clock in seconds, as a float. Unless a test has paused the clock, this is
/// the monotonic clock (clock_gettime(2)).
fn now(call: &mut Call<'_>) -> Result<f64, Fault> {
    Ok(call.shared::<VmClock>()?.nanos() as f64 / 1e9)
}

/// `lio.wall()`: returns the time of the system clock in seconds since the Unix epoch, as a float.
/// The time by which a test has advanced the VM's clock is added.
fn wall(call: &mut Call<'_>) -> Result<f64, Fault> {
    let since = call.shared::<VmClock>()?.wall().duration_since(UNIX_EPOCH);
    Ok(since.map_or(0.0, |span| span.as_secs_f64()))
}

const FUNCTIONS: FunctionTable = functions! {
    selector::create, waker: waker::OF_HANDLE, now, wall, tasks: task::TASKS, systemd: socket::SYSTEMD,
    watch: supervisor::WATCH,
};

/// Opens `lio`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    let version = Value::Name(env!("CARGO_PKG_VERSION"));
    Ok(ModuleWith {
        functions: FUNCTIONS,
        values: vec![
            ("SELECT_READ", Value::Integer(READ.into())),
            ("SELECT_WRITE", Value::Integer(WRITE.into())),
            ("VERSION", version),
        ],
    })
});
