//! Module `ltask`: what a service library stands on. Messages are pointer and size here.

use super::arguments::{LogEntry, block, given, message, service, service_id};
use crate::ltask::foreign;
use crate::ltask::log::Repetition;
use crate::ltask::mailbox::Affinity;
use crate::ltask::message::{Payload, receipt};
use crate::ltask::scheduler::worker_number;
use crate::ltask::service::Receipt;
use crate::lua::{
    Argument, Call, Entry, Fault, FunctionTable, Kind, Light, List, MainTraceback, Next, Outcome, functions, results,
    then,
};
use crate::memory::KIND_NAMES;
use std::sync::atomic::Ordering;

pub(super) const FUNCTIONS: FunctionTable = functions! {
    send_message, send_message_direct, message_receipt, recv_message, self = self_id, label, worker_id, worker_bind, pushlog,
    poplog, get_pushlog, mem_limit, mem_count, touch_service, backtrace, debuglog, is_exclusive, mainthread_enter,
    mainthread_leave, mainthread_yield,
};

/// `ltask.send_message(to, session, type [, pointer, size])`: takes the message; what became of it says
/// `message_receipt`, at once. A second one before that raises.
fn send_message(call: &mut Call<'_>) -> Result<(), Fault> {
    let sender = service(call)?;
    let (from, is_unread) = (sender.id, sender.receipt.is_some());
    if !call.is_yieldable() {
        return Err(Fault::message("Can't send message: this context cannot yield"));
    }
    if is_unread {
        return Err(Fault::message("Can't send message: the receipt of the last one was not read"));
    }
    let message = message(call, from)?;
    let service = service(call)?;
    service.receipt = Some(service.post(message));
    Ok(())
}

/// `ltask.message_receipt()` → kind, and pointer and size of a message that came back, or the number of a
/// new service. Raises when there is none.
fn message_receipt(call: &mut Call<'_>) -> Result<Receipts, Fault> {
    let receipt = service(call)?.receipt.take();
    receipt.map_or_else(|| Err(Fault::message("No receipt")), |receipt| Ok(receipt.into()))
}

results! {
    enum Receipts {
        Kind(i64),
        New((i64, u32)),
        Returned((i64, Light, i64)),
    }
}

impl From<Receipt> for Receipts {
    fn from(receipt: Receipt) -> Receipts {
        match receipt {
            Receipt::Done => Receipts::Kind(receipt::DONE),
            Receipt::New(id) => Receipts::New((receipt::RESPONSE, id)),
            Receipt::Returned(kind, message) => match given(message.payload) {
                Some((pointer, size)) => Receipts::Returned((kind, pointer, size)),
                None => Receipts::Kind(kind),
            },
        }
    }
}

/// `ltask.send_message_direct(to, session, type, pointer, size)` → kind: posts at once (G1). The message
/// comes back, as two more results, when it was not taken.
fn send_message_direct(call: &mut Call<'_>) -> Result<Receipts, Fault> {
    let from = service(call)?.id;
    let message = message(call, from)?;
    Ok(service(call)?.post(message).into())
}

results! {
    enum Received {
        Nothing(()),
        Empty((u32, i64, i64)),
        Whole((u32, i64, i64, Light, i64)),
    }
}

/// `ltask.recv_message()` → from, session, type [, pointer, size]; nothing when the mailbox is empty.
fn recv_message(call: &mut Call<'_>) -> Result<Received, Fault> {
    let Some(message) = service(call)?.receive() else {
        return Ok(Received::Nothing(()));
    };
    let (from, session, kind) = (message.from, message.session, message.kind.into());
    Ok(match given(message.payload) {
        Some((pointer, size)) => Received::Whole((from, session, kind, pointer, size)),
        None => Received::Empty((from, session, kind)),
    })
}

/// `ltask.self()` → this service's number.
fn self_id(call: &mut Call<'_>) -> Result<u32, Fault> {
    Ok(service(call)?.id)
}

/// `ltask.label()` → this service's label.
fn label(call: &mut Call<'_>) -> Result<String, Fault> {
    Ok(service(call)?.statistics.label())
}

/// `ltask.worker_id()` → number of the worker that runs this service, from 0; nil on a thread of its own.
fn worker_id(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    service(call)?;
    Ok(worker_number().map(|number| number as i64))
}

/// `ltask.worker_bind([n])`: keeps the service on worker n (from 0), from its next slice on; nil frees it.
fn worker_bind(call: &mut Call<'_>) -> Result<(), Fault> {
    let workers = service(call)?.system().config.worker;
    let affinity = super::root::affinity(call, 1, workers)?;
    service(call)?.affinity = affinity;
    Ok(())
}

/// `ltask.pushlog(pointer, size)`: adds an entry to the log, which takes the block.
fn pushlog(call: &mut Call<'_>) -> Result<(), Fault> {
    service(call)?;
    let (address, size) = block(call, 1)?;
    let payload = Payload::adopt(address, size);
    let service = service(call)?;
    service.system().push_log(service.id, payload, Repetition::Counted);
    Ok(())
}

/// `ltask.poplog()` → centiseconds since the epoch, id, pointer, size; nothing when the log is empty.
fn poplog(call: &mut Call<'_>) -> Result<LogEntry, Fault> {
    Ok(LogEntry::of(service(call)?.system().log.pop()))
}

/// `ltask.get_pushlog()` → function pointer `void (void *log, uint32_t id, void *data, size_t size)`, and
/// `log`. For C code of any thread; `data` is a block of `malloc` and is taken.
fn get_pushlog(call: &mut Call<'_>) -> Result<(Light, Light), Fault> {
    Ok(foreign::log_of_services(service(call)?.system()))
}

/// `ltask.mem_limit(bytes)` → the previous limit of this service's VM; 0 is none.
fn mem_limit(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    service(call)?;
    let wanted = match call.is_none(1) {
        true => None,
        false => Some(call.integer_in(1, 0..=i64::MAX, "limit")? as usize),
    };
    Ok(call.memory().map(|memory| match wanted {
        Some(bytes) => memory.set_limit(bytes) as i64,
        None => memory.limit() as i64,
    }))
}

/// `ltask.mem_count([t])` → `t` or a new table: objects made so far by Lua type, and `memory`, bytes in
/// use.
fn mem_count(call: &mut Call<'_>) -> Result<Option<Argument>, Fault> {
    service(call)?;
    let counted = call.memory().map(|memory| (memory.counts(), memory.used()));
    let Some((counts, used)) = counted else {
        return Ok(None);
    };
    let table = match call.kind(1) {
        Kind::Table => 1,
        _ => call.create(List::<i64> { items: Vec::new(), named: Vec::new() })?,
    };
    // The first is no object, the last two are Lua's own.
    let objects = KIND_NAMES.iter().zip(counts).skip(1).take(5);
    let counts = objects.map(|(name, count)| (*name, count as i64));
    for (name, value) in counts.chain([("memory", used as i64)]) {
        let key = call.create(name)?;
        call.create(Entry(table, key, value))?;
        call.drop_to(key - 1);
    }
    Ok(Some(Argument(table)))
}

/// `ltask.touch_service(id)` → whether there is such a service: wakes one that waits on its event
/// descriptor.
fn touch_service(call: &mut Call<'_>) -> Result<bool, Fault> {
    let id = service_id(call, 1)?;
    Ok(service(call)?.system().wake_thread(id))
}

/// `ltask.backtrace()` → where the service's main function is.
fn backtrace(call: &mut Call<'_>) -> Result<MainTraceback, Fault> {
    service(call)?;
    Ok(MainTraceback)
}

/// `ltask.debuglog(text)`: a line for the file that `config.debuglog` names.
fn debuglog(call: &mut Call<'_>) -> Result<(), Fault> {
    let text = String::from_utf8_lossy(call.bytes(1)?).into_owned();
    let service = service(call)?;
    service.system().debug(&format!("{} {text}", service.id));
    Ok(())
}

/// `ltask.is_exclusive([id])` → whether the service has a thread of its own by configuration (G1).
fn is_exclusive(call: &mut Call<'_>) -> Result<bool, Fault> {
    let asked = match call.is_none(1) {
        true => None,
        false => Some(service_id(call, 1)?),
    };
    let service = service(call)?;
    let statistics = match asked {
        None => Some(service.statistics.clone()),
        Some(id) => service.system().statistics(id),
    };
    Ok(statistics.is_some_and(|statistics| statistics.exclusive.load(Ordering::Relaxed)))
}

/// `ltask.mainthread_enter()`: the next slice runs on the process's main thread (G2).
fn mainthread_enter(call: &mut Call<'_>) -> Result<(), Fault> {
    let service = service(call)?;
    if service.event.is_some() {
        return Err(Fault::message("mainthread_enter: this service has a thread of its own"));
    }
    service.affinity = Affinity::Main;
    Ok(())
}

/// `ltask.mainthread_leave()`: the next slice runs on a worker again.
fn mainthread_leave(call: &mut Call<'_>) -> Result<(), Fault> {
    service(call)?.affinity = Affinity::Any;
    Ok(())
}

/// `ltask.mainthread_yield()`: ends this slice; the next one comes without a message. In the main function.
fn mainthread_yield(call: &mut Call<'_>) -> Result<Next, Fault> {
    service(call)?;
    if !call.is_yieldable() {
        return Err(Fault::message("mainthread_yield: this context cannot yield"));
    }
    service(call)?.again = true;
    let resumed = then(|_: &mut Call<'_>, outcome: Outcome| Ok(Next::<()>::rest(outcome.first)));
    Ok(Next::yields(0, resumed, 0))
}
