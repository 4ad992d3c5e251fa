//! The parts of our service library that each service has, without a Lua function in its VM: names that
//! come into the tables as they are used, `print`, `require`, and where the rest is found.

use super::calls::{self, TIMEOUTS};
use super::service;
use super::{dispatch, host, init};
use crate::ltask::log::Repetition;
use crate::ltask::message::Payload;
use crate::ltask::pack;
use crate::lua::home;
use crate::raw::object::Key;
use crate::raw::tasks::{call as bridge, settle};
use crate::raw::{Function, args, continuation, embed, function, functions, module, push_bytes};
use crate::task::Tasks;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::atomic::Ordering;

/// The handlers of requests; those of system messages besides the built-in ones, if there are any.
pub(super) static REQUESTS: Key = Key::new(22);
pub(super) static SYSTEM_CALLS: Key = Key::new(23);
/// What the library does in rare cases: `ltask.more`'s table `hooks`, once it is loaded.
static HOOKS: Key = Key::new(24);
/// The handler for when there is nothing to do.
pub(super) static IDLE: Key = Key::new(25);
/// What looks for I/O when messages come without end.
pub(super) static POLL: Key = Key::new(27);
/// Lua's own `require`.
static REQUIRE: Key = Key::new(26);

const PUBLIC: &[(&CStr, Function)] = functions![
    (c"dispatch", dispatch_table),
    (c"schedule_message", dispatch::schedule),
    (c"idle_handler", idle_handler),
    (c"quit", quit),
];

/// What of the task core is `ltask`'s as well.
const TASK: [&CStr; 5] = [c"fork", c"wait", c"wakeup", c"interrupt", c"running"];

/// `__index` of `ltask`: its own functions, and in a service with our library that one's.
pub(super) unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: called as `__index` of the module's table.
    unsafe {
        if module::find(state, super::messages::LISTS) {
            return 1;
        }
        let Some(service) = crate::ltask::service::Service::of(state) else {
            return outside(state);
        };
        if service.fast.tasks().is_none() || ffi::lua_type(state, 2) != ffi::LUA_TSTRING {
            return 0;
        }
        if module::find(state, &[calls::PUBLIC, PUBLIC]) {
            return 1;
        }
        let name = args::bytes(state, 2);
        if name == b"signal_handler" || name == b"on_idle" {
            return 0;
        }
        if TASK.iter().any(|known| known.to_bytes() == name) {
            push_loaded(state, c"lio.task");
        } else {
            push_module(state, c"ltask.more");
        }
        ffi::lua_pushvalue(state, 2);
        ffi::lua_gettable(state, -2);
        if ffi::lua_type(state, -1) != ffi::LUA_TNIL {
            module::keep(state);
        }
        1
    }
}

/// `ltask.start`, in a VM that is no service's.
unsafe fn outside(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_type(state, 2) != ffi::LUA_TSTRING || args::bytes(state, 2) != b"start" {
            return 0;
        }
        ffi::lua_getglobal(state, c"require".as_ptr());
        ffi::lua_pushstring(state, c"ltask.start".as_ptr());
        ffi::lua_call(state, 1, 1);
        module::keep(state);
        1
    }
}

unsafe fn push_loaded(state: *mut lua_State, name: &CStr) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_getfield(state, -1, name.as_ptr());
        ffi::lua_rotate(state, -2, -1);
        ffi::lua_settop(state, -2);
    }
}

/// Pushes a module, loaded by Lua's own `require`.
pub(super) unsafe fn push_module(state: *mut lua_State, name: &CStr) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUIRE.pointer());
        ffi::lua_pushstring(state, name.as_ptr());
        ffi::lua_call(state, 1, 1);
    }
}

/// Pushes what the library does in a rare case.
pub(super) unsafe fn push_hook(state: *mut lua_State, name: &CStr) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checkstack(state, 6, std::ptr::null());
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, HOOKS.pointer()) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, -2);
            push_module(state, c"ltask.more");
            ffi::lua_getfield(state, -1, c"hooks".as_ptr());
            ffi::lua_rotate(state, -2, -1);
            ffi::lua_settop(state, -2);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, HOOKS.pointer());
        }
        ffi::lua_getfield(state, -1, name.as_ptr());
        ffi::lua_rotate(state, -2, -1);
        ffi::lua_settop(state, -2);
    }
}

/// Sets how much memory the VM may have, 0 for any; returns the limit before.
unsafe fn set_limit(state: *mut lua_State, limit: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { home::memory_of(state).map_or(0, |memory| memory.set_limit(limit)) }
}

/// `core.setup()`: this VM has our service library from now on.
pub(super) unsafe extern "C-unwind" fn setup(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the service knows the core when all is there.
    unsafe {
        // Until the service's own code begins: what is made here stays.
        ffi::lua_gc(state, ffi::LUA_GCSTOP);
        for key in [&REQUESTS, &TIMEOUTS] {
            ffi::lua_createtable(state, 0, 0);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key.pointer());
        }
        ffi::lua_getglobal(state, c"require".as_ptr());
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, REQUIRE.pointer());
        push_module(state, c"lio.task");
        for (name, function) in [
            (c"require", function!(require)),
            (c"print", function!(print)),
        ] {
            function.push(state, 0);
            ffi::lua_setglobal(state, name.as_ptr());
        }
        crate::modules::coroutine::INSTALL.push(state, 0);
        ffi::lua_call(state, 0, 0);
        let tasks = settle(state, Tasks::of(&mut bridge(state)));
        let service = service(state);
        tasks.set_host(host::host(service));
        crate::lua::interrupt::set_threads(state, std::rc::Rc::as_ptr(&tasks.threads));
        service.fast.set_tasks(Some(tasks));
        service.fast.memory = home::memory_of(state).map_or(std::ptr::null(), std::ptr::from_ref);
        service.fast.starting = true;
        service.fast.wait_when_full = service.system().waits_when_full();
        ffi::lua_pushboolean(state, service.card.exclusive.load(Ordering::Relaxed).into());
        1
    }
}

/// `core.serve(ok, ended)` → ended: of the protected main loop. An error in it is answered or logged, and
/// the service goes on, also when that fails.
pub(super) unsafe extern "C-unwind" fn serve(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the hook runs protected.
    unsafe {
        if ffi::lua_toboolean(state, 1) != 0 {
            ffi::lua_settop(state, 2);
            return 1;
        }
        // A service that has used up its memory must still be able to say so.
        let limit = set_limit(state, 0);
        function!(call_recover).push(state, 0);
        ffi::lua_pushvalue(state, 2);
        if ffi::lua_pcall(state, 1, 0, 0) != ffi::LUA_OK {
            let service = service(state);
            service
                .system()
                .log_text(service.id, "error while an error was handled");
        }
        set_limit(state, limit);
        ffi::lua_pushboolean(state, 0);
        1
    }
}

unsafe extern "C-unwind" fn call_recover(state: *mut lua_State) -> c_int {
    // SAFETY: the error is at 1.
    unsafe {
        push_hook(state, c"recover");
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_call(state, 1, 0);
        0
    }
}

/// `core.requests()` → how many coroutines answer requests.
pub(super) unsafe extern "C-unwind" fn requests(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let tasks = calls::library_tasks(state, "requests");
        ffi::lua_pushinteger(state, tasks.requests() as i64);
        1
    }
}

/// `core.is_request(co)` → whether the coroutine answers a request.
pub(super) unsafe extern "C-unwind" fn is_request(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTHREAD);
        let tasks = calls::library_tasks(state, "is_request");
        let id = bridge(state).coroutine(1).and_then(|co| tasks.task_of(co));
        let answers = id.is_some_and(|id| tasks.tag(id).from != 0);
        ffi::lua_pushboolean(state, answers.into());
        1
    }
}

/// `core.system_calls()` → the table of handlers of system messages.
pub(super) unsafe extern "C-unwind" fn system_calls(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let key = SYSTEM_CALLS.pointer();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key) != ffi::LUA_TTABLE {
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key);
        }
        1
    }
}

/// Pushes the handler of the system message whose name is on top.
pub(super) unsafe fn push_system_call(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        let key = SYSTEM_CALLS.pointer();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key) == ffi::LUA_TTABLE {
            ffi::lua_pushvalue(state, -2);
            if ffi::lua_rawget(state, -2) == ffi::LUA_TFUNCTION {
                return;
            }
        }
        ffi::lua_settop(state, 2);
        if ffi::lua_type(state, 2) != ffi::LUA_TSTRING {
            return ffi::lua_pushnil(state);
        }
        match args::bytes(state, 2) {
            b"init" => function!(init::init).push(state, 0),
            b"quit" => function!(quit).push(state, 0),
            b"inspect" => push_hook(state, c"inspect"),
            b"tasks" => push_hook(state, c"tasks"),
            b"watch" => push_hook(state, c"watch"),
            _ => ffi::lua_pushnil(state),
        }
    }
}

/// `core.generation()` → the one that the system is configured for.
pub(super) unsafe extern "C-unwind" fn generation(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushinteger(state, service(state).fast.generation.into());
        1
    }
}

/// `ltask.dispatch([handlers])` → the table of request handlers, with those added.
unsafe extern "C-unwind" fn dispatch_table(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 1);
        if ffi::lua_type(state, 1) == ffi::LUA_TNIL {
            ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUESTS.pointer());
            return 1;
        }
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        add_handlers(state);
        1
    }
}

/// Adds the handlers in the table at 1, the only value on the stack, to those of requests; leaves their
/// table on top.
pub(super) unsafe fn add_handlers(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        service(state).fast.serves = true;
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUESTS.pointer());
        if is_empty(state, 2) {
            // The table itself, so that handlers added to it later are seen.
            ffi::lua_pushvalue(state, 1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, REQUESTS.pointer());
            ffi::lua_settop(state, 1);
            return;
        }
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, 1) != 0 {
            ffi::lua_pushvalue(state, -2);
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_rawset(state, 2);
        }
    }
}

/// Whether the table at `index` is empty.
pub(super) unsafe fn is_empty(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushnil(state);
        if ffi::lua_next(state, index) == 0 {
            return true;
        }
        ffi::lua_settop(state, -3);
        false
    }
}

/// `ltask.quit()`: runs the handler `quit`, if there is one, then ends the service. Requests that it has not
/// answered get an error.
unsafe extern "C-unwind" fn quit(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUESTS.pointer());
        ffi::lua_pushstring(state, c"quit".as_ptr());
        if ffi::lua_rawget(state, -2) != ffi::LUA_TFUNCTION {
            service(state).fast.ended = true;
            return 0;
        }
        // A service that has used up its memory must still be able to end.
        let limit = set_limit(state, 0);
        embed::push_compiled(state, "ltask.quit");
        set_limit(state, limit);
        ffi::lua_call(state, 0, 0);
        0
    }
}

/// `core.watch(n)`: `n` more of the service's tasks wait for its own end, and do not keep it alive.
pub(super) unsafe extern "C-unwind" fn watch(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let more = args::integer_in(state, 1, -1, 1, "number of tasks") as isize;
        let fast = &mut service(state).fast;
        fast.watches = fast.watches.saturating_add_signed(more);
        0
    }
}

/// `ltask.idle_handler(f)`: `f` runs when there is nothing to do, in a service with an event descriptor
/// (G2). It usually blocks.
unsafe extern "C-unwind" fn idle_handler(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let kind = ffi::lua_type(state, 1);
        if kind > ffi::LUA_TNIL && kind != ffi::LUA_TFUNCTION {
            args::type_error(state, 1, c"function");
        }
        ffi::lua_settop(state, 1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, IDLE.pointer());
        0
    }
}

/// `core.poll_handler(f)`: `f` runs after a batch of messages when more are there, so that they do not keep
/// I/O away.
pub(super) unsafe extern "C-unwind" fn poll_handler(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, POLL.pointer());
        service(state).fast.polls = true;
        0
    }
}

/// Lua's `require`: does not wait.
pub(super) unsafe extern "C-unwind" fn require_now(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUIRE.pointer());
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

/// `require` of a service: what is not loaded yet is loaded by a coroutine that may wait.
unsafe extern "C-unwind" fn require(state: *mut lua_State) -> c_int {
    // SAFETY: the call is the last act, and may yield.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::luaL_checktype(state, 1, ffi::LUA_TSTRING);
        ffi::lua_pushvalue(state, 1);
        if ffi::lua_gettable(state, -2) != ffi::LUA_TNIL {
            return 1;
        }
        ffi::lua_settop(state, 1);
        // What is built in does not wait.
        if ffi::lua_isyieldable(state) == 0
            || service(state).fast.tasks().is_none()
            || embed::is_for_services(args::bytes(state, 1))
        {
            return require_now(state);
        }
        push_module(state, c"ltask.loader");
        ffi::lua_pushvalue(state, 1);
        ffi::lua_callk(state, 1, 2, 0, Some(continuation!(required)));
        2
    }
}

unsafe extern "C-unwind" fn required(_: *mut lua_State, _: c_int, _: ffi::lua_KContext) -> c_int {
    2
}

/// `print` of a service: a line of the log.
unsafe extern "C-unwind" fn print(state: *mut lua_State) -> c_int {
    // SAFETY: what may raise comes before the payload is made.
    unsafe {
        let count = ffi::lua_gettop(state);
        push_bytes(state, b"info");
        push_bytes(state, b"");
        for index in 1..=count {
            if index > 1 {
                push_bytes(state, b"\t");
                ffi::lua_concat(state, 2);
            }
            ffi::luaL_tolstring(state, index, std::ptr::null_mut());
            ffi::lua_concat(state, 2);
        }
        let (pointer, size) = pack::pack(state, count + 1);
        let service = service(state);
        let payload = Payload::from_raw(pointer, size);
        let system = service.system();
        system.push_log(service.id, payload, Repetition::Written);
        0
    }
}
