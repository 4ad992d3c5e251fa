//! Module `ltask.exclusive` (G1): for services that have a thread of their own by configuration.

use super::time::timer_sleep;
use super::{event, message, service};
use crate::ltask::message::{SYSTEM, kind};
use crate::raw::{Function, Text, function, functions, module, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::atomic::Ordering;

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"send", send),
    (c"scheduling", scheduling),
    (c"timer_update", timer_update),
    (c"sleep", timer_sleep),
    (c"eventinit", event::eventinit),
    (c"eventreset", event::eventreset),
];

/// `exclusive.send(to, session, type, pointer, size)` → true; nothing when the sending queue is full, and
/// the block is still the caller's. A message to a mailbox that is full lies in the queue until there is
/// room.
unsafe extern "C-unwind" fn send(state: *mut lua_State) -> c_int {
    // SAFETY: what may raise comes before the message is made; it is delivered before anything else.
    unsafe {
        let service = service(state);
        if service.id == SYSTEM {
            raise(
                state,
                Text::new(
                    "exclusive.send: this VM is no service yet: wait until yield returns nothing",
                ),
            );
        }
        let message = message(state, 1, service.id);
        let (to, session) = (message.to, message.session);
        let answers = matches!(message.kind, kind::RESPONSE | kind::ERROR);
        let waits = service.sending.iter().any(|other| other.to == to);
        let kept = if waits {
            Err(message)
        } else {
            service.deliver(message)
        };
        if let Err(message) = kept {
            if service.sending.len() >= service.system().config.queue_sending {
                std::mem::forget(message);
                return 0;
            }
            service.sending.push_back(message);
        }
        if answers {
            service.pending.remove(to, session);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

unsafe extern "C-unwind" fn deliver_now(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state).flush_sending();
        0
    }
}

/// `exclusive.scheduling()` → a function that delivers what was queued now.
unsafe extern "C-unwind" fn scheduling(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        function!(deliver_now).push(state, 0);
        1
    }
}

/// `exclusive.timer_update([blocked])` → an empty list: timers are delivered without help.
unsafe extern "C-unwind" fn timer_update(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_createtable(state, 0, 0);
        1
    }
}

/// Opens `ltask.exclusive`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let service = service(state);
        // A VM of `preinit` may become such a service.
        if service.id != SYSTEM && !service.card.exclusive.load(Ordering::Relaxed) {
            raise(
                state,
                Text::new(
                    "ltask.exclusive: this service has no thread of its own by configuration",
                ),
            );
        }
        module::push(state, FUNCTIONS);
        1
    }
}
