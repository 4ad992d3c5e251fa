//! Functions of module `ltask.core` for `lio.loop` in services: a service that owns no loop uses the system's I/O
//! threads (`ltask/service_io.rs`), and can become the owner of a loop with a separate thread.

use super::arguments::{on_service, service};
use super::handlers::ROUND;
use crate::ltask::io_thread::watcher_of;
use crate::ltask::message::IO_TIMER;
use crate::ltask::service_io::ServiceIo;
use crate::lua::{Argument, Call, Fault, Function, FunctionTable, Kind, Nil, Register, VmOwned, functions};
use crate::modules::selector::state::open;
use crate::modules::timer::Timers;
use std::io::ErrorKind;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = functions! {
    attach_io, detach_io, request_round: REQUEST_ROUND, add_timeouts, end_with_tasks: END_WITH_TASKS,
};

/// `core.attach_io(selector, timers, round)`: from now on, an I/O thread watches the selector, and the monitor thread
/// the timers. If either has events, the service calls `round()`, which must not wait. Returns true; false if this
/// operating system supports no I/O threads. Raises if the I/O thread cannot be started.
fn attach_io(call: &mut Call<'_>) -> Result<bool, Fault> {
    let selector = open(call)?.1.clone();
    call.object::<Timers>(2)?;
    call.expect(3, Kind::Function, "function")?;
    let failed = |error| Fault::message(format_args!("cannot start an I/O thread: {error}"));
    let selector = VmOwned::new(call, selector);
    let service = service(call)?;
    if service.library.io.is_some() {
        return Err(Fault::message("attach_io: this service is already attached"));
    }
    let (id, system) = (service.id, service.system().clone());
    // The steps that can fail come first.
    call.create(Register(&ROUND, Argument(3)))?;
    let watcher = match watcher_of(&system, id) {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(false),
        watcher => watcher.map_err(failed)?,
    };
    let io = Box::new(ServiceIo::new(id, watcher, selector).map_err(failed)?);
    self::service(call)?.library.io = Some(io);
    let monitor: Arc<_> = system.monitor.clone();
    let mut planned = None;
    let plan = move |due| planned = Some(monitor.move_timer(id, planned, IO_TIMER, due));
    call.object_mut::<Timers>(2)?.set_alarm(Box::new(plan));
    Ok(true)
}

/// `core.detach_io(timers)`: ends the effect of `attach_io`.
fn detach_io(call: &mut Call<'_>) -> Result<(), Fault> {
    call.object_mut::<Timers>(1)?.remove_alarm();
    service(call)?.library.io = None;
    call.create(Register(&ROUND, Nil))?;
    Ok(())
}

/// `core.request_round()`: makes the service run a round before it sleeps, because a task has left work for the round.
const REQUEST_ROUND: Function = on_service(|service| {
    if let Some(io) = &mut service.library.io {
        io.request();
    }
});

/// `core.add_timeouts(n)`: adds `n` (-1 or 1) to the number of pending functions of `loop.timeout`, which keep the
/// service running.
fn add_timeouts(call: &mut Call<'_>) -> Result<(), Fault> {
    let more = call.integer_in(1, -1..=1, "number of timeouts")? as isize;
    let timeouts = &mut service(call)?.library.timeouts;
    *timeouts = timeouts.saturating_add_signed(more);
    Ok(())
}

/// `core.end_with_tasks()`: from now on, a service that owns a loop ends when it has no handlers and no tasks left.
const END_WITH_TASKS: Function = on_service(|service| service.library.ends_with_tasks = true);
