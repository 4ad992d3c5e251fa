//! `lio.task.core`: the calls that Lua makes. `lualib/lio/task.lua` completes them to `lio.task`.
//!
//! Each function has the core's address as its upvalue; the registry holds the core until the VM closes,
//! and a call from a finalizer after that is refused. What may raise comes before the books are touched,
//! and values reach a coroutine that does not run by `lua_xmove` alone.

use super::core::{Core, How, Phase, Slot, Tag};
use super::pool::{self, push_anchors};
use super::run::tell_killed;
use super::token::Token;
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Function, Text, module, raise};
use mlua::ffi::{self, lua_State};
use std::convert::Infallible;
use std::ffi::{CStr, c_int};

/// Where the anchors' table holds `coroutine.close`, the function of `on_abandon`, and the handler of
/// failed tasks.
const CLOSE: i64 = 0;
const ABANDON: i64 = -1;
const FAILURE: i64 = -2;

/// So many values fit on the stack of a fresh or waiting coroutine without asking.
const ROOM: c_int = 16;

impl Object for Core {
    const NAME: &'static CStr = c"lio.task.core";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    fn key() -> &'static Key {
        key!()
    }
}

static CORE: Key = Key::new(4);

impl Core {
    /// The VM's core, made at first use. Raises when memory is short, and in finalizers that run after
    /// the VM began to close.
    ///
    /// # Safety
    /// `state` is the running state, with a free stack slot; nothing that needs `Drop` may be alive.
    pub(crate) unsafe fn of(state: *mut lua_State) -> *mut Core {
        // SAFETY: plain stack work; the core is entered last, so that a raise leaves nothing half made.
        unsafe {
            ffi::luaL_checkstack(state, 8, std::ptr::null());
            let top = ffi::lua_gettop(state);
            if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, CORE.pointer()) == ffi::LUA_TUSERDATA
            {
                let Some(core) = object::test::<Core>(state, -1) else {
                    closed(state)
                };
                ffi::lua_settop(state, top);
                return core;
            }
            ffi::lua_createtable(state, 0, 0);
            push_close(state);
            ffi::lua_rawseti(state, top + 2, CLOSE);
            ffi::lua_settop(state, top + 2);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, pool::ANCHORS.pointer());
            let Ok(core) = object::push_new(state, || Ok::<_, Infallible>(Core::new()));
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, CORE.pointer());
            ffi::lua_settop(state, top);
            core
        }
    }
}

/// Pushes `coroutine.close`, or nil in a VM without that library.
unsafe fn push_close(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        if ffi::lua_getfield(state, -1, c"coroutine".as_ptr()) == ffi::LUA_TTABLE {
            ffi::lua_getfield(state, -1, c"close".as_ptr());
        } else {
            ffi::lua_pushnil(state);
        }
    }
}

unsafe fn closed(state: *mut lua_State) -> ! {
    // SAFETY: the message is plain data.
    unsafe {
        raise(
            state,
            Text::new("the VM is closing: there are no tasks any more"),
        )
    }
}

unsafe fn this(state: *mut lua_State) -> *mut Core {
    // SAFETY: upvalue 1 is the address of the core; its block is freed after the last finalizer.
    unsafe {
        let core: *mut Core = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast();
        if !object::is_alive(core) {
            closed(state);
        }
        core
    }
}

/// A coroutine with the function and arguments that are on `state`'s stack, which they leave.
unsafe fn take_over(core: *mut Core, state: *mut lua_State) -> (Slot, *mut lua_State, c_int) {
    // SAFETY: a thin shell; the moved values have room.
    unsafe {
        let values = ffi::lua_gettop(state);
        let slot = Core::acquire(core, state);
        let thread = (*core).thread(slot);
        if values > ROOM && ffi::lua_checkstack(thread, values) == 0 {
            Core::release(core, slot);
            raise(state, Text::new("too many arguments for a task"));
        }
        (slot, thread, values)
    }
}

/// `task.fork(f, …)` → the task's coroutine. It runs after what is queued already.
unsafe extern "C-unwind" fn fork(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if ffi::lua_type(state, 1) != ffi::LUA_TFUNCTION {
            check_callable(state);
        }
        let (slot, thread, values) = take_over(core, state);
        // The result: below the function and its arguments, which are moved off.
        ffi::lua_pushthread(thread);
        ffi::lua_xmove(thread, state, 1);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_xmove(state, thread, values);
        Core::enqueue(core, slot, values - 1, Tag::default());
        1
    }
}

#[cold]
unsafe fn check_callable(state: *mut lua_State) {
    // SAFETY: the type's name is a static string of Lua's.
    unsafe {
        if ffi::luaL_getmetafield(state, 1, c"__call".as_ptr()) != ffi::LUA_TNIL {
            ffi::lua_pop(state, 1);
            return;
        }
        let kind = CStr::from_ptr(ffi::luaL_typename(state, 1)).to_string_lossy();
        // A borrowed text: the names are ASCII.
        let message = Text::format(format_args!(
            "bad argument #1 to 'fork' (function expected, got {kind})"
        ));
        drop(kind);
        raise(state, message);
    }
}

/// `task.start(f, …)`: runs `f` as a task now, up to its first wait; inside a task it is as `fork`.
unsafe extern "C-unwind" fn start(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; with no argument at all, nil is what cannot be called.
    unsafe {
        let core = this(state);
        if ffi::lua_gettop(state) == 0 {
            ffi::lua_pushnil(state);
        }
        if (*core).current().is_some() {
            return fork(state);
        }
        let (slot, thread, values) = take_over(core, state);
        ffi::lua_xmove(state, thread, values);
        Core::start(core, state, slot, values - 1, Tag::default());
        0
    }
}

/// `task.wait([token])` → the values that `wakeup` was given. `token` is any value but nil, the running
/// coroutine when absent. Raises outside a task, where Lua cannot yield, and when somebody waits on the
/// token already.
unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the token stays in the first stack slot while the task waits.
    unsafe {
        let core = this(state);
        if ffi::lua_type(state, 1) <= ffi::LUA_TNIL {
            ffi::lua_settop(state, 0);
            ffi::lua_pushthread(state);
        } else {
            ffi::lua_settop(state, 1);
        }
        let Some(slot) = Core::can_wait(core, state) else {
            return refuse(core, state);
        };
        let Some(token) = Token::read(state, 1, &(*core).keys) else {
            raise(state, Text::new("wait: the token is not a number"));
        };
        if (*core).park(slot, token).is_err() {
            raise(
                state,
                Text::new("wait: somebody waits on this token already"),
            );
        }
        ffi::lua_yieldk(state, 0, slot as ffi::lua_KContext, Some(waited))
    }
}

/// The end of `wait`: behind the token lie the values, or the error of an interrupt.
unsafe extern "C-unwind" fn waited(
    state: *mut lua_State,
    _status: c_int,
    slot: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the continuation runs in the frame of `wait`, so its upvalue is at hand.
    unsafe {
        if (*this(state)).take_interrupt(slot as Slot) {
            ffi::lua_error(state);
        }
        ffi::lua_gettop(state) - 1
    }
}

#[cold]
unsafe fn refuse(core: *mut Core, state: *mut lua_State) -> c_int {
    // SAFETY: the token is in the first stack slot.
    unsafe {
        abandon(state, 1);
        let why = if (*core).current().is_none() {
            "wait: cannot wait here: outside a task; use lio.loop.run(function() … end)"
        } else if (*core).running != state {
            "wait: cannot wait here: inside a coroutine that is not a task"
        } else {
            "wait: cannot wait here: a C function that cannot yield is on the stack"
        };
        raise(state, Text::new(why))
    }
}

/// Calls the function of `on_abandon` with the value at `index`.
unsafe fn abandon(state: *mut lua_State, index: c_int) {
    // SAFETY: 3 free stack slots are left in every caller.
    unsafe {
        push_anchors(state);
        if ffi::lua_rawgeti(state, -1, ABANDON) == ffi::LUA_TNIL {
            ffi::lua_pop(state, 2);
            return;
        }
        ffi::lua_pushvalue(state, index);
        ffi::lua_call(state, 1, 0);
        ffi::lua_pop(state, 1);
    }
}

/// Takes out the waiter of the token in the first stack slot.
unsafe fn waiter(core: *mut Core, state: *mut lua_State) -> Option<Slot> {
    // SAFETY: a thin shell.
    unsafe { (*core).take_waiter(Token::read(state, 1, &(*core).keys)?) }
}

/// `task.wakeup(token, …)` → true; nil when nobody waits on the token. The values are what `wait` returns.
unsafe extern "C-unwind" fn wakeup(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the moved values have room.
    unsafe {
        let core = this(state);
        let Some(slot) = waiter(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        let values = (ffi::lua_gettop(state) - 1).max(0);
        if values > 0 {
            let thread = (*core).thread(slot);
            if values > ROOM && ffi::lua_checkstack(thread, values) == 0 {
                (*core).put_back(slot);
                raise(state, Text::new("too many values for a wakeup"));
            }
            ffi::lua_xmove(state, thread, values);
        }
        Core::wake(core, slot, values, How::Woken);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `task.interrupt(token, err)` → true; nil when nobody waits. The wait raises `err`.
unsafe extern "C-unwind" fn interrupt(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; one value has room.
    unsafe {
        let core = this(state);
        ffi::lua_settop(state, 2);
        let Some(slot) = waiter(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        ffi::lua_xmove(state, (*core).thread(slot), 1);
        Core::wake(core, slot, 1, How::Interrupted);
        abandon(state, 1);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `task.is_waiting(token)` → whether somebody waits on it.
unsafe extern "C-unwind" fn is_waiting(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        let token = Token::read(state, 1, &(*core).keys);
        let waiting = token.is_some_and(|token| (*core).is_waiting(token));
        ffi::lua_pushboolean(state, waiting.into());
        1
    }
}

/// The living task whose coroutine is the argument.
unsafe fn living(core: *mut Core, state: *mut lua_State) -> Option<Slot> {
    // SAFETY: a thin shell; a map entry is of an anchored coroutine.
    unsafe {
        let thread = ffi::lua_tothread(state, 1);
        let slot = *(*core).threads.get(&thread.addr())?;
        (*core).is_living(slot).then_some(slot)
    }
}

/// `task.is_alive(co)` → whether the coroutine runs a task that has not ended.
unsafe extern "C-unwind" fn is_alive(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let alive = living(this(state), state).is_some();
        ffi::lua_pushboolean(state, alive.into());
        1
    }
}

/// `core.drop(co)` → true: it is no task any more, and the caller must close it; nil when it was none;
/// false when it is the running one.
unsafe extern "C-unwind" fn drop_task(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; a suspended wait's token is in the first slot of its frame.
    unsafe {
        let core = this(state);
        ffi::lua_settop(state, 1);
        let Some(slot) = living(core, state) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        if (*core).current() == Some(slot) {
            ffi::lua_pushboolean(state, 0);
            return 1;
        }
        let task = (*core).task(slot);
        let (phase, token, tag, thread) = (task.phase, task.token, task.tag, task.thread);
        let waits = phase == Phase::Waiting || phase == Phase::Woken && !task.interrupted;
        let heard = waits && !matches!(token, Token::Session(_));
        if heard {
            if ffi::lua_checkstack(thread, 1) == 0 {
                raise(state, Text::new("not enough memory"));
            }
            ffi::lua_pushvalue(thread, 1);
            ffi::lua_xmove(thread, state, 1);
        }
        if phase == Phase::Waiting {
            (*core).waiting.remove(&token);
        }
        (*core).count -= 1;
        pool::discard(core, state, slot);
        tell_killed(core, state, tag);
        if heard {
            abandon(state, 2);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// `task.running()` → the running coroutine; what `wait` without a token waits on.
unsafe extern "C-unwind" fn running(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushthread(state);
        1
    }
}

/// `task.count()` → how many tasks have not ended.
unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushinteger(state, (*this(state)).count as i64);
        1
    }
}

/// `task.list()` → the coroutines of the living tasks.
unsafe extern "C-unwind" fn list(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; an allocation may run finalizers, so nothing of the core is held over one.
    unsafe {
        let core = this(state);
        ffi::lua_settop(state, 0);
        ffi::lua_createtable(state, (*core).count as c_int, 0);
        push_anchors(state);
        let mut found = 0;
        let mut slot = 0;
        while (slot as usize) < (*core).tasks.len() {
            if (*core).is_living(slot) {
                found += 1;
                ffi::lua_rawgeti(state, 2, i64::from(slot) + 1);
                ffi::lua_rawseti(state, 1, found);
            }
            slot += 1;
        }
        ffi::lua_settop(state, 1);
        1
    }
}

/// `task.has_ready()` → whether a task can run.
unsafe extern "C-unwind" fn has_ready(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushboolean(state, (*this(state)).has_ready().into());
        1
    }
}

/// `task.run_ready()`: runs what is queued now. What these tasks queue is left for the next call, so that
/// a caller can look after I/O in between. Returns whether there is more.
unsafe extern "C-unwind" fn run_ready(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        if (*core).current().is_some() {
            raise(state, Text::new("run_ready: called from inside a task"));
        }
        let more = Core::run_ready(core, state);
        ffi::lua_pushboolean(state, more.into());
        1
    }
}

unsafe fn set_handler(state: *mut lua_State, at: i64) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        push_anchors(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_rawseti(state, 1, at);
        0
    }
}

/// `task.on_abandon(f)`: calls `f(token)` when a wait ends without what it waited for: by an interrupt, by
/// the task being killed, also between its wakeup and its run, or because the caller cannot wait at all.
/// For who hands turns round. One `f` at a time.
unsafe extern "C-unwind" fn on_abandon(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { set_handler(state, ABANDON) }
}

/// `core.on_failure(f)`: calls `f(error, co)` for a task that raised, unless a host is told; `f` must
/// close the coroutine. Without an `f` the core closes it, and the error is lost.
unsafe extern "C-unwind" fn on_failure(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe { set_handler(state, FAILURE) }
}

/// Hands a failed task to the handler; when the host was `told`, or there is no handler, only closes the
/// coroutine.
///
/// # Safety
/// `state` is the running state, with 5 free stack slots. The error is on top of the coroutine's stack.
pub(super) unsafe fn report(state: *mut lua_State, slot: Slot, thread: *mut lua_State, told: bool) {
    // SAFETY: the calls are protected; an error out of them could only be a lack of memory.
    unsafe {
        let top = ffi::lua_gettop(state);
        push_anchors(state);
        let mut values = 1;
        if !told && ffi::lua_rawgeti(state, -1, FAILURE) != ffi::LUA_TNIL {
            ffi::lua_xmove(thread, state, 1);
            values = 2;
        } else if ffi::lua_rawgeti(state, top + 1, CLOSE) == ffi::LUA_TNIL {
            ffi::lua_settop(state, top);
            return;
        }
        ffi::lua_rawgeti(state, top + 1, i64::from(slot) + 1);
        ffi::lua_pcall(state, values, 0, 0);
        ffi::lua_settop(state, top);
    }
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"fork", fork),
    (c"start", start),
    (c"wait", wait),
    (c"wakeup", wakeup),
    (c"interrupt", interrupt),
    (c"is_waiting", is_waiting),
    (c"is_alive", is_alive),
    (c"drop", drop_task),
    (c"running", running),
    (c"count", count),
    (c"list", list),
    (c"has_ready", has_ready),
    (c"run_ready", run_ready),
    (c"on_abandon", on_abandon),
    (c"on_failure", on_failure),
];

/// Opens `lio.task.core`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the core outlives its functions.
    unsafe {
        module::push(state, &[]);
        let core = Core::of(state);
        for (name, function) in FUNCTIONS {
            ffi::lua_pushlightuserdata(state, core.cast());
            ffi::lua_pushcclosure(state, *function, 1);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        1
    }
}
