//! A VM that runs on its own thread before its system is started (G1), and then becomes a service.

use super::lifecycle;
use super::message::ServiceId;
use super::service::{ServiceVm, System};
use crate::lua::{Chunk, SliceEnd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A VM that runs before its system is started. Dropping this value stops the thread and closes the VM.
pub(crate) struct Prestart {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(ServiceVm, SliceEnd)>>,
}

impl Prestart {
    /// Creates the VM and starts its thread. On failure, returns an error message.
    pub(crate) fn start(system: &Arc<System>, main: Chunk<'_>) -> Result<Prestart, String> {
        let mut service = lifecycle::create(system, 0, "preinit", main)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = stop.clone();
        let system = system.clone();
        let thread = Builder::new()
            .name("lio-preinit".into())
            .spawn(move || {
                let mut end = SliceEnd::Yielded;
                while end == SliceEnd::Yielded && !is_stopped.load(Ordering::Acquire) && !system.is_quitting() {
                    end = service.run_slice(Some(true));
                }
                (service, end)
            })
            .map_err(|error| format!("preinit: cannot start a thread: {error}"))?;
        Ok(Prestart { stop, thread: Some(thread) })
    }

    /// Stops the thread after its current slice. Returns the VM, and how its last slice ended.
    fn stop(&mut self) -> Option<(ServiceVm, SliceEnd)> {
        self.stop.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }

    /// Stops the thread and turns the VM into service `id`. On failure, returns an error message.
    pub(crate) fn into_service(mut self, system: &System, id: ServiceId, label: &str) -> Result<ServiceVm, String> {
        let (mut service, end) = self.stop().ok_or("preinit: the thread has panicked")?;
        if end != SliceEnd::Yielded {
            return Err(format!("preinit: the main function of {label} has already ended"));
        }
        service.become_service(id);
        service.statistics.set_label(label);
        // The VM may have drained its event descriptor, which must be readable when the service starts.
        if let Some(event) = &service.event {
            event.wake();
        }
        system.registry.set_statistics(id, service.statistics.clone());
        Ok(service)
    }
}

impl Drop for Prestart {
    fn drop(&mut self) {
        drop(self.stop());
    }
}
