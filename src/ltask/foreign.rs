//! Functions that C code calls, from any thread. Their first argument is the system's address, which the code has with the
//! function; it stops before the system is taken down.

use super::log::Repetition;
use super::message::{Payload, SYSTEM, ServiceId};
use super::service::System;
use crate::lua::Light;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The system, for `wait` and these functions.
pub(crate) fn context(system: &Arc<System>) -> Light {
    Light(Arc::as_ptr(system).expose_provenance())
}

/// `void (void *log, uint32_t id, void *data, size_t size)`, which logs a block of `malloc` for a service; and `log`.
pub(crate) fn log_of_services(system: &Arc<System>) -> (Light, Light) {
    (Light(log_from_c as *const () as usize), context(system))
}

/// `void (void *log, void *data, size_t size)`, which logs a block of `malloc` for service 0; and `log`.
pub(crate) fn log_of_system(system: &Arc<System>) -> (Light, Light) {
    (Light(send_log as *const () as usize), context(system))
}

/// `int (void *queue, void *message)`, which gives root's request `external` the pointer; and `queue`. 0 is success.
pub(crate) fn external_sender(system: &Arc<System>) -> (Light, Light) {
    (Light(send_external as *const () as usize), context(system))
}

unsafe extern "C" fn log_from_c(system: *mut c_void, id: ServiceId, data: *mut c_void, size: usize) {
    // SAFETY: C code has the address from `context`, and stops before the system goes; the panic ends here.
    let system = unsafe { &*system.cast::<System>() };
    let payload = Payload::adopt(data.expose_provenance(), size);
    // A panic has been reported on standard error; the C code has nobody to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        system.push_log(id, payload, Repetition::Counted);
    }));
}

unsafe extern "C" fn send_log(system: *mut c_void, data: *mut c_void, size: usize) {
    // SAFETY: the address is the one that `log_from_c` needs too.
    unsafe { log_from_c(system, SYSTEM, data, size) }
}

unsafe extern "C" fn send_external(system: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: `external_sender` gave the address with this function, which is not called once the system goes.
    let system = unsafe { &*system.cast::<System>() };
    let taken = catch_unwind(AssertUnwindSafe(|| system.external(data)));
    c_int::from(!matches!(taken, Ok(true)))
}
