//! How the tasks of requests end: their results and errors become responses or log lines.

use super::arguments::service;
use super::callbacks;
use crate::codec::pack::Value;
use crate::ltask::message::{Message, Payload, ROOT, ServiceId, kind};
use crate::ltask::service::Service;
use crate::lua::{Argument, Call, Coroutine, Fault, Full, Function, Light};
use crate::modules::pack;
use crate::task::{Host, Reason, Tag, TaskId, Tasks};
use std::rc::Rc;

/// Receives the reports of a service's tasks for the service library.
pub(super) struct Responder;

impl Host for Responder {
    fn finished(&self, call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32, tag: Tag) {
        let packed = match pack::block_of(call, &tasks.threads, own, results) {
            Some(payload) => Ok(payload),
            None => pack_moved(call, tasks, own, results),
        };
        match packed {
            Ok(payload) => respond(call, tag, kind::RESPONSE, payload),
            Err(text) => respond(call, tag, kind::ERROR, pack_text(text.as_bytes())),
        }
    }

    fn failed(&self, call: &mut Call<'_>, co: i32, error: i32, tag: Tag) {
        let height = call.count();
        if let Some(service) = call.data::<Service>()
            && service.library.is_starting
            && service.id == ROOT
        {
            // Without root, no service can end the system.
            let reason = "root has failed; see the log";
            service.system().fail_boot(reason);
            service.library.is_ending = true;
        }
        let described = call.without_memory_limit(|call| describe(call, co, error, tag));
        match described {
            Ok(Some(payload)) => respond(call, tag, kind::ERROR, payload),
            Ok(None) => {}
            Err(text) if tag.session != 0 => {
                respond(call, tag, kind::ERROR, pack_text(text.as_bytes()));
            }
            Err(text) => {
                if let Some(service) = call.data::<Service>() {
                    match service.system().is_quitting() {
                        // The end of the system has interrupted first the task and then the callback.
                        true => log_interruption(service),
                        false => service.system().log_text(service.id, &text),
                    }
                }
            }
        }
        call.drop_to(height);
    }

    fn killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag) {
        let Some(service) = call.data::<Service>() else { return };
        if service.is_dead {
            return;
        }
        let name = service.library.name(id);
        // The error that the request would get from root if it were left to the end of the service.
        let text = match service.library.is_exiting {
            true => format!("{{service:{}}} is dead", service.id),
            false => "the request's coroutine was closed before it answered".to_owned(),
        };
        respond(call, tag, kind::ERROR, pack_text(text.as_bytes()));
        let height = call.count();
        // An error in the callback is ignored: there is no better place to report it.
        let _ = report_unanswered(call, name.bytes(), tag.from);
        call.drop_to(height);
    }

    /// Called when a wait is cancelled: removes the wait's timer. A response that arrives later is dropped.
    fn cancelled(&self, call: &mut Call<'_>, reason: Reason) {
        if let (Reason::Timer(timer), Some(service)) = (reason, call.data::<Service>()) {
            service.system().monitor.timers.cancel(service.id, timer);
        }
    }
}

/// Logs that the service was interrupted, once: each of its tasks is.
fn log_interruption(service: &mut Service) {
    if !std::mem::replace(&mut service.library.interruption_is_logged, true) {
        let text = "the service was still running when the system ended, and was interrupted";
        service.system().log_text(service.id, text);
    }
}

fn pack_text(text: &[u8]) -> Payload {
    Payload::pack(&[Value::String(text)])
}

fn respond(call: &mut Call<'_>, tag: Tag, kind: u8, payload: Payload) {
    if let Some(service) = call.data::<Service>() {
        service.answer(Message { from: service.id, to: tag.from, session: tag.session, kind, payload });
    }
}

/// Moves the results of a task to the stack of the running step and packs them. On failure, returns an error message.
#[cold]
fn pack_moved(call: &mut Call<'_>, tasks: &Tasks, own: Coroutine, results: i32) -> Result<Payload, String> {
    let height = call.count();
    let moved = tasks.threads.move_from(call, own, results);
    let packed = moved.map_err(|Full| "too many results".to_owned()).and_then(|first| pack_all(call, first));
    call.drop_to(height);
    packed
}

/// Packs the values from index `first` on. On failure, returns an error message.
fn pack_all(call: &mut Call<'_>, first: i32) -> Result<Payload, String> {
    match pack::block(call, first) {
        Ok(Some(payload)) => Ok(payload),
        Ok(None) => pack_copies(call, first).unwrap_or_else(|fault| Err(fault.to_string())),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Packs the values from index `first` on, if some of them have a `__pairs` metamethod. Calls these metamethods, which
/// are code of the program.
#[cold]
fn pack_copies(call: &mut Call<'_>, first: i32) -> Result<Result<Payload, String>, Fault> {
    let last = call.count();
    let result = call.push(Function::new(pack::pack))?;
    call.push_copies(first..=last)?;
    if tasks(call)?.threads.call(call, last - first + 1)? {
        let Light(address) = call.light(result).unwrap_or(Light(0));
        let size = call.integer(result + 1).unwrap_or(0);
        return Ok(Ok(Payload::from_raw(address, size as usize)));
    }
    Ok(Err(text_at(call, result, "error in a __pairs metamethod")))
}

/// Returns the string at `index`, or `other` if the value is not a string.
fn text_at(call: &Call<'_>, index: i32, other: &'static str) -> String {
    call.string(index).map_or(other.into(), String::from_utf8_lossy).into_owned()
}

fn tasks(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
    let tasks = service(call)?.library.tasks().cloned();
    tasks.ok_or_else(crate::task::closed)
}

/// Makes the service library describe an error. Returns a payload for the sender of the request; None if there is no
/// sender, in which case the library has logged the error. On failure, returns an error message.
fn describe(call: &mut Call<'_>, co: i32, error: i32, tag: Tag) -> Result<Option<Payload>, String> {
    let described = run_failed(call, co, error, tag);
    let (result, ok) = described.map_err(|fault| fault.to_string())?;
    if !ok {
        return Err(text_at(call, result, "an error occurred while an error was being described"));
    }
    if tag.session == 0 {
        return Ok(None);
    }
    call.drop_to(result);
    Ok(Some(pack_all(call, result).unwrap_or_else(|text| pack_text(text.as_bytes()))))
}

/// Calls the callback `task_failed`. Returns the index of its result or error, and whether the callback has returned.
fn run_failed(call: &mut Call<'_>, co: i32, error: i32, tag: Tag) -> Result<(i32, bool), Fault> {
    let result = callbacks::push(call, "task_failed")?;
    call.push(Argument(co))?;
    call.push(Argument(error))?;
    call.push(tag.from)?;
    call.push(tag.session)?;
    Ok((result, tasks(call)?.threads.call(call, 5)?))
}

fn report_unanswered(call: &mut Call<'_>, name: &[u8], from: ServiceId) -> Result<bool, Fault> {
    callbacks::push(call, "unanswered_request")?;
    call.create(name.to_vec())?;
    call.push(from)?;
    tasks(call)?.threads.call(call, 3)
}
