//! Many Lua VMs on many threads of one process: each VM has its own selectors, VMs share only wakers, and no VM waits
//! for another VM.

use super::{alone, descriptors_become, settled_descriptors};
use mlua::ffi;
use std::ffi::{CStr, CString, c_void};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A VM with all built-in modules, used only on the thread that created it.
struct Vm(*mut ffi::lua_State);

impl Vm {
    fn new() -> Vm {
        // SAFETY: the state is new, and the libraries are opened before other code runs.
        unsafe {
            let state = ffi::luaL_newstate();
            assert!(!state.is_null());
            for step in lio::private::PROGRAM {
                step.push(state, 0);
                ffi::lua_call(state, 0, 0);
            }
            Vm(state)
        }
    }

    /// Runs `code` with a lightuserdata as its argument. Returns the result as a number; 0 if it is not a
    /// lightuserdata.
    fn run(&self, code: &str, argument: usize) -> usize {
        let code = CString::new(code).expect("no NUL in the script");
        // SAFETY: `lua_pcall` catches errors; the frames of Lua own nothing that needs `Drop`.
        unsafe {
            let mut status = ffi::luaL_loadstring(self.0, code.as_ptr());
            if status == ffi::LUA_OK {
                ffi::lua_pushlightuserdata(self.0, argument as *mut c_void);
                status = ffi::lua_pcall(self.0, 1, 1, 0);
            }
            if status != ffi::LUA_OK {
                panic!("{}", CStr::from_ptr(ffi::lua_tostring(self.0, -1)).to_string_lossy());
            }
            let result = ffi::lua_touserdata(self.0, -1) as usize;
            ffi::lua_settop(self.0, 0);
            result
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // SAFETY: the state is closed only here, on its own thread.
        unsafe { ffi::lua_close(self.0) }
    }
}

#[test]
fn eight_vms_on_eight_threads_do_not_disturb_each_other() {
    let _turn = alone();
    const CONVERSATION: &str = r#"
        local lio, socket = require "lio", require "lio.socket"
        local sel = lio.create()
        local ends = {}
        for i = 1, 20 do
          local a, b = socket.pair()
          ends[i] = { a, b }
          sel:event_add(b, lio.SELECT_READ, i)
          a:send(tostring(i))
        end
        local rounds = 0
        while rounds < 5000 do
          for i in sel:wait(10) do
            assert(ends[i][2]:recv() == tostring(i))
            ends[i][1]:send(tostring(i))
            rounds = rounds + 1
          end
        end
    "#;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                Vm::new().run(CONVERSATION, 0);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread ends without an error");
    }
}

#[test]
fn a_waker_wakes_the_vm_of_another_thread() {
    let _turn = alone();
    let (tell, told) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let vm = Vm::new();
        let handle = vm.run(r#"sel = require "lio".create(); return sel:waker():handle()"#, 0);
        tell.send(handle).expect("the other side listens");
        let begin = Instant::now();
        vm.run("for _ in sel:wait(20) do end", 0);
        assert!(begin.elapsed() < Duration::from_secs(10));
    });
    let handle = told.recv().expect("the other VM sends a handle");
    Vm::new().run(r#"assert(require "lio".waker(...)):wake()"#, handle);
    waiter.join().expect("the wait ended in time");
    Vm::new().run(r#"assert(require "lio".waker(...) == nil)"#, handle);
}

#[test]
fn a_waiting_vm_does_not_block_another_one() {
    let _turn = alone();
    let (stop, stopped) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let vm = Vm::new();
        let handle = vm.run(r#"sel = require "lio".create(); return sel:waker():handle()"#, 0);
        tell.send(handle).expect("the other side listens");
        vm.run("for _ in sel:wait() do end", 0);
        stop.send(()).expect("the other side listens");
    });
    let handle = told.recv().expect("the other VM sends a handle");
    let vm = Vm::new();
    vm.run(
        r#"
        local lio, socket = require "lio", require "lio.socket"
        for _ = 1, 200 do
          local sel <close> = lio.create()
          local a, b = socket.pair()
          sel:event_add(b, 1)
          a:send "x"
          for s in sel:wait(10) do assert(s == b) end
          a:close() b:close()
        end"#,
        0,
    );
    assert!(stopped.try_recv().is_err(), "the sleeper still sleeps");
    vm.run(r#"require "lio".waker(...):wake()"#, handle);
    stopped.recv_timeout(Duration::from_secs(10)).expect("the sleeper wakes");
    sleeper.join().expect("the sleeper ends without an error");
}

#[test]
fn a_vm_that_is_closed_during_a_loop_releases_every_descriptor() {
    let _turn = alone();
    let abandon = || {
        Vm::new().run(
            r#"
            local lio, socket = require "lio", require "lio.socket"
            local sel = lio.create()
            local a, b = socket.pair()
            sel:event_add(b, 1)
            sel:waker()
            a:send "x"
            keep = coroutine.wrap(function() for _ in sel:wait(10) do coroutine.yield(a) end end)
            keep()"#,
            0,
        );
    };
    abandon();
    let before = settled_descriptors();
    for _ in 0..100 {
        abandon();
    }
    assert!(descriptors_become(before), "no descriptor is left open");
}
