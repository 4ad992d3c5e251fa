//! A service with its VM. The VM owns the service, and both move between threads together.

use super::library_state::LibraryState;
use super::message::ServiceId;
use super::progress::Progress;
use super::scheduler::worker_number;
use super::service::{Service, ServiceVm, System};
use super::statistics::Statistics;
use crate::event::clock::{monotonic_nanos, thread_nanos};
use crate::lua::interrupt::Interruption;
use crate::lua::{Argument, Broken, Call, Chunk, Fault, Function, Kind, Next, Outcome, SliceEnd, Vm, then};
use crate::task::{Overrun, Tasks};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Vm<Service> {
    /// Creates a service with a VM, but without a main function. On failure, returns an error message.
    pub(crate) fn new(system: &Arc<System>, id: ServiceId, label: &str) -> Result<ServiceVm, String> {
        let statistics = Arc::new(Statistics::default());
        statistics.set_label(label);
        let service = Service::new(system.clone(), id, statistics.clone());
        let mut vm =
            Vm::for_service(service, interrupted).ok_or_else(|| "not enough memory for a Lua state".to_owned())?;
        system.preparation.functions.iter().try_for_each(|function| vm.run(*function))?;
        system.registry.set_statistics(id, statistics);
        Ok(vm)
    }

    /// Sets the main function. On failure, returns an error message.
    pub(crate) fn set_main(&mut self, chunk: Chunk<'_>) -> Result<(), String> {
        if let Chunk::File(Some(path)) = chunk {
            crate::file::supervisor_link::report_load(path.to_bytes());
        }
        self.load(chunk)?;
        self.start_collector();
        Ok(())
    }

    /// Runs one slice. `argument` is the value with which the main function is resumed, if any. Catches a panic that
    /// unwinds the VM; the service has then failed.
    #[inline(always)]
    pub(crate) fn run_slice(&mut self, argument: Option<bool>) -> SliceEnd {
        self.slice_affinity = self.affinity;
        // No message is being unpacked now.
        self.library.decoding.clear();
        match self.resume(argument) {
            // An error that was raised because the system is ending is not reported.
            Ok(SliceEnd::Failed) if !self.system().is_quitting() => {
                let reason = self.failure();
                self.report_failure(&reason);
                SliceEnd::Failed
            }
            Ok(end) => end,
            Err(broken) => {
                self.report_broken(&broken);
                SliceEnd::Failed
            }
        }
    }

    /// Reports a panic that unwound the VM in the middle of a call. The VM is not used again.
    #[cold]
    fn report_broken(&mut self, Broken(reason): &Broken) {
        self.library = LibraryState::default();
        self.report_failure(&format!("{reason}; its VM is not used again"));
    }

    fn report_failure(&mut self, reason: &str) {
        self.has_failed = true;
        let text = format!("service {} ({}) error: {reason}", self.id, self.statistics.label());
        self.system().log_text(self.id, &text);
    }

    /// Runs a slice, records it in `progress`, and adds it to the statistics. `began` is the current time in
    /// nanoseconds of the monotonic clock. Returns the time at which the slice ended; None if the service must end.
    #[inline]
    pub(super) fn run_counted(&mut self, progress: &Progress, began: u64) -> Option<u64> {
        self.slice_began = began;
        progress.begin_slice(self.id);
        let end = self.run_slice(None);
        if self.memory().has_shrunk() {
            // This belongs to the slice, so that other workers take over meanwhile.
            self.return_memory();
        }
        progress.end_slice();
        let ended = monotonic_nanos();
        let (used, peak) = (self.memory().used(), self.memory().peak());
        self.statistics.add_slice(ended - began, used, peak);
        let has_next = end == SliceEnd::Yielded && !self.statistics.must_end.load(Ordering::Relaxed);
        has_next.then_some(ended)
    }

    /// Returns memory that is no longer in use to the system.
    #[cold]
    fn return_memory(&self) {
        self.memory().trim();
        self.system().monitor.request_trim();
    }

    /// Ends the service. Closes pending `<close>` variables and runs finalizers.
    pub(crate) fn end(mut self) {
        self.is_dead = true;
        if !self.is_broken()
            && let Err(message) = self.run_last(CLOSE_COROUTINES)
        {
            // The code that ran may have called a third-party native module that panicked.
            match self.is_broken() {
                true => self.report_broken(&Broken(message)),
                false => self.system().log_text(self.id, &message),
            }
        }
        if let Err(broken) = self.close() {
            self.report_broken(&broken);
        }
    }
}

/// Kills the tasks, then closes the coroutine of the main function, which is the argument. Their pending `<close>`
/// variables are closed.
const CLOSE_COROUTINES: Function = Function::new(|call: &mut Call<'_>| -> Result<Next, Fault> {
    let task = call.loaded("lio.task")?;
    if call.kind(task) == Kind::Table {
        let tasks = Tasks::of(call)?;
        tasks.set_ending();
        tasks.kill_all(call)?;
    }
    call.drop_to(1);
    let library = call.loaded("coroutine")?;
    call.raw_field(library, "close")?;
    call.push(Argument(1))?;
    // The main function's own error has already been logged; an error in a `__close` metamethod is ignored.
    Ok(Next::call(1, then(|_: &mut Call<'_>, _: Outcome| Ok(())), 0))
});

/// Runs between two instructions of an interrupted service. If the system is ending, raises an error. Otherwise logs the
/// traceback if the watchdog has requested it, and checks how long the running task has run.
fn interrupted(call: &mut Call<'_>) -> Interruption {
    let Some(service) = call.data::<Service>() else { return Interruption::Continue };
    if service.system().is_quitting() {
        return Interruption::RaiseEverywhere(Fault::message("the system has ended"));
    }
    let max_run_time = service.statistics.limits.max_run_time(service.system().config.max_run_time);
    if with_progress(service, Progress::take_traceback_request)
        && let Some(traceback) = call.traceback(0)
        && let Some(service) = call.data::<Service>()
    {
        log_position(service, &traceback);
    }
    check_run_time(call, max_run_time)
}

/// Raises an error in a task that exceeds `max_run_time`.
fn check_run_time(call: &mut Call<'_>, max_run_time: Duration) -> Interruption {
    let Ok(tasks) = call.shared::<Tasks>() else { return Interruption::Continue };
    if max_run_time.is_zero() || tasks.current().is_none() {
        return Interruption::Continue;
    }
    let run_time = &tasks.run_time;
    if run_time.limits().1 != max_run_time {
        run_time.set_limits(Duration::ZERO, max_run_time);
    }
    match run_time.check(Duration::from_nanos(thread_nanos())) {
        Overrun::Exceeded => Interruption::Raise(run_time.error()),
        Overrun::ExceededAgain { is_first } => {
            if is_first
                && let Some(traceback) = call.traceback(0)
                && let Some(service) = call.data::<Service>()
            {
                let (id, label) = (service.id, service.statistics.label());
                service.system().log_text(id, &format!("service {id} ({label}): {}; {traceback}", run_time.caught()));
            }
            Interruption::RaiseInTask(run_time.error())
        }
        Overrun::None | Overrun::Reported(_) => Interruption::Continue,
    }
}

/// Calls `f` with the progress of the thread that runs the service. Returns its result; the default if the thread is a
/// program's.
fn with_progress<R: Default>(service: &Service, f: impl FnOnce(&Progress) -> R) -> R {
    let own = Progress::own();
    let progress = worker_number().map(|number| &service.system().progress[number]).or(own.as_deref());
    progress.map(f).unwrap_or_default()
}

fn log_position(service: &Service, traceback: &str) {
    let system = service.system();
    // A service with its own thread waits during most of its slice, so the time before its last wait does not count.
    let since = with_progress(service, |progress| progress.since.load(Ordering::Relaxed));
    let seconds = (monotonic_nanos() - since.max(service.slice_began)) as f64 / 1e9;
    let (id, label) = (service.id, service.statistics.label());
    system.log_text(id, &format!("service {id} ({label}) has not paused for {seconds:.1} s; {traceback}"));
    service.statistics.long_slice_reported.store(true, Ordering::Relaxed);
    with_progress(service, Progress::set_reported);
}

#[cfg(test)]
#[path = "service_vm_tests.rs"]
mod tests;
