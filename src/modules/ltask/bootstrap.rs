//! Module `ltask.bootstrap`: builds a system, runs it, and takes it down, in the VM that starts it.

use super::{config, raise_top};
use crate::ltask::life;
use crate::ltask::log::Repetition;
use crate::ltask::mailbox::Place;
use crate::ltask::message::{Message, Payload, SYSTEM, ServiceId};
use crate::ltask::preinit::Early;
use crate::ltask::service::Service;
use crate::ltask::system::{System, lock};
use crate::ltask::{crash, run, worker};
use crate::lua::{Chunk, Light};
use crate::raw::object::{self, Key, Object};
use crate::raw::{Function, Text, args, functions, guard, module, raise, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::sync::Arc;

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"init", init),
    (c"deinit", deinit),
    (c"init_timer", nothing),
    (c"init_socket", nothing),
    (c"init_root", init_root),
    (c"pushlog", pushlog),
    (c"poplog", poplog),
    (c"boot_failure", boot_failure),
    (c"new_service", new_service),
    (c"new_thread", new_thread),
    (c"preinit", preinit),
    (c"new_service_preinit", new_service_preinit),
    (c"post_message", post_message),
    (c"run", run_system),
    (c"wait", wait),
    (c"mainthread_wait", mainthread_wait),
    (c"external_sender", external_sender),
    (c"log_sender", log_sender),
];

/// A system, as the VM that made it holds it.
struct Handle {
    system: Arc<System>,
    running: bool,
}

impl Object for Handle {
    const NAME: &'static CStr = c"ltask.system";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.running {
            self.system.quit();
            run::wait(&self.system, || false);
            self.running = false;
        }
        Early::end_all(&self.system);
        run::close_all(&self.system);
        crash::forget(&self.system);
    }
}

static PRESENT: Key = Key::new(11);

/// The system that `init` made and `deinit` has not ended. To be asked for when the arguments are read, and again
/// after any call of Lua's that allocates: a number that is made a string may run a finalizer, which may call `deinit`.
unsafe fn handle<'a>(state: *mut lua_State) -> &'a mut Handle {
    // SAFETY: the registry keeps the handle; it is used for the time of a call.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, PRESENT.pointer());
        let found = object::test::<Handle>(state, -1);
        ffi::lua_settop(state, -2);
        match found {
            Some(handle) => &mut *handle,
            None => raise(state, Text::new("no system: call bootstrap.init first")),
        }
    }
}

const PRESENT_ALREADY: &str = "init: there is a system already; see bootstrap.deinit";

/// Whether there is a system. Never raises.
unsafe fn is_present(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, PRESENT.pointer());
        let found = object::test::<Handle>(state, -1).is_some();
        ffi::lua_pop(state, 1);
        found
    }
}

/// `bootstrap.init(config)`: makes a system; the values in force are written back into the table.
unsafe extern "C-unwind" fn init(state: *mut lua_State) -> c_int {
    // SAFETY: what needs `Drop` is made when nothing can raise, or moved into the userdata.
    unsafe {
        if is_present(state) {
            raise(state, Text::new(PRESENT_ALREADY));
        }
        config::check_table(state);
        let config = Box::into_raw(Box::new(config::read(state)));
        let made = object::push_new(state, || {
            let config = *Box::from_raw(config);
            // A finalizer that has run since may have made one.
            if is_present(state) {
                return Err(Text::new(PRESENT_ALREADY));
            }
            let system = System::new(config).map_err(|message| Text::new(&message))?;
            crash::watch(&system).map_err(|message| Text::new(&message))?;
            Ok(Handle {
                system,
                running: false,
            })
        });
        if let Err(message) = made {
            raise(state, message);
        }
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, PRESENT.pointer());
        0
    }
}

/// `bootstrap.deinit()`: closes what is left of the system; one that runs is ended first.
unsafe extern "C-unwind" fn deinit(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the handle's `__gc` drops it once.
    unsafe {
        let handle = handle(state);
        if handle.running {
            handle.system.quit();
            finish(state, handle);
        }
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, PRESENT.pointer());
        ffi::lua_pushnil(state);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, PRESENT.pointer());
        ffi::luaL_callmeta(state, -1, c"__gc".as_ptr());
        0
    }
}

/// `init_timer()`, `init_socket()`: there is nothing to be done.
unsafe extern "C-unwind" fn nothing(_: *mut lua_State) -> c_int {
    0
}

/// `bootstrap.init_root(1)`: service 1 is root; the number is fixed.
unsafe extern "C-unwind" fn init_root(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        handle(state);
        args::integer_in(state, 1, 1, 1, "root's service id");
        0
    }
}

/// `bootstrap.pushlog(pointer, size)`: adds an entry of the system (service 0) to the log.
unsafe extern "C-unwind" fn pushlog(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let (pointer, size) = super::block(state, 1);
        let handle = handle(state);
        let payload = Payload::from_raw(pointer, size);
        handle.system.push_log(SYSTEM, payload, Repetition::Counted);
        0
    }
}

/// `bootstrap.poplog()` → centiseconds since the epoch, id, label, pointer, size; nothing when the log is
/// empty.
unsafe extern "C-unwind" fn poplog(state: *mut lua_State) -> c_int {
    // SAFETY: no push here allocates.
    unsafe {
        let Some(entry) = handle(state).system.log.pop_last() else {
            return 0;
        };
        super::push_labelled(state, entry)
    }
}

/// `bootstrap.boot_failure()` → why `ltask.start`'s root could not start the system; nil when it could.
unsafe extern "C-unwind" fn boot_failure(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_owned`.
    unsafe {
        match handle(state).system.boot_failure() {
            Some(reason) => super::push_owned(state, reason),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `bootstrap.new_service(label, source, id)` (G1: `source` is Lua text or `@file`; raises) or
/// `new_service(label, source, chunkname, id [, worker])` (G2: false and a message). Returns the id. An
/// id of 0 or nil is the next one.
unsafe extern "C-unwind" fn new_service(state: *mut lua_State) -> c_int {
    // SAFETY: strings are arguments; what needs `Drop` is gone when an error is raised.
    unsafe {
        handle(state);
        let label = args::utf8(state, 1);
        let new = ffi::lua_type(state, 3) == ffi::LUA_TSTRING;
        let name = new.then(|| CStr::from_ptr(ffi::lua_tostring(state, 3)));
        let wanted = wanted_id(state, if new { 4 } else { 3 });
        let source = super::root::source(state, 2, name);
        let handle = handle(state);
        let place = match new {
            true => super::root::place(state, 5, handle.system.config.worker),
            false => Place::Any,
        };
        match make(state, &handle.system, wanted, label, source, place) {
            Some(id) => {
                ffi::lua_pushinteger(state, id.into());
                1
            }
            None if new => {
                ffi::lua_pushboolean(state, 0);
                ffi::lua_rotate(state, -2, 1);
                2
            }
            None => raise_top(state),
        }
    }
}

unsafe fn wanted_id(state: *mut lua_State, index: c_int) -> ServiceId {
    // SAFETY: the caller's promise.
    unsafe {
        match args::is_none(state, index) {
            true => 0,
            false => super::service_id(state, index),
        }
    }
}

/// Opens a place and makes the service; None leaves a message on the stack.
unsafe fn make(
    state: *mut lua_State,
    system: &Arc<System>,
    wanted: ServiceId,
    label: &str,
    source: Chunk<'_>,
    place: Place,
) -> Option<ServiceId> {
    // SAFETY: as for `push_owned`.
    unsafe {
        let Some(id) = system.slots().open(wanted) else {
            push_no_place(state, wanted);
            return None;
        };
        match life::make(system, id, label, source) {
            Ok(service) => {
                life::install(system, service, place);
                Some(id)
            }
            Err(message) => {
                let text = format!("new service {label}: {message}");
                drop(message);
                super::push_owned(state, text);
                None
            }
        }
    }
}

unsafe fn push_no_place(state: *mut lua_State, wanted: ServiceId) {
    let text = match wanted {
        0 => "new service: there are too many (config.max_service)".to_owned(),
        _ => format!("new service: the id {wanted} is taken, or too high"),
    };
    // SAFETY: as for `push_owned`.
    unsafe { super::push_owned(state, text) }
}

/// `bootstrap.new_thread(id)`: that service becomes exclusive (G1): it runs on a thread of its own, which
/// starts with the system.
unsafe extern "C-unwind" fn new_thread(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new_service`.
    unsafe {
        let id = super::service_id(state, 1);
        let handle = handle(state);
        if handle.running {
            raise(state, Text::new("new_thread: the system runs already"));
        }
        if let Err(message) = run::make_exclusive(&handle.system, id) {
            super::push_owned(state, message);
            raise_top(state);
        }
        0
    }
}

/// `bootstrap.preinit(source)` → pointer for `new_service_preinit` (G1): a VM that runs on a thread of
/// its own before the system does, resumed with `true` at each step.
unsafe extern "C-unwind" fn preinit(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new_service`.
    unsafe {
        handle(state);
        let source = super::root::source(state, 1, None);
        let handle = handle(state);
        match Early::start(&handle.system, source) {
            Ok(early) => {
                let Light(name) = early.keep(&handle.system);
                ffi::lua_pushlightuserdata(state, name as *mut c_void);
                1
            }
            Err(message) => {
                super::push_owned(state, message);
                raise_top(state)
            }
        }
    }
}

/// `bootstrap.new_service_preinit(label, id, p)` → id: the VM of `preinit` becomes that service, and its
/// main function is resumed with nothing from now on.
unsafe extern "C-unwind" fn new_service_preinit(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new_service`.
    unsafe {
        handle(state);
        let label = args::utf8(state, 1);
        let wanted = wanted_id(state, 2);
        ffi::luaL_checktype(state, 3, ffi::LUA_TLIGHTUSERDATA);
        let handle = handle(state);
        let Some(id) = handle.system.slots().open(wanted) else {
            push_no_place(state, wanted);
            raise_top(state);
        };
        match Early::finish(
            &handle.system,
            Light(ffi::lua_touserdata(state, 3).addr()),
            id,
            label,
        ) {
            Ok(service) => life::install(&handle.system, service, Place::Any),
            Err(message) => {
                life::discard(&handle.system, id);
                super::push_owned(state, message);
                raise_top(state);
            }
        }
        ffi::lua_pushinteger(state, id.into());
        1
    }
}

/// `bootstrap.post_message{ from=, to=, session=, type=, message=, size= }`: takes the block. Raises
/// `push message failed`.
unsafe extern "C-unwind" fn post_message(state: *mut lua_State) -> c_int {
    // SAFETY: what may raise comes before the message is made.
    unsafe {
        config::check_table(state);
        ffi::lua_settop(state, 1);
        let from = super::service_id(state, field(state, c"from", true));
        let to = super::service_id(state, field(state, c"to", false));
        let session = ffi::luaL_optinteger(state, field(state, c"session", true), 0);
        let kind = args::integer_in(state, field(state, c"type", false), 0, 254, "type") as u8;
        let pointer = field(state, c"message", true);
        field(state, c"size", true);
        let (pointer, size) = super::block(state, pointer);
        let handle = handle(state);
        let posted = {
            let message = Message {
                from,
                to,
                session,
                kind,
                payload: Payload::from_raw(pointer, size),
            };
            handle.system.post(message, 0).is_ok()
        };
        if !posted {
            raise(state, Text::new("push message failed"));
        }
        0
    }
}

/// Pushes a field of the table at 1; its index. An optional one that is absent reads as 0 where it is
/// `from`, and as nil otherwise.
unsafe fn field(state: *mut lua_State, name: &CStr, optional: bool) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let found = ffi::lua_getfield(state, 1, name.as_ptr());
        if found == ffi::LUA_TNIL && optional && name == c"from" {
            ffi::lua_settop(state, -2);
            ffi::lua_pushinteger(state, 0);
        }
        if found == ffi::LUA_TNIL && !optional {
            let text = format_args!(
                "post_message: field '{}' is missing",
                name.to_string_lossy()
            );
            raise(state, Text::format(text));
        }
        ffi::lua_gettop(state)
    }
}

fn start(handle: &mut Handle) -> Result<(), Text> {
    if handle.running || handle.system.is_quitting() {
        return Err(Text::new("run: the system runs already, or has ended"));
    }
    handle.running = true;
    run::start(&handle.system);
    Ok(())
}

/// Waits for the end; Ctrl-C in the stock interpreter, which sets a hook, ends the system.
unsafe fn finish(state: *mut lua_State, handle: &mut Handle) -> i32 {
    // SAFETY: asks for the hook only.
    let code = run::wait(&handle.system, || unsafe {
        ffi::lua_gethook(state).is_some()
    });
    handle.running = false;
    code
}

/// `bootstrap.run()` → exit code, when root has ended (G1). `bootstrap.run(mainthread)` → context for
/// `wait`, at once (G2).
unsafe extern "C-unwind" fn run_system(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let handle = handle(state);
        settle(state, guard(|| start(handle)));
        if ffi::lua_gettop(state) > 0 {
            let system: *const System = &*handle.system;
            ffi::lua_pushlightuserdata(state, system.cast_mut().cast());
            return 1;
        }
        let code = finish(state, handle);
        ffi::lua_pushinteger(state, code.into());
        1
    }
}

/// `bootstrap.wait(context)` → exit code, when root has ended and every thread with it.
unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let handle = handle(state);
        if !handle.running {
            raise(state, Text::new("wait: the system does not run"));
        }
        let code = finish(state, handle);
        ffi::lua_pushinteger(state, code.into());
        1
    }
}

/// `bootstrap.mainthread_wait([no_wait])` → true after a slice of a service that asked for this thread;
/// false when the system ends, or at once when there is none and `no_wait` is true.
unsafe extern "C-unwind" fn mainthread_wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let no_wait = ffi::lua_toboolean(state, 1) != 0;
        let system: *const Arc<System> = &handle(state).system;
        let interrupted = || ffi::lua_gethook(state).is_some();
        let ran = settle(
            state,
            guard(|| Ok(main_slice(&*system, no_wait, interrupted))),
        );
        ffi::lua_pushboolean(state, ran.into());
        1
    }
}

/// Waits for a service that wants this thread, and runs its slice. A signal ends the wait: `interrupted`
/// says whether the system is to end then.
fn main_slice(system: &Arc<System>, no_wait: bool, interrupted: impl Fn() -> bool) -> bool {
    let id = loop {
        if let Some(id) = lock(&system.main.services).pop_front() {
            break id;
        }
        if no_wait || system.is_quitting() {
            return false;
        }
        if !system.main.arrived.wait_once() && interrupted() {
            system.quit();
        }
    };
    worker::main_slice(system, id);
    true
}

unsafe extern "C" fn send_external(system: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: `system` is what `external_sender` gave; the caller stops before `deinit`.
    let system = unsafe { &*system.cast::<System>() };
    let taken = crate::raw::guard(|| Ok(system.external(data)));
    c_int::from(!matches!(taken, Ok(true)))
}

/// `bootstrap.external_sender(context)` → function pointer `int (void *queue, void *message)`, and `queue`.
/// From any thread: the pointer reaches root's `external` request. 0 is success; not 0, the message was not
/// taken.
unsafe extern "C-unwind" fn external_sender(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let system: *const System = &*handle(state).system;
        ffi::lua_pushlightuserdata(state, send_external as *const () as *mut c_void);
        ffi::lua_pushlightuserdata(state, system.cast_mut().cast());
        2
    }
}

unsafe extern "C" fn send_log(system: *mut c_void, data: *mut c_void, size: usize) {
    // SAFETY: as for `send_external`; the block is one of `malloc` and given away.
    unsafe {
        let system = &*system.cast::<System>();
        let entry = Payload::from_raw(data, size);
        // The panic has been reported on standard error; the C code has nobody to tell.
        let _ = crate::raw::guard(|| Ok(system.push_log(SYSTEM, entry, Repetition::Counted)));
    }
}

/// `bootstrap.log_sender(context)` → function pointer `void (void *log, void *data, size_t size)`, and `log`.
/// From any thread: adds an entry of service 0; `data` is a packed block of `malloc` and is taken.
unsafe extern "C-unwind" fn log_sender(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let system: *const System = &*handle(state).system;
        ffi::lua_pushlightuserdata(state, send_log as *const () as *mut c_void);
        ffi::lua_pushlightuserdata(state, system.cast_mut().cast());
        2
    }
}

/// Opens `ltask.bootstrap`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        if Service::of(state).is_some() {
            raise(
                state,
                Text::new("ltask.bootstrap is for the VM that starts a system, not for a service"),
            );
        }
        module::push(state, FUNCTIONS);
        module::add(state, crate::modules::pack::FUNCTIONS);
        1
    }
}
