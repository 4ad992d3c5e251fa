//! The core as a host drives it from Rust, in VMs of its own. What Lua sees is in tests/task_test.lua.

use super::*;
use crate::raw::{continuation, function, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int, c_void};

/// What the host was told, as lines.
type Told = Vec<String>;

unsafe fn told<'a>(data: *mut c_void) -> &'a mut Told {
    // SAFETY: `data` is the list of the test that runs.
    unsafe { &mut *data.cast::<Told>() }
}

unsafe fn text(state: *mut lua_State, index: c_int) -> String {
    // SAFETY: only used on strings and numbers.
    unsafe {
        let text = ffi::lua_tostring(state, index);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

unsafe fn finished(
    data: *mut c_void,
    _: *mut lua_State,
    co: *mut lua_State,
    results: c_int,
    tag: Tag,
) {
    // SAFETY: the results are on top of the stack.
    unsafe {
        let values: Vec<String> = (0..results).map(|at| text(co, at - results)).collect();
        told(data).push(format!("{}:{} {}", tag.from, tag.session, values.join(",")));
    }
}

unsafe fn failed(data: *mut c_void, state: *mut lua_State, co: *mut lua_State, tag: Tag) {
    // SAFETY: the error is on top of the stack, whose frames are there.
    unsafe {
        let error = text(co, -1);
        ffi::luaL_traceback(state, co, std::ptr::null(), 0);
        let frames = text(state, -1).matches("[string").count();
        ffi::lua_pop(state, 1);
        told(data).push(format!("{} failed: {error} ({frames} frames)", tag.session));
    }
}

unsafe fn killed(data: *mut c_void, _: *mut lua_State, _: Slot, tag: Tag) {
    // SAFETY: as for `told`.
    unsafe { told(data).push(format!("{} killed", tag.session)) }
}

unsafe fn cancelled(data: *mut c_void, errand: Errand) {
    // SAFETY: as for `told`.
    unsafe { told(data).push(format!("cancelled {errand:?}")) }
}

/// `ask(session)` waits for an answer to the session, as a request of the scheduler's does.
unsafe extern "C-unwind" fn ask(state: *mut lua_State) -> c_int {
    // SAFETY: a raw function that owns nothing.
    unsafe {
        let core = Core::of(state);
        let session = ffi::luaL_checkinteger(state, 1);
        let Some(slot) = Core::can_wait(core, state) else {
            raise(state, "cannot wait".into())
        };
        if (*core).park(slot, Token::Session(session)).is_err() {
            raise(state, "in use".into());
        }
        ffi::lua_settop(state, 0);
        ffi::lua_yieldk(state, 0, 0, Some(continuation!(answered)))
    }
}

unsafe extern "C-unwind" fn answered(
    state: *mut lua_State,
    _: c_int,
    _context: ffi::lua_KContext,
) -> c_int {
    // SAFETY: as for `ask`.
    unsafe {
        if (*Core::of(state)).take_interrupt(state) {
            ffi::lua_error(state);
        }
        ffi::lua_gettop(state)
    }
}

struct Vm {
    state: *mut lua_State,
    core: *mut Core,
    told: Box<Told>,
}

impl Vm {
    fn new() -> Vm {
        // SAFETY: a state of its own; nothing here raises but for want of memory.
        unsafe {
            let state = ffi::luaL_newstate();
            ffi::luaL_openlibs(state);
            crate::raw::embed::install(state, None);
            function!(ask).push(state, 0);
            ffi::lua_setglobal(state, c"ask".as_ptr());
            let mut told = Box::<Told>::default();
            let core = Core::of(state);
            (*core).set_host(Host {
                data: (&raw mut *told).cast(),
                finished,
                failed,
                killed,
                cancelled,
                closed: |_| {},
                set_limit: |_, _| 0,
            });
            Vm { state, core, told }
        }
    }

    /// A coroutine with the function that `code` is, and one argument.
    fn prepare(&self, code: &CStr) -> Slot {
        // SAFETY: the code compiles; the values move to a fresh stack.
        unsafe {
            let slot = Core::acquire(self.core, self.state);
            assert_eq!(ffi::luaL_loadstring(self.state, code.as_ptr()), ffi::LUA_OK);
            push_bytes(self.state, b"argument");
            ffi::lua_xmove(self.state, (*self.core).thread(slot), 2);
            slot
        }
    }

    fn start(&self, code: &CStr, session: i64) {
        let slot = self.prepare(code);
        let tag = Tag { from: 7, session };
        // SAFETY: no task runs.
        unsafe { Core::start(self.core, self.state, slot, 1, tag) }
    }

    fn run(&self, code: &CStr) {
        // SAFETY: an error of the code is a failed test.
        unsafe {
            assert_eq!(ffi::luaL_loadstring(self.state, code.as_ptr()), ffi::LUA_OK);
            let status = ffi::lua_pcall(self.state, 0, 0, 0);
            if status != ffi::LUA_OK {
                panic!("{}", text(self.state, -1));
            }
        }
    }

    fn answer(&self, session: i64, value: &str, how: How) -> bool {
        // SAFETY: the waiter is suspended; one value has room.
        unsafe {
            let Some(slot) = (*self.core).take_waiter(Token::Session(session)) else {
                return false;
            };
            push_bytes(self.state, value.as_bytes());
            ffi::lua_xmove(self.state, (*self.core).thread(slot), 1);
            Core::resume_now(self.core, self.state, slot, 1, how);
            true
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // SAFETY: nothing uses the state afterwards.
        unsafe {
            assert_eq!(ffi::lua_gettop(self.state), 0, "the stack is as it was");
            ffi::lua_close(self.state);
        }
    }
}

#[test]
fn the_host_gets_the_results_of_a_task_with_a_session() {
    let vm = Vm::new();
    vm.start(c"return ..., 2", 5);
    vm.start(c"return 'nobody hears'", 0);
    assert_eq!(*vm.told, ["7:5 argument,2"]);
    // SAFETY: read only.
    assert_eq!(unsafe { (*vm.core).created() }, 1);
}

#[test]
fn the_host_gets_the_error_of_any_task_with_its_frames() {
    let vm = Vm::new();
    vm.start(c"local function deep() error('broken', 0) end deep()", 5);
    vm.start(c"error('alone', 0)", 0);
    assert_eq!(
        *vm.told,
        ["5 failed: broken (2 frames)", "0 failed: alone (1 frames)"]
    );
}

#[test]
fn a_failed_task_is_closed_after_the_host_was_told() {
    let vm = Vm::new();
    vm.start(
        c"local x <close> = setmetatable({}, { __close = function(_, e) closed = e end }) error('e', 0)",
        5,
    );
    vm.run(c"assert(closed == 'e')");
}

#[test]
fn an_answer_resumes_the_task_that_waits_for_the_session() {
    let vm = Vm::new();
    vm.start(c"return ask(40) .. ask(41)", 5);
    // SAFETY: read only.
    assert_eq!(unsafe { (*vm.core).requests() }, 1);
    assert!(!vm.answer(41, "early", How::Woken));
    assert!(vm.answer(40, "x", How::Woken));
    assert!(!vm.answer(40, "twice", How::Woken));
    assert!(vm.answer(41, "y", How::Woken));
    assert_eq!(*vm.told, ["7:5 xy"]);
    // SAFETY: read only.
    assert_eq!(unsafe { (*vm.core).requests() }, 0);
}

#[test]
fn an_interrupted_wait_raises() {
    let vm = Vm::new();
    vm.start(
        c"return tostring(pcall(ask, 40)) .. select(2, pcall(ask, 41))",
        5,
    );
    assert!(vm.answer(40, "x", How::Woken));
    assert!(vm.answer(41, "reason", How::Interrupted));
    assert_eq!(*vm.told, ["7:5 truereason"]);
}

#[test]
fn a_queued_task_runs_in_its_turn_and_its_tag_can_be_changed() {
    let mut vm = Vm::new();
    for session in 1..=3 {
        let slot = vm.prepare(c"ask(...)");
        // SAFETY: function and argument lie on the stack, which `release` clears.
        unsafe {
            if session == 2 {
                Core::release(vm.core, slot);
                continue;
            }
            Core::enqueue(vm.core, slot, 1, Tag { from: 7, session });
            if session == 3 {
                (*vm.core).set_tag(
                    slot,
                    Tag {
                        from: 8,
                        session: 9,
                    },
                );
                assert_eq!((*vm.core).tag(slot).from, 8);
            }
        }
    }
    // SAFETY: no task runs.
    unsafe {
        assert!((*vm.core).has_ready());
        assert!(!Core::run_ready(vm.core, vm.state));
    }
    assert_eq!(vm.told.len(), 2);
    assert!(vm.told[0].starts_with("1 failed: "), "{:?}", vm.told);
    assert!(vm.told[1].starts_with("9 failed: "), "{:?}", vm.told);
    vm.told.clear();
}

#[test]
fn the_host_hears_of_kills_and_of_coroutines_that_somebody_closed() {
    let vm = Vm::new();
    vm.run(c"task = require 'lio.task' list = task.list");
    vm.start(c"ask(40)", 5);
    vm.run(c"task.kill(list()[1])");
    vm.start(c"ask(40)", 6);
    vm.run(c"coroutine.close(list()[1]) assert(#list() == 0)");
    assert!(!vm.answer(40, "x", How::Woken));
    vm.start(c"ask(40)", 7);
    vm.run(c"assert(coroutine.resume(list()[1])) assert(task.count() == 0)");
    // SAFETY: no task runs.
    unsafe { Core::run_ready(vm.core, vm.state) };
    assert_eq!(
        *vm.told,
        ["cancelled Other", "5 killed", "6 killed", "7 killed"]
    );
}

#[test]
fn a_session_is_no_integer() {
    let vm = Vm::new();
    vm.run(c"task = require 'lio.task'");
    vm.start(c"ask(40)", 5);
    vm.run(c"assert(not task.wakeup(40))");
    assert!(vm.answer(40, "x", How::Woken));
}
