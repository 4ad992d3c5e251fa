//! The tasks that responses, timers and signals wake or start.

use super::arguments::service;
use super::calls::TIMEOUTS;
use crate::ltask::library_state::MessageHeader;
use crate::ltask::message::ServiceId;
use crate::lua::{Call, Fault, Kind, Nil};
use crate::task::{Ending, Tag, Tasks, Token};
use std::rc::Rc;

/// Resumes the task that waits on the session of `header`, with the topmost `count` values. Returns false if no task
/// waits on the session.
#[inline]
pub(super) fn wake_waiter(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, ending: Ending, header: MessageHeader,
) -> Result<bool, Fault> {
    let woken = tasks.resume_waiter(call, Token::Session(header.session), count, ending);
    if woken.is_err() {
        service(call)?.library.current_message = Some(header);
    }
    woken.map_err(|_| Fault::message("too many values in a response"))
}

/// Handles a response for which no coroutine waits. If the session belongs to a timer of `ltask.timeout`, runs the
/// timer's function in a task. Otherwise the waiting coroutine was killed, and the response is dropped.
pub(super) fn run_timeout(call: &mut Call<'_>, tasks: &Rc<Tasks>, session: i64) -> Result<(), Fault> {
    call.drop_to(0);
    let timeouts = call.registered(&TIMEOUTS)?;
    let function = call.element(timeouts, session)?;
    if call.kind(function) != Kind::Function {
        call.drop_to(0);
        return Ok(());
    }
    let (key, nil) = (call.push(session)?, call.push(Nil)?);
    call.replace(timeouts, key, nil)?;
    call.drop_to(function);
    start_task(call, tasks, 1)?;
    call.drop_to(0);
    Ok(())
}

/// Handles a signal: service `from` has died. Runs `ltask.signal_handler`, if there is one, in a task.
pub(super) fn handle_signal(call: &mut Call<'_>, tasks: &Rc<Tasks>, from: ServiceId) -> Result<(), Fault> {
    let ltask = call.loaded("ltask")?;
    let handler = call.raw_field(ltask, "signal_handler")?;
    if call.kind(handler) != Kind::Function {
        return Ok(());
    }
    call.push(from)?;
    start_task(call, tasks, 2)
}

/// Starts a task with the topmost `count` values: a function and its arguments.
fn start_task(call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32) -> Result<(), Fault> {
    let id = tasks.acquire(call)?;
    tasks.start(call, id, count, Tag::default()).map_err(|_| Fault::message("too many values in a message"))
}
