//! `lio.coroutine`: Lua's coroutine library, with whose coroutines a function inside may wait, at any depth.
//!
//! `resume` and `wrap` are Lua's own plus one link on the C stack (see chain.rs); `status` and `close` know
//! of coroutines that wait; the rest are the functions of the library that the VM has. In the
//! executable and in services they take the places of Lua's in the global table.
//!
//! How a wait gets from the innermost coroutine to the scheduler was chosen by measuring prototypes of each
//! design, in instructions per resume/yield pair that does not wait (Lua 5.4's own: 808), and per wait with
//! its wakeup at depth 2, 10 and 50:
//!
//! | design | pair | waits |
//! |---|---|---|
//! | yield again through each resume, in Lua | 1,725 | 1,894, 12,030, 62,708 |
//! | the same in C, by `lua_yieldk` | 869 | 1,097, 4,859, 23,661 |
//! | flattening: each resume yields to a trampoline that resumes the target | 1,230 | 684, whatever the depth |
//! | nested until a wait, flat from then on | 889 | 668, whatever the depth |
//!
//! The first misses the target for the pair (1.3 times Lua's) by far, and passes its mark through the
//! user's own values. The second pays for each level at every wait. The third misses the target too, and
//! cannot resume at all below a C function that cannot yield. The last, which this is, has none of
//! these costs; with what a real scheduler adds, a pair takes 1.11 times Lua's instructions.

use super::chain::{Link, WAITS, settle_message};
use super::core::{Core, Phase};
use super::ends::close_any;
use super::hooks::push_close;
use super::lua::this;
use crate::raw::{Function, Text, args, continuation, function, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, compiler_fence};

const NOT_SUSPENDED: &CStr = c"cannot resume non-suspended coroutine";

/// What a resume came back with.
enum Back {
    /// So many values, yielded or returned, were moved over.
    Values(c_int),
    /// The error was moved over.
    Failed,
    /// A function inside waits: the caller must yield.
    Waits,
}

unsafe fn coroutine_at(state: *mut lua_State, index: c_int) -> *mut lua_State {
    // SAFETY: a thin shell.
    unsafe {
        let co = ffi::lua_tothread(state, index);
        if co.is_null() {
            args::type_error(state, index, c"coroutine");
        }
        co
    }
}

/// Resumes `co` with the `count` values on top of the stack.
#[inline]
unsafe fn pass(core: *mut Core, state: *mut lua_State, co: *mut lua_State, count: c_int) -> Back {
    // SAFETY: the link is taken off before its frame ends, as `lua_resume` does not raise.
    unsafe {
        if let Some(slot) = (*core).member_of(co) {
            if (*core).is_idle(slot) {
                return refuse(state, count, WAITS);
            }
            // In a chain that runs, the outer ones are suspended as far as Lua knows.
            return refuse(state, count, NOT_SUSPENDED);
        }
        // What `lua_resume` would refuse: it would make the message on a coroutine that does not run.
        if ffi::lua_status(co) != ffi::LUA_YIELD {
            let status = plain_status(co);
            if status == c"dead" {
                return refuse(state, count, c"cannot resume dead coroutine");
            }
            if status != c"suspended" {
                return refuse(state, count, NOT_SUSPENDED);
            }
        }
        if ffi::lua_checkstack(co, count) == 0 {
            return refuse(state, count, c"too many arguments to resume");
        }
        ffi::lua_xmove(state, co, count);
        let link = Link {
            up: (*core).links,
            from: state,
            to: co,
        };
        let outer = (*core).running;
        // For the handler of a signal, which follows the links.
        compiler_fence(Ordering::SeqCst);
        (*core).links = &raw const link;
        (*core).running = co;
        let mut results = 0;
        let status = ffi::lua_resume(co, state, count, &mut results);
        (*core).links = link.up;
        (*core).running = outer;
        compiler_fence(Ordering::SeqCst);
        if status == ffi::LUA_YIELD && (*core).unwinding {
            return Back::Waits;
        }
        if status != ffi::LUA_YIELD && status != ffi::LUA_OK {
            ffi::lua_xmove(co, state, 1);
            return Back::Failed;
        }
        if ffi::lua_checkstack(state, results + 1) == 0 {
            ffi::lua_pop(co, results);
            return refuse(state, 0, c"too many results to resume");
        }
        ffi::lua_xmove(co, state, results);
        Back::Values(results)
    }
}

/// Puts a message in the place of the `count` values on top.
#[cold]
unsafe fn refuse(state: *mut lua_State, count: c_int, why: &CStr) -> Back {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pop(state, count);
        ffi::lua_pushstring(state, why.as_ptr());
        Back::Failed
    }
}

/// `resume(co, …)` → true and what it yields or returns; false and the error. A function inside may wait.
/// (Lua manual 6.2)
unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe {
        let core = this(state);
        let co = coroutine_at(state, 1);
        match pass(core, state, co, ffi::lua_gettop(state) - 1) {
            Back::Values(count) => {
                ffi::lua_pushboolean(state, 1);
                ffi::lua_rotate(state, -(count + 1), 1);
                count + 1
            }
            Back::Failed => {
                ffi::lua_pushboolean(state, 0);
                ffi::lua_rotate(state, -2, 1);
                2
            }
            Back::Waits => {
                ffi::lua_settop(state, 1);
                ffi::lua_yieldk(state, 0, 0, Some(continuation!(resumed)))
            }
        }
    }
}

/// After a wait: behind the coroutine lie whether it failed, and the values or the error.
unsafe extern "C-unwind" fn resumed(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `resume`.
    unsafe {
        if is_foreign(state) {
            ffi::lua_settop(state, 1);
            ffi::lua_pushboolean(state, 0);
            ffi::lua_pushstring(
                state,
                c"the wait was lost: somebody else resumed the caller".as_ptr(),
            );
            return 2;
        }
        settle_message(state, -1);
        ffi::lua_gettop(state) - 1
    }
}

/// Whether not the core resumed this coroutine, which was waiting for the one it had resumed.
unsafe fn is_foreign(state: *mut lua_State) -> bool {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        let foreign = (*core).handed != state;
        if foreign {
            (*core).taken_over(state);
        }
        (*core).handed = std::ptr::null_mut();
        foreign
    }
}

/// `wrap(f)` → a function that resumes the coroutine of `f`, and raises its errors. (Lua manual 6.2)
unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        let co = ffi::lua_newthread(state);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_xmove(state, co, 1);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_rotate(state, -2, 1);
        CALL_WRAPPED.push(state, 2);
        1
    }
}

/// What `wrap` gives: upvalue 2 is the coroutine.
unsafe extern "C-unwind" fn call_wrapped(state: *mut lua_State) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe {
        let core = this(state);
        let co = ffi::lua_tothread(state, ffi::lua_upvalueindex(2));
        match pass(core, state, co, ffi::lua_gettop(state)) {
            Back::Values(count) => count,
            Back::Failed => raise_error(state, co),
            Back::Waits => {
                ffi::lua_settop(state, 0);
                ffi::lua_yieldk(state, 0, 0, Some(continuation!(called)))
            }
        }
    }
}

/// After a wait: on the stack lie whether it failed, and the values or the error.
unsafe extern "C-unwind" fn called(
    state: *mut lua_State,
    _status: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: runs in the frame of `call_wrapped`.
    unsafe {
        if is_foreign(state) {
            raise(
                state,
                Text::new("the wait was lost: somebody else resumed the caller"),
            );
        }
        if ffi::lua_toboolean(state, 1) == 0 {
            settle_message(state, -1);
            return raise_error(state, ffi::lua_tothread(state, ffi::lua_upvalueindex(2)));
        }
        ffi::lua_gettop(state) - 1
    }
}

/// Raises the error on top; a coroutine that failed is closed first.
#[cold]
unsafe fn raise_error(state: *mut lua_State, co: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let status = ffi::lua_status(co);
        if status != ffi::LUA_OK && status != ffi::LUA_YIELD {
            // Its result is the error, or one that a `<close>` variable raised.
            push_close(state);
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
            ffi::lua_call(state, 1, 2);
        }
        if status != ffi::LUA_ERRMEM && ffi::lua_type(state, -1) == ffi::LUA_TSTRING {
            ffi::luaL_where(state, 1);
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_concat(state, 2);
        }
        ffi::lua_error(state)
    }
}

/// `status(co)` → "running", "suspended", "normal", "dead" (Lua manual 6.2), or "waiting": it is in a wait, or
/// resumes one that is, or is a task that has yet to run; it cannot be resumed.
unsafe extern "C-unwind" fn status(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let core = this(state);
        let co = coroutine_at(state, 1);
        let text = if co == state {
            c"running"
        } else if let Some(slot) = (*core).member_of(co) {
            match (*core).is_idle(slot) {
                true => c"waiting",
                false => c"normal",
            }
        } else {
            plain_status(co)
        };
        ffi::lua_pushstring(state, text.as_ptr());
        1
    }
}

unsafe fn plain_status(co: *mut lua_State) -> &'static CStr {
    let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
    // SAFETY: reads plain fields; `lua_getstack` writes the record only.
    unsafe {
        match ffi::lua_status(co) {
            ffi::LUA_YIELD => c"suspended",
            ffi::LUA_OK if ffi::lua_getstack(co, 0, frame.as_mut_ptr()) != 0 => c"normal",
            ffi::LUA_OK if ffi::lua_gettop(co) != 0 => c"suspended",
            _ => c"dead",
        }
    }
}

/// `close(co)` → true; false and an error that one of its `<close>` variables raised (Lua manual 6.2). The
/// wait of a waiting coroutine is cancelled: it is closed, after what it was resuming; who was resuming
/// it gets an error. A task's own coroutine: the task is killed.
unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let core = this(state);
        if ffi::lua_gettop(state) > 0 {
            let co = coroutine_at(state, 1);
            ffi::lua_settop(state, 1);
            if co != state
                && let Some(slot) = (*core).member_of(co)
            {
                if !(*core).is_idle(slot) {
                    raise(state, Text::new("cannot close a normal coroutine"));
                }
                let closed = close_any(core, state, 1);
                ffi::lua_pushboolean(state, closed.into());
                if closed {
                    return 1;
                }
                ffi::lua_rotate(state, -2, 1);
                return 2;
            }
        }
        // Lua 5.5 closes the running coroutine without an argument.
        if cfg!(feature = "lua54") && ffi::lua_gettop(state) == 0 {
            args::type_error(state, 1, c"coroutine");
        }
        push_close(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

impl Core {
    /// Whether a living task neither runs nor is in the middle of a call.
    pub(super) fn is_idle(&self, slot: super::Slot) -> bool {
        self.tasks[slot as usize].phase != Phase::Running
    }
}

/// As Lua gets them: they are known by their addresses.
const RESUME: Function = function!(resume);
const CALL_WRAPPED: Function = function!(call_wrapped);

/// Whether the C function at this address is one across which a wait may go.
pub(super) fn nests(address: Option<usize>) -> bool {
    [RESUME, CALL_WRAPPED]
        .iter()
        .any(|function| address == Some(function.address()))
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"resume", RESUME),
    (c"wrap", function!(wrap)),
    (c"status", function!(status)),
    (c"close", function!(close)),
];

/// Enters the functions into the table on top of the stack.
unsafe fn enter(state: *mut lua_State, core: *mut Core) {
    // SAFETY: plain stack work.
    unsafe {
        for (name, function) in FUNCTIONS {
            ffi::lua_pushlightuserdata(state, core.cast());
            function.push(state, 1);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
    }
}

/// Puts the functions in the places of Lua's own, if the VM has that library. Returns its core.
///
/// # Safety
/// `state` is valid, with 8 free stack slots; may raise.
pub(crate) unsafe fn install(state: *mut lua_State) -> *mut Core {
    // SAFETY: plain stack work. The core takes Lua's own `close` when it is made.
    unsafe {
        let core = Core::of(state);
        let top = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        if ffi::lua_getfield(state, -1, c"coroutine".as_ptr()) == ffi::LUA_TTABLE {
            enter(state, core);
            ffi::lua_setfield(state, -2, c"lio.coroutine".as_ptr());
        }
        ffi::lua_settop(state, top);
        core
    }
}

/// Opens `lio.coroutine`: a table with all functions of the library.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checkstack(state, 12, std::ptr::null());
        let core = Core::of(state);
        ffi::lua_createtable(state, 0, 9);
        let module = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        if ffi::lua_getfield(state, -1, c"coroutine".as_ptr()) != ffi::LUA_TTABLE {
            raise(
                state,
                Text::new("lio.coroutine: the coroutine library is not open"),
            );
        }
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, -2) != 0 {
            ffi::lua_pushvalue(state, -2);
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_settable(state, module);
        }
        ffi::lua_settop(state, module);
        enter(state, core);
        1
    }
}
