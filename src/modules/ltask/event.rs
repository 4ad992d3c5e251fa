//! Event descriptors of module `ltask`: for services that block in a selector of their own.

use super::service;
use crate::ltask::event::Event;
use crate::ltask::service::Service;
use crate::raw::selector as descriptor;
use crate::raw::{Fault, Function, Text, function, functions, raise};
use crate::socket::Table;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::rc::Rc;

pub(super) const FUNCTIONS: &[(&CStr, Function)] =
    functions![(c"eventinit", eventinit), (c"eventreset", eventreset)];

/// Lends the service's descriptor to its VM. `owned` is the VM's table of sockets.
unsafe fn push_descriptor(state: *mut lua_State, owned: *const Rc<Table>, event: &Event) {
    let number = event.descriptor();
    // SAFETY: the table stays as long as the VM lives; pushes a number in the form of a pointer, does not allocate.
    unsafe {
        (*owned).lend(number);
        ffi::lua_pushlightuserdata(state, number as isize as *mut c_void);
    }
}

/// Makes a descriptor for the service: readable at first. It moves to a thread of its own.
fn open(service: &mut Service) -> Result<(), Fault> {
    let event = Event::new().map_err(|error| Fault::io("eventfd", &error))?;
    event.touch();
    service.event = Some(event);
    Ok(())
}

unsafe fn fail(state: *mut lua_State, fault: Fault) -> ! {
    // SAFETY: `fault` is plain data.
    unsafe { raise(state, fault.message()) }
}

/// `ltask.eventinit()` → wait function, descriptor (lightuserdata). Once per service. The service moves
/// to a thread of its own, and gets an IDLE message whenever its mailbox is empty.
pub(super) unsafe extern "C-unwind" fn eventinit(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let owned = descriptor::table(state);
        let service = service(state);
        let exclusive = service
            .card
            .exclusive
            .load(std::sync::atomic::Ordering::Relaxed);
        if service.watched {
            raise(
                state,
                Text::new("eventinit: this service has its descriptor already"),
            );
        }
        if exclusive {
            if let Some(event) = &service.event {
                event.touch();
            }
        } else if let Err(fault) = open(service) {
            fail(state, fault);
        }
        service.watched = true;
        service.detach = !exclusive;
        function!(wait).push(state, 0);
        if let Some(event) = &service.event {
            push_descriptor(state, owned, event);
        }
        2
    }
}

/// `ltask.eventreset()` → a new descriptor in the place of the old one, which is closed.
pub(super) unsafe extern "C-unwind" fn eventreset(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let owned = descriptor::table(state);
        let service = service(state);
        if !service.watched {
            raise(
                state,
                Text::new("eventreset: this service has no descriptor; see eventinit"),
            );
        }
        if let Err(fault) = open(service) {
            fail(state, fault);
        }
        let id = service.id;
        if let (Some(slot), Some(event)) = (service.system().slots().get(id), &service.event) {
            slot.mailbox.rehang(id, event.clone());
            push_descriptor(state, owned, event);
        }
        1
    }
}

/// The wait function: blocks until the descriptor is readable, takes that, and returns true.
unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        if let Some(event) = service.event.clone() {
            event.wait(None);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}
