//! Module `ltask`: what a service library stands on. Messages are pointer and size here.

use super::{message, push_payload, service, service_id};
use crate::ltask::log::Repetition;
use crate::ltask::mailbox::{Place, Refusal};
use crate::ltask::message::{Message, Payload, ROOT, SYSTEM, kind, receipt, schedule};
use crate::ltask::service::{Receipt, Service};
use crate::lua::home;
use crate::memory::KIND_NAMES;
use crate::raw::{Function, Text, args, function, functions, module, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

/// All that the module has, by topic.
pub(super) const LISTS: &[&[(&CStr, Function)]] = &[
    FUNCTIONS,
    super::time::FUNCTIONS,
    super::event::FUNCTIONS,
    crate::modules::pack::FUNCTIONS,
];

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"send_message", send_message),
    (c"send_message_direct", send_message_direct),
    (c"message_receipt", message_receipt),
    (c"recv_message", recv_message),
    (c"self", self_id),
    (c"label", label),
    (c"worker_id", worker_id),
    (c"worker_bind", worker_bind),
    (c"pushlog", pushlog),
    (c"poplog", poplog),
    (c"get_pushlog", get_pushlog),
    (c"mem_limit", mem_limit),
    (c"mem_count", mem_count),
    (c"touch_service", touch_service),
    (c"backtrace", backtrace),
    (c"debuglog", debuglog),
    (c"is_exclusive", is_exclusive),
    (c"mainthread_enter", mainthread_enter),
    (c"mainthread_leave", mainthread_leave),
    (c"mainthread_yield", mainthread_yield),
];

/// Posts a message of a service; the receipt says what became of it.
pub(super) fn post(service: &mut Service, message: Message) -> Receipt {
    if message.to == SYSTEM {
        return schedule_message(service, message);
    }
    if matches!(message.kind, kind::RESPONSE | kind::ERROR) {
        if service.dead {
            return done();
        }
        service.pending.remove(message.to, message.session);
    }
    match service.system().post(message, 0) {
        Ok(()) => done(),
        Err((message, refusal)) => Receipt {
            kind: match refusal {
                Refusal::Missing => receipt::ERROR,
                Refusal::Full => receipt::BLOCK,
            },
            returned: Some(message),
            id: 0,
        },
    }
}

fn done() -> Receipt {
    Receipt {
        kind: receipt::DONE,
        returned: None,
        id: 0,
    }
}

/// Messages to the system: root makes and removes services.
fn schedule_message(service: &mut Service, message: Message) -> Receipt {
    let refused = |message| Receipt {
        kind: receipt::ERROR,
        returned: Some(message),
        id: 0,
    };
    if service.id != ROOT {
        return refused(message);
    }
    let slots = service.system().slots();
    match message.kind {
        schedule::NEW => match slots.open(0) {
            Some(id) => Receipt {
                kind: receipt::RESPONSE,
                returned: None,
                id,
            },
            None => refused(message),
        },
        schedule::DEL => {
            let id = u32::try_from(message.session).unwrap_or(SYSTEM);
            if slots.free(id) {
                done()
            } else {
                refused(message)
            }
        }
        _ => refused(message),
    }
}

/// `ltask.send_message(to, session, type [, pointer, size])`: takes the message; what became of it says
/// `message_receipt`, at once. A second one before that raises.
unsafe extern "C-unwind" fn send_message(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the message is posted before anything may raise.
    unsafe {
        let service = service(state);
        if ffi::lua_isyieldable(state) == 0 {
            raise(
                state,
                Text::new("Can't send message: this context cannot yield"),
            );
        }
        if service.receipt.is_some() {
            raise(
                state,
                Text::new("Can't send message: the receipt of the last one was not read"),
            );
        }
        let message = message(state, 1, service.id);
        service.receipt = Some(post(service, message));
        0
    }
}

/// `ltask.message_receipt()` → kind, and pointer and size of a message that came back, or the number of a
/// new service. Raises when there is none.
unsafe extern "C-unwind" fn message_receipt(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let Some(receipt) = service(state).receipt.take() else {
            raise(state, Text::new("No receipt"));
        };
        push_receipt(state, receipt)
    }
}

unsafe fn push_receipt(state: *mut lua_State, receipt: Receipt) -> c_int {
    // SAFETY: no push here allocates.
    unsafe {
        ffi::lua_pushinteger(state, receipt.kind);
        if receipt.kind == receipt::RESPONSE {
            ffi::lua_pushinteger(state, receipt.id.into());
            return 2;
        }
        match receipt.returned {
            Some(message) => 1 + push_payload(state, message.payload),
            None => 1,
        }
    }
}

/// `ltask.send_message_direct(to, session, type, pointer, size)` → kind: posts at once (G1). The message
/// comes back, as two more results, when it was not taken.
unsafe extern "C-unwind" fn send_message_direct(state: *mut lua_State) -> c_int {
    // SAFETY: as for `send_message`.
    unsafe {
        let service = service(state);
        let message = message(state, 1, service.id);
        let receipt = post(service, message);
        push_receipt(state, receipt)
    }
}

/// `ltask.recv_message()` → from, session, type [, pointer, size]; nothing when the mailbox is empty.
unsafe extern "C-unwind" fn recv_message(state: *mut lua_State) -> c_int {
    // SAFETY: no push here allocates.
    unsafe {
        let Some(message) = service(state).receive() else {
            return 0;
        };
        ffi::lua_pushinteger(state, message.from.into());
        ffi::lua_pushinteger(state, message.session);
        ffi::lua_pushinteger(state, message.kind.into());
        3 + push_payload(state, message.payload)
    }
}

/// `ltask.self()` → this service's number.
unsafe extern "C-unwind" fn self_id(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushinteger(state, service(state).id.into());
        1
    }
}

/// `ltask.label()` → this service's label.
unsafe extern "C-unwind" fn label(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_owned`.
    unsafe {
        super::push_owned(state, service(state).card.label());
        1
    }
}

/// `ltask.worker_id()` → number of the worker that runs this service, from 0; nil on a thread of its own.
unsafe extern "C-unwind" fn worker_id(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state);
        match crate::ltask::worker::number() {
            Some(number) => ffi::lua_pushinteger(state, number as i64),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `ltask.worker_bind([n])`: keeps the service on worker n (from 0), from its next slice on; nil frees it.
unsafe extern "C-unwind" fn worker_bind(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        if args::is_none(state, 1) {
            service.place = Place::Any;
            return 0;
        }
        let most = service.system().config.worker as i64 - 1;
        let number = args::integer_in(state, 1, 0, most, "worker");
        service.place = Place::Worker(number as usize);
        0
    }
}

/// `ltask.pushlog(pointer, size)`: adds an entry to the log, which takes the block.
unsafe extern "C-unwind" fn pushlog(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        let (pointer, size) = super::block(state, 1);
        let payload = Payload::from_raw(pointer, size);
        let (system, id) = (service.system(), service.id);
        system.push_log(id, payload, Repetition::Counted);
        0
    }
}

/// `ltask.poplog()` → centiseconds since the epoch, id, pointer, size; nothing when the log is empty.
unsafe extern "C-unwind" fn poplog(state: *mut lua_State) -> c_int {
    // SAFETY: no push here allocates.
    unsafe {
        let Some(entry) = service(state).system().log.pop() else {
            return 0;
        };
        super::push_entry(state, entry)
    }
}

/// What `get_pushlog` gives to C code: logs a block of `malloc` for service `id`.
unsafe extern "C" fn log_from_c(system: *mut c_void, id: u32, data: *mut c_void, size: usize) {
    // SAFETY: `system` is what `get_pushlog` gave, and outlives its services.
    unsafe {
        let system = &*system.cast::<crate::ltask::system::System>();
        let entry = Payload::from_raw(data, size);
        // The panic has been reported on standard error; the C code has nobody to tell.
        let _ = crate::raw::guard(|| Ok(system.push_log(id, entry, Repetition::Counted)));
    }
}

/// `ltask.get_pushlog()` → function pointer `void (void *log, uint32_t id, void *data, size_t size)`, and
/// `log`. For C code of any thread; `data` is a block of `malloc` and is taken.
unsafe extern "C-unwind" fn get_pushlog(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let system: *const _ = service(state).system();
        ffi::lua_pushlightuserdata(state, log_from_c as *const () as *mut c_void);
        ffi::lua_pushlightuserdata(state, system.cast_mut().cast());
        2
    }
}

/// `ltask.mem_limit(bytes)` → the previous limit of this service's VM; 0 is none.
unsafe extern "C-unwind" fn mem_limit(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state);
        let Some(memory) = home::memory_of(state) else {
            return 0;
        };
        let before = if args::is_none(state, 1) {
            memory.limit()
        } else {
            let bytes = args::integer_in(state, 1, 0, i64::MAX, "limit");
            memory.set_limit(bytes as usize)
        };
        ffi::lua_pushinteger(state, before as i64);
        1
    }
}

/// `ltask.mem_count([t])` → `t` or a new table: objects made so far by Lua type, and `memory`, bytes in
/// use.
unsafe extern "C-unwind" fn mem_count(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        service(state);
        ffi::lua_settop(state, 1);
        if ffi::lua_type(state, 1) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, 0);
            ffi::lua_createtable(state, 0, 8);
        }
        let Some((counts, used)) =
            home::memory_of(state).map(|memory| (memory.counts(), memory.used()))
        else {
            return 0;
        };
        // The first is no object, the last two are Lua's own.
        for (name, count) in KIND_NAMES.iter().zip(counts).skip(1).take(5) {
            push_bytes(state, name.as_bytes());
            ffi::lua_pushinteger(state, count as i64);
            ffi::lua_rawset(state, 1);
        }
        ffi::lua_pushinteger(state, used as i64);
        ffi::lua_setfield(state, -2, c"memory".as_ptr());
        1
    }
}

/// `ltask.touch_service(id)` → whether there is such a service: wakes one that waits on its event
/// descriptor.
unsafe extern "C-unwind" fn touch_service(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let id = service_id(state, 1);
        let there = service(state).system().touch(id);
        ffi::lua_pushboolean(state, there.into());
        1
    }
}

/// `ltask.backtrace()` → where the service's main function is.
unsafe extern "C-unwind" fn backtrace(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state);
        let Some(main) = home::main_of(state) else {
            return 0;
        };
        ffi::luaL_traceback(state, main, std::ptr::null(), 0);
        1
    }
}

/// `ltask.debuglog(text)`: a line for the file that `config.debuglog` names.
unsafe extern "C-unwind" fn debuglog(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let text = args::bytes(state, 1);
        let service = service(state);
        let line = format!("{} {}", service.id, String::from_utf8_lossy(text));
        service.system().debug(&line);
        0
    }
}

/// `ltask.is_exclusive([id])` → whether the service has a thread of its own by configuration (G1).
unsafe extern "C-unwind" fn is_exclusive(state: *mut lua_State) -> c_int {
    use std::sync::atomic::Ordering;
    // SAFETY: a thin shell.
    unsafe {
        let service = service(state);
        let exclusive = if args::is_none(state, 1) {
            service.card.exclusive.load(Ordering::Relaxed)
        } else {
            let id = service_id(state, 1);
            let card = service.system().card(id);
            card.is_some_and(|card| card.exclusive.load(Ordering::Relaxed))
        };
        ffi::lua_pushboolean(state, exclusive.into());
        1
    }
}

/// `ltask.mainthread_enter()`: the next slice runs on the process's main thread (G2).
unsafe extern "C-unwind" fn mainthread_enter(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        if service(state).event.is_some() {
            let text = "mainthread_enter: this service has a thread of its own";
            raise(state, Text::new(text));
        }
        service(state).place = Place::Main;
        0
    }
}

/// `ltask.mainthread_leave()`: the next slice runs on a worker again.
unsafe extern "C-unwind" fn mainthread_leave(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        service(state).place = Place::Any;
        0
    }
}

/// `ltask.mainthread_yield()`: ends this slice; the next one comes without a message. In the main function.
unsafe extern "C-unwind" fn mainthread_yield(state: *mut lua_State) -> c_int {
    // SAFETY: `lua_yieldk` is the last act.
    unsafe {
        let service = service(state);
        if ffi::lua_isyieldable(state) == 0 {
            raise(
                state,
                Text::new("mainthread_yield: this context cannot yield"),
            );
        }
        service.again = true;
        ffi::lua_yieldk(state, 0, 0, None)
    }
}

/// Opens `ltask`. Its functions come into the table as they are used: most services use few.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push_lazy(state, function!(super::library::index));
        1
    }
}
