//! How the tasks of requests end: their results become answers, their errors too, or entries of the log.

use super::arguments::service;
use super::hooks;
use crate::codec::pack::Value;
use crate::ltask::message::{Message, Payload, ROOT, ServiceId, kind};
use crate::ltask::service::Service;
use crate::lua::{Argument, Call, Coroutine, Fault, Full, Function, Light};
use crate::modules::pack;
use crate::task::{Host, Reason, Tag, TaskId, Tasks};
use std::rc::Rc;

/// What the tasks of a service tell the service library.
pub(super) struct Answers;

impl Host for Answers {
    fn finished(&self, call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32, tag: Tag) {
        let packed = match pack::block_of(call, &tasks.threads, own, results) {
            Some(payload) => Ok(payload),
            None => pack_taken(call, tasks, own, results),
        };
        match packed {
            Ok(payload) => answer(call, tag, kind::RESPONSE, payload),
            Err(text) => answer(call, tag, kind::ERROR, of_text(text.as_bytes())),
        }
    }

    fn failed(&self, call: &mut Call<'_>, co: i32, error: i32, tag: Tag) {
        let height = call.count();
        if let Some(service) = call.data::<Service>()
            && service.library.starting
            && service.id == ROOT
        {
            // Without root there is nobody to end the system.
            let reason = "root has failed; the log says why";
            service.system().fail_boot(reason);
            service.library.ended = true;
        }
        let described = without_limit(call, |call| describe(call, co, error, tag));
        match described {
            Ok(Some(payload)) => answer(call, tag, kind::ERROR, payload),
            Ok(None) => {}
            Err(text) if tag.session != 0 => {
                answer(call, tag, kind::ERROR, of_text(text.as_bytes()));
            }
            Err(text) => {
                if let Some(service) = call.data::<Service>() {
                    service.system().log_text(service.id, &text);
                }
            }
        }
        call.drop_to(height);
    }

    fn killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag) {
        let Some(service) = call.data::<Service>() else { return };
        if service.dead {
            return;
        }
        let name = service.library.name(id);
        let text = b"the request's coroutine was closed before it answered";
        answer(call, tag, kind::ERROR, of_text(text));
        let height = call.count();
        // There is no better place for an error in it.
        let _ = forgotten(call, name.bytes(), tag.from);
        call.drop_to(height);
    }

    /// A wait is off: its timer is not needed. An answer that still comes is dropped.
    fn cancelled(&self, call: &mut Call<'_>, reason: Reason) {
        if let (Reason::Timer(timer), Some(service)) = (reason, call.data::<Service>()) {
            service.system().monitor.timers.cancel(service.id, timer);
        }
    }
}

fn of_text(text: &[u8]) -> Payload {
    Payload::of(&[Value::String(text)])
}

fn answer(call: &mut Call<'_>, tag: Tag, kind: u8, payload: Payload) {
    if let Some(service) = call.data::<Service>() {
        service.answer(Message { from: service.id, to: tag.from, session: tag.session, kind, payload });
    }
}

/// The results of a task as a payload, by way of the step's stack; the error is a message.
#[cold]
fn pack_taken(call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32) -> Result<Payload, String> {
    let height = call.count();
    let taken = tasks.threads.take(call, own, results);
    let packed = taken.map_err(|Full| "too many results".to_owned()).and_then(|first| pack_all(call, first));
    call.drop_to(height);
    packed
}

/// The values from `first` on as a payload; the error is a message.
fn pack_all(call: &mut Call<'_>, first: i32) -> Result<Payload, String> {
    match pack::block(call, first) {
        Ok(Some(payload)) => Ok(payload),
        Ok(None) => pack_copies(call, first).unwrap_or_else(|fault| Err(fault.to_string())),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The same of values with a `__pairs`, which is code of the program's.
#[cold]
fn pack_copies(call: &mut Call<'_>, first: i32) -> Result<Result<Payload, String>, Fault> {
    let last = call.count();
    let result = call.push(Function::new(pack::pack))?;
    call.push_copies(first..=last)?;
    if tasks(call)?.threads.call(call, last - first + 1)? {
        let Light(address) = call.light(result).unwrap_or(Light(0));
        let size = call.integer(result + 1).unwrap_or(0);
        return Ok(Ok(Payload::adopt(address, size as usize)));
    }
    Ok(Err(text_at(call, result, "error in a __pairs metamethod")))
}

/// The string at `index`; `other` when it is none.
fn text_at(call: &Call<'_>, index: i32, other: &'static str) -> String {
    call.string(index).map_or(other.into(), String::from_utf8_lossy).into_owned()
}

fn tasks(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
    let tasks = service(call)?.library.tasks().cloned();
    tasks.ok_or_else(crate::task::closed)
}

/// Runs `step` with no limit to the VM's memory: a service that has used up its own must be able to say so.
pub(super) fn without_limit<R>(call: &mut Call<'_>, step: impl FnOnce(&mut Call<'_>) -> R) -> R {
    let limit = call.memory().map(|memory| memory.set_limit(0));
    let result = step(call);
    if let (Some(memory), Some(limit)) = (call.memory(), limit) {
        memory.set_limit(limit);
    }
    result
}

/// Has the library describe an error, for whoever waits for the request (a payload), or in the log. Else what went wrong
/// with that.
fn describe(call: &mut Call<'_>, co: i32, error: i32, tag: Tag) -> Result<Option<Payload>, String> {
    let described = run_failed(call, co, error, tag);
    let (result, ok) = described.map_err(|fault| fault.to_string())?;
    if !ok {
        return Err(text_at(call, result, "error while an error was described"));
    }
    if tag.session == 0 {
        return Ok(None);
    }
    call.drop_to(result);
    Ok(Some(pack_all(call, result).unwrap_or_else(|text| of_text(text.as_bytes()))))
}

/// → the index of what the hook has returned or raised, and whether it returned
fn run_failed(call: &mut Call<'_>, co: i32, error: i32, tag: Tag) -> Result<(i32, bool), Fault> {
    let result = hooks::push(call, "task_failed")?;
    call.push(Argument(co))?;
    call.push(Argument(error))?;
    call.push(tag.from)?;
    call.push(tag.session)?;
    Ok((result, tasks(call)?.threads.call(call, 5)?))
}

fn forgotten(call: &mut Call<'_>, name: &[u8], from: ServiceId) -> Result<bool, Fault> {
    hooks::push(call, "unanswered_request")?;
    call.create(name.to_vec())?;
    call.push(from)?;
    tasks(call)?.threads.call(call, 3)
}
