//! `for udata, events in selector:wait() do`: the wait and its iterator. `stream::pump` iterates for `lio.net` by the
//! same functions.
//!
//! Invariant: `Selector::iterating` tells who hands out the events of a batch, or did when it was given up: a wait that
//! finds it set looks whether the loop is still there. Looking takes time, so a selector whose loop was left once gives
//! its loops a guard from then on, which tells; others do without. The iterator has the selector and the udata table as
//! upvalues.

use super::interest::{events_for, sweep};
use super::lua::{GUARD, ITERATOR, Selector, THREAD, UDATA, open_core};
use crate::event::{self, Registration};
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, Text, args, functions, guard, raise, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;

/// What goes through the events of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// Nothing, or a call of the iterator by hand.
    None,
    /// A `for` over the selector's iterator, unless it was left.
    For,
    /// A loop that a [`LoopGuard`] tells the end of.
    Guarded,
}

/// Told by Lua when a `for` over events is left in whatever way. The user value keeps the selector.
struct LoopGuard(*const Selector);

impl Object for LoopGuard {
    const NAME: &'static CStr = c"lio.selector loop";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    const META: &'static [(&'static CStr, Function)] = functions![(c"__close", leave_loop)];
}

/// Pushes what closes a [`Loop::Guarded`] over the selector at `index`: the fourth value of its `for`.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn push_guard(state: *mut lua_State, index: c_int) {
    // SAFETY: the guard keeps the selector by its user value.
    unsafe {
        let selector = object::check::<Selector>(state, index);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(LoopGuard(selector))
        });
        ffi::lua_pushvalue(state, index);
        ffi::lua_setiuservalue(state, -2, 1);
    }
}

/// Whether the loop of an earlier wait of the selector at 1 is still on the call stack: its coroutine runs, or has
/// resumed (directly or not) the one that runs now. A suspended or finished one has abandoned its loop.
unsafe fn is_inside_loop(state: *mut lua_State, selector: &Selector) -> bool {
    let running = selector.iterating.get();
    if running == Loop::None {
        return false;
    }
    let thread = selector.thread.get();
    // SAFETY: the thread is kept alive by the user value.
    unsafe {
        if thread != state {
            let mut frame: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_status(thread) != ffi::LUA_OK
                || ffi::lua_getstack(thread, 0, &mut frame) == 0
            {
                return false;
            }
        }
        if running == Loop::Guarded {
            return true;
        }
        ffi::lua_getiuservalue(state, 1, ITERATOR);
        let iterator = ffi::lua_topointer(state, -1);
        ffi::lua_pop(state, 1);
        let found = has_loop(thread, iterator);
        selector.was_left.set(!found || selector.was_left.get());
        found
    }
}

/// Whether a `for` over this iterator is running in a coroutine. A `for` keeps its iterator in a variable without a
/// name, which is there as long as the loop.
#[cold]
unsafe fn has_loop(thread: *mut lua_State, iterator: *const c_void) -> bool {
    // SAFETY: the coroutine runs, or waits for one that it has resumed, so that its frames can be looked at.
    unsafe {
        let mut frame: ffi::lua_Debug = std::mem::zeroed();
        let mut level = 0;
        if ffi::lua_checkstack(thread, 1) == 0 {
            return false;
        }
        while ffi::lua_getstack(thread, level, &mut frame) != 0 {
            level += 1;
            for variable in 1.. {
                let name = ffi::lua_getlocal(thread, &frame, variable);
                if name.is_null() {
                    break;
                }
                let found = ffi::lua_topointer(thread, -1) == iterator;
                ffi::lua_pop(thread, 1);
                // Without debug information nothing has a name but that of any value on the stack.
                let is_state = matches!(
                    CStr::from_ptr(name).to_bytes(),
                    b"(for state)" | b"(temporary)"
                );
                if found && is_state {
                    return true;
                }
            }
        }
        false
    }
}

/// `for udata, events in sel:wait([timeout]) do`: blocks until something is ready, `timeout` seconds are
/// over (fractions allowed; absent or negative: for ever; 0: poll), or the waker wakes; then yields each
/// ready registration once with its ready bits.
pub(super) unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe { wait_in(state, Unit::Seconds) }
}

/// What a time-out is counted in.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    /// How many there are in a second.
    pub(super) fn per_second(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1000.0,
        }
    }
}

/// The message of a wait that would never end.
pub(super) const NOTHING_TO_WAIT_FOR: &str = "no open sockets to check and no timeout set";

/// A wait whose time-out, argument 2, is counted in `unit`.
pub(super) unsafe fn wait_in(state: *mut lua_State, unit: Unit) -> c_int {
    // SAFETY: as for `wait`.
    unsafe {
        let timeout = args::timeout(state, 2, unit.per_second());
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
        if timeout.is_none() && core.count() == 0 && !core.has_waker() {
            raise(state, Text::new(NOTHING_TO_WAIT_FOR));
        }
        selector.iterating.set(Loop::None);
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
        if !selector.was_left.get() {
            return 1;
        }
        ffi::lua_pushnil(state);
        ffi::lua_pushnil(state);
        if ffi::lua_getiuservalue(state, 1, GUARD) == ffi::LUA_TNIL {
            ffi::lua_pop(state, 1);
            push_guard(state, 1);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, GUARD);
        }
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

/// For an iterator that was called with `arguments` values, by a loop of the kind `by`: the next event of the batch of
/// the selector that is upvalue `index`; `None` when that is over.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive; the upvalue is a selector.
pub(crate) unsafe fn next_ready(
    state: *mut lua_State,
    index: c_int,
    arguments: c_int,
    by: Loop,
) -> Option<Event> {
    // SAFETY: the registration is dropped before anything raises. The selector is looked at each time: what is
    // done with an event may run a finalizer that closes it.
    unsafe {
        let selector = object::upvalue::<Selector>(state, index)?;
        let core = (*selector).core.as_ref()?;
        let found = settle(state, guard(|| Ok(next_of(core))));
        // `for` passes its state and control variable; a call by hand passes nothing, and then nobody
        // would tell when the iteration is given up.
        let running = found.is_some() && arguments > 0;
        (*selector)
            .iterating
            .set(if running { by } else { Loop::None });
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
        while let Some(event) = next_ready(state, ffi::lua_upvalueindex(1), arguments, Loop::For) {
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

fn next_of(core: &event::Selector) -> Option<Event> {
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
            (*selector).iterating.set(Loop::None);
            if let Some(core) = &(*selector).core {
                core.end_batch();
            }
        }
        0
    }
}
