//! `lio.task.core`, under its public name `lio.task`: the core as a userdata, the table of functions, and
//! those of them that only look.
//!
//! Each function has the core's address as its upvalue; the registry holds the core until the VM closes,
//! and a call from a finalizer after that is refused.

use super::calls::{fork, interrupt, run_ready, spawn, start, wait, wakeup};
use super::core::{Core, Slot};
use super::ends::{kill, kill_all, push_thread};
use super::hooks::{enter_close, enter_module, on_abandon, on_end, on_error, watch_end};
use super::look::{busy, current, is_idle, look};
use super::lost;
use super::pool;
use super::token::Token;
use crate::raw::object::{self, Key, Object};
use crate::raw::{Function, Text, function, functions, module, raise};
use mlua::ffi::{self, lua_State};
use std::convert::Infallible;
use std::ffi::{CStr, c_int};

impl Object for Core {
    const NAME: &'static CStr = c"lio.task.core";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    fn collected(&mut self) {
        if let Some(host) = self.host {
            // SAFETY: the host outlives its VM's core.
            unsafe { (host.closed)(host.data) };
        }
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
            enter_close(state);
            lost::enter(state);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, pool::ANCHORS.pointer());
            let Ok(core) = object::push_new(state, || Ok::<_, Infallible>(Core::new()));
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, CORE.pointer());
            ffi::lua_settop(state, top);
            core
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

/// The core of the running function.
///
/// # Safety
/// The running function has the core as its first upvalue; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn this(state: *mut lua_State) -> *mut Core {
    // SAFETY: upvalue 1 is the address of the core; its block is freed after the last finalizer.
    unsafe {
        let core: *mut Core = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast();
        if !object::is_alive(core) {
            closed(state);
        }
        core
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

/// The living task whose coroutine is at `index`.
///
/// # Safety
/// `state` is the running state.
pub(super) unsafe fn living(core: *mut Core, state: *mut lua_State, index: c_int) -> Option<Slot> {
    // SAFETY: a thin shell; an entry of the map is of an anchored coroutine.
    unsafe {
        let slot = (*core).slot_of(ffi::lua_tothread(state, index))?;
        (*core).is_living(slot).then_some(slot)
    }
}

/// `task.is_alive(co)` → whether the coroutine runs a task that has not ended.
unsafe extern "C-unwind" fn is_alive(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let alive = living(this(state), state, 1).is_some();
        ffi::lua_pushboolean(state, alive.into());
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
        let mut found = 0;
        let mut slot = 0;
        while (slot as usize) < (*core).tasks.len() {
            if (*core).is_living(slot) {
                found += 1;
                push_thread(state, (*core).task(slot).thread);
                ffi::lua_rawseti(state, 1, found);
            }
            slot += 1;
        }
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

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"fork", fork),
    (c"start", start),
    (c"spawn", spawn),
    (c"wait", wait),
    (c"wakeup", wakeup),
    (c"interrupt", interrupt),
    (c"is_waiting", is_waiting),
    (c"is_alive", is_alive),
    (c"kill", kill),
    (c"kill_all", kill_all),
    (c"running", running),
    (c"count", count),
    (c"list", list),
    (c"has_ready", has_ready),
    (c"run_ready", run_ready),
    (c"on_abandon", on_abandon),
    (c"on_error", on_error),
    (c"on_end", on_end),
    (c"watch_end", watch_end),
    (c"current", current),
    (c"is_idle", is_idle),
    (c"look", look),
    (c"busy", busy),
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
            function.push(state, 1);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        enter_module(state);
        1
    }
}

/// Opens `lio.task` in a VM of which there are many: its functions come into the table as they are used.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_lazy(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open_module`.
    unsafe {
        module::push_lazy(state, function!(index));
        Core::of(state);
        enter_module(state);
        1
    }
}

unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: called as `__index` of the module's table.
    unsafe {
        let Some(function) = module::search(state, &[FUNCTIONS]) else {
            return 0;
        };
        let core = Core::of(state);
        ffi::lua_pushlightuserdata(state, core.cast());
        function.push(state, 1);
        module::keep(state);
        1
    }
}
