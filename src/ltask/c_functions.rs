//! Functions that C code calls, from any thread. Their first argument is the system's address, which the C code got
//! together with the function. The C code stops calling them before the system is closed.

use super::log::Repetition;
use super::message::{Payload, SYSTEM, ServiceId};
use super::service::System;
use crate::lua::Light;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The address of the system, for `wait` and the functions below.
pub(crate) fn context(system: &Arc<System>) -> Light {
    Light(Arc::as_ptr(system).expose_provenance())
}

/// `void (void *log, uint32_t id, void *data, size_t size)`, which logs a block of `malloc` for a service; and its
/// `log`.
pub(crate) fn log_of_services(system: &Arc<System>) -> (Light, Light) {
    (Light(log_from_c as *const () as usize), context(system))
}

/// `void (void *log, void *data, size_t size)`, which logs a block of `malloc` for service 0; and its `log`.
pub(crate) fn log_of_system(system: &Arc<System>) -> (Light, Light) {
    (Light(send_log as *const () as usize), context(system))
}

/// `int (void *queue, void *message)`, which sends the pointer to root as the request `external` and returns 0 on
/// success; and its `queue`.
pub(crate) fn external_sender(system: &Arc<System>) -> (Light, Light) {
    (Light(send_external as *const () as usize), context(system))
}

/// Calls `function` with the system at that address. Returns None after a panic, which was reported on standard error.
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
