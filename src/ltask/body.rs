//! A service with its VM, as it moves between threads: the VM owns the service.

use super::library::Library;
use super::message::ServiceId;
use super::progress::Progress;
use super::scheduler::worker_number;
use super::service::{Body, Service, System};
use super::statistics::Statistics;
use crate::event::clock::monotonic_nanos;
use crate::lua::{Argument, Broken, Call, Chunk, Fault, Function, Kind, Next, Outcome as Called, Slice, Vm, then};
use crate::task::Tasks;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a slice ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The main function waits for more.
    Yielded,
    /// It returned.
    Returned,
    /// It raised; that was logged.
    Failed,
}

impl Vm<Service> {
    /// A service with a VM and no main function yet. The error is a message.
    pub(crate) fn new(system: &Arc<System>, id: ServiceId, label: &str) -> Result<Body, String> {
        let statistics = Arc::new(Statistics::default());
        statistics.set_label(label);
        let service = Service::new(system.clone(), id, statistics.clone());
        let mut body =
            Vm::for_service(service, interrupted).ok_or_else(|| "not enough memory for a Lua state".to_owned())?;
        system.preparation.steps.iter().try_for_each(|step| body.run(*step))?;
        system.registry.describe(id, statistics);
        Ok(body)
    }

    /// Sets the main function.
    pub(crate) fn set_main(&mut self, chunk: Chunk<'_>) -> Result<(), String> {
        if let Chunk::File(Some(path)) = chunk {
            crate::file::reload::report_load(path.to_bytes());
        }
        self.load(chunk)?;
        self.start_collector();
        Ok(())
    }

    /// Runs one slice. `step` is what the main function is resumed with, if anything. A panic does not leave it:
    /// the service has failed then.
    #[inline(always)]
    pub(crate) fn run_slice(&mut self, step: Option<bool>) -> Outcome {
        self.slice_affinity = self.affinity;
        // Nothing is being unpacked any more.
        self.library.reading.clear();
        match self.resume(step) {
            Ok(Slice::Yielded) => Outcome::Yielded,
            Ok(Slice::Returned) => Outcome::Returned,
            // An error that the system's end has raised is no news.
            Ok(Slice::Failed) if self.system().is_quitting() => Outcome::Failed,
            Ok(Slice::Failed) => {
                let reason = self.failure();
                self.report_failure(&reason);
                Outcome::Failed
            }
            Err(broken) => {
                self.give_up(&broken);
                Outcome::Failed
            }
        }
    }

    /// A panic came out of the VM, in the middle of a call: the VM is left as it is.
    #[cold]
    fn give_up(&mut self, Broken(reason): &Broken) {
        self.library = Library::default();
        self.report_failure(&format!("{reason}; its VM is given up"));
    }

    fn report_failure(&mut self, reason: &str) {
        self.failed = true;
        let text = format!("service {} ({}) error: {reason}", self.id, self.statistics.label());
        self.system().log_text(self.id, &text);
    }

    /// Runs a slice that `progress` shows and the statistics count; `began` is the present time. Returns when it ended, or
    /// None when the service is to end then.
    #[inline]
    pub(super) fn run_counted(&mut self, progress: &Progress, began: u64) -> Option<u64> {
        self.began = began;
        progress.begin(self.id);
        let outcome = self.run_slice(None);
        progress.end();
        let ended = monotonic_nanos();
        let (used, peak) = (self.memory().used(), self.memory().peak());
        self.statistics.add_slice(ended - began, used, peak);
        let goes_on = outcome == Outcome::Yielded && !self.statistics.condemned.load(Ordering::Relaxed);
        goes_on.then_some(ended)
    }

    /// Ends the service: pending `<close>` variables and finalizers run.
    pub(crate) fn end(mut self) {
        self.dead = true;
        if !self.is_broken()
            && let Err(message) = self.run_last(CLOSE_COROUTINES)
        {
            // A finalizer of a foreign native module may panic as well.
            match self.is_broken() {
                true => self.give_up(&Broken(message)),
                false => self.system().log_text(self.id, &message),
            }
        }
        if let Err(broken) = self.close() {
            self.give_up(&broken);
        }
    }
}

/// Closes the tasks, then the main function, which is the argument: their `<close>` variables run.
const CLOSE_COROUTINES: Function = Function::new(|call: &mut Call<'_>| -> Result<Next, Fault> {
    let task = call.loaded("lio.task")?;
    if call.kind(task) == Kind::Table {
        Tasks::of(call)?.kill_all(call)?;
    }
    call.drop_to(1);
    let library = call.loaded("coroutine")?;
    call.raw_field(library, "close")?;
    call.push(Argument(1))?;
    // The main function's own error was logged already; one of a `__close` is of no interest.
    Ok(Next::call(1, then(|_: &mut Call<'_>, _: Called| Ok(())), 0))
});

/// Runs between two instructions of a service that was interrupted.
fn interrupted(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_quitting = |service: &mut Service| service.system().is_quitting();
    if call.data::<Service>().is_some_and(is_quitting) {
        return Err(Fault::message("the system has ended"));
    }
    let traceback = call.traceback(0);
    if let (Some(traceback), Some(service)) = (traceback, call.data::<Service>()) {
        log_position(service, &traceback);
    }
    Ok(())
}

fn log_position(service: &Service, traceback: &str) {
    let system = service.system();
    let own = Progress::own();
    let progress = worker_number().map(|number| &system.progress[number]).or(own.as_deref());
    // On a thread of its own a slice is mostly waiting.
    let since = progress.map_or(0, |progress| progress.since.load(Ordering::Relaxed));
    let seconds = (monotonic_nanos() - since.max(service.began)) as f64 / 1e9;
    let (id, label) = (service.id, service.statistics.label());
    system.log_text(id, &format!("service {id} ({label}) has not paused for {seconds:.1} s; {traceback}"));
    if let Some(progress) = progress {
        progress.set_reported();
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
