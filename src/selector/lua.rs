//! `require "lio"`: selectors and wakers as Lua sees them.
//!
//! Raw functions. A selector's user values hold what Lua must keep alive: the udata and the descriptor
//! objects by slot, the iterator, the guard that tells when a `for` is left, and the coroutine that
//! iterates. The iterator has the selector and the udata table as upvalues.

use super::core::Core;
use super::descriptor::{self, Descriptor};
use super::registration::{CLOSED, ERROR, HANG_UP, Mode, READ, Registration, WRITE};
use super::wake::{Bell, bell_of, handle_of};
use crate::lua::object::{self, Key, Object, closed_text, key};
use crate::lua::{Fault, Function, Text, args, guard, module, push_bytes, raise, settle};
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::os::raw::{c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const UDATA: c_int = 1;
const OBJECTS: c_int = 2;
const ITERATOR: c_int = 3;
const GUARD: c_int = 4;
const THREAD: c_int = 5;

const DEFAULT_EVENTS: i64 = 1024;
const MOST_EVENTS: i64 = 65536;

/// A selector, or what is left of it after `close`.
pub(crate) struct Selector {
    core: Option<Rc<Core>>,
    /// A `for` over the events of the last wait is running.
    iterating: Cell<bool>,
    /// The coroutine that waited last; compared and asked for its status, kept alive by `THREAD`.
    thread: Cell<*mut lua_State>,
}

impl Object for Selector {
    const NAME: &'static CStr = c"lio.selector";
    const USER_VALUES: c_int = 5;
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"event_add", event_add),
        (c"event_mod", event_mod),
        (c"event_del", event_del),
        (c"epoll_add", epoll_add),
        (c"epoll_mod", epoll_mod),
        (c"wait", wait),
        (c"waker", waker),
        (c"count", count),
        (c"close", close),
        (c"arm", arm),
        (c"set_udata", set_udata),
    ];
    const META: &'static [(&'static CStr, Function)] =
        &[(c"__close", close), (c"__tostring", to_string)];
    fn key() -> &'static Key {
        key!()
    }
}

/// Told by Lua when a `for` over events is left in whatever way. The user value keeps the selector.
struct LoopGuard(*const Selector);

impl Object for LoopGuard {
    const NAME: &'static CStr = c"lio.selector loop";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    const META: &'static [(&'static CStr, Function)] = &[(c"__close", leave_loop)];
    fn key() -> &'static Key {
        key!()
    }
}

struct Waker(Arc<Bell>);

impl Object for Waker {
    const NAME: &'static CStr = c"lio.waker";
    const METHODS: &'static [(&'static CStr, Function)] =
        &[(c"wake", wake), (c"handle", waker_handle)];
    fn key() -> &'static Key {
        key!()
    }
}

/// The open core of the selector at argument 1; raises when it is closed.
unsafe fn open_core<'a>(state: *mut lua_State) -> (&'a Selector, &'a Rc<Core>) {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        match &(*selector).core {
            Some(core) => (&*selector, core),
            None => raise(state, closed_text("selector")),
        }
    }
}

/// The open core of the selector at argument 1, and the descriptor at argument 2. In this order: a
/// descriptor's method is Lua code, and may close the selector.
unsafe fn core_and_descriptor<'a>(state: *mut lua_State) -> (&'a Rc<Core>, Descriptor) {
    // SAFETY: as for `open_core`; nothing of the selector is held while Lua code runs.
    unsafe {
        open_core(state);
        let descriptor = descriptor::resolve(state, 2);
        (open_core(state).1, descriptor)
    }
}

/// `lio.create([max_events = 1024])` → a selector. `max_events` (1 to 65536): how many events one wait
/// takes from the system. `nil, message, code` when the system refuses (epoll_create1(2)).
unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what `push_new` makes is owned by Lua before anything can raise.
    unsafe {
        let most = match args::is_none(state, 1) {
            true => DEFAULT_EVENTS,
            false => args::integer_in(state, 1, 1, MOST_EVENTS, "max_events"),
        };
        let made = object::push_new(state, || {
            let core = Core::new(most as usize).map_err(|error| Fault::io("create", &error))?;
            Ok(Selector {
                core: Some(core),
                iterating: Cell::new(false),
                thread: Cell::new(std::ptr::null_mut()),
            })
        });
        if let Err(fault) = made {
            return Fault::push(&fault, state);
        }
        let at = ffi::lua_gettop(state);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_pushvalue(state, at);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_pushcclosure(state, next_event, 2);
        ffi::lua_setiuservalue(state, at, ITERATOR);
        ffi::lua_setiuservalue(state, at, UDATA);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_setiuservalue(state, at, OBJECTS);
        let selector = object::check::<Selector>(state, at);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(LoopGuard(selector))
        });
        ffi::lua_pushvalue(state, at);
        ffi::lua_setiuservalue(state, -2, 1);
        ffi::lua_setiuservalue(state, at, GUARD);
        1
    }
}

/// Releases the Lua values of registrations that are gone.
unsafe fn sweep(state: *mut lua_State, index: c_int, core: &Core) {
    if !core.has_released() {
        return;
    }
    // SAFETY: assigning nil to an integer key never allocates, so it cannot raise inside `sweep`.
    unsafe {
        ffi::lua_getiuservalue(state, index, UDATA);
        ffi::lua_getiuservalue(state, index, OBJECTS);
        core.sweep(|slot| {
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, -3, slot as i64 + 1);
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, -2, slot as i64 + 1);
        });
        ffi::lua_pop(state, 2);
    }
}

/// Registers `descriptor`, the object at `object`, with the value on top of the stack as udata (popped).
///
/// # Safety
/// A selector is at index `selector`; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn attach(
    state: *mut lua_State,
    selector: c_int,
    object: c_int,
    descriptor: Descriptor,
    asked: u8,
    mode: Mode,
) -> Result<(), Fault> {
    // SAFETY: the references into the selector end before anything raises; the tables are its own.
    unsafe {
        let owner = object::check::<Selector>(state, selector);
        let Some(core) = &(*owner).core else {
            return Err(Fault::word("event_add", "selector is closed", "closed"));
        };
        sweep(state, selector, core);
        let added = guard(|| {
            let result = core.add(descriptor.number, asked, mode, descriptor.kind);
            Ok(match result {
                Ok(registration) => {
                    let slot = registration.slot;
                    if let Some(watch) = descriptor.watch.as_ref() {
                        watch.link(registration);
                    }
                    Ok(slot)
                }
                Err(error) => Err(refused(&error)),
            })
        });
        let slot = settle(state, added)?;
        ffi::lua_getiuservalue(state, selector, UDATA);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_getiuservalue(state, selector, OBJECTS);
        ffi::lua_pushvalue(state, object);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_pop(state, 3);
        Ok(())
    }
}

fn refused(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EPERM) => Fault::word(
            "event_add",
            "a regular file or directory cannot be waited for, it is always ready",
            "denied",
        ),
        Some(libc::EEXIST) => Fault::word("event_add", "already registered", "exists"),
        _ => Fault::io("event_add", error),
    }
}

unsafe fn add(state: *mut lua_State, asked: u8, mode: Mode) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let descriptor = descriptor::resolve(state, 2);
        if descriptor.number < 0 {
            return Fault::word("event_add", "descriptor is closed", "closed").push(state);
        }
        ffi::lua_settop(state, 4);
        if ffi::lua_type(state, 4) == ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_replace(state, 4);
        }
        match attach(state, 1, 2, descriptor, asked, mode) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `sel:event_add(fd, events [, udata = fd])`: registers a descriptor for `SELECT_READ`, `SELECT_WRITE`,
/// both or 0. `true`, or `nil, message, code`.
unsafe extern "C-unwind" fn event_add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        open_core(state);
        let asked = args::integer_in(state, 3, 0, 3, "events") as u8;
        add(state, asked, Mode::Level)
    }
}

unsafe fn modify(state: *mut lua_State, asked: u8, mode: Mode) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let changed = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(Err(unknown("event_mod")));
            };
            Ok(match core.modify(&registration, asked, mode) {
                Ok(()) => Ok(registration.slot),
                Err(error) => {
                    core.forget(&registration, false);
                    Err(Fault::io("event_mod", &error))
                }
            })
        });
        match settle(state, changed) {
            Ok(slot) => {
                if !args::is_none(state, 4) {
                    ffi::lua_getiuservalue(state, 1, UDATA);
                    ffi::lua_pushvalue(state, 4);
                    ffi::lua_rawseti(state, -2, slot as i64 + 1);
                }
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

fn unknown(call: &'static str) -> Fault {
    Fault::word(call, "descriptor is not registered", "not found")
}

/// `sel:event_mod(fd, events [, udata])`: changes what is asked for, and the udata when one is given.
/// `true`, or `nil, message, code` for a descriptor that is not registered.
unsafe extern "C-unwind" fn event_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let asked = args::integer_in(state, 3, 0, 3, "events") as u8;
        modify(state, asked, Mode::Level)
    }
}

/// `sel:event_del(fd)`: forgets a descriptor. `true`, or `nil, message, code` when it is not registered.
unsafe extern "C-unwind" fn event_del(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let found = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(false);
            };
            core.forget(&registration, true);
            Ok(true)
        });
        if !settle(state, found) {
            return unknown("event_del").push(state);
        }
        sweep(state, 1, core);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

const EPOLL_BITS: [(u8, i64); 5] = [
    (READ, 0x001),
    (WRITE, 0x004),
    (CLOSED, 0x2000),
    (HANG_UP, 0x010),
    (ERROR, 0x008),
];
const EPOLL_EDGE: i64 = 1 << 31;
const EPOLL_ONCE: i64 = 1 << 30;

/// Reads epoll(7)'s event mask at argument 3.
unsafe fn epoll_mask(state: *mut lua_State) -> (u8, Mode) {
    // SAFETY: as for `create`.
    let mask = unsafe { ffi::luaL_checkinteger(state, 3) };
    let mode = match (mask & EPOLL_EDGE != 0, mask & EPOLL_ONCE != 0) {
        (_, true) => Mode::EpollOnce,
        (true, _) => Mode::EpollEdge,
        _ => Mode::Epoll,
    };
    let mut asked = 0;
    for (bit, theirs) in EPOLL_BITS {
        if mask & theirs != 0 {
            asked |= bit;
        }
    }
    (asked, mode)
}

/// `sel:epoll_add(fd, mask [, udata])`: `event_add` with epoll(7)'s event bits, for `bee.epoll`.
unsafe extern "C-unwind" fn epoll_add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        open_core(state);
        let (asked, mode) = epoll_mask(state);
        add(state, asked, mode)
    }
}

/// `sel:epoll_mod(fd, mask [, udata])`: `event_mod` with epoll(7)'s event bits, for `bee.epoll`.
unsafe extern "C-unwind" fn epoll_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (asked, mode) = epoll_mask(state);
        modify(state, asked, mode)
    }
}

/// `sel:arm(fd, events)`: asks for `events` in addition, for one delivery. What a loop uses for
/// listeners and datagram sockets registered with 0. `true`, or `nil, message, code`.
unsafe extern "C-unwind" fn arm(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let bits = args::integer_in(state, 3, 1, 7, "events") as u8;
        let armed = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(false);
            };
            registration.mode.set(Mode::Once);
            registration.arm(bits);
            Ok(true)
        });
        if !settle(state, armed) {
            return unknown("arm").push(state);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `sel:set_udata(fd, udata)`: changes what the loop yields for a descriptor, and nothing else. `true`,
/// or `nil, message, code`.
unsafe extern "C-unwind" fn set_udata(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        ffi::luaL_checkany(state, 3);
        let found = guard(|| Ok(core.find(descriptor.number).map(|found| found.slot)));
        let Some(slot) = settle(state, found) else {
            return unknown("set_udata").push(state);
        };
        ffi::lua_getiuservalue(state, 1, UDATA);
        ffi::lua_pushvalue(state, 3);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// Whether the loop of an earlier wait is still on the call stack: its coroutine runs, or has resumed
/// (directly or not) the one that runs now. A suspended or finished one has abandoned its loop.
unsafe fn is_inside_loop(state: *mut lua_State, selector: &Selector) -> bool {
    if !selector.iterating.get() {
        return false;
    }
    let thread = selector.thread.get();
    if thread == state {
        return true;
    }
    // SAFETY: the thread is kept alive by the user value.
    unsafe {
        let mut frame: ffi::lua_Debug = std::mem::zeroed();
        ffi::lua_status(thread) == ffi::LUA_OK && ffi::lua_getstack(thread, 0, &mut frame) != 0
    }
}

/// `for udata, events in sel:wait([timeout]) do`: blocks until something is ready, `timeout` seconds are
/// over (fractions allowed; absent or negative: for ever; 0: poll), or the waker wakes; then yields each
/// ready registration once with its ready bits.
unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let timeout = args::timeout(state, 2, 1.0);
        ready_loop(state, timeout)
    }
}

unsafe fn ready_loop(state: *mut lua_State, timeout: Option<Duration>) -> c_int {
    // SAFETY: as for `create`; the hook is only compared.
    unsafe {
        let (selector, core) = open_core(state);
        if is_inside_loop(state, selector) {
            raise(
                state,
                Text::new("wait: called inside the loop over an earlier wait of the same selector"),
            );
        }
        if timeout.is_none() && core.count() == 0 && !core.has_bell() {
            raise(
                state,
                Text::new("no open sockets to check and no timeout set"),
            );
        }
        selector.iterating.set(false);
        if selector.thread.get() != state {
            ffi::lua_pushthread(state);
            ffi::lua_setiuservalue(state, 1, THREAD);
            selector.thread.set(state);
        }
        sweep(state, 1, core);
        let hook = ffi::lua_gethook(state).map(|hook| hook as usize);
        let waited = guard(|| {
            // A host's signal handler may have set a hook (lua.c does): let Lua run it.
            let hooked = || ffi::lua_gethook(state).map(|hook| hook as usize) != hook;
            Ok(core
                .wait(timeout, hooked)
                .map_err(|error| Fault::io("wait", &error)))
        });
        if let Err(fault) = settle(state, waited) {
            raise(state, fault.message());
        }
        ffi::lua_getiuservalue(state, 1, ITERATOR);
        ffi::lua_pushnil(state);
        ffi::lua_pushnil(state);
        ffi::lua_getiuservalue(state, 1, GUARD);
        4
    }
}

/// An event of the batch that a wait got.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// Which registration, see [`push_udatas`].
    pub(crate) slot: usize,
    /// What it is ready for, in the terms of its mode.
    pub(crate) events: i64,
}

/// For an iterator that was called with `arguments` values: the next event of the batch of the selector that is
/// upvalue `index`; `None` when that is over.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive; the upvalue is a selector.
pub(crate) unsafe fn next_ready(
    state: *mut lua_State,
    index: c_int,
    arguments: c_int,
) -> Option<Event> {
    // SAFETY: the registration is dropped before anything raises. The selector is looked at each time: what is
    // done with an event may run a finalizer that closes it.
    unsafe {
        let selector = object::upvalue::<Selector>(state, index)?;
        let core = (*selector).core.as_ref()?;
        let found = settle(state, guard(|| Ok(next_of(core))));
        // `for` passes its state and control variable; a call by hand passes nothing, and then nobody
        // would tell when the iteration is given up.
        let iterating = found.is_some() && arguments > 0;
        (*selector).iterating.set(iterating);
        found
    }
}

/// Pushes the table that has the udata of each registration at its slot + 1; nil when the selector at `index` is
/// closed: then there are no events.
///
/// # Safety
/// `state` is valid, with a free stack slot; a selector is at `index`.
pub(crate) unsafe fn push_udatas(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::lua_getiuservalue(state, index, UDATA);
    }
}

/// The iterator: upvalue 1 is the selector, upvalue 2 its udata table.
unsafe extern "C-unwind" fn next_event(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalues were set in `create`.
    unsafe {
        let arguments = ffi::lua_gettop(state);
        while let Some(event) = next_ready(state, ffi::lua_upvalueindex(1), arguments) {
            let udata = ffi::lua_upvalueindex(2);
            if ffi::lua_rawgeti(state, udata, event.slot as i64 + 1) == ffi::LUA_TNIL {
                ffi::lua_pop(state, 1);
                continue;
            }
            ffi::lua_pushinteger(state, event.events);
            return 2;
        }
        0
    }
}

fn next_of(core: &Core) -> Option<Event> {
    let (registration, bits): (Rc<Registration>, u8) = core.next()?;
    Some(Event {
        slot: registration.slot,
        events: events_for(bits, registration.mode.get()),
    })
}

fn events_for(bits: u8, mode: Mode) -> i64 {
    if matches!(mode, Mode::Level | Mode::Once) {
        return i64::from(bits);
    }
    let theirs = |sum, (bit, theirs)| if bits & bit != 0 { sum | theirs } else { sum };
    EPOLL_BITS.into_iter().fold(0, theirs)
}

unsafe extern "C-unwind" fn leave_loop(state: *mut lua_State) -> c_int {
    // SAFETY: the guard's user value is its selector, so that the block is there.
    unsafe {
        let LoopGuard(selector) = *object::check::<LoopGuard>(state, 1);
        if object::is_alive(selector) {
            (*selector).iterating.set(false);
            if let Some(core) = &(*selector).core {
                core.end_batch();
            }
        }
        0
    }
}

/// `sel:count()` → how many registrations there are.
unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (_, core) = open_core(state);
        ffi::lua_pushinteger(state, core.count() as i64);
        1
    }
}

/// `sel:close()`: gives everything back. Idempotent; also `__close` and `__gc`. `true`.
unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: the core is dropped inside `guard`; the iterator's upvalue lets the udata go.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        settle(
            state,
            guard(|| {
                drop((*selector).core.take());
                Ok(())
            }),
        );
        (*selector).iterating.set(false);
        if ffi::lua_getiuservalue(state, 1, ITERATOR) == ffi::LUA_TFUNCTION {
            ffi::lua_pushnil(state);
            ffi::lua_setupvalue(state, -2, 2);
        }
        for value in [UDATA, OBJECTS, ITERATOR, THREAD] {
            ffi::lua_pushnil(state);
            ffi::lua_setiuservalue(state, 1, value);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        let text = match &(*selector).core {
            Some(core) => Text::format(format_args!("selector ({} registered)", core.count())),
            None => Text::new("selector (closed)"),
        };
        push_bytes(state, text.as_bytes());
        1
    }
}

/// `sel:waker()` → an object whose `wake()` makes a blocked or the next wait return, from any thread.
unsafe extern "C-unwind" fn waker(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        open_core(state);
        let selector = object::check::<Selector>(state, 1);
        // Looked at again: making the userdata may run a finalizer that closes the selector.
        let made = object::push_new(state, || match &(*selector).core {
            Some(core) => core
                .bell()
                .map(Waker)
                .map_err(|error| Fault::io("waker", &error)),
            None => Err(Fault::word("waker", "selector is closed", "closed")),
        });
        match made {
            Ok(_) => 1,
            Err(fault) => fault.push(state),
        }
    }
}

/// The bell of the waker at argument `index`.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; the pointer holds while the argument is on the stack.
pub(crate) unsafe fn bell_argument(state: *mut lua_State, index: c_int) -> *const Arc<Bell> {
    // SAFETY: the caller's promise.
    unsafe { &raw const (*object::check::<Waker>(state, index)).0 }
}

/// `waker:wake()` → `true`. Wakes coalesce: a burst costs one system call.
unsafe extern "C-unwind" fn wake(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let waker = object::check::<Waker>(state, 1);
        let rung = (*waker).0.ring().map_err(|error| Fault::io("wake", &error));
        match rung {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `waker:handle()` → a lightuserdata that `lio.waker` in any VM of the process turns into a waker.
unsafe extern "C-unwind" fn waker_handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`; the handle is a number, never followed.
    unsafe {
        let waker = object::check::<Waker>(state, 1);
        let handle = settle(state, guard(|| Ok(handle_of(&(*waker).0))));
        ffi::lua_pushlightuserdata(state, handle as *mut c_void);
        1
    }
}

/// `lio.waker(handle)` → a waker of another VM's selector, or `nil, message, code` when that is gone.
unsafe extern "C-unwind" fn take_waker(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TLIGHTUSERDATA);
        let handle = ffi::lua_touserdata(state, 1) as usize;
        let made = object::push_new(state, || bell_of(handle).map(Waker).ok_or(()));
        match made {
            Ok(_) => 1,
            Err(()) => Fault::word("waker", "its selector is gone", "closed").push(state),
        }
    }
}

/// `lio.now()` → seconds of the monotonic clock, as a float (clock_gettime(2)).
unsafe extern "C-unwind" fn now(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        ffi::lua_pushnumber(state, crate::timer::monotonic());
        1
    }
}

/// `lio.wall()` → seconds since 1970 of the system's clock, as a float.
unsafe extern "C-unwind" fn wall(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        ffi::lua_pushnumber(state, since.map_or(0.0, |span| span.as_secs_f64()));
        1
    }
}

/// Opens `lio`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            &[
                (c"create", create),
                (c"waker", take_waker),
                (c"now", now),
                (c"wall", wall),
                (c"tasks", crate::task::tasks),
                (c"systemd", crate::socket::inherit::systemd),
                (c"watch", crate::watched::lua::watch),
            ],
        );
        for (name, value) in [(c"SELECT_READ", READ), (c"SELECT_WRITE", WRITE)] {
            ffi::lua_pushinteger(state, i64::from(value));
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        push_bytes(state, env!("CARGO_PKG_VERSION").as_bytes());
        ffi::lua_setfield(state, -2, c"VERSION".as_ptr());
        1
    }
}
