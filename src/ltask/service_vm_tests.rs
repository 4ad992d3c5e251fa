//! A panic that unwinds a service's VM ends that service and nothing else.

use crate::ltask::config::Config;
use crate::ltask::lifecycle;
use crate::ltask::mailbox::Affinity;
use crate::ltask::message::{Message, ServiceId, kind};
use crate::ltask::run;
use crate::ltask::service::{Service, System};
use crate::lua::{Call, Chunk, Fault, Function};
use crate::modules::Builtin;
use crate::modules::ltask::bootstrap::Environment;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A C function without the core's barrier, like one of a third-party module. Its panic unwinds Lua's own frames.
unsafe extern "C-unwind" fn break_through(_: *mut lua_State) -> c_int {
    panic!("unwinds the VM")
}

/// A function that panics inside the barrier.
const BREAK_INSIDE: Function =
    Function::new(|_: &mut Call<'_>| -> Result<(), Fault> { panic!("the barrier stops this") });

/// Ends the system with an exit code.
const END: Function = Function::new(|call: &mut Call<'_>| {
    let code = call.integer(1)?;
    let service = call.data::<Service>().expect("a service");
    let system = service.system();
    system.exit_code.store(code as i32, Ordering::SeqCst);
    system.quit();
    Ok(())
});

/// Adds a service with the main function `code` and the functions above as globals.
fn add(system: &Arc<System>, label: &str, code: &str) -> ServiceId {
    let id = system.registry.open(0).expect("a place");
    let source = Chunk::Text(code.as_bytes(), c"=code");
    let service = lifecycle::create(system, id, label, source).expect("a service");
    // SAFETY: nothing runs in the VM. The service is not installed yet, so no other thread enters it.
    unsafe {
        let state = service.state();
        mlua::ffi::lua_pushcfunction(state, break_through);
        ffi::lua_setglobal(state, c"break_through".as_ptr());
        BREAK_INSIDE.push(state, 0);
        ffi::lua_setglobal(state, c"break_inside".as_ptr());
        END.push(state, 0);
        ffi::lua_setglobal(state, c"finish".as_ptr());
    }
    lifecycle::install(system, service, Affinity::Any);
    id
}

/// Reads one message, then panics while another message is unread. If a finalizer or a `__close` metamethod runs, it
/// ends the system with exit code 7.
const VICTIM: &str = r#"
    local ltask = require "ltask"
    local closing <close> = setmetatable({}, { __close = function() finish(7) end, __gc = function() finish(7) end })
    kept = setmetatable({}, { __gc = function() finish(7) end })
    while not ltask.recv_message() do coroutine.yield() end
    pcall(function() table.sort({ 2, 1 }, function() break_through() end) end)
    finish(8)
"#;

/// Reads one message and ends. One of its finalizers panics. Another finalizer, which was created first and is
/// therefore the last to run, would end the system with exit code 7.
const CLOSING_VICTIM: &str = r#"
    local ltask = require "ltask"
    kept = setmetatable({}, { __gc = function() finish(7) end })
    breaks = setmetatable({}, { __gc = break_through })
    while not ltask.recv_message() do coroutine.yield() end
"#;

/// Waits for the errors that answer sessions 5 and 6. Ends the system with exit code 42 if they are as expected.
const ASKER: &str = r#"
    local ltask = require "ltask"
    local got = {}
    while #got < 2 do
      local from, session, kind, pointer, size = ltask.recv_message()
      if from then
        local text = pointer and ltask.unpack_remove(pointer, size)
        got[#got + 1] = ("%d:%d:%s"):format(session, kind, text)
      else
        coroutine.yield()
      end
    end
    table.sort(got)
    local ok, text = pcall(break_inside)
    got[3] = tostring(ok) .. ":" .. text
    local want = "5:3:{service:VICTIM} is dead 6:3:{service:VICTIM} is dead false:internal error: the barrier stops this"
    finish(table.concat(got, " ") == want and 42 or 9)
    coroutine.yield()
"#;

#[test]
fn a_panic_in_a_vm_ends_its_service_and_not_the_worker() {
    ends_alone(VICTIM);
}

// Regression: the worker ended, and the VM was closed twice.
#[test]
fn a_panic_in_a_vm_that_closes_ends_its_service_and_not_the_worker() {
    ends_alone(CLOSING_VICTIM);
}

fn ends_alone(code: &str) {
    let config = Config { worker: 1, ..Config::default() };
    let system = System::new(config, <Builtin as Environment>::PREPARATION).expect("a system");
    // There is no root, so the requests that the dead service has not answered get their errors immediately.
    assert_eq!(system.registry.open(1), Some(1));
    lifecycle::discard(&system, 1);
    let victim = add(&system, "victim", code);
    let asker = add(&system, "asker", &ASKER.replace("VICTIM", &victim.to_string()));
    for session in [5, 6] {
        let request = Message::without_payload(asker, victim, session, kind::REQUEST);
        assert!(system.post(request, 0).is_ok());
    }
    run::start(&system);
    assert_eq!(run::wait(&system, || false), 42);
}
