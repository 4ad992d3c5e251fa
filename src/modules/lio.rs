//! `lio`: selectors, clocks, and some functions from other files.

use super::{selector, socket, supervisor, task, waker};
use crate::event::{READ, WRITE, clock};
use crate::lua::{Call, Fault, Function, FunctionTable, ModuleWith, Value, functions};
use std::time::{SystemTime, UNIX_EPOCH};

/// `lio.now()`: returns the time of the monotonic clock in seconds, as a float (clock_gettime(2)).
fn now(_: &mut Call<'_>) -> Result<f64, Fault> {
    Ok(clock::monotonic())
}

/// `lio.wall()`: returns the time of the system clock in seconds since the Unix epoch, as a float.
fn wall(_: &mut Call<'_>) -> Result<f64, Fault> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
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
