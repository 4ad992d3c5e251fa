//! Tests of the VMs that the core creates: data, main function, interrupts, and protection against the debug library.

use super::hook::Hook;
use super::interrupt::{self, Interruption, Target};
use super::state::State;
use super::vm_context::ReplacedHooks;
use super::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The data of the VMs in these tests.
#[derive(Default)]
struct Notes {
    lines: Vec<String>,
    target: Arc<Target>,
    /// The error that an interrupt raises.
    raises: Option<&'static str>,
    own: Option<VmOwned<Rc<Cell<i32>>>>,
    anchored: Option<Coroutine>,
}

/// `keep()`: stores a shared value in the VM's data.
fn keep(call: &mut Call<'_>) -> Result<(), Fault> {
    let own = VmOwned::new(call, Rc::new(Cell::new(7)));
    call.data::<Notes>().expect("the data of the VM").own = Some(own);
    Ok(())
}

/// `note(text)`: adds a line to the data.
fn note(call: &mut Call<'_>) -> Result<(), Fault> {
    let line = call.utf8(1)?.to_owned();
    let notes = call.data::<Notes>().expect("the data of the VM");
    notes.lines.push(line);
    Ok(())
}

/// `interrupt()`: interrupts the VM, as another thread would.
fn interrupt_me(call: &mut Call<'_>) -> Result<(), Fault> {
    let notes = call.data::<Notes>().expect("the data of the VM");
    notes.target.interrupt();
    Ok(())
}

/// `other()`: returns whether there is data of another type.
fn other(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(call.data::<String>().is_some())
}

/// `anchored()`: returns a coroutine that only the anchors keep alive.
fn anchored(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let threads = call.shared::<Threads>()?;
    threads.create_anchors(call)?;
    let notes = call.data::<Notes>().expect("the data of the VM");
    let co = match notes.anchored {
        Some(co) => co,
        None => threads.create(call, 1)?[0],
    };
    call.data::<Notes>().expect("the data of the VM").anchored = Some(co);
    threads.push(call, co).map(Argument)
}

fn interrupted(call: &mut Call<'_>) -> Interruption {
    let here = call.traceback(0).expect("memory");
    let notes = call.data::<Notes>().expect("the data of the VM");
    let line = here.lines().nth(1).unwrap_or_default().trim().to_owned();
    notes.lines.push(line);
    match notes.raises {
        Some("panic") => panic!("in a hook"),
        Some("in a task") => Interruption::RaiseInTask(Fault::message("in a task")),
        Some("once") => Interruption::Raise(Fault::message("once")),
        Some(text) => Interruption::RaiseEverywhere(Fault::message(text)),
        None => Interruption::Continue,
    }
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"note", Function::new(note)),
    (c"interrupt", Function::new(interrupt_me)),
    (c"other", Function::new(other)),
    (c"keep", Function::new(keep)),
    (c"anchored", Function::new(anchored)),
    (c"hooks", Function::new(hooks)),
    (c"replaced", Function::new(replaced)),
    (c"call_with_little_memory", Function::new(call_with_little_memory)),
    (c"where_main_is", Function::new(|_: &mut Call<'_>| Ok(MainTraceback))),
];

use mlua::ffi;
use std::ffi::CStr;

/// Returns a VM with the functions above as globals, and with the main function `code`.
fn vm(notes: Notes, code: &str) -> Vm<Notes> {
    let mut vm = Vm::for_service(notes, interrupted).expect("memory");
    vm.run(OPEN_LIBRARIES).expect("the libraries");
    // SAFETY: nothing runs in the VM that was just created.
    unsafe {
        for (name, function) in FUNCTIONS {
            function.push(vm.state(), 0);
            ffi::lua_setglobal(vm.state(), name.as_ptr());
        }
    }
    vm.load(Chunk::Text(code.as_bytes(), c"=main")).expect("good code");
    vm.start_collector();
    vm
}

/// Runs `test` with interrupts enabled. Interrupts affect the whole process, so only one test uses them at a time.
fn with_interrupts(test: impl FnOnce(Arc<Target>)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    interrupt::install();
    let target = Arc::new(Target::default());
    target.enter();
    test(target.clone());
    target.leave();
    interrupt::uninstall();
}

#[test]
fn a_main_function_yields_returns_and_fails() {
    let code = "note 'one' local argument = coroutine.yield(1, 2, 3) note(tostring(argument)) coroutine.yield()
        error { 'odd' }";
    let mut vm = vm(Notes::default(), code);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Yielded);
    assert_eq!(vm.resume(Some(true)).unwrap(), SliceEnd::Yielded);
    vm.lines.push("mine".into());
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Failed);
    assert!(vm.failure().starts_with("table: 0x"));
    assert_eq!(vm.lines, ["one", "true", "mine"]);
    let mut vm = self::vm(Notes::default(), "assert(not other())");
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
}

#[test]
fn the_data_of_a_vm_moves_with_it_to_another_thread() {
    let mut vm = vm(Notes::default(), "keep() note(where_main_is())");
    let thread = std::thread::spawn(move || {
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
        assert_eq!(vm.own.as_ref().map(|own| own.get()), Some(7));
        assert!(vm.lines[0].starts_with("stack traceback:\n"));
        assert!(vm.lines[0].contains("main:1: in main chunk"));
    });
    thread.join().expect("the data moves");
}

#[test]
fn a_function_that_does_not_load_or_run_is_reported_by_a_message() {
    let mut vm = Vm::for_service((), |_| Interruption::Continue).expect("memory");
    let wrong = vm.load(Chunk::Text(b"x =", c"=wrong")).unwrap_err();
    assert_eq!(wrong, "wrong:1: unexpected symbol near <eof>");
    let mut vm = Vm::for_service((), |_| Interruption::Continue).expect("memory");
    let missing = vm.load(Chunk::File(Some(c"/there/is/no.lua"))).unwrap_err();
    assert!(missing.starts_with("cannot open /there/is/no.lua"), "{missing}");
    let fails = const { Function::new(|_: &mut Call<'_>| -> Result<(), Fault> { Err(Fault::message("no")) }) };
    let mut vm = Vm::for_service((), |_| Interruption::Continue).expect("memory");
    assert_eq!(vm.run(fails).unwrap_err(), "no");
}

// Regression: a script that cleared the registry freed the main function's coroutine, which the scheduler then resumed.
#[test]
fn the_debug_library_cannot_remove_the_main_function() {
    let code = "local threads = 0
        local registry = debug.getregistry()
        for key, value in pairs(registry) do
          if type(value) == 'thread' then
            threads = threads + 1
            assert(value == coroutine.running(), 'the registry contains the main state')
            registry[key] = nil
            -- In Lua 5.5, a coroutine can close itself.
            assert(_VERSION == 'Lua 5.5' or not pcall(coroutine.close, value))
            assert(not coroutine.resume(value))
          end
        end
        assert(threads == 1)
        local function busy() for i = 1, 1000 do local t = { i } end collectgarbage() end
        coroutine.yield()
        busy()
        note(tostring(coroutine.isyieldable()))";
    let mut vm = vm(Notes::default(), code);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Yielded);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
    assert_eq!(vm.lines, ["true"]);
}

// Finalizers run on any coroutine that allocates. They must not run on the main state, because a script could close it.
#[test]
fn no_finalizer_gets_the_main_state_before_the_vm_closes() {
    let code = "local main = coroutine.running()
        local function guard()
          setmetatable({}, { __gc = function()
            local running, is_main = coroutine.running()
            note(is_main and 'main' or 'coroutine')
          end })
        end
        guard() collectgarbage() coroutine.yield() guard() collectgarbage() coroutine.yield() guard()";
    let mut vm = vm(Notes::default(), code);
    while vm.resume(None).unwrap() == SliceEnd::Yielded {}
    assert_eq!(vm.lines, ["coroutine", "coroutine"]);
    vm.close().unwrap();
    assert_eq!(vm.lines, ["coroutine", "coroutine", "main"]);
}

/// Calls the function `last` with the main function's coroutine.
const LAST: Function = Function::new(|call: &mut Call<'_>| -> Result<Next, Fault> {
    let globals = call.loaded("_G")?;
    call.raw_field(globals, "last")?;
    call.push(Argument(1))?;
    Ok(Next::call(1, then(|_: &mut Call<'_>, _: Outcome| Ok(())), 0))
});

#[test]
fn no_program_gets_the_main_state_in_the_last_calls_of_a_vm() {
    // With these settings, finalizers run at nearly every allocation.
    let code = "collectgarbage('incremental', 10, 1000)
        local function guard()
          setmetatable({}, { __gc = function()
            local _, is_main = coroutine.running()
            if is_main and not ended then note 'a finalizer: the main state' end
            guard()
          end })
        end
        for _ = 1, 20 do guard() end
        collectgarbage()
        local main = coroutine.running()
        local function seen(text)
          local running, is_main = coroutine.running()
          note(text .. (is_main and ': the main state' or running == main and ': main' or ': another'))
        end
        function last(coroutine_of_main)
          assert(coroutine_of_main == main)
          seen 'last'
          ended = true
        end
        local odd = setmetatable({}, { __tostring = function() seen 'tostring' return 'odd' end })
        -- Growing the table does not run the collector, so a collector step is due when the function fails.
        local list = {}
        for i = 1, 1000 do list[i] = i end
        error(odd)";
    let mut vm = vm(Notes::default(), code);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Failed);
    assert!(vm.failure().starts_with("odd\nstack traceback"));
    vm.run_last(LAST).unwrap();
    assert_eq!(vm.lines, ["tostring: another", "last: another"]);
}

#[test]
fn a_service_cannot_reach_its_anchors() {
    let code = "local made = anchored()
        for key, value in pairs(debug.getregistry()) do
          assert(type(value) ~= 'thread' or value == coroutine.running())
          if type(value) ~= 'table' and key ~= 1 then debug.getregistry()[key] = nil end
        end
        for _ = 1, 3 do collectgarbage() end
        note(coroutine.status(anchored()))
        function last() note(coroutine.status(anchored())) end
        coroutine.yield()";
    let mut vm = vm(Notes::default(), code);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Yielded);
    vm.run_last(LAST).unwrap();
    assert_eq!(vm.lines, ["dead", "dead"]);
}

#[test]
fn an_interrupt_runs_once_and_the_function_continues() {
    with_interrupts(|target| {
        let notes = Notes { target, ..Notes::default() };
        let mut vm = vm(notes, "interrupt() local sum = 0 for i = 1, 100 do sum = sum + i end note(tostring(sum))");
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
        assert_eq!(vm.lines, ["main:1: in main chunk", "5050"]);
    });
}

#[test]
fn the_error_of_an_interrupt_is_raised_again_where_it_is_caught() {
    with_interrupts(|target| {
        let raises = Some("enough");
        let notes = Notes { target, raises, ..Notes::default() };
        let mut vm = vm(notes, "for i = 1, 100 do pcall(function() interrupt() while true do end end) end note 'end'");
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Failed);
        assert!(vm.failure().starts_with("main:1: enough"));
        assert!(!vm.lines.iter().any(|line| line == "end"));
    });
}

#[test]
fn the_error_for_a_task_is_not_raised_in_the_main_function() {
    for raises in ["in a task", "once"] {
        with_interrupts(|target| {
            let notes = Notes { target, raises: Some(raises), ..Notes::default() };
            let mut vm = vm(notes, "interrupt() local sum = 0 for i = 1, 100 do sum = sum + i end note(tostring(sum))");
            assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
            assert_eq!(vm.lines, ["main:1: in main chunk", "5050"]);
        });
    }
}

#[test]
fn a_panic_in_an_interrupt_is_an_error_of_the_interrupted_function() {
    with_interrupts(|target| {
        let raises = Some("panic");
        let notes = Notes { target, raises, ..Notes::default() };
        let mut vm = vm(notes, "interrupt() while true do end");
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Failed);
        let failure = vm.failure();
        assert!(failure.starts_with("main:1: internal error: in a hook\n"), "{failure}");
    });
}

#[test]
fn a_vm_moves_between_threads_with_its_data() {
    let mut vm = vm(Notes::default(), "note 'here' coroutine.yield() note 'there'");
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Yielded);
    let other = std::thread::spawn(move || {
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
        vm.lines.clone()
    });
    assert_eq!(other.join().unwrap(), ["here", "there"]);
}

#[test]
fn the_data_is_dropped_after_the_finalizers() {
    let notes = Notes::default();
    let target = notes.target.clone();
    let code = "kept = setmetatable({}, { __gc = function() note 'late' end })";
    let mut vm = vm(notes, code);
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
    vm.close().unwrap();
    assert_eq!(vm.lines, ["late"]);
    assert_eq!(Arc::strong_count(&target), 2);
    drop(vm);
    assert_eq!(Arc::strong_count(&target), 1);
}

/// `hooks()`: interrupts the VM before and while it accesses the hook of the running coroutine. Returns whether it
/// finds the program's hook both times.
fn hooks(call: &mut Call<'_>) -> Result<bool, Fault> {
    let target = call.data::<Notes>().expect("the data of the VM").target.clone();
    call.push(Running)?;
    let is_own = |call: &mut Call<'_>| {
        let hook = call.debug_hook();
        (hook.function.is_some(), hook.events, hook.count) == (true, ffi::LUA_MASKCOUNT, 1000)
    };
    target.interrupt();
    let before = is_own(call);
    let index = call.count();
    Ok(!before
        && call.access_hook(index, |call| {
            let first = is_own(call);
            target.interrupt();
            first && is_own(call)
        }))
}

#[test]
fn an_access_to_a_hook_finds_the_hook_of_the_program() {
    with_interrupts(|target| {
        let notes = Notes { target, ..Notes::default() };
        let code = "debug.sethook(function() end, '', 1000) local found = hooks() note(tostring(found))
            note(select(3, debug.gethook()) .. '')";
        let mut vm = vm(notes, code);
        assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
        // The interrupts take effect afterwards, once.
        assert_eq!(vm.lines, ["main:1: in main chunk", "true", "1000"]);
    });
}

/// `replaced()`: records the hooks of five coroutines. Returns the counts of the hooks that are then found, of the
/// hooks that are found the second time, and of hooks that are found after one of them was taken and another was
/// recorded.
fn replaced(call: &mut Call<'_>) -> Result<String, Fault> {
    let hooks = ReplacedHooks::default();
    let mut states = Vec::new();
    for count in 1..=5 {
        let index = call.create(NewThread::new(call, 1))?;
        let state = call.coroutine_at(index).expect("a coroutine");
        hooks.record(&state, Hook { count: 9, ..Hook::NONE });
        hooks.record(&state, Hook { count, ..Hook::NONE });
        states.push(state);
    }
    let mut found = |state: &State| hooks.take(state).count;
    let counts: Vec<_> = states.iter().chain(&states[3..]).map(&mut found).collect();
    for (state, count) in states.iter().zip(11..15) {
        hooks.record(state, Hook { count, ..Hook::NONE });
    }
    hooks.take(&states[1]);
    hooks.record(&states[4], Hook { count: 15, ..Hook::NONE });
    hooks.record(&states[1], Hook { count: 16, ..Hook::NONE });
    let later: Vec<_> = states.iter().map(|state| hooks.take(state).count).collect();
    Ok(format!("{counts:?} {later:?}"))
}

#[test]
fn the_replaced_hooks_of_four_coroutines_are_kept() {
    let mut vm = vm(Notes::default(), "note(replaced(print))");
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
    assert_eq!(vm.lines, ["[0, 2, 3, 4, 5, 0, 0] [0, 16, 13, 14, 15]"]);
}

/// `call_with_little_memory(f)`: calls `f` on a separate thread with less memory than that takes, and with more each
/// time. Returns the errors without repetitions.
fn call_with_little_memory(call: &mut Call<'_>) -> Result<String, Fault> {
    let threads = call.shared::<Threads>()?;
    threads.create_anchors(call)?;
    let mut errors = Vec::new();
    for spare in (0..100_000).step_by(8) {
        let memory = call.memory().expect("a VM of the core");
        memory.set_limit(memory.used() + spare);
        let height = call.count();
        call.push(Argument(1))?;
        let called = threads.call(call, 0);
        call.memory().expect("a VM of the core").set_limit(0);
        match called {
            Ok(true) => return Ok(errors.join("; ")),
            Ok(false) => errors.push(call.utf8(call.count())?.to_owned()),
            Err(_) => {}
        }
        call.drop_to(height);
        errors.dedup();
    }
    Err(Fault::message("the call never succeeds"))
}

#[test]
fn a_call_on_a_separate_thread_without_memory_fails_with_that_error() {
    let mut vm = vm(Notes::default(), "collectgarbage() note(call_with_little_memory(function() end))");
    assert_eq!(vm.resume(None).unwrap(), SliceEnd::Returned);
    assert_eq!(vm.lines, ["not enough memory"]);
}
