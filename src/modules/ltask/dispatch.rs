//! The main loop of our service library: one VM entry handles a batch of messages.
//!
//! A message is kept in `fast.current` until its values are on the Lua stack, so that an error on the way
//! (no memory, corrupt bytes) loses nothing: `recover` answers it. Values are unpacked on the running
//! state, which is protected, and moved over to the coroutine that is to have them.

use super::calls::{TIMEOUTS, library_tasks};
use super::library::{IDLE, POLL, REQUESTS, SYSTEM_CALLS, is_empty, push_hook, push_system_call};
use super::service;
use crate::event::clock::monotonic_nanos;
use crate::ltask::message::{ServiceId, kind};
use crate::ltask::pack;
use crate::ltask::service::Service;
use crate::raw::object::Key;
use crate::raw::tasks::{call as bridge, settle};
use crate::raw::{Text, continuation, function, raise};
use crate::task::{Ending, Tag, TaskId, Tasks, Token};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A slice ends after so many messages, or so long, if others wait or not: they cannot be asked cheaply.
const MESSAGES_MOST: u32 = 512;
const NANOS_MOST: u64 = 2_000_000;
/// So often the clock is read.
const CLOCK_EVERY: u32 = 32;
/// Coroutines that do nothing but yield do not keep messages away for ever.
const ROUNDS_MOST: u32 = 1000;

/// `core.loop()`: handles messages, slice after slice, until `core.finish`. In the main function.
pub(super) unsafe extern "C-unwind" fn main_loop(state: *mut lua_State) -> c_int {
    // SAFETY: as for `continued`.
    unsafe {
        library_tasks(state, "loop");
        continued(state, 0, 0)
    }
}

unsafe extern "C-unwind" fn continued(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe {
        ffi::lua_settop(state, 0);
        let me: *mut Service = service(state);
        handle_batch(state, me);
        if (*me).fast.ended {
            ffi::lua_pushboolean(state, 1);
            return 1;
        }
        ffi::lua_yieldk(state, 0, 0, Some(continuation!(continued)))
    }
}

/// `core.schedule()` → whether the service is to end: handles the messages that are there now, for a main
/// function that has its own loop.
pub(super) unsafe extern "C-unwind" fn schedule(state: *mut lua_State) -> c_int {
    // SAFETY: as for `main_loop`.
    unsafe {
        let me: *mut Service = service(state);
        if (*me)
            .fast
            .tasks()
            .is_none_or(|tasks| tasks.current().is_some())
        {
            raise(
                state,
                Text::new("schedule_message: for the main function only"),
            );
        }
        handle_batch(state, me);
        ffi::lua_pushboolean(state, (*me).fast.ended.into());
        1
    }
}

/// `me` is the VM's service, whose address stays; no reference to it is held while Lua runs.
unsafe fn handle_batch(state: *mut lua_State, me: *mut Service) {
    // SAFETY: runs in the main function, outside of any task.
    unsafe {
        // The service has them as long as its VM lives.
        let Some(tasks) = (*me).fast.tasks() else {
            return;
        };
        let began = (*me).began;
        tasks.set_now(began);
        tasks.review_waits(&mut bridge(state));
        let mut handled = 0;
        loop {
            let quiet = run_ready(tasks, state, me, began);
            let service = &mut *me;
            if !quiet || service.fast.ended || service.detach || handled >= MESSAGES_MOST {
                break;
            }
            if handled % CLOCK_EVERY == CLOCK_EVERY - 1 && monotonic_nanos() - began > NANOS_MOST {
                break;
            }
            if service.place != service.running_place {
                break;
            }
            let Some(message) = service.receive() else {
                break;
            };
            handled += 1;
            let head = (message.kind, message.from, message.session);
            service.fast.current = Some(message);
            handle(state, tasks, me, head);
        }
        if (*me).fast.polls && !(*me).batch.is_empty() {
            call_if_set(state, &POLL);
            run_ready(tasks, state, me, began);
        }
        if !(*me).fast.ended && is_finished(state, tasks, me) {
            (*me).fast.ended = true;
        }
        let created = tasks.created();
        let service = &mut *me;
        service.again = tasks.has_ready();
        let card = &service.card;
        card.coroutines.store(created, Ordering::Relaxed);
    }
}

/// Whether a service without handlers has nothing left to do: its file has returned, no task is left, no timer has a
/// function, nothing waits to be delivered, and it has no loop of its own.
unsafe fn is_finished(state: *mut lua_State, tasks: &Tasks, me: *mut Service) -> bool {
    // SAFETY: plain stack work in the main function; `me` is the VM's.
    unsafe {
        let service = &*me;
        let fast = &service.fast;
        if fast.starting || fast.serves || tasks.count() > fast.watches {
            return false;
        }
        let idle = service.batch.is_empty() && service.sending.is_empty();
        if !idle || !fast.outbox.is_empty() || fast.polls {
            return false;
        }
        let exclusive = service.card.exclusive.load(Ordering::Relaxed);
        [&REQUESTS, &TIMEOUTS, &SYSTEM_CALLS, &IDLE]
            .into_iter()
            .all(|key| is_unused(state, key))
            && !(exclusive && has_on_idle(state))
    }
}

/// Whether what lies under `key` is nil or an empty table.
unsafe fn is_unused(state: *mut lua_State, key: &'static Key) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state);
        let unused = match ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key.pointer()) {
            ffi::LUA_TNIL => true,
            ffi::LUA_TTABLE => is_empty(state, top + 1),
            _ => false,
        };
        ffi::lua_settop(state, top);
        unused
    }
}

/// Whether the service has assigned `ltask.on_idle` (G1).
unsafe fn has_on_idle(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work; `rawget` runs no metamethod.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_getfield(state, -1, c"ltask".as_ptr());
        ffi::lua_pushstring(state, c"on_idle".as_ptr());
        let found = ffi::lua_istable(state, -2) != 0 && ffi::lua_rawget(state, -2) != ffi::LUA_TNIL;
        ffi::lua_settop(state, top);
        found
    }
}

/// Runs what is ready, and what that makes ready. False when the slice is to end before all has run; a
/// message is taken only when it has, when what is left has yielded by itself, or when `ROUNDS_MOST` rounds
/// have passed since the last one.
unsafe fn run_ready(
    tasks: &Rc<Tasks>,
    state: *mut lua_State,
    me: *mut Service,
    began: u64,
) -> bool {
    // SAFETY: outside of any task.
    unsafe {
        let mut rounds = (*me).fast.rounds;
        let mut quiet = true;
        while tasks.has_ready() && rounds < ROUNDS_MOST {
            if rounds % 8 == 7 && monotonic_nanos() - began > NANOS_MOST {
                quiet = tasks.only_yielded();
                break;
            }
            tasks.run_ready(&mut bridge(state));
            rounds += 1;
        }
        (*me).fast.rounds = if quiet { 0 } else { rounds };
        quiet
    }
}

unsafe fn handle(
    state: *mut lua_State,
    tasks: &Rc<Tasks>,
    me: *mut Service,
    head: (u8, ServiceId, i64),
) {
    // SAFETY: the message lies in `fast.current`.
    unsafe {
        let (kind, from, session) = head;
        match kind {
            kind::REQUEST => start(state, tasks, me, true, Tag { from, session }),
            kind::RESPONSE => answer(state, tasks, me, from, session),
            kind::ERROR => answer_error(state, tasks, me, from, session),
            kind::SYSTEM => start(state, tasks, me, false, Tag { from, session }),
            kind::SIGNAL => signal(state, tasks, from),
            kind::IDLE => idle(state),
            _ => {}
        }
        (*me).fast.current = None;
        ffi::lua_settop(state, 0);
    }
}

/// Unpacks the message at hand onto `state`; how many values.
unsafe fn unpack(state: *mut lua_State, me: *mut Service) -> c_int {
    // SAFETY: the payload is freed when the values are there, or by `recover`.
    unsafe {
        let Some(message) = &(*me).fast.current else {
            return 0;
        };
        let (bytes, size) = message.payload.bytes();
        if size == 0 {
            return 0;
        }
        pack::unpack(state, bytes, size)
    }
}

/// Moves `count` values from the top of `state` to a coroutine.
unsafe fn hand_over(state: *mut lua_State, tasks: &Tasks, id: TaskId, count: c_int) {
    // SAFETY: what does not fit raises before anything moves.
    unsafe {
        if tasks.hand_over(&mut bridge(state), id, count).is_err() {
            tasks.release(id);
            ffi::luaL_error(state, c"too many values in a message".as_ptr());
        }
    }
}

/// A request: its handler runs in a task that answers it. The first value names it. `user`: one of the
/// service's own handlers, not of the library's.
unsafe fn start(state: *mut lua_State, tasks: &Rc<Tasks>, me: *mut Service, user: bool, tag: Tag) {
    // SAFETY: values are moved when all is found.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, REQUESTS.pointer());
        let count = unpack(state, me);
        if count == 0 {
            ffi::lua_pushnil(state);
        }
        let count = count.max(1);
        // table, name, arguments… → table, handler, arguments…
        if user {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_gettable(state, 1);
        }
        // What tells of the service's tasks is a request as well, unless it has one of that name.
        if !user || ffi::lua_type(state, -1) == ffi::LUA_TNIL && is_tasks(state) {
            find_system_call(state);
        }
        if ffi::lua_type(state, -1) == ffi::LUA_TNIL {
            unknown(state, tag);
            return;
        }
        let id = settle(state, tasks.acquire(&mut bridge(state)));
        let mut length = 0;
        if ffi::lua_type(state, 2) == ffi::LUA_TSTRING {
            let text = ffi::lua_tolstring(state, 2, &mut length).cast::<u8>();
            let text = std::slice::from_raw_parts(text, length);
            (*me).fast.set_name(id, text);
        }
        ffi::lua_replace(state, 2);
        hand_over(state, tasks, id, count);
        (*me).fast.current = None;
        tasks.start(&mut bridge(state), id, count - 1, tag);
    }
}

/// Whether the value at 2 is "tasks"; takes the nil off the top if so.
#[cold]
unsafe fn is_tasks(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        let named = ffi::lua_type(state, 2) == ffi::LUA_TSTRING
            && std::ffi::CStr::from_ptr(ffi::lua_tostring(state, 2)) == c"tasks";
        if named {
            ffi::lua_settop(state, -2);
        }
        named
    }
}

/// Pushes the handler of the system message whose name is at 2, or nil.
unsafe fn find_system_call(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        function!(system_call).push(state, 0);
        ffi::lua_pushnil(state);
        ffi::lua_pushvalue(state, 2);
        ffi::lua_call(state, 2, 1);
    }
}

unsafe extern "C-unwind" fn system_call(state: *mut lua_State) -> c_int {
    // SAFETY: the name is at 2.
    unsafe {
        push_system_call(state);
        1
    }
}

/// The service has no handler of that name: the caller gets an error, or the log. The stack holds the
/// handlers, the name, the arguments, and nil.
unsafe fn unknown(state: *mut lua_State, tag: Tag) {
    // SAFETY: plain stack work; the hook is protected by the main function.
    unsafe {
        let end = ffi::lua_gettop(state);
        ffi::luaL_checkstack(state, end + 8, std::ptr::null());
        push_hook(state, c"unknown");
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushinteger(state, tag.from.into());
        ffi::lua_pushinteger(state, tag.session);
        for index in 3..end {
            ffi::lua_pushvalue(state, index);
        }
        ffi::lua_call(state, end, 0);
    }
}

/// An answer: whoever waits for the session goes on with the values.
unsafe fn answer(
    state: *mut lua_State,
    tasks: &Rc<Tasks>,
    me: *mut Service,
    from: ServiceId,
    session: i64,
) {
    // SAFETY: the waiter is taken when the values are there.
    unsafe {
        let count = unpack(state, me);
        match tasks.take_waiter(Token::Session(session)) {
            Some(id) => {
                if tasks.hand_over(&mut bridge(state), id, count).is_err() {
                    tasks.put_back(id);
                    ffi::luaL_error(state, c"too many values in an answer".as_ptr());
                }
                (*me).fast.current = None;
                tasks.resume_now(&mut bridge(state), id, count, Ending::Returns);
            }
            None if (*me).fast.was_given(session) => fire(state, tasks, session),
            None => {
                ffi::luaL_checkstack(state, 8, std::ptr::null());
                push_hook(state, c"strange_answer");
                ffi::lua_pushinteger(state, from.into());
                ffi::lua_pushinteger(state, session);
                ffi::lua_rotate(state, 1, 3);
                ffi::lua_call(state, count + 2, 0);
            }
        }
    }
}

/// No coroutine waits: a timer's function, perhaps. Others waited once, and were killed.
unsafe fn fire(state: *mut lua_State, tasks: &Rc<Tasks>, session: i64) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_settop(state, 0);
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, TIMEOUTS.pointer());
        if ffi::lua_rawgeti(state, 1, session) != ffi::LUA_TFUNCTION {
            return;
        }
        let id = settle(state, tasks.acquire(&mut bridge(state)));
        ffi::lua_pushnil(state);
        ffi::lua_rawseti(state, 1, session);
        hand_over(state, tasks, id, 1);
        tasks.start(&mut bridge(state), id, 0, Tag::default());
    }
}

/// An error for whoever waits for the session: the library makes the error object.
unsafe fn answer_error(
    state: *mut lua_State,
    tasks: &Rc<Tasks>,
    me: *mut Service,
    from: ServiceId,
    session: i64,
) {
    // SAFETY: the waiter is taken when the error object is there.
    unsafe {
        push_hook(state, c"refused");
        ffi::lua_pushinteger(state, from.into());
        let count = unpack(state, me);
        ffi::lua_call(state, count + 1, 1);
        if let Some(id) = tasks.take_waiter(Token::Session(session)) {
            if tasks.hand_over(&mut bridge(state), id, 1).is_err() {
                tasks.put_back(id);
                ffi::luaL_error(state, c"stack overflow".as_ptr());
            }
            (*me).fast.current = None;
            tasks.resume_now(&mut bridge(state), id, 1, Ending::Raises);
        }
    }
}

/// Another service has died: `ltask.signal_handler`, if there is one, runs in a task.
unsafe fn signal(state: *mut lua_State, tasks: &Rc<Tasks>, from: ServiceId) {
    // SAFETY: as for `start`.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_getfield(state, -1, c"ltask".as_ptr());
        if ffi::lua_getfield(state, -1, c"signal_handler".as_ptr()) != ffi::LUA_TFUNCTION {
            return;
        }
        ffi::lua_pushinteger(state, from.into());
        let id = settle(state, tasks.acquire(&mut bridge(state)));
        hand_over(state, tasks, id, 2);
        tasks.start(&mut bridge(state), id, 1, Tag::default());
    }
}

/// Nothing to do (G2): the handler, which usually blocks, runs in the main function. Without one the service
/// sleeps until a message comes.
unsafe fn idle(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        if call_if_set(state, &IDLE) {
            return;
        }
        if let Some(event) = service(state).event.clone() {
            event.wait(None);
        }
    }
}

/// Calls the function that lies under `key`, if there is one.
unsafe fn call_if_set(state: *mut lua_State, key: &'static Key) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key.pointer()) != ffi::LUA_TFUNCTION {
            return false;
        }
        ffi::lua_call(state, 0, 0);
        true
    }
}

/// `core.recover(err)` → from, session of the request that was at hand when the loop raised `err`, if it was
/// one: it has no coroutine, and is to be answered. An answer that could not be read: who waits for it gets
/// the error, and the results are true.
pub(super) unsafe extern "C-unwind" fn recover(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the text of the error is made before the waiter is taken.
    unsafe {
        ffi::luaL_tolstring(state, 1, std::ptr::null_mut());
        let Some(message) = service(state).fast.current.take() else {
            return 0;
        };
        let (kind, from, session) = (message.kind, message.from, message.session);
        drop(message);
        if session == 0 {
            return 0;
        }
        if matches!(kind, kind::REQUEST | kind::SYSTEM) {
            ffi::lua_pushinteger(state, from.into());
            ffi::lua_pushinteger(state, session);
            return 2;
        }
        let Some(tasks) = service(state).fast.tasks() else {
            return 0;
        };
        let token = Token::Session(session);
        let woken = tasks.wakeup(&mut bridge(state), token, 1, Ending::Raises);
        match woken {
            Ok(true) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            _ => 0,
        }
    }
}
