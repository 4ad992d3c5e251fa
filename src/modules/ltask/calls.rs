//! The calls of a service that post messages and wait for answers: one C function each. Packing and posting
//! are one step, and the coroutine that waits is resumed by the dispatcher itself.

use super::library::push_hook;
use super::time::set_timer;
use super::{service, service_id};
use crate::ltask::mailbox::Refusal;
use crate::ltask::message::{Message, Payload, SYSTEM, ServiceId, kind, receipt};
use crate::ltask::pack;
use crate::ltask::service::Service;
use crate::raw::object::Key;
use crate::raw::tasks::{call as bridge, raise_cannot_wait, settle};
use crate::raw::{Function, Text, args, continuation, functions, push_bytes, raise};
use crate::task::{Denied, Ending, Reason, Tag, TaskId, Tasks, Token};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::rc::Rc;

/// What `ltask` has of these in a service with our library.
pub(super) const PUBLIC: &[(&CStr, Function)] = functions![
    (c"call", call),
    (c"syscall", syscall),
    (c"send", send),
    (c"send_direct", send),
    (c"sleep", sleep),
    (c"timeout", timeout),
    (c"on_full", on_full),
    (c"no_response", no_response),
];

/// What only the library itself uses.
pub(super) const PRIVATE: &[(&CStr, Function)] = functions![
    (c"post", post),
    (c"request", request),
    (c"await", wait_session),
    (c"fail_calls", fail_calls),
    (c"new_session", new_session),
    (c"current", current),
    (c"pending", pending),
];

/// Functions of timers that have not fired, by session.
pub(super) static TIMEOUTS: Key = Key::new(21);

/// The tasks of a service that has set our library up; raises in any other, naming `call`.
pub(super) unsafe fn library_tasks<'a>(state: *mut lua_State, call: &str) -> &'a Rc<Tasks> {
    // SAFETY: the caller's promise; nothing that needs `Drop` is alive. The service has them as long as its VM lives.
    unsafe {
        match service(state).fast.tasks() {
            Some(tasks) => tasks,
            None => raise(
                state,
                Text::format(format_args!("{call}: the service library is not set up")),
            ),
        }
    }
}

/// The tasks, the running one of which can wait; raises otherwise, naming `call`.
unsafe fn waiting_task<'a>(state: *mut lua_State, call: &str) -> &'a Rc<Tasks> {
    // SAFETY: the caller's promise.
    unsafe {
        let tasks = library_tasks(state, call);
        if !tasks.can_wait(&bridge(state)) {
            raise_cannot_wait(state, tasks, call)
        }
        tasks
    }
}

/// What became of a message.
enum Posted {
    Done,
    /// It waits for room.
    Queued,
    Missing,
    Full,
}

/// Posts, or queues behind what waits for room, when the service wants that.
fn deliver(service: &mut Service, message: Message, ticket: i64, wait: bool) -> Posted {
    let to = message.to;
    if service.fast.is_queued(to) {
        if !wait {
            return Posted::Full;
        }
        service.fast.queue(message, ticket);
        return Posted::Queued;
    }
    let sender = if wait { service.id } else { 0 };
    match service.system().post(message, sender) {
        Ok(()) => Posted::Done,
        Err((_, Refusal::Missing)) => Posted::Missing,
        Err((message, Refusal::Full)) if wait => {
            service.fast.queue(message, ticket);
            Posted::Queued
        }
        Err(_) => Posted::Full,
    }
}

unsafe fn raise_refused(state: *mut lua_State, to: ServiceId, posted: &Posted) -> ! {
    let what = match posted {
        Posted::Full => "busy",
        _ => "dead",
    };
    // SAFETY: the message is plain data.
    unsafe {
        push_refused(state, to, what);
        ffi::lua_error(state)
    }
}

unsafe fn push_refused(state: *mut lua_State, to: ServiceId, what: &str) {
    let text = Text::format(format_args!("{{service:{to}}} is {what}"));
    // SAFETY: the caller's promise.
    unsafe { push_bytes(state, text.as_bytes()) }
}

/// Packs the arguments from 2 on into a message to argument 1.
unsafe fn packed(state: *mut lua_State, me: *const Service, session: i64, kind: u8) -> Message {
    // SAFETY: what may raise comes before the message is made.
    unsafe {
        let to = service_id(state, 1);
        if to == SYSTEM {
            args::argument_error(state, 1, Text::new("service id 0 is the system"));
        }
        let (pointer, size) = pack::pack(state, 2);
        Message {
            from: (*me).id,
            to,
            session,
            kind,
            payload: Payload::from_raw(pointer, size),
        }
    }
}

unsafe fn call_with(state: *mut lua_State, name: &str, kind: u8) -> c_int {
    // SAFETY: the message is delivered before anything may raise; the yield is the last act.
    unsafe {
        let tasks = waiting_task(state, name);
        let me: *mut Service = service(state);
        let session = (*me).fast.next_session();
        let (to, posted) = {
            let message = packed(state, me, session, kind);
            let wait = (*me).fast.wait_when_full;
            (message.to, deliver(&mut *me, message, 0, wait))
        };
        if matches!(posted, Posted::Missing | Posted::Full) {
            raise_refused(state, to, &posted);
        }
        park(state, tasks, session, Reason::Call(to))
    }
}

/// Suspends the running task until its session is answered.
unsafe fn park(state: *mut lua_State, tasks: &Rc<Tasks>, session: i64, reason: Reason) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe {
        ffi::lua_settop(state, 0);
        park_for(state, tasks, session, reason, continuation!(resumed))
    }
}

/// The same with a continuation of the caller's, and what it keeps on the stack.
unsafe fn park_for(
    state: *mut lua_State,
    tasks: &Rc<Tasks>,
    session: i64,
    reason: Reason,
    then: ffi::lua_KFunction,
) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe {
        match tasks.wait(&mut bridge(state), Token::Session(session), reason) {
            Ok(()) => {}
            Err(Denied::Fault(fault)) => settle(state, Err(fault)),
            Err(_) => raise(state, Text::new("somebody waits for this session already")),
        }
        ffi::lua_yieldk(state, 0, 0, Some(then))
    }
}

/// After a wait: whether it raises the value on top.
unsafe fn is_interrupted(state: *mut lua_State) -> bool {
    // SAFETY: runs in the step after the yield.
    unsafe {
        let tasks = service(state).fast.tasks();
        tasks.is_some_and(|tasks| tasks.ends_with_error(&bridge(state)))
    }
}

/// After the wait of `send` for room: the receiver's address is at 1, whether it took the message on top.
unsafe extern "C-unwind" fn sent(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: as for `resumed`.
    unsafe {
        if is_interrupted(state) {
            ffi::lua_error(state);
        }
        if ffi::lua_toboolean(state, -1) != 0 {
            return 1;
        }
        let to = ffi::lua_tointeger(state, 1) as ServiceId;
        push_refused(state, to, "dead");
        2
    }
}

/// After the wait: the values of the answer, or its error.
unsafe extern "C-unwind" fn resumed(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the stack holds what the dispatcher moved over.
    unsafe {
        if is_interrupted(state) {
            push_hook(state, c"raised");
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_call(state, 1, 1);
            ffi::lua_error(state);
        }
        ffi::lua_gettop(state)
    }
}

/// `ltask.call(addr, …)` → the callee's results; raises its error.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe { call_with(state, "call", kind::REQUEST) }
}

/// `ltask.syscall(addr, …)`: the same to the service library of `addr`.
unsafe extern "C-unwind" fn syscall(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe { call_with(state, "syscall", kind::SYSTEM) }
}

/// `ltask.send(addr, …)` → true; false and a message when the service is dead. Raises when its mailbox is
/// full, or waits, if the service wants that.
unsafe extern "C-unwind" fn send(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe {
        // Who cannot wait is told that the receiver is busy.
        let me: *mut Service = service(state);
        let tasks = match (*me).fast.wait_when_full {
            true => (*me).fast.tasks(),
            false => None,
        };
        let tasks = tasks.filter(|tasks| tasks.can_wait(&bridge(state)));
        let wait = tasks.is_some();
        let ticket = match wait {
            true => (*me).fast.next_session(),
            false => 0,
        };
        let (to, posted) = {
            let message = packed(state, me, 0, kind::REQUEST);
            (message.to, deliver(&mut *me, message, ticket, wait))
        };
        match (&posted, tasks) {
            (Posted::Queued, Some(tasks)) => {
                ffi::lua_settop(state, 1);
                return park_for(state, tasks, ticket, Reason::Other, continuation!(sent));
            }
            (Posted::Full, _) => raise_refused(state, to, &posted),
            (Posted::Missing, _) => {
                ffi::lua_pushboolean(state, 0);
                push_refused(state, to, "dead");
                return 2;
            }
            _ => {}
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `core.post(addr, session, type, …)` → whether it was taken: packs and posts a message as it is.
unsafe extern "C-unwind" fn post(state: *mut lua_State) -> c_int {
    // SAFETY: what may raise comes before the message is made.
    unsafe {
        let to = service_id(state, 1);
        let session = ffi::luaL_checkinteger(state, 2);
        let kind = args::integer_in(state, 3, 0, 254, "message type") as u8;
        let (pointer, size) = pack::pack(state, 4);
        let service = service(state);
        let message = Message {
            from: service.id,
            to,
            session,
            kind,
            payload: Payload::from_raw(pointer, size),
        };
        let receipt = super::messages::post(service, message);
        let taken = receipt.kind == receipt::DONE;
        drop(receipt);
        ffi::lua_pushboolean(state, taken.into());
        1
    }
}

/// `core.request(addr, …)` → the session that will be answered: a call that does not wait. nil and a
/// message when it was refused.
unsafe extern "C-unwind" fn request(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe {
        let me: *mut Service = service(state);
        let session = (*me).fast.next_session();
        let (to, posted) = {
            let message = packed(state, me, session, kind::REQUEST);
            let wait = (*me).fast.wait_when_full;
            (message.to, deliver(&mut *me, message, 0, wait))
        };
        match posted {
            Posted::Done | Posted::Queued => {
                ffi::lua_pushinteger(state, session);
                1
            }
            Posted::Missing | Posted::Full => {
                let what = if matches!(posted, Posted::Full) {
                    "busy"
                } else {
                    "dead"
                };
                ffi::lua_pushnil(state);
                push_refused(state, to, what);
                2
            }
        }
    }
}

/// `core.await(session[, addr])` → the results of that session's answer, which is expected of that service;
/// raises its error.
unsafe extern "C-unwind" fn wait_session(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe {
        let session = ffi::luaL_checkinteger(state, 1);
        let reason = match args::is_none(state, 2) {
            true => Reason::Other,
            false => Reason::Call(service_id(state, 2)),
        };
        let tasks = waiting_task(state, "await");
        park(state, tasks, session, reason)
    }
}

/// `core.fail_calls(addr, text)` → how many: each call of this service that waits for an answer of `addr`
/// raises that error. Answers that still come are dropped.
unsafe extern "C-unwind" fn fail_calls(state: *mut lua_State) -> c_int {
    // SAFETY: nothing raises between taking a waiter and queueing it; its stack has room for a value.
    unsafe {
        let addr = service_id(state, 1);
        ffi::luaL_checktype(state, 2, ffi::LUA_TSTRING);
        let tasks = library_tasks(state, "fail_calls");
        let mut failed = 0;
        let mut next = 0;
        while let Some((id, session)) = tasks.next_call_to(next, addr) {
            next = id + 1;
            ffi::lua_settop(state, 2);
            ffi::lua_pushvalue(state, 2);
            let token = Token::Session(session);
            let woken = tasks.wakeup(&mut bridge(state), token, 1, Ending::Raises);
            failed += i64::from(woken.unwrap_or(false));
        }
        ffi::lua_pushinteger(state, failed);
        1
    }
}

/// `core.new_session()` → a number that no message of this service has had.
unsafe extern "C-unwind" fn new_session(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let session = service(state).fast.next_session();
        ffi::lua_pushinteger(state, session);
        1
    }
}

unsafe fn ticks(state: *mut lua_State) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let ticks = ffi::luaL_checknumber(state, 1);
        if ticks.is_nan() {
            args::argument_error(state, 1, Text::new("time is not a number"));
        }
        ticks.ceil() as i64
    }
}

/// `ltask.sleep(centiseconds)`: 0 lets the messages go first that are there now.
unsafe extern "C-unwind" fn sleep(state: *mut lua_State) -> c_int {
    // SAFETY: as for `call_with`.
    unsafe {
        let ticks = ticks(state);
        let tasks = waiting_task(state, "sleep");
        let session = service(state).fast.next_session();
        let timer = set_timer(service(state), session, ticks);
        let reason = timer.map_or(Reason::Other, Reason::Timer);
        park(state, tasks, session, reason)
    }
}

/// `ltask.timeout(centiseconds, f)`: forks `f` when the time is over.
unsafe extern "C-unwind" fn timeout(state: *mut lua_State) -> c_int {
    // SAFETY: the timer is set when the function is in its table.
    unsafe {
        let ticks = ticks(state);
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        ffi::lua_settop(state, 2);
        let session = service(state).fast.next_session();
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, TIMEOUTS.pointer());
        ffi::lua_pushvalue(state, 2);
        ffi::lua_rawseti(state, -2, session);
        set_timer(service(state), session, ticks);
        0
    }
}

/// `ltask.on_full(what)` → the previous: `"wait"` or `"error"`; what becomes of this service's requests to
/// full mailboxes.
unsafe extern "C-unwind" fn on_full(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let before = service(state).fast.wait_when_full;
        if !args::is_none(state, 1) {
            service(state).fast.wait_when_full = match args::bytes(state, 1) {
                b"wait" => true,
                b"error" => false,
                _ => args::argument_error(state, 1, Text::new("'wait' or 'error' expected")),
            };
        }
        push_bytes(state, if before { b"wait" } else { b"error" });
        1
    }
}

/// `core.pending()` → how many coroutines wait for an answer or a timer; how many timers of this service are
/// set.
unsafe extern "C-unwind" fn pending(state: *mut lua_State) -> c_int {
    // SAFETY: the core lives as long as the VM.
    unsafe {
        let service = service(state);
        let sessions = service.fast.tasks().map_or(0, |tasks| tasks.sessions());
        let timers = service.system().keeper.timers.count_of(service.id);
        ffi::lua_pushinteger(state, sessions as i64);
        ffi::lua_pushinteger(state, timers as i64);
        2
    }
}

/// The tag of the running task.
unsafe fn current_tag(state: *mut lua_State) -> Option<(TaskId, Tag)> {
    // SAFETY: the caller's promise.
    unsafe {
        let tasks = service(state).fast.tasks()?;
        let id = tasks.current()?;
        Some((id, tasks.tag(id)))
    }
}

/// `core.current()` → from, session of the request that the running coroutine answers; nothing in others.
unsafe extern "C-unwind" fn current(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let Some((_, tag)) = current_tag(state) else {
            return 0;
        };
        ffi::lua_pushinteger(state, tag.from.into());
        ffi::lua_pushinteger(state, tag.session);
        2
    }
}

/// `ltask.no_response()`: the running request will not be answered by its function's return.
unsafe extern "C-unwind" fn no_response(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        if let Some((id, tag)) = current_tag(state)
            && let Some(tasks) = service(state).fast.tasks()
        {
            tasks.set_tag(id, Tag { session: 0, ..tag });
        }
        0
    }
}
