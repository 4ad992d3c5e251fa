//! Module `ltask`: the functions on which a service library is built. Here, a message is a pointer and a size.

use super::arguments::{WithPayload, block, log_entry, message, on_service, service, service_id, with_payload};
use super::callbacks;
use super::handlers::empty_table;
use crate::ltask::c_functions;
use crate::ltask::log::Repetition;
use crate::ltask::mailbox::Affinity;
use crate::ltask::message::{Payload, ServiceId, receipt};
use crate::ltask::scheduler::worker_number;
use crate::ltask::service::Receipt;
use crate::lua::{
    Argument, Call, Either, Fault, Function, FunctionTable, Kind, MainTraceback, Maybe, Next, StoredInTable, functions,
    then,
};
use crate::memory::KIND_NAMES;
use std::sync::atomic::Ordering;

pub(super) const FUNCTIONS: FunctionTable = functions! {
    send_message, send_message_direct, message_receipt, recv_message: RECV_MESSAGE, self: SELF, label: LABEL,
    worker_id: WORKER_ID, worker_bind, pushlog, poplog: POPLOG, get_pushlog: GET_PUSHLOG, mem_limit, mem_count,
    touch_service, backtrace, debuglog, is_exclusive, mainthread_enter, mainthread_leave: MAINTHREAD_LEAVE,
    mainthread_yield,
};

/// `ltask.send_message(to, session, type [, pointer, size])`: posts a message, which takes ownership of the block.
/// `message_receipt` then returns the receipt. Raises an error if the previous receipt was not read.
fn send_message(call: &mut Call<'_>) -> Result<(), Fault> {
    let sender = service(call)?;
    let (from, is_unread) = (sender.id, sender.receipt.is_some());
    if !call.is_yieldable() {
        return Err(Fault::message("Can't send message: this context cannot yield"));
    }
    if is_unread {
        return Err(Fault::message("Can't send message: the previous receipt has not been read"));
    }
    let message = message(call, from)?;
    let service = service(call)?;
    service.receipt = Some(service.post(message));
    Ok(())
}

/// `ltask.message_receipt()`: returns the kind of the receipt, followed by the pointer and the size of a returned
/// message, or by the id of a new service. Raises an error if there is no receipt.
fn message_receipt(call: &mut Call<'_>) -> Result<Receipts, Fault> {
    let receipt = service(call)?.receipt.take();
    receipt.map(shown).ok_or_else(|| Fault::message("No receipt"))
}

/// The kind of a receipt, followed by a returned message or by the id of a new service.
type Receipts = Either<WithPayload<i64>, (i64, ServiceId)>;

fn shown(receipt: Receipt) -> Receipts {
    match receipt {
        Receipt::Done => Either::One(with_payload(receipt::DONE, Payload::EMPTY)),
        Receipt::New(id) => Either::Other((receipt::RESPONSE, id)),
        Receipt::Returned(kind, message) => Either::One(with_payload(kind, message.payload)),
    }
}

/// `ltask.send_message_direct(to, session, type, pointer, size)`: posts a message immediately (G1). Returns the kind of
/// the receipt, and, if the message was refused, its pointer and size.
fn send_message_direct(call: &mut Call<'_>) -> Result<Receipts, Fault> {
    let from = service(call)?.id;
    let message = message(call, from)?;
    Ok(shown(service(call)?.post(message)))
}

/// `ltask.recv_message()`: returns the next message: its sender, session, type, pointer and size (no pointer and size
/// if it has no payload); nothing if the mailbox is empty.
const RECV_MESSAGE: Function = on_service(|service| {
    Maybe(service.receive().map(|message| {
        let kind: i64 = message.kind.into();
        with_payload((message.from, message.session, kind), message.payload)
    }))
});

/// `ltask.self()`: returns this service's id.
const SELF: Function = on_service(|service| service.id);

/// `ltask.label()`: returns this service's label.
const LABEL: Function = on_service(|service| service.statistics.label());

/// `ltask.worker_id()`: returns the number of the worker that runs this service, counted from 0; nil if the service
/// does not run on a worker.
const WORKER_ID: Function = on_service(|_| worker_number().map(|number| number as i64));

/// `ltask.worker_bind([n])`: binds the service to worker n (counted from 0), from its next slice on; nil unbinds it.
fn worker_bind(call: &mut Call<'_>) -> Result<(), Fault> {
    let workers = service(call)?.system().config.worker;
    let affinity = super::root::affinity(call, 1, workers)?;
    service(call)?.affinity = affinity;
    Ok(())
}

/// `ltask.pushlog(pointer, size)`: adds an entry to the log, and takes ownership of the block.
fn pushlog(call: &mut Call<'_>) -> Result<(), Fault> {
    service(call)?;
    let (address, size) = block(call, 1)?;
    let payload = Payload::from_raw(address, size);
    let service = service(call)?;
    service.system().push_log(service.id, payload, Repetition::Counted);
    Ok(())
}

/// `ltask.poplog()`: takes the oldest entry of the log and returns its time (centiseconds since the Unix epoch),
/// service id, pointer and size; nothing if the log is empty.
const POPLOG: Function = on_service(|service| log_entry(service.system().log.pop()));

/// `ltask.get_pushlog()`: returns a function pointer `void (void *log, uint32_t id, void *data, size_t size)`, and
/// `log`. C code can call the function from any thread. The function takes ownership of `data`, a block from `malloc`.
const GET_PUSHLOG: Function = on_service(|service| c_functions::log_of_services(service.system()));

/// `ltask.mem_limit(bytes)`: sets the memory limit of this service's VM (0: no limit; nil: no change) and returns the
/// previous limit.
fn mem_limit(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    service(call)?;
    let wanted = call.optional(1, |stack, index| stack.integer_in(index, 0..=i64::MAX, "limit"))?;
    Ok(call.memory().map(|memory| match wanted {
        Some(bytes) => memory.set_limit(bytes as usize) as i64,
        None => memory.limit() as i64,
    }))
}

/// `ltask.mem_count([t])`: returns `t` or a new table with the number of objects created so far, by Lua type, and
/// `memory`, the bytes in use.
fn mem_count(call: &mut Call<'_>) -> Result<Option<Argument>, Fault> {
    service(call)?;
    let counted = call.memory().map(|memory| (memory.counts(), memory.used()));
    let Some((counts, used)) = counted else { return Ok(None) };
    let table = match call.kind(1) {
        Kind::Table => 1,
        _ => call.create(empty_table())?,
    };
    // The first kind is not an object; the last two are internal to Lua.
    let objects = KIND_NAMES.iter().zip(counts).skip(1).take(5);
    let counts = objects.map(|(name, count)| (*name, count as i64));
    for (name, value) in counts.chain([("memory", used as i64)]) {
        let key = call.create(name)?;
        call.create(StoredInTable::new(table, key, value))?;
        call.drop_to(key - 1);
    }
    Ok(Some(Argument(table)))
}

/// `ltask.touch_service(id)`: wakes a service that waits on its event descriptor. Returns whether the service exists.
fn touch_service(call: &mut Call<'_>) -> Result<bool, Fault> {
    let id = service_id(call, 1)?;
    Ok(service(call)?.system().wake_thread(id))
}

/// `ltask.backtrace()`: returns the traceback of the service's main function.
fn backtrace(call: &mut Call<'_>) -> Result<MainTraceback, Fault> {
    service(call)?;
    Ok(MainTraceback)
}

/// `ltask.debuglog(text)`: writes a line to the file that `config.debuglog` names.
fn debuglog(call: &mut Call<'_>) -> Result<(), Fault> {
    let text = String::from_utf8_lossy(call.bytes(1)?).into_owned();
    let service = service(call)?;
    service.system().debug(&format!("{} {text}", service.id));
    Ok(())
}

/// `ltask.is_exclusive([id])`: returns whether the service is configured to have its own thread (G1).
fn is_exclusive(call: &mut Call<'_>) -> Result<bool, Fault> {
    let asked = call.optional(1, service_id)?;
    let service = service(call)?;
    let statistics = match asked {
        None => Some(service.statistics.clone()),
        Some(id) => service.system().statistics(id),
    };
    Ok(statistics.is_some_and(|statistics| statistics.exclusive.load(Ordering::Relaxed)))
}

/// `ltask.mainthread_enter()`: from its next slice on, the service runs on the process's main thread (G2).
fn mainthread_enter(call: &mut Call<'_>) -> Result<(), Fault> {
    let service = service(call)?;
    if service.event.is_some() {
        return Err(Fault::message("mainthread_enter: this service has a thread of its own"));
    }
    service.affinity = Affinity::Main;
    Ok(())
}

/// `ltask.mainthread_leave()`: from its next slice on, the service runs on any worker again.
const MAINTHREAD_LEAVE: Function = on_service(|service| service.affinity = Affinity::Any);

/// `ltask.mainthread_yield()`: ends this slice. The service gets its next slice even if no message arrives. For the
/// main function.
fn mainthread_yield(call: &mut Call<'_>) -> Result<Next, Fault> {
    service(call)?;
    if !call.is_yieldable() {
        return Err(Fault::message("mainthread_yield: this context cannot yield"));
    }
    service(call)?.wants_slice = true;
    Ok(Next::yields(0, then(callbacks::results), 0))
}
