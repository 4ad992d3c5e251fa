//! The parts of our service library that each service has, without a Lua function in its VM: names that
//! come into the tables as they are used, `print`, `require`, and where the rest is found.

use super::answers::Answers;
use super::arguments::{on_service, service};
use super::calls::{self, TIMEOUTS, library_tasks};
use super::dispatch::SCHEDULE_FUNCTION;
use super::handlers::{self, REQUESTS, new_table};
use super::hooks::{self, REQUIRE};
use super::{event, find, messages, time};
use crate::codec::pack::Value as Packed;
use crate::ltask::config::Full;
use crate::ltask::log::Repetition;
use crate::ltask::message::Payload;
use crate::ltask::service::Service;
use crate::lua::{
    Argument, Call, Either, Entry, Fault, Function, FunctionTable, INDEX, Keep, Lazy, Next, Nil, Outcome, Own, TO_TEXT,
    functions, then,
};
use crate::modules::{coroutine, pack};
use crate::task::Tasks;
use std::sync::atomic::Ordering;

const PUBLIC: FunctionTable = functions! {
    dispatch = handlers::dispatch_table, schedule_message: SCHEDULE_FUNCTION, handlers::idle_handler, handlers::quit,
};

/// The functions that `ltask` has from other modules. A module is loaded when the first of its functions is used.
const MODULES: &[(&str, &[&str])] = &[
    ("lio.task", &["fork", "wait", "wakeup", "interrupt", "running"]),
    ("ltask.concurrent", &["async", "request", "parallel"]),
    (
        "ltask.coroutines",
        &["current_token", "multi_wait", "multi_wakeup", "multi_interrupt", "dispatch_wakeup", "thread_info"],
    ),
    ("ltask.errors", &["raise_error", "error"]),
    ("ltask.log", &["log"]),
    ("ltask.main_thread", &["mainthread_run"]),
    (
        "ltask.root_client",
        &["spawn", "spawn_service", "uniqueservice", "queryservice", "register", "kill", "servicepath"],
    ),
    ("ltask.sessions", &["current_session", "suspend"]),
];

/// All that `ltask` has in any service.
const LISTS: &[FunctionTable] = &[messages::FUNCTIONS, time::FUNCTIONS, event::FUNCTIONS, pack::FUNCTIONS];

/// Opens `ltask`. Its functions come into the table as they are used: most services use few.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Lazy(Function::new(index), None)));

/// What `__index` of `ltask` gives: a function that it knows, or what a call finds.
type Indexed = Either<Option<Entry<Function>>, Next<Option<Entry<Argument>>>>;

/// `__index` of `ltask`: its own functions, and in a service with our library that one's.
fn index(call: &mut Call<'_>) -> Result<Indexed, Fault> {
    let known = |function| Ok(Either::One(Some(Entry(1, 2, function))));
    if let Some(function) = find(call, LISTS) {
        return known(function);
    }
    let tasks = call.data::<Service>().map(|service| service.library.tasks().is_some());
    let Some(name) = call.string(2) else { return Ok(Either::One(None)) };
    let module = MODULES.iter().find(|(_, names)| names.iter().any(|known| known.as_bytes() == name));
    match (tasks, name) {
        (None, b"start") => {
            let globals = call.loaded("_G")?;
            call.raw_field(globals, "require")?;
            call.create("ltask.start")?;
            return Ok(Either::Other(Next::call(1, then(keep), 0)));
        }
        (None | Some(false), _) => return Ok(Either::One(None)),
        _ => {}
    }
    if let Some(function) = find(call, &[calls::PUBLIC, PUBLIC]) {
        return known(function);
    }
    match module {
        Some((module, _)) => Ok(Either::Other(hooks::require(call, module, then(field), 0)?)),
        None => Ok(Either::One(None)),
    }
}

/// What the module that was loaded has under the name at 2.
fn field(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Option<Entry<Argument>>>, Fault> {
    call.push(INDEX)?;
    call.push(Argument(outcome.first))?;
    call.push(Argument(2))?;
    Ok(Next::call(2, then(keep), 0))
}

/// Keeps a result under the name at 2 in the table at 1.
fn keep(call: &mut Call<'_>, outcome: Outcome) -> Result<Option<Entry<Argument>>, Fault> {
    let found = !call.is_none(outcome.first);
    Ok(found.then_some(Entry(1, 2, Argument(outcome.first))))
}

/// `core.setup()` → whether the service has a thread of its own: this VM has our service library from now on.
pub(super) fn setup(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    // Until the service's own code begins: what is made here stays.
    call.stop_collector();
    call.create(Keep(&REQUESTS, new_table()))?;
    call.create(Keep(&TIMEOUTS, new_table()))?;
    let globals = call.loaded("_G")?;
    let require = call.raw_field(globals, "require")?;
    call.create(Keep(&REQUIRE, Argument(require)))?;
    call.drop_to(0);
    hooks::require(call, "lio.task", then(replace_globals), 0)
}

fn replace_globals(call: &mut Call<'_>, _: Outcome) -> Result<Next<bool>, Fault> {
    call.drop_to(0);
    let globals = call.loaded("_G")?;
    for (name, function) in [("require", Function::new(require)), ("print", Function::new(print))] {
        let key = call.create(name)?;
        call.create(Entry(globals, key, function))?;
    }
    call.push(coroutine::INSTALL)?;
    Ok(Next::call(0, then(set_tasks), 0))
}

fn set_tasks(call: &mut Call<'_>, _: Outcome) -> Result<bool, Fault> {
    let tasks = Tasks::of(call)?;
    tasks.set_host(Box::new(Answers));
    call.interrupt_with(&tasks.threads);
    let tasks = Own::new(call, tasks);
    let service = service(call)?;
    service.library.set_tasks(tasks);
    service.library.starting = true;
    service.library.wait_when_full = service.system().config.full == Full::Wait;
    Ok(service.statistics.exclusive.load(Ordering::Relaxed))
}

/// `core.requests()` → how many coroutines answer requests.
pub(super) fn requests(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(library_tasks(call, "requests")?.requests() as i64)
}

/// `core.is_request(co)` → whether the coroutine answers a request.
pub(super) fn is_request(call: &mut Call<'_>) -> Result<bool, Fault> {
    let co = call.coroutine(1).ok_or_else(|| Fault::expected(1, "thread"))?;
    let tasks = library_tasks(call, "is_request")?;
    Ok(tasks.task_of(co).is_some_and(|id| tasks.tag(id).from != 0))
}

/// `core.generation()` → the one that the system is configured for.
pub(super) const GENERATION: Function =
    on_service(|service| if service.library.is_first_generation { 1i64 } else { 2 });

/// `core.add_end_waits(n)`: `n` more of the service's tasks wait for its own end, and do not keep it running.
pub(super) fn add_end_waits(call: &mut Call<'_>) -> Result<(), Fault> {
    let more = call.integer_in(1, -1..=1, "number of tasks")? as isize;
    let end_waits = &mut service(call)?.library.end_waits;
    *end_waits = end_waits.saturating_add_signed(more);
    Ok(())
}

/// Lua's `require`: does not wait.
pub(super) fn require_now(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    call.kept(&REQUIRE)?;
    call.push_copies(1..=count)?;
    Ok(Next::call_whole(count, then(hooks::results), 0))
}

/// `require` of a service: what is not loaded yet is loaded by a coroutine that may wait.
fn require(call: &mut Call<'_>) -> Result<Next, Fault> {
    let name = call.string(1).ok_or_else(|| Fault::expected(1, "string"))?;
    // What is built in does not wait.
    let name = name.to_vec();
    let loaded = call.loaded_libraries()?;
    let module = call.get(loaded, 1)?;
    if !call.is_none(module) {
        return Ok(Next::pushed(1));
    }
    call.drop_to(1);
    let service = service(call)?;
    let is_built_in = (service.system().preparation.is_built_in)(&name);
    if is_built_in || service.library.tasks().is_none() || !call.is_yieldable() {
        return require_now(call);
    }
    hooks::require(call, "ltask.require", then(load), 0)
}

fn load(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    call.drop_to(outcome.first);
    call.push(Argument(1))?;
    Ok(Next::call(1, then(required), 0))
}

fn required(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    call.drop_to(outcome.first + 1);
    while call.count() < outcome.first + 1 {
        call.push(Nil)?;
    }
    Ok(Next::pushed(2))
}

/// `print` of a service: a line of the log.
fn print(call: &mut Call<'_>) -> Result<Next, Fault> {
    match call.count() {
        0 => log_line(call, b""),
        _ => text_of(call, 1),
    }
}

/// Has the value at `index` made a text.
fn text_of(call: &mut Call<'_>, index: i32) -> Result<Next, Fault> {
    call.push(TO_TEXT)?;
    call.push(Argument(index))?;
    Ok(Next::call(1, then(printed), index as u32))
}

/// So many values are texts now, behind all values.
fn printed(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let done = outcome.kept as i32;
    let values = call.count() - done;
    if done < values {
        return text_of(call, done + 1);
    }
    let texts: Vec<_> = (values + 1..=2 * values).map(|index| call.string(index).unwrap_or_default()).collect();
    let line = texts.join(&b'\t');
    log_line(call, &line)
}

fn log_line(call: &mut Call<'_>, line: &[u8]) -> Result<Next, Fault> {
    let service = service(call)?;
    let payload = Payload::of(&[Packed::String(b"info"), Packed::String(line)]);
    service.system().push_log(service.id, payload, Repetition::Written);
    Ok(Next::returns(()))
}
