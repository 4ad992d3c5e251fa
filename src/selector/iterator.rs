//! `for udata, events in selector:wait() do`: the wait, its iterator, and the guard that tells when the loop is left.
//! `stream::pump` iterates for `lio.net` by the same functions.
//!
//! Invariant: `Selector::iterating` is set while events of a batch are handed out by a `for`; the iterator has the
//! selector and the udata table as upvalues.

use super::core::Core;
use super::interest::{events_for, sweep};
use super::lua::{GUARD, ITERATOR, Selector, THREAD, UDATA, open_core};
use super::registration::Registration;
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Fault, Function, Text, args, guard, raise, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::rc::Rc;
use std::time::Duration;

/// Told by Lua when a `for` over events is left in whatever way. The user value keeps the selector.
pub(super) struct LoopGuard(pub(super) *const Selector);

impl Object for LoopGuard {
    const NAME: &'static CStr = c"lio.selector loop";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    const META: &'static [(&'static CStr, Function)] = &[(c"__close", leave_loop)];
    fn key() -> &'static Key {
        key!()
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
pub(super) unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let timeout = args::timeout(state, 2, 1.0);
        ready_loop(state, timeout)
    }
}

unsafe fn ready_loop(state: *mut lua_State, timeout: Option<Duration>) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise; the hook is only compared.
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
pub(super) unsafe extern "C-unwind" fn next_event(state: *mut lua_State) -> c_int {
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
