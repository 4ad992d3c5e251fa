//! A VM that runs before its system does, on a thread of its own (G1), and then becomes a service.

use super::body::{Body, Outcome};
use super::lifecycle;
use super::message::ServiceId;
use super::slots::Slots;
use super::system::{System, lock};
use crate::lua::{Chunk, Light};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// See the file's head.
pub(crate) struct Early {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Body, Outcome)>,
}

impl Early {
    /// Starts the VM. The error is a message.
    pub(crate) fn start(system: &Arc<System>, main: Chunk<'_>) -> Result<Early, String> {
        let mut service = lifecycle::make(system, 0, "preinit", main)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let system = system.clone();
        let thread = Builder::new()
            .name("lio-preinit".into())
            .spawn(move || {
                let mut outcome = Outcome::Yielded;
                while outcome == Outcome::Yielded && !seen.load(Ordering::Acquire) && !system.is_quitting() {
                    outcome = service.run_slice(Some(true));
                }
                (service, outcome)
            })
            .map_err(|error| format!("preinit: cannot start a thread: {error}"))?;
        Ok(Early { stop, thread })
    }

    /// Keeps it in the system; its name there, for Lua.
    pub(crate) fn keep(self, system: &System) -> Light {
        let mut early = lock(&system.early);
        let name = early.keys().max().map_or(1, |most| most + 1);
        early.insert(name, self);
        Light(name)
    }

    /// Stops the thread after its present step.
    fn stop(self) -> Option<(Body, Outcome)> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().ok()
    }

    /// Stops the thread of `name`; the VM is service `id` now.
    pub(crate) fn finish(system: &System, Light(name): Light, id: ServiceId, label: &str) -> Result<Body, String> {
        let Some(early) = lock(&system.early).remove(&name) else {
            return Err("preinit: there is no such VM".into());
        };
        let Some((mut service, outcome)) = early.stop() else {
            return Err("preinit: the thread has panicked".into());
        };
        if outcome != Outcome::Yielded {
            return Err(format!("preinit: the main function of {label} has ended already"));
        }
        service.id = id;
        service.statistics.set_label(label);
        // The VM may have taken what its descriptor was readable for at first.
        if let Some(event) = &service.event {
            event.touch();
        }
        Slots::describe(system.slots(), id, service.statistics.clone());
        Ok(service)
    }

    /// Ends those that never became services.
    pub(crate) fn end_all(system: &System) {
        for (_, early) in std::mem::take(&mut *lock(&system.early)) {
            drop(early.stop());
        }
    }
}
