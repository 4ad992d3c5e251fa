//! Garbage collection in the VMs that the core creates: the collector's mode, and when its first cycle begins.
//!
//! | VM | Lua 5.4 | Lua 5.5 |
//! |---|---|---|
//! | a program's | generational, as in the stock interpreter | generational |
//! | a service's | incremental | generational |
//!
//! In Lua 5.5 an incremental collector falls behind when a program creates mainly objects with finalizers, such as
//! sockets. A service may choose another mode with `collectgarbage`. `protected` pauses the collector within a step.

use super::call::Call;
use super::state::State;
use super::vm::Vm;
use super::vm_context;

impl<T: Send + 'static> Vm<T> {
    /// Starts the collector in the mode that the VM uses.
    pub(crate) fn start_collector(&mut self) {
        let main_state = self.main_state();
        if self.main_coroutine().is_none() || cfg!(feature = "lua55") {
            main_state.restart_collector();
            main_state.collect_by_generations();
        } else {
            restart(&main_state);
        }
    }
}

impl Call<'_> {
    /// Starts the collector of a service's VM again, in the mode that the VM uses.
    pub(crate) fn start_collector(&mut self) {
        self.collector_paused = false;
        restart(self);
    }

    /// Returns free memory to the system: the VM's, if the core has created the VM, and that of malloc(3).
    pub(crate) fn release_memory(&mut self) {
        if let Some(context) = vm_context::context_of(self) {
            context.memory.trim();
            #[cfg(feature = "vendored")]
            crate::memory::general::trim();
        }
        crate::memory::trim_heap();
    }

    /// Stops the collector. Objects that are created afterwards are not collected.
    pub(crate) fn stop_collector(&mut self) {
        self.resume_collector();
        State::stop_collector(self);
    }
}

/// Restarts the collector of a service's VM. In Lua 5.4, where it is incremental, its next cycle begins when the VM's
/// memory use has doubled, as later cycles do by default. The objects that exist now remain in use, and traversing them
/// would take a tenth of the time of a short-lived service.
fn restart(stack: &State) {
    stack.restart_collector();
    #[cfg(not(feature = "lua55"))]
    stack.add_debt(-stack.kibibytes());
}
