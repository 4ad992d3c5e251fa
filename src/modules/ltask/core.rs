//! Module `ltask.core`: functions for lio's service library.

use super::arguments::{block, labelled_entry, on_service, service, service_id};
use super::dispatch::{LOOP_FUNCTION, SCHEDULE_FUNCTION};
use super::recover::{RECOVER, loop_ended};
use super::{callbacks, calls, find_function, handlers, io, library, system};
use crate::ltask::log::Repetition;
use crate::ltask::message::BorrowedPayload;
use crate::ltask::service::OVERLOAD_THRESHOLD;
use crate::lua::library as files;
use crate::lua::{
    Argument, Call, Chunk, Fault, Function, FunctionTable, LazyTable, List, Maybe, Next, StoredInTable, Value,
    functions,
};
use crate::modules::pack;
use std::sync::atomic::Ordering::Relaxed;

const FUNCTIONS: FunctionTable = functions! {
    library::setup, loop: LOOP_FUNCTION, schedule: SCHEDULE_FUNCTION, loop_ended, library::is_request,
    library::requests, recover: RECOVER, system::system_calls, library::require_now, generation: library::GENERATION,
    end_service: END_SERVICE, exiting: EXITING, fail_boot, log, set_log_reader: SET_LOG_READER,
    set_blocked_listener: SET_BLOCKED_LISTENER, poplog: POPLOG, stat, idle_wait: IDLE_WAIT, is_idle: IS_IDLE,
    handlers::poll_handler, library::add_end_waits, callbacks::use_callbacks, services: SERVICES, main_chunk,
    embedded_source, load_embedded, bytes, report_overload: REPORT_OVERLOAD,
    take_long_slice_report: TAKE_LONG_SLICE_REPORT,
};

/// Opens `ltask.core`. Each function is added to the table when it is first used.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(LazyTable(Function::new(index), None)));

fn index(call: &mut Call<'_>) -> Result<Option<StoredInTable<Argument, Function>>, Fault> {
    let found = find_function(call, &[FUNCTIONS, calls::PRIVATE, io::FUNCTIONS]);
    Ok(found.map(|function| StoredInTable::new(1, 2, function)))
}

/// `core.end_service()`: makes the main loop return after the current message.
const END_SERVICE: Function = on_service(|service| service.library.is_ending = true);

/// `core.exiting()`: from now on, a request whose task is killed gets the error of a dead service.
const EXITING: Function = on_service(|service| service.library.is_exiting = true);

/// `core.fail_boot(reason)`: records that the system cannot start. `ltask.start` raises the reason. Only root calls
/// this function.
fn fail_boot(call: &mut Call<'_>) -> Result<(), Fault> {
    let reason = String::from_utf8_lossy(call.bytes(1)?).into_owned();
    service(call)?.system().fail_boot(&reason);
    Ok(())
}

/// `core.log(level, text, …)`: packs an entry and adds it to the log.
fn log(call: &mut Call<'_>) -> Result<Next, Fault> {
    pack::packed(call, 1, |call, payload| {
        let service = service(call)?;
        let system = service.system();
        system.push_log(service.id, payload, Repetition::Counted);
        Ok(Next::returns(()))
    })
}

/// `core.set_log_reader()`: from now on this service gets the system message `log_ready` when the log is no longer
/// empty.
const SET_LOG_READER: Function = on_service(|service| service.system().log.set_reader(service.id));

/// `core.set_blocked_listener()`: from now on this service gets the system message `blocked(id, true)` when a service
/// with its own thread has run for 0.2 s without waiting, and `blocked(id, false)` when that service waits again or has
/// ended.
const SET_BLOCKED_LISTENER: Function = on_service(|service| service.system().set_blocked_listener(service.id));

/// `core.poplog()`: like `ltask.poplog`, but with the service's label after the service id.
const POPLOG: Function = on_service(|service| labelled_entry(service.system().log.pop()));

/// `core.stat(id)`: returns a table with the statistics of a service; nil if there is no such service.
fn stat(call: &mut Call<'_>) -> Result<Option<Value>, Fault> {
    let id = service_id(call, 1)?;
    let slot = service(call)?.system().registry.get(id);
    let Some((slot, statistics)) = slot.and_then(|slot| Some((slot, slot.statistics()?))) else {
        return Ok(None);
    };
    let queue = slot.mailbox.statistics();
    if !slot.mailbox.is_alive(id) {
        return Ok(None);
    }
    Ok(Some(Value::Record(vec![
        ("label", Value::String(statistics.label().into_bytes())),
        ("messages", Value::Integer(queue.received as i64)),
        ("queue", Value::Integer(queue.queued as i64)),
        ("queue_max", Value::Integer(queue.peak as i64)),
        ("cpu", Value::Number(statistics.busy() as f64 / 1e9)),
        ("memory", Value::Integer(statistics.memory.load(Relaxed) as i64)),
        ("memory_max", Value::Integer(statistics.memory_peak.load(Relaxed) as i64)),
        ("resumes", Value::Integer(statistics.resumes.load(Relaxed) as i64)),
        ("coroutines", Value::Integer(statistics.coroutines.load(Relaxed) as i64)),
    ])))
}

/// `core.report_overload()`: from now on, a log line reports when this service has more than 1024, 2048, 4096 and so on
/// unread messages.
const REPORT_OVERLOAD: Function = on_service(|service| service.overload_threshold = OVERLOAD_THRESHOLD);

/// `core.take_long_slice_report()`: returns whether the watchdog has reported a slice of this service since the last
/// call.
const TAKE_LONG_SLICE_REPORT: Function =
    on_service(|service| service.statistics.long_slice_reported.swap(false, Relaxed));

/// `core.services()`: returns a list of the ids of all services that are not dead.
const SERVICES: Function = on_service(|service| {
    let slots = service.system().registry.all();
    List { items: slots.filter_map(|slot| slot.mailbox.service()).collect(), named: Vec::new() }
});

/// `core.main_chunk()`: returns the service library's main function, precompiled.
fn main_chunk(_: &mut Call<'_>) -> Result<&'static [u8], Fault> {
    let chunk = files::compiled("ltask.main");
    chunk.ok_or_else(|| Fault::message("the service library cannot be compiled"))
}

/// `core.load_embedded(module)`: loads an embedded Lua file, even if it was loaded before, and returns its main
/// function.
fn load_embedded(call: &mut Call<'_>) -> Result<Chunk<'static>, Fault> {
    let code = files::compiled(call.utf8(1)?).ok_or_else(|| Fault::message("the module is not built in"))?;
    Ok(Chunk::Text(code, c"=lio"))
}

type Text = &'static [u8];

/// `core.embedded_source(module)`: returns the text and the chunk name of an embedded Lua file; nothing if there is no
/// such file.
fn embedded_source(call: &mut Call<'_>) -> Result<Maybe<(Text, Text)>, Fault> {
    let file = files::embedded(call.bytes(1)?);
    Ok(Maybe(file.map(|file| (file.text, file.chunk.to_bytes()))))
}

/// `core.bytes(pointer, size)`: returns the bytes of a packed message as a string, which `ltask.unpack` reads; an empty
/// string if the pointer is nil. The block still belongs to the caller.
fn bytes(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (address, size) = block(call, 1)?;
    if address == 0 && size != 0 {
        return Err(Fault::argument(2, "size must be 0 if the pointer is nil"));
    }
    Ok(BorrowedPayload::new(address, size).as_ref().to_vec())
}

/// `core.is_idle()`: returns whether no message is unread and no coroutine is ready. If so, the next message wakes the
/// thread.
const IS_IDLE: Function = on_service(|service| service.is_idle());

/// `core.idle_wait()`: blocks until a message arrives; for a service with its own thread (G1).
const IDLE_WAIT: Function = on_service(|service| {
    if service.is_idle() {
        service.wait();
    }
});
