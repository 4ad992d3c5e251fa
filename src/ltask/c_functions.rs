//! Functions that C code can call from any thread. The first argument is the system's address, which C code receives
//! together with the function. The C code must stop calling these functions before the system is closed.

use super::log::Repetition;
use super::message::{Payload, SYSTEM, ServiceId};
use super::service::System;
use crate::lua::Light;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Returns the address of the system, for `bootstrap.wait` and the functions below.
pub(crate) fn context(system: &Arc<System>) -> Light {
    Light(Arc::as_ptr(system).expose_provenance())
}

/// Returns the address of a C function `void (void *log, uint32_t id, void *data, size_t size)`, and the argument for
/// its parameter `log`. The function logs a block from `malloc` as an entry of service `id`, and takes ownership of the
/// block.
pub(crate) fn log_of_services(system: &Arc<System>) -> (Light, Light) {
    (Light(log_from_c as *const () as usize), context(system))
}

/// Returns the address of a C function `void (void *log, void *data, size_t size)`, and the argument for its parameter
/// `log`. The function logs a block from `malloc` as an entry of service 0, and takes ownership of the block.
pub(crate) fn log_of_system(system: &Arc<System>) -> (Light, Light) {
    (Light(send_log as *const () as usize), context(system))
}

/// Returns the address of a C function `int (void *queue, void *message)`, and the argument for its parameter `queue`.
/// The function sends the pointer `message` to root as the request `external`. It returns 0 on success and 1 on
/// failure.
pub(crate) fn external_sender(system: &Arc<System>) -> (Light, Light) {
    (Light(send_external as *const () as usize), context(system))
}

/// Calls `function` with the system at the address `system`. If the call panics, returns None; the panic hook has
/// already reported the panic on standard error.
fn with_system<R>(system: *mut c_void, function: impl FnOnce(&System) -> R) -> Option<R> {
    // SAFETY: C code got the address from `context`, calls only the functions below with it, and stops before the
    // system ends.
    let system = unsafe { &*system.cast::<System>() };
    catch_unwind(AssertUnwindSafe(|| function(system))).ok()
}

extern "C" fn log_from_c(system: *mut c_void, id: ServiceId, data: *mut c_void, size: usize) {
    let payload = Payload::from_raw(data.expose_provenance(), size);
    with_system(system, |system| system.push_log(id, payload, Repetition::Counted));
}

extern "C" fn send_log(system: *mut c_void, data: *mut c_void, size: usize) {
    log_from_c(system, SYSTEM, data, size);
}

extern "C" fn send_external(system: *mut c_void, data: *mut c_void) -> c_int {
    let taken = with_system(system, |system| system.external(data));
    c_int::from(taken != Some(true))
}
