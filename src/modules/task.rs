//! `lio.task.core`, publicly `lio.task`: functions that create, suspend, wake, run and end tasks.
//!
//! Each function has the VM's tasks as its upvalue.

use crate::event::clock::monotonic_nanos;
use crate::lua::{
    Argument, BoundFunctions, Call, Chunk, Closure, Fault, Function, FunctionTable, Kind, LazyTable, Maybe, New, Next,
    Nil, Object, Outcome, Stack, StoredInTable, Value, functions, results, then, upvalue,
};
use crate::task::{Ending, KillResult, ON_ERROR, Reason, Tag, TaskId, Tasks, WaitError, WaitingOn, closed};
use std::rc::Rc;

/// The VM's tasks, for the functions that have this object as an upvalue.
pub(crate) struct TasksObject(Rc<Tasks>);

impl Object for TasksObject {
    const NAME: &'static str = "lio.task.core";
}

/// The key under which the VM keeps the object, so that there is only one.
const STORED_OBJECT: u8 = 3;

/// Upvalue 1 of the functions in this file and in `lio.coroutine`: the object.
pub(crate) const TASKS_OBJECT: i32 = upvalue(1);

/// Returns the tasks in the running function's upvalue. Fails if the VM is closing.
pub(crate) fn tasks(call: &Call<'_>) -> Result<Rc<Tasks>, Fault> {
    own_tasks(call).cloned()
}

/// Returns the same tasks as [`tasks`], borrowed.
#[inline]
pub(crate) fn own_tasks<'c>(call: &'c Call<'_>) -> Result<&'c Rc<Tasks>, Fault> {
    // If the upvalue is not such an object, the object was finalized, or a program has changed the upvalue.
    let TasksObject(tasks) = call.as_object(TASKS_OBJECT).ok_or_else(closed)?;
    tasks.check_open()?;
    Ok(tasks)
}

/// Pushes the VM's tasks object, for use as an upvalue. Returns its stack index.
pub(crate) fn push_tasks_object(call: &mut Call<'_>) -> Result<i32, Fault> {
    let tasks = Tasks::of(call)?;
    let known = tasks.threads.push_stored(call, STORED_OBJECT)?;
    if call.as_object::<TasksObject>(known).is_some() {
        return Ok(known);
    }
    let object = call.create(New::of(TasksObject(tasks.clone())))?;
    tasks.threads.store(call, STORED_OBJECT, object)?;
    Ok(object)
}

/// Returns the error for a wait on a token on which another task is already waiting.
pub(crate) fn in_use() -> Fault {
    Fault::message("wait: a task is already waiting on this token")
}

/// Returns a coroutine for a new task, and the number of arguments. The values of the call, a function and its
/// arguments, are moved to the coroutine.
fn acquire(call: &mut Call<'_>, tasks: &Rc<Tasks>) -> Result<(TaskId, i32), Fault> {
    let values = call.count();
    let id = tasks.acquire(call)?;
    if tasks.move_values(call, id, values).is_err() {
        tasks.release(id);
        return Err(too_many());
    }
    Ok((id, values - 1))
}

/// Returns the error for a task whose arguments do not fit on its stack.
#[cold]
fn too_many() -> Fault {
    Fault::message("too many arguments for a task")
}

/// Fails unless argument 1 can be called.
fn check_callable(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.kind(1) == Kind::Function || call.has_metafield(1, c"__call")? {
        return Ok(());
    }
    let message = format!("bad argument #1 to 'fork' (function expected, got {})", call.type_name(1));
    Err(Fault::message(message))
}

/// `task.fork(f, …)`: starts `f` as a task, which runs after the tasks in the ready queue. Returns its coroutine.
fn fork(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let tasks = tasks(call)?;
    check_callable(call)?;
    let (id, arguments) = acquire(call, &tasks)?;
    tasks.enqueue(id, arguments, Tag::default());
    Ok(Argument(tasks.push_own(call, id)?))
}

/// `task.start(f, …)`: runs `f` as a task now, until its first wait. Inside a task, does the same as `fork`.
fn start(call: &mut Call<'_>) -> Result<Maybe<Argument>, Fault> {
    let tasks = tasks(call)?;
    if tasks.current().is_some() {
        return fork(call).map(|co| Maybe(Some(co)));
    }
    if call.count() == 0 {
        // Nil is not callable, so the task will fail.
        call.push(Nil)?;
    }
    let (values, id) = (call.count(), tasks.acquire(call)?);
    tasks.start(call, id, values, Tag::default()).map_err(|_| too_many())?;
    Ok(Maybe(None))
}

/// `task.spawn(f, …)`: runs `f` as a task now, until its first wait, even inside a task. If such calls are nested
/// deeper than the C stack allows, does the same as `fork`. Returns the task's coroutine.
fn spawn(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let tasks = tasks(call)?;
    if !tasks.may_spawn() {
        return fork(call);
    }
    check_callable(call)?;
    let (id, arguments) = acquire(call, &tasks)?;
    let co = tasks.push_own(call, id)?;
    tasks.spawn(call, id, arguments);
    Ok(Argument(co))
}

/// `task.wait([token])`: suspends the running task. Returns the values that `wakeup` passes. `token` is any value
/// except nil and NaN; by default it is the running coroutine. Fails outside a task, where Lua cannot yield, and if a
/// task is already waiting on the token.
fn wait(call: &mut Call<'_>) -> Result<Next, Fault> {
    let tasks = tasks(call)?;
    match call.is_none(1) {
        true => {
            call.drop_to(0);
            call.push_running()?;
        }
        false => call.drop_to(1),
    }
    if !tasks.can_wait(call) {
        return refused(call, &tasks);
    }
    let Some(token) = tasks.token(call, 1) else { return Err(Fault::message("wait: the token is NaN")) };
    match tasks.wait(call, token, Reason::Other) {
        Ok(()) => Ok(Next::yields(0, then(waited), 0)),
        Err(WaitError::InUse) => Err(in_use()),
        Err(WaitError::Fault(fault)) => Err(fault),
        Err(WaitError::Unreachable) => refused(call, &tasks),
    }
}

/// Raises the error for a wait that cannot begin. The token is argument 1.
#[cold]
fn refused(call: &mut Call<'_>, tasks: &Rc<Tasks>) -> Result<Next, Fault> {
    tasks.abandon(call, 1);
    tasks.refuse(call, "wait")
}

/// Continues `wait` when the task is resumed. Above the token are the values of the wakeup, or the error of an
/// interrupt.
fn waited(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    if own_tasks(call)?.ends_with_error(call) {
        return Err(Fault::value(call.count()));
    }
    Ok(Next::rest(outcome.first))
}

/// `task.wakeup(token, …)`: wakes the task that waits on the token; the task's `wait` returns the values. Returns true;
/// nil if no task waits on the token.
fn wakeup(call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
    let tasks = tasks(call)?;
    let Some(token) = tasks.token(call, 1) else { return Ok(None) };
    let count = call.count() - 1;
    match tasks.wakeup(call, token, count, Ending::Returns) {
        Ok(woken) => Ok(woken.then_some(true)),
        Err(_) => Err(Fault::message("too many values for a wakeup")),
    }
}

/// `task.interrupt(token, err)`: makes the wait on the token raise `err`. Returns true; nil if no task waits on the
/// token.
fn interrupt(call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
    let tasks = tasks(call)?;
    let Some(token) = tasks.token(call, 1) else { return Ok(None) };
    call.drop_to(2);
    if call.count() < 2 {
        call.push(Nil)?;
    }
    match tasks.wakeup(call, token, 1, Ending::Raises) {
        Ok(true) => tasks.abandon(call, 1),
        Ok(false) => return Ok(None),
        Err(_) => return Err(Fault::message("stack overflow")),
    }
    Ok(Some(true))
}

/// `task.is_waiting(token)`: returns whether a task waits on the token.
fn is_waiting(call: &mut Call<'_>) -> Result<bool, Fault> {
    let tasks = tasks(call)?;
    let token = tasks.token(call, 1);
    Ok(token.is_some_and(|token| tasks.is_waiting(token)))
}

/// Returns the task whose own coroutine is at argument 1, if it has not ended.
fn alive_task(stack: &Stack, tasks: &Tasks) -> Option<TaskId> {
    tasks.alive_task(stack.coroutine(1)?)
}

/// `task.is_alive(co)`: returns whether `co` is the coroutine of a task that has not ended.
fn is_alive(call: &mut Call<'_>) -> Result<bool, Fault> {
    let tasks = tasks(call)?;
    Ok(alive_task(call, &tasks).is_some())
}

/// `task.kill(co)`: kills the task whose coroutine is `co`, and closes the task's `<close>` variables. Returns true;
/// nil if the task has ended, or if `co` does not belong to a task. A task that is running, or in the middle of a call,
/// cannot be killed.
fn kill(call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
    let tasks = tasks(call)?;
    call.drop_to(1);
    if call.count() == 0 {
        return Ok(None);
    }
    match tasks.kill(call, 1)? {
        KillResult::Killed | KillResult::Raised => Ok(Some(true)),
        KillResult::NoTask => Ok(None),
        KillResult::Running => {
            let task = call.coroutine(1).and_then(|co| tasks.task_of(co));
            Err(Fault::message(match tasks.current() == task {
                true => "kill: a task cannot kill itself",
                false => "kill: the task is in the middle of a call",
            }))
        }
    }
}

/// `task.kill_all()`: kills all tasks except the running task, and also the tasks that the killed tasks fork while they
/// end.
fn kill_all(call: &mut Call<'_>) -> Result<(), Fault> {
    tasks(call)?.kill_all(call)
}

/// `task.running()`: returns the running coroutine, which is the default token of `wait`.
fn running(call: &mut Call<'_>) -> Result<Argument, Fault> {
    Ok(Argument(call.push_running()?))
}

/// `task.count()`: returns the number of tasks that have not ended.
fn count(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(tasks(call)?.count() as i64)
}

/// `task.list()`: returns the coroutines of the tasks that have not ended.
fn list(call: &mut Call<'_>) -> Result<Value, Fault> {
    let tasks = tasks(call)?;
    call.drop_to(0);
    let mut next = 0;
    while let Some(own) = tasks.next_alive(&mut next) {
        tasks.threads.push(call, own)?;
    }
    Ok(list_of(1..=call.count()))
}

/// Returns a list of the values at these indexes.
fn list_of(indexes: impl IntoIterator<Item = i32>) -> Value {
    Value::List(indexes.into_iter().map(Value::Argument).collect())
}

/// `task.has_ready()`: returns whether a task is ready.
fn has_ready(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(tasks(call)?.has_ready())
}

/// `task.run_ready()`: runs the tasks that are ready now. Tasks that become ready in the meantime run in the next call,
/// so that the caller can handle I/O in between. Returns whether there are any.
fn run_ready(call: &mut Call<'_>) -> Result<bool, Fault> {
    let tasks = tasks(call)?;
    if tasks.current().is_some() {
        return Err(Fault::message("run_ready: called from inside a task"));
    }
    tasks.set_now(monotonic_nanos());
    tasks.review_waits(call);
    Ok(tasks.run_ready(call))
}

/// `task.on_abandon(f)`: sets the callback for waits that end without their wakeup, and replaces the previous one.
/// `f(token)` is called when a wait ends by an interrupt, because the task is killed (even between its wakeup and its
/// run), or because the caller cannot wait at all. Used by code that keeps queues of waiting tasks.
fn on_abandon(call: &mut Call<'_>) -> Result<(), Fault> {
    tasks(call)?.set_on_abandon(call, 1)
}

/// `task.on_end(f)`: sets the callback for tasks that end, and replaces the previous one. `f(co)` is called when a task
/// fails, or when a task that has called `watch_end` ends.
fn on_end(call: &mut Call<'_>) -> Result<(), Fault> {
    tasks(call)?.set_on_end(call, 1)
}

/// `task.watch_end()`: makes lio call the `on_end` callback when the running task ends.
fn watch_end(call: &mut Call<'_>) -> Result<(), Fault> {
    tasks(call)?.watch_end();
    Ok(())
}

/// `task.current()`: returns the running task's own coroutine; nil outside tasks.
fn current(call: &mut Call<'_>) -> Result<Option<Argument>, Fault> {
    let tasks = tasks(call)?;
    let Some(id) = tasks.current() else { return Ok(None) };
    Ok(Some(Argument(tasks.push_own(call, id)?)))
}

/// `task.is_idle(co)`: returns whether `co` is the coroutine of a task that has not ended and is neither running nor in
/// the middle of a call.
fn is_idle(call: &mut Call<'_>) -> Result<bool, Fault> {
    let tasks = tasks(call)?;
    Ok(alive_task(call, &tasks).is_some_and(|id| tasks.is_idle(id)))
}

/// `task.busy()`: returns the CPU time of the running task in seconds, measured from an arbitrary point, so only
/// differences are meaningful; nil outside tasks. The first call starts the measurement of all resumes.
fn busy(call: &mut Call<'_>) -> Result<Option<f64>, Fault> {
    Ok(tasks(call)?.cpu_seconds())
}

results! {
    enum Inspection {
        Nothing(Nil),
        Plain((f64, &'static str, Value)),
        Token((f64, &'static str, Value, &'static str, Argument)),
        Session((f64, &'static str, Value, &'static str, Option<i64>, i64)),
    }
}

/// `task.look(co)`: describes the task of the coroutine; returns nil if the task has ended. Returns its age in seconds;
/// "running", "ready" or "waiting"; and a list of its coroutines, from the innermost outwards. If the task waits, also
/// returns "token" and the token; or "answer" and the called service, "timer" and nil, or "session" and nil, each
/// followed by the session.
fn inspect(call: &mut Call<'_>) -> Result<Inspection, Fault> {
    let tasks = tasks(call)?;
    let Some(id) = alive_task(call, &tasks) else { return Ok(Inspection::Nothing(Nil)) };
    let report = tasks.inspect(call, id)?;
    let (age, status, list) = (report.age, report.status, list_of(report.coroutines));
    Ok(match report.waits {
        None => Inspection::Plain((age, status, list)),
        Some(WaitingOn::Token(token)) => Inspection::Token((age, status, list, "token", Argument(token))),
        Some(WaitingOn::Session(session, reason)) => {
            let (word, service) = match reason {
                Reason::Call(service) => ("answer", Some(service.into())),
                Reason::Timer(_) => ("timer", None),
                Reason::Other => ("session", None),
            };
            Inspection::Session((age, status, list, word, service, session))
        }
    })
}

/// `lio.tasks()`: describes each task of this VM; see lualib/lio/task_list.lua.
pub(crate) const TASKS: Function = Function::new(|_: &mut Call<'_>| {
    let code = Chunk::Text(b"return require 'lio.task_list'()", c"=lio");
    Ok(Next::call(0, then(|_, outcome| Ok(Argument(outcome.first))), 0).pushing(code))
});

const FUNCTIONS: FunctionTable = functions! {
    fork, start, spawn, wait, wakeup, interrupt, is_waiting, is_alive, kill, kill_all, running, count, list,
    has_ready, run_ready, on_abandon, on_error: ON_ERROR, on_end, watch_end, current, is_idle, look = inspect, busy,
};

/// Opens `lio.task.core`.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let upvalue = push_tasks_object(call)?;
    let module = call.create(BoundFunctions { list: FUNCTIONS, upvalue, table: None, copied: None })?;
    Tasks::of(call)?.set_module(call, module)?;
    Ok(Argument(module))
});

/// Opens `lio.task` in a service. Each function is added to the table when it is first used, because a system has many
/// services.
pub(crate) const OPEN_LAZY: Function = Function::new(|call: &mut Call<'_>| {
    let upvalue = push_tasks_object(call)?;
    let module = call.create(LazyTable(Function::new(index), Some(upvalue)))?;
    Tasks::of(call)?.set_module(call, module)?;
    Ok(Argument(module))
});

/// A function whose upvalue is the tasks object.
type BoundFunction = Closure<(Argument,)>;

/// The `__index` of the table that `OPEN_LAZY` creates.
fn index(call: &mut Call<'_>) -> Result<Option<StoredInTable<Argument, BoundFunction>>, Fault> {
    let Some(name) = call.string(2) else { return Ok(None) };
    let entry = FUNCTIONS.iter().find(|(known, _)| known.to_bytes() == name);
    Ok(entry.map(|&(_, function)| StoredInTable::new(1, 2, Closure(function, (Argument(TASKS_OBJECT),)))))
}
