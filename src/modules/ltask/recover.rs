//! Errors in the main loop, caused by a lack of memory or by corrupt bytes.

use super::arguments::service;
use super::callbacks;
use super::calls::library_tasks;
use crate::ltask::message::{ServiceId, kind};
use crate::lua::{Argument, Call, Either, Fault, Function, Maybe, Next, Outcome, TO_TEXT, then};
use crate::task::{Ending, Token};

/// `core.loop_ended(pcall(core.loop))`: returns whether the service has ended. If the main loop has raised an error,
/// sends the error to the task or service that waits for a response, or logs it. The service continues, even if
/// handling the error fails.
pub(super) fn loop_ended(call: &mut Call<'_>) -> Result<bool, Fault> {
    if call.is_true(1) {
        return Ok(call.is_true(2));
    }
    if !matches!(call.without_memory_limit(call_loop_failed), Ok(true)) {
        let service = service(call)?;
        service.system().log_text(service.id, "an error occurred while an error was being handled");
    }
    Ok(false)
}

/// Calls the callback that handles the error at index 2.
fn call_loop_failed(call: &mut Call<'_>) -> Result<bool, Fault> {
    callbacks::push(call, "loop_failed")?;
    call.push(Argument(2))?;
    library_tasks(call, "loop_ended")?.threads.call(call, 2)
}

/// The result of `recover`: the sender and the session of a request that must be answered; or true, because a waiting
/// task has received the error.
type Recovered = Maybe<Either<(ServiceId, i64), bool>>;

/// `core.recover(err)`: finds the message that was being handled when the loop raised `err`. If the message is a
/// request, returns its sender and session: the request has no coroutine and must be answered. If the message is a
/// response that could not be read, raises the error in the task that waits for the response, and returns true.
/// Otherwise returns nothing.
pub(super) const RECOVER: Function = Function::new(|call: &mut Call<'_>| {
    call.drop_to(1);
    call.push(TO_TEXT)?;
    call.push(Argument(1))?;
    Ok(Next::<()>::call(1, then(recover), 0))
});

fn recover(call: &mut Call<'_>, outcome: Outcome) -> Result<Recovered, Fault> {
    call.drop_to(outcome.first);
    let service = service(call)?;
    let (header, tasks) = (service.library.current_message.take(), service.library.tasks().cloned());
    let Some(header) = header.filter(|header| header.session != 0) else { return Ok(Maybe(None)) };
    if matches!(header.kind, kind::REQUEST | kind::SYSTEM) {
        return Ok(Maybe(Some(Either::One((header.from, header.session)))));
    }
    let token = Token::Session(header.session);
    let woken = tasks.map(|tasks| tasks.wakeup(call, token, 1, Ending::Raises));
    Ok(Maybe(matches!(woken, Some(Ok(true))).then_some(Either::Other(true))))
}
