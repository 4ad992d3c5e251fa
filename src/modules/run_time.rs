//! `lio.run_time`, for the library: limits for the time that a task runs without waiting. In a program's VM, a timer
//! enforces them; in services, the watchdog of the scheduler does (`ltask::service_vm`).

use crate::event::clock::thread_nanos;
use crate::ltask::service::Service;
#[cfg(target_os = "linux")]
use crate::lua::interrupt::CpuTimer;
use crate::lua::interrupt::Interruption;
use crate::lua::{BoundFunctions, Call, Fault, Function, FunctionTable, Maybe, functions};
use crate::modules::task::{push_tasks_object, tasks};
use crate::modules::traceback::shorten;
use crate::task::{Overrun, Tasks};
use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

/// The shortest and the longest time between two checks.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// The timer of a VM, while the running time is limited.
#[derive(Default)]
struct Timer {
    #[cfg(target_os = "linux")]
    timer: RefCell<Option<CpuTimer>>,
}

const FUNCTIONS: FunctionTable = functions! { limit, stop, system_limits, has_exceeded, pause };

/// Opens the module.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let upvalue = push_tasks_object(call)?;
    Ok(BoundFunctions { list: FUNCTIONS, upvalue, table: None, copied: None })
});

/// `run_time.limit(watchdog, max_run_time)`: from now on, a task of this VM that runs for `watchdog` seconds of CPU time
/// without waiting is reported on standard error, and `max_run_time` seconds of CPU time raise an error in it. 0 means
/// that there is no limit. In a service, the watchdog reports to the log, and these limits replace those of the system.
/// Returns false if the VM cannot be interrupted: it belongs to a stock interpreter, the system is not Linux, or the
/// program handles SIGURG.
fn limit(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (watchdog, max_run_time) = (seconds(call, 1)?, seconds(call, 2)?);
    if let Some(service) = call.data::<Service>() {
        service.statistics.limits.set(watchdog, max_run_time);
        return Ok(true);
    }
    let tasks = tasks(call)?;
    call.interrupt_with(&tasks.threads);
    set_limits(&tasks, watchdog, max_run_time);
    let shortest = [watchdog, max_run_time].into_iter().filter(|limit| !limit.is_zero()).min();
    start_timer(call, shortest.map(|limit| (limit / 4).clamp(MIN_INTERVAL, MAX_INTERVAL)))
}

/// `run_time.stop()`: removes the limits. In a service, those of the system apply again.
fn stop(call: &mut Call<'_>) -> Result<(), Fault> {
    if let Some(service) = call.data::<Service>() {
        service.statistics.limits.clear();
        return Ok(());
    }
    set_limits(&*tasks(call)?, Duration::ZERO, Duration::ZERO);
    start_timer(call, None).map(|_| ())
}

fn set_limits(tasks: &Tasks, watchdog: Duration, max_run_time: Duration) {
    tasks.run_time.set_limits(watchdog, max_run_time);
    tasks.run_time.work.report_c_functions_after(watchdog);
    tasks.run_time.work.begin();
}

/// `run_time.system_limits()`: returns the two limits of the system to which this service belongs, in seconds; nothing
/// outside a service.
fn system_limits(call: &mut Call<'_>) -> Result<Maybe<(f64, f64)>, Fault> {
    let config = call.data::<Service>().map(|service| &service.system().config);
    Ok(Maybe(config.map(|config| (config.watchdog.as_secs_f64(), config.max_run_time.as_secs_f64()))))
}

/// `run_time.has_exceeded()` returns whether the running task has exceeded `max_run_time`.
fn has_exceeded(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(tasks(call)?.run_time.has_exceeded())
}

/// `run_time.pause()`: called in a message handler of `xpcall`. If the error is one of `max_run_time` that is raised
/// again, the code after `xpcall` has time to handle it before it is raised in this code, too.
fn pause(call: &mut Call<'_>) -> Result<(), Fault> {
    call.pause_interrupts();
    Ok(())
}

fn seconds(call: &mut Call<'_>, index: i32) -> Result<Duration, Fault> {
    let seconds = call.number(index)?;
    Duration::try_from_secs_f64(seconds.min(1e9)).map_err(|_| Fault::argument(index, "seconds, 0 or more, expected"))
}

/// Replaces the timer. Returns whether the VM can be interrupted.
#[cfg(target_os = "linux")]
fn start_timer(call: &mut Call<'_>, interval: Option<Duration>) -> Result<bool, Fault> {
    if !call.on_interrupt(interrupted) {
        return Ok(interval.is_none());
    }
    let timer = call.shared::<Timer>()?;
    // The timers are in the order of their creation, so that the signal's handler stays installed.
    let started = interval.map(CpuTimer::start);
    *timer.timer.borrow_mut() = None;
    let Some(started) = started else { return Ok(true) };
    *timer.timer.borrow_mut() = started;
    let is_running = timer.timer.borrow().is_some();
    Ok(is_running)
}

#[cfg(not(target_os = "linux"))]
fn start_timer(call: &mut Call<'_>, interval: Option<Duration>) -> Result<bool, Fault> {
    call.shared::<Timer>()?;
    Ok(interval.is_none())
}

/// Runs between two instructions of a task, whenever the timer fires.
fn interrupted(call: &mut Call<'_>) -> Interruption {
    let Ok(tasks) = call.shared::<Tasks>() else { return Interruption::Continue };
    if tasks.current().is_none() {
        return Interruption::Continue;
    }
    match tasks.run_time.check(Duration::from_nanos(thread_nanos())) {
        Overrun::None => Interruption::Continue,
        Overrun::Exceeded => Interruption::Raise(tasks.run_time.error()),
        Overrun::ExceededAgain { is_first } => {
            if is_first {
                report(call, tasks.run_time.caught());
            }
            Interruption::RaiseInTask(tasks.run_time.error())
        }
        Overrun::Reported(age) => {
            report(call, &format!("a task has run for {:.1} s without waiting", age.as_secs_f64()));
            Interruption::Continue
        }
    }
}

/// Writes the text, and the position of the running task, to standard error.
fn report(call: &mut Call<'_>, text: &str) {
    let traceback = call.traceback(0).unwrap_or_default();
    // If standard error is closed, there is no place for the report.
    let _ = writeln!(std::io::stderr(), "{}", shorten(&format!("lio: {text}\n{traceback}")));
}
