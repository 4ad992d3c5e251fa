//! The parts of lio's service library that every service has, and that do not need a Lua function in its VM: `print`,
//! `require`, and the table `ltask`, to which functions are added when they are first used.

use super::arguments::{on_service, service};
use super::callbacks::{self, REQUIRE};
use super::calls::{self, TIMEOUTS, library_tasks};
use super::dispatch::SCHEDULE_FUNCTION;
use super::handlers::{self, REQUESTS, empty_table};
use super::respond::Responder;
use super::{event, find_function, messages, time};
use crate::codec::pack::Value as Packed;
use crate::ltask::config::FullMailbox;
use crate::ltask::log::Repetition;
use crate::ltask::message::Payload;
use crate::ltask::service::Service;
use crate::lua::{
    Argument, Call, Either, Fault, Function, FunctionTable, INDEX, LazyTable, Next, Nil, Outcome, Register,
    StoredInTable, TO_TEXT, VmOwned, functions, then,
};
use crate::modules::{coroutine, debug, pack};
use crate::task::Tasks;
use std::sync::atomic::Ordering;

const PUBLIC: FunctionTable = functions! {
    dispatch = handlers::dispatch_table, schedule_message: SCHEDULE_FUNCTION, handlers::idle_handler, handlers::quit,
};

/// The functions of `ltask` that Lua modules define. A module is loaded when one of its functions is first used.
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

/// The functions of `ltask` in every service.
const LISTS: &[FunctionTable] = &[messages::FUNCTIONS, time::FUNCTIONS, event::FUNCTIONS, pack::FUNCTIONS];

/// Returns whether only services have the function `name` of `ltask`.
#[cfg(feature = "vendored")]
pub(crate) fn is_service_function(name: &str) -> bool {
    let mut native = [calls::PUBLIC, PUBLIC].into_iter().flatten();
    native.any(|(known, _)| known.to_bytes() == name.as_bytes())
        || MODULES.iter().any(|(_, names)| names.contains(&name))
}

/// Opens `ltask`. Each function is added to the table when it is first used, since most services use few.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(LazyTable(Function::new(index), None)));

/// The result of `__index` of `ltask`: a native function, or the result of a call.
type Indexed = Either<Option<StoredInTable<Argument, Function>>, Next<Option<StoredInTable<Argument, Argument>>>>;

/// `__index` of `ltask`: finds native functions and, in a service with lio's service library, the functions of the
/// library.
fn index(call: &mut Call<'_>) -> Result<Indexed, Fault> {
    let known = |function| Ok(Either::One(Some(StoredInTable::new(1, 2, function))));
    if let Some(function) = find_function(call, LISTS) {
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
            return Ok(Either::Other(Next::call(1, then(store), 0)));
        }
        (None | Some(false), _) => return Ok(Either::One(None)),
        _ => {}
    }
    if let Some(function) = find_function(call, &[calls::PUBLIC, PUBLIC]) {
        return known(function);
    }
    match module {
        Some((module, _)) => Ok(Either::Other(callbacks::require(call, module, then(module_field), 0)?)),
        None => Ok(Either::One(None)),
    }
}

/// Reads a field of the loaded module. The name of the field is at index 2.
fn module_field(
    call: &mut Call<'_>, outcome: Outcome,
) -> Result<Next<Option<StoredInTable<Argument, Argument>>>, Fault> {
    call.push(INDEX)?;
    call.push(Argument(outcome.first))?;
    call.push(Argument(2))?;
    Ok(Next::call(2, then(store), 0))
}

/// Stores the result of a call under the name at index 2 in the table at index 1.
fn store(call: &mut Call<'_>, outcome: Outcome) -> Result<Option<StoredInTable<Argument, Argument>>, Fault> {
    let found = !call.is_none(outcome.first);
    Ok(found.then_some(StoredInTable::new(1, 2, Argument(outcome.first))))
}

/// `core.setup()`: sets up lio's service library in this VM. Returns whether the service has its own thread.
pub(super) fn setup(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    // The collector is stopped until the service's own code begins, because the objects that are created until then are
    // not garbage.
    call.stop_collector();
    call.create(Register(&REQUESTS, empty_table()))?;
    call.create(Register(&TIMEOUTS, empty_table()))?;
    let globals = call.loaded("_G")?;
    let require = call.raw_field(globals, "require")?;
    call.create(Register(&REQUIRE, Argument(require)))?;
    call.drop_to(0);
    callbacks::require(call, "lio.task", then(replace_globals), 0)
}

fn replace_globals(call: &mut Call<'_>, _: Outcome) -> Result<Next<bool>, Fault> {
    call.drop_to(0);
    let globals = call.loaded("_G")?;
    for (name, function) in [("require", Function::new(require)), ("print", Function::new(print))] {
        let key = call.create(name)?;
        call.create(StoredInTable::new(globals, key, function))?;
    }
    debug::install(call)?;
    call.push(coroutine::INSTALL)?;
    Ok(Next::call(0, then(set_tasks), 0))
}

fn set_tasks(call: &mut Call<'_>, _: Outcome) -> Result<bool, Fault> {
    let tasks = Tasks::of(call)?;
    tasks.set_host(Box::new(Responder));
    call.interrupt_with(&tasks.threads);
    let tasks = VmOwned::new(call, tasks);
    let service = service(call)?;
    service.library.set_tasks(tasks);
    service.library.is_starting = true;
    service.library.wait_when_full = service.system().config.full == FullMailbox::Wait;
    Ok(service.statistics.exclusive.load(Ordering::Relaxed))
}

/// `core.requests()`: returns the number of coroutines that answer requests.
pub(super) fn requests(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(library_tasks(call, "requests")?.requests() as i64)
}

/// `core.is_request(co)`: returns whether the coroutine answers a request.
pub(super) fn is_request(call: &mut Call<'_>) -> Result<bool, Fault> {
    let co = call.coroutine(1).ok_or_else(|| Fault::expected(1, "thread"))?;
    let tasks = library_tasks(call, "is_request")?;
    Ok(tasks.task_of(co).is_some_and(|id| tasks.tag(id).from != 0))
}

/// `core.generation()`: returns the generation of ltask that the system is configured for, 1 or 2.
pub(super) const GENERATION: Function =
    on_service(|service| if service.library.is_first_generation { 1i64 } else { 2 });

/// `core.add_end_waits(n)`: adds `n` (-1 to 1) to the number of tasks that wait until this service ends. These tasks do
/// not keep the service running.
pub(super) fn add_end_waits(call: &mut Call<'_>) -> Result<(), Fault> {
    let more = call.integer_in(1, -1..=1, "number of tasks")? as isize;
    let end_waits = &mut service(call)?.library.end_waits;
    *end_waits = end_waits.saturating_add_signed(more);
    Ok(())
}

/// Calls Lua's own `require`. The loaded code cannot wait.
pub(super) fn require_now(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    call.registered(&REQUIRE)?;
    call.push_copies(1..=count)?;
    Ok(Next::call_unyieldable(count, then(callbacks::results), 0))
}

/// `require` of a service. A new module is loaded in a coroutine, which can wait.
fn require(call: &mut Call<'_>) -> Result<Next, Fault> {
    let name = call.string(1).ok_or_else(|| Fault::expected(1, "string"))?;
    let name = name.to_vec();
    let loaded = call.loaded_libraries()?;
    let module = call.get(loaded, 1)?;
    if !call.is_none(module) {
        return Ok(Next::pushed(1));
    }
    call.drop_to(1);
    let service = service(call)?;
    let is_built_in = (service.system().preparation.is_built_in)(&name);
    // Built-in modules do not wait, so Lua's own `require` can load them.
    if is_built_in || service.library.tasks().is_none() || !call.is_yieldable() {
        return require_now(call);
    }
    callbacks::require(call, "ltask.require", then(load_module), 0)
}

fn load_module(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
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

/// `print` of a service: logs a line.
fn print(call: &mut Call<'_>) -> Result<Next, Fault> {
    match call.count() {
        0 => log_line(call, b""),
        _ => text_of(call, 1),
    }
}

/// Converts the value at `index` to a string.
fn text_of(call: &mut Call<'_>, index: i32) -> Result<Next, Fault> {
    call.push(TO_TEXT)?;
    call.push(Argument(index))?;
    Ok(Next::call(1, then(printed), index as u32))
}

/// Continues `print` after a value was converted. `outcome.kept` is the number of converted values. Their strings
/// follow the values on the stack.
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
    let payload = Payload::pack(&[Packed::String(b"info"), Packed::String(line)]);
    service.system().push_log(service.id, payload, Repetition::Written);
    Ok(Next::returns(()))
}
