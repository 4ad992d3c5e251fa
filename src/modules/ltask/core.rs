//! Module `ltask.core`: what our service library needs beside its public names.

use super::{calls, dispatch, library, service, service_id};
use crate::ltask::log::Repetition;
use crate::ltask::message::Payload;
use crate::ltask::pack;
use crate::ltask::service::OVERLOAD;
use crate::raw::Text;
use crate::raw::{Function, args, embed, function, functions, module, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"setup", library::setup),
    (c"loop", dispatch::main_loop),
    (c"schedule", dispatch::schedule),
    (c"serve", library::serve),
    (c"is_request", library::is_request),
    (c"requests", library::requests),
    (c"recover", dispatch::recover),
    (c"system_calls", library::system_calls),
    (c"require_now", library::require_now),
    (c"generation", library::generation),
    (c"finish", finish),
    (c"fail_boot", fail_boot),
    (c"log", log),
    (c"log_reader", log_reader),
    (c"held_reader", held_reader),
    (c"poplog", poplog),
    (c"stat", stat),
    (c"idle_wait", idle_wait),
    (c"is_idle", is_idle),
    (c"poll_handler", library::poll_handler),
    (c"watch", library::watch),
    (c"services", services),
    (c"main_chunk", main_chunk),
    (c"embedded", embedded),
    (c"chunk", chunk),
    (c"bytes", bytes),
    (c"report_overload", report_overload),
    (c"was_endless", was_endless),
];

/// `core.finish()`: the main loop returns as soon as the present message is done.
unsafe extern "C-unwind" fn finish(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state).fast.ended = true;
        0
    }
}

/// `core.fail_boot(reason)`: the system cannot start; `ltask.start` raises that. For root.
unsafe extern "C-unwind" fn fail_boot(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what is made of the text is gone before the return.
    unsafe {
        let reason = args::bytes(state, 1);
        let system = service(state).system();
        system.fail_boot(&String::from_utf8_lossy(reason));
        0
    }
}

/// `core.log(level, text, …)`: packs and adds an entry to the log.
unsafe extern "C-unwind" fn log(state: *mut lua_State) -> c_int {
    // SAFETY: what may raise comes before the payload is made.
    unsafe {
        let (pointer, size) = pack::pack(state, 1);
        let service = service(state);
        let payload = Payload::from_raw(pointer, size);
        let system = service.system();
        system.push_log(service.id, payload, Repetition::Counted);
        0
    }
}

/// `core.log_reader()`: this service gets the system message `log_ready` when the log is no longer empty.
unsafe extern "C-unwind" fn log_reader(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        service.system().log.set_reader(service.id);
        0
    }
}

/// `core.held_reader()`: this service gets the system messages `held(id, true)` when a service with a thread of its own has
/// not waited for 0.2 s, and `held(id, false)` when it does again or has ended.
unsafe extern "C-unwind" fn held_reader(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        service.system().set_held_reader(service.id);
        0
    }
}

/// `core.poplog()` → as `ltask.poplog`, with the label of who said it behind its id.
unsafe extern "C-unwind" fn poplog(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let Some(entry) = service(state).system().log.pop() else {
            return 0;
        };
        super::push_labelled(state, entry)
    }
}

/// `core.stat(id)` → label, messages, queue, queue_max, cpu seconds, memory, memory_max, resumes,
/// coroutines; nothing when there is no such service.
unsafe extern "C-unwind" fn stat(state: *mut lua_State) -> c_int {
    use std::sync::atomic::Ordering::Relaxed;
    // SAFETY: the card is dropped before the label is pushed.
    unsafe {
        let id = service_id(state, 1);
        let found = service(state).system().slots().get(id).and_then(|slot| {
            let card = slot.card()?;
            let level = slot.mailbox.level();
            let figures = [
                card.memory.load(Relaxed) as i64,
                card.memory_most.load(Relaxed) as i64,
                card.resumes.load(Relaxed) as i64,
                card.coroutines.load(Relaxed) as i64,
            ];
            let busy = card.busy() as f64 / 1e9;
            let alive = slot.mailbox.is_alive(id);
            alive.then(|| (card.label(), level, busy, figures))
        });
        let Some((label, level, busy, figures)) = found else {
            return 0;
        };
        super::push_owned(state, label);
        ffi::lua_pushinteger(state, level.received as i64);
        ffi::lua_pushinteger(state, level.queued as i64);
        ffi::lua_pushinteger(state, level.most as i64);
        ffi::lua_pushnumber(state, busy);
        for figure in figures {
            ffi::lua_pushinteger(state, figure);
        }
        9
    }
}

/// `core.report_overload()`: from now on the log tells when more than 1024, 2048 … messages of this service
/// are unread.
unsafe extern "C-unwind" fn report_overload(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state).overload = OVERLOAD;
        0
    }
}

/// `core.was_endless()` → whether the watchdog has reported a slice of this service since the last call.
unsafe extern "C-unwind" fn was_endless(state: *mut lua_State) -> c_int {
    use std::sync::atomic::Ordering::Relaxed;
    // SAFETY: a thin shell.
    unsafe {
        let endless = service(state).card.endless.swap(false, Relaxed);
        ffi::lua_pushboolean(state, endless.into());
        1
    }
}

/// `core.services()` → list of the living services' ids.
unsafe extern "C-unwind" fn services(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; nothing that needs `Drop` is alive when an error is raised.
    unsafe {
        let system: *const _ = service(state).system();
        ffi::lua_createtable(state, 0, 0);
        let mut count = 0;
        for slot in (*system).slots().all() {
            if let Some(id) = slot.mailbox.occupant() {
                count += 1;
                ffi::lua_pushinteger(state, id.into());
                ffi::lua_rawseti(state, -2, count);
            }
        }
        1
    }
}

/// `core.main_chunk()` → the service library's main function, precompiled.
unsafe extern "C-unwind" fn main_chunk(state: *mut lua_State) -> c_int {
    // SAFETY: the chunk is there for good.
    unsafe {
        match embed::compiled("ltask.service") {
            Some(chunk) => push_bytes(state, chunk),
            None => raise(state, Text::new("the service library cannot be compiled")),
        }
        1
    }
}

/// `core.chunk(module)` → an embedded Lua file as a function, loaded anew.
unsafe extern "C-unwind" fn chunk(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let name = args::utf8(state, 1);
        embed::push_compiled(state, name);
        1
    }
}

/// `core.embedded(module)` → text and chunk name of an embedded Lua file; nothing when there is none.
unsafe extern "C-unwind" fn embedded(state: *mut lua_State) -> c_int {
    // SAFETY: the text is there for good.
    unsafe {
        let Some((text, name)) = embed::text(args::bytes(state, 1)) else {
            return 0;
        };
        push_bytes(state, text);
        push_bytes(state, name.as_bytes());
        2
    }
}

/// `core.bytes(pointer, size)` → the bytes of a packed message as a string, which `ltask.unpack` reads; empty for
/// no message. The block is still the caller's.
unsafe extern "C-unwind" fn bytes(state: *mut lua_State) -> c_int {
    // SAFETY: the caller owns a block of that size, as by contract; what may raise owns nothing.
    unsafe {
        let (pointer, size) = super::block(state, 1);
        if pointer.is_null() {
            if size != 0 {
                args::argument_error(state, 2, Text::new("wrong size"));
            }
            push_bytes(state, b"");
            return 1;
        }
        push_bytes(state, std::slice::from_raw_parts(pointer.cast(), size));
        1
    }
}

/// `core.is_idle()` → whether there is no message, and no coroutine that could run: then the next message
/// rings.
unsafe extern "C-unwind" fn is_idle(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let idle = service(state).is_idle();
        ffi::lua_pushboolean(state, idle.into());
        1
    }
}

/// `core.idle_wait()`: blocks until a message comes; for a service with a thread of its own (G1).
unsafe extern "C-unwind" fn idle_wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        if !service.is_idle() {
            return 0;
        }
        if let Some(event) = service.event.clone() {
            event.wait(None);
        }
        0
    }
}

/// Opens `ltask.core`. Its functions come into the table as they are used.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push_lazy(state, function!(index));
        1
    }
}

unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: called as `__index` of the module's table.
    unsafe { module::find(state, &[FUNCTIONS, calls::PRIVATE]).into() }
}
