//! Tests of tasks that a host drives from Rust. tests/task_test.lua tests the Lua API.

use super::*;
use crate::lua::{Argument, Coroutine, Module, Next, Outcome, Stack, then};
use std::ffi::CStr;

/// The notifications that the host of a VM has received, as lines.
#[derive(Default)]
struct Log(RefCell<Vec<String>>);

struct RecordingHost(Rc<Log>);

impl RecordingHost {
    fn record(&self, line: String) {
        self.0.0.borrow_mut().push(line);
    }
}

fn text(call: &Stack, index: i32) -> String {
    match call.integer_value(index) {
        Some(number) => number.to_string(),
        None => String::from_utf8_lossy(call.string(index).unwrap_or(b"?")).into_owned(),
    }
}

impl Host for RecordingHost {
    fn finished(&self, call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, count: i32, tag: Tag) {
        let values: Option<Vec<String>> = tasks
            .threads
            .walk(call, own, count, |values, first| (first..first + count).map(|at| text(values, at)).collect());
        let values = values.expect("few results");
        self.record(format!("{}:{} {}", tag.from, tag.session, values.join(",")));
    }
    fn failed(&self, call: &mut Call<'_>, co: i32, error: i32, tag: Tag) {
        let error_text = text(call, error);
        let message = error;
        let traceback = call.create(crate::lua::ThreadTraceback { of: co, message });
        let traceback = text(call, traceback.expect("a traceback"));
        let frames = traceback.matches("[string").count();
        self.record(format!("{} failed: {error_text} ({frames} frames)", tag.session));
    }
    fn killed(&self, _: &mut Call<'_>, _: TaskId, tag: Tag) {
        self.record(format!("{} killed", tag.session));
    }
    fn cancelled(&self, _: &mut Call<'_>, reason: Reason) {
        self.record(format!("cancelled {reason:?}"));
    }
}

/// `host()`: sets a host for the VM's tasks.
fn set_host(call: &mut Call<'_>) -> Result<(), Fault> {
    let told = call.shared::<Log>()?;
    Tasks::of(call)?.set_host(Box::new(RecordingHost(told)));
    Ok(())
}

/// `told()`: returns the notifications of the host.
fn told(call: &mut Call<'_>) -> Result<String, Fault> {
    Ok(call.shared::<Log>()?.0.borrow().join("; "))
}

/// `ask(session)`: waits for a response to the session, as a request of the scheduler does.
fn ask(call: &mut Call<'_>) -> Result<Next, Fault> {
    let session = call.integer(1)?;
    let tasks = Tasks::of(call)?;
    call.drop_to(0);
    match tasks.wait(call, Token::Session(session), Reason::Other) {
        Ok(()) => Ok(Next::yields(0, then(answered), 0)),
        Err(WaitError::InUse) => Err(Fault::message("in use")),
        Err(_) => Err(Fault::message("cannot wait")),
    }
}

fn answered(call: &mut Call<'_>, _: Outcome) -> Result<Next, Fault> {
    if Tasks::of(call)?.ends_with_error(call) {
        return Err(Fault::value(call.count()));
    }
    Ok(Next::pushed(call.count()))
}

fn prepare(call: &mut Call<'_>) -> Result<(Rc<Tasks>, TaskId, Tag), Fault> {
    let tasks = Tasks::of(call)?;
    let session = call.integer(2)?;
    let id = tasks.acquire(call)?;
    call.push(Argument(1))?;
    call.create("argument")?;
    Ok((tasks, id, Tag { from: 7, session }))
}

/// `start(f, session)`: runs `f("argument")` in a task for a request from service 7.
fn start(call: &mut Call<'_>) -> Result<(), Fault> {
    let (tasks, id, tag) = prepare(call)?;
    tasks.start(call, id, 2, tag).expect("room");
    Ok(())
}

/// `queue(f, session)`: queues a task that runs `f("argument")` for a request from service 7. For session 3, the tag is
/// then changed to sender 8 and session 9.
fn queue(call: &mut Call<'_>) -> Result<(), Fault> {
    let (tasks, id, tag) = prepare(call)?;
    tasks.move_values(call, id, 2).expect("room");
    tasks.enqueue(id, 1, tag);
    if tag.session == 3 {
        let (from, session) = (8, 9);
        tasks.set_tag(id, Tag { from, session });
        assert_eq!(tasks.tag(id).from, 8);
    }
    Ok(())
}

/// `give_back(f, session)`: acquires a task, and returns its coroutine to the pool without starting the task.
fn give_back(call: &mut Call<'_>) -> Result<(), Fault> {
    let (tasks, id, _) = prepare(call)?;
    tasks.move_values(call, id, 2).expect("room");
    tasks.release(id);
    Ok(())
}

/// `answer(session, value, raises)`: ends the wait on the session, which returns or raises `value`. Returns whether a
/// task was waiting.
fn answer(call: &mut Call<'_>) -> Result<bool, Fault> {
    let tasks = Tasks::of(call)?;
    let ending = match call.is_true(3) {
        true => Ending::Raises,
        false => Ending::Returns,
    };
    let token = Token::Session(call.integer(1)?);
    call.push(Argument(2))?;
    Ok(tasks.resume_waiter(call, token, 1, ending).expect("room"))
}

/// `run()`: runs the ready tasks. Returns whether more tasks are ready.
fn run(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(Tasks::of(call)?.run_ready(call))
}

/// `counts()`: returns the number of created coroutines, and the number of requests.
fn counts(call: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    let tasks = Tasks::of(call)?;
    Ok((tasks.slice_status().1 as i64, tasks.requests() as i64))
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"host", Function::new(set_host)),
    (c"told", Function::new(told)),
    (c"ask", Function::new(ask)),
    (c"start", Function::new(start)),
    (c"queue", Function::new(queue)),
    (c"give_back", Function::new(give_back)),
    (c"answer", Function::new(answer)),
    (c"run", Function::new(run)),
    (c"counts", Function::new(counts)),
];

/// Runs Lua code in which `b` is a table of the functions above, `task` is `lio.task`, and `coroutine` is
/// `lio.coroutine`. Returns the notifications of the host.
fn told_by(code: &str) -> String {
    let code = format!(
        "local b = ... plain_close, plain_resume = coroutine.close, coroutine.resume
        coroutine = require 'lio.coroutine' task = require 'lio.task' ask = b.ask b.host() {code}
        return b.told()"
    );
    crate::lua::testing::run::<crate::modules::Builtin>(Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS))), &code)
}

#[test]
fn the_host_gets_the_results_of_a_task_with_a_session() {
    let code = "b.start(function(...) return ..., 2 end, 5) b.start(function() return 'no session' end, 0)
        assert(b.counts() == 1)";
    assert_eq!(told_by(code), "7:5 argument,2");
}

#[test]
fn the_host_gets_the_error_of_any_task_with_its_frames() {
    let code = "b.start(load \"local function deep() error('broken', 0) end deep()\", 5)
        b.start(load \"error('alone', 0)\", 0)";
    assert_eq!(told_by(code), "5 failed: broken (2 frames); 0 failed: alone (1 frames)");
}

#[test]
fn a_failed_task_is_closed_after_the_host_was_notified() {
    let code = "local told
        b.start(function()
            local x <close> = setmetatable({}, { __close = function(_, e) closed, told = e, b.told() end })
            error('e', 0)
        end, 5)
        assert(closed == 'e' and told:find 'failed')";
    assert_eq!(told_by(code), "5 failed: e (0 frames)");
}

#[test]
fn an_answer_resumes_the_task_that_waits_for_the_session() {
    let code = "b.start(function() return ask(40) .. ask(41) end, 5)
        assert(select(2, b.counts()) == 1)
        assert(not b.answer(41, 'early'))
        assert(b.answer(40, 'x') and not b.answer(40, 'twice') and b.answer(41, 'y'))
        assert(select(2, b.counts()) == 0)";
    assert_eq!(told_by(code), "7:5 xy");
}

#[test]
fn an_interrupted_wait_raises() {
    let code = "b.start(function() return tostring(pcall(ask, 40)) .. select(2, pcall(ask, 41)) end, 5)
        assert(b.answer(40, 'x') and b.answer(41, 'reason', true))";
    assert_eq!(told_by(code), "7:5 truereason");
}

#[test]
fn a_queued_task_runs_in_its_turn_and_its_tag_can_be_changed() {
    let code = "b.queue(ask, 1) b.give_back(ask, 2) b.queue(ask, 3)
        assert(task.has_ready() and not b.run())";
    let told = told_by(code);
    let (first, second) = told.split_once("; ").expect("two lines");
    assert!(first.starts_with("1 failed: "), "{told}");
    assert!(second.starts_with("9 failed: "), "{told}");
}

#[test]
fn the_host_is_notified_of_kills_and_of_coroutines_that_a_program_closed() {
    let code = "b.start(function() ask(40) end, 5)
        task.kill(task.list()[1])
        b.start(function() ask(40) end, 6)
        b.close(task.list()[1])
        assert(#task.list() == 0 and not b.answer(40, 'x'))
        b.start(function() ask(40) end, 7)
        assert(b.resume(task.list()[1]))
        assert(task.count() == 0)
        b.run()";
    let code = format!("b.close, b.resume = plain_close, plain_resume {code}");
    assert_eq!(told_by(&code), "cancelled Other; 5 killed; 6 killed; 7 killed");
}

#[test]
fn a_session_is_not_equal_to_an_integer() {
    let code = "b.start(function() ask(40) return 'done' end, 5)
        assert(not task.wakeup(40) and b.answer(40, 'x'))";
    assert_eq!(told_by(code), "7:5 done");
}

/// Lua code that defines `attack`, which removes the anchors of coroutines with the debug library.
const ATTACK: &str = "
    local function clear(t, seen)
        if seen[t] then return end
        seen[t] = true
        for k, v in next, t do
            if type(v) == 'thread' and v ~= coroutine.running() and k ~= 1 then t[k] = nil
            elseif type(v) == 'table' and v ~= package.loaded then clear(v, seen)
            elseif type(v) == 'userdata' then
                for n = 1, 3 do
                    local held = debug.getuservalue(v, n)
                    if type(held) == 'thread' then debug.setuservalue(v, nil, n) end
                    if type(held) == 'table' then clear(held, seen) end
                end
            end
        end
    end
    function attack()
        clear(debug.getregistry(), {})
        for _ = 1, 4 do collectgarbage() end
    end ";

#[test]
fn without_its_anchors_a_vm_has_no_tasks_and_does_not_crash() {
    let code = format!(
        "{ATTACK}
        task.fork(function() task.wait 'a' end) task.fork(function() ask(1) end)
        task.run_ready()
        attack()
        for _, f in ipairs {{ task.wakeup, task.fork, task.run_ready, task.list, task.kill_all, task.count }} do
            local ok, err = pcall(f, 'a')
            assert(not ok and err:find 'it has no tasks', err)
        end"
    );
    assert_eq!(told_by(&code), "");
}

#[test]
fn an_anchor_thread_that_a_program_closes_or_resumes_does_not_crash_the_vm() {
    for act in ["coroutine.close", "coroutine.resume", "plain_close", "plain_resume"] {
        let code = format!(
            "task.fork(function() task.wait 'a' end) task.run_ready()
            for _, v in pairs(debug.getregistry()) do
                if type(v) == 'thread' and v ~= coroutine.running() then pcall({act}, v, 1, 2, 3) end
            end
            for _ = 1, 4 do collectgarbage() end
            for _, f in ipairs {{ task.wakeup, task.fork, task.run_ready, task.list, task.kill_all }} do
                pcall(f, 'a')
            end
            return 'alive'"
        );
        let told = told_by(&format!("do local function go() {code} end go() end"));
        assert_eq!(told, "", "{act}");
    }
}

#[test]
fn changed_upvalues_are_errors() {
    let code = "local wrapped = coroutine.wrap(function() coroutine.yield(1) end)
        debug.setupvalue(wrapped, 2, nil)
        local ok, err = pcall(wrapped)
        assert(not ok and err:find 'dead coroutine', err)
        debug.setupvalue(task.wait, 1, io.stdout)
        ok, err = pcall(task.wait)
        assert(not ok and err:find 'no tasks', err)";
    assert_eq!(told_by(code), "");
}

#[test]
fn a_chain_that_only_the_tasks_refer_to_continues() {
    // Clears the stack slot through which `resume` keeps the inner coroutine alive.
    let code = "local outer
        b.start(function()
            outer = coroutine.running()
            local ok, value = coroutine.resume(coroutine.create(function() return ask(1) end))
            return tostring(ok), value
        end, 5)
        assert(debug.setlocal(outer, 0, 1, nil))
        for _ = 1, 4 do collectgarbage() end
        assert(b.answer(1, 'x'))";
    assert_eq!(told_by(code), "7:5 true,x");
}
