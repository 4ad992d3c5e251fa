//! Errors in the main loop: for want of memory, or because of corrupt bytes.

use super::answers::without_limit;
use super::arguments::service;
use super::calls::library_tasks;
use super::hooks;
use crate::ltask::message::{ServiceId, kind};
use crate::lua::{Argument, Call, Either, Fault, Function, Maybe, Next, Outcome, TO_TEXT, then};
use crate::task::{Ending, Token};

/// `core.loop_ended(pcall(core.loop))`: returns whether the service has ended. An error in the main loop is answered or
/// logged, and the service continues, also when that fails.
pub(super) fn loop_ended(call: &mut Call<'_>) -> Result<bool, Fault> {
    if call.is_true(1) {
        return Ok(call.is_true(2));
    }
    if !matches!(without_limit(call, call_hook), Ok(true)) {
        let service = service(call)?;
        let text = "error while an error was handled";
        service.system().log_text(service.id, text);
    }
    Ok(false)
}

/// Has the library answer or log the error at 2.
fn call_hook(call: &mut Call<'_>) -> Result<bool, Fault> {
    hooks::push(call, "loop_failed")?;
    call.push(Argument(2))?;
    library_tasks(call, "loop_ended")?.threads.call(call, 2)
}

/// What `recover` gives: a request, or that an answer went on.
type Recovered = Maybe<Either<(ServiceId, i64), bool>>;

/// `core.recover(err)` → from, session of the request that was at hand when the loop raised `err`, if it was
/// one: it has no coroutine, and is to be answered. An answer that could not be read: who waits for it gets
/// the error, and the results are true.
pub(super) const RECOVER: Function = Function::new(|call: &mut Call<'_>| {
    call.drop_to(1);
    call.push(TO_TEXT)?;
    call.push(Argument(1))?;
    Ok(Next::<()>::call(1, then(recover), 0))
});

fn recover(call: &mut Call<'_>, outcome: Outcome) -> Result<Recovered, Fault> {
    call.drop_to(outcome.first);
    let service = service(call)?;
    let (head, tasks) = (service.library.current.take(), service.library.tasks().cloned());
    let Some(head) = head.filter(|head| head.session != 0) else { return Ok(Maybe(None)) };
    if matches!(head.kind, kind::REQUEST | kind::SYSTEM) {
        return Ok(Maybe(Some(Either::One((head.from, head.session)))));
    }
    let token = Token::Session(head.session);
    let woken = tasks.map(|tasks| tasks.wakeup(call, token, 1, Ending::Raises));
    Ok(Maybe(matches!(woken, Some(Ok(true))).then_some(Either::Other(true))))
}
