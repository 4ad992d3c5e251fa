//! `require "lio"`: selectors, clocks, and what the other modules add to it.

use super::{reload, selector, socket, waker};
use crate::event::{READ, WRITE, clock};
use crate::lua::{Call, Function, ModuleWith, Value};
use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"create", selector::CREATE),
    (c"waker", waker::OF_HANDLE),
    // `lio.now()` → seconds of the monotonic clock, as a float (clock_gettime(2)).
    (c"now", Function::new(|_: &mut Call<'_>| Ok(clock::monotonic()))),
    // `lio.wall()` → seconds since 1970 of the system's clock, as a float.
    (
        c"wall",
        Function::new(|_: &mut Call<'_>| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            Ok(since.map_or(0.0, |span| span.as_secs_f64()))
        }),
    ),
    (c"tasks", crate::modules::task::TASKS),
    (c"systemd", socket::SYSTEMD),
    (c"watch", reload::WATCH),
];

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
