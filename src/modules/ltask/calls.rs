//! The calls with which a service posts messages and waits for responses. Each call packs and posts a message in one
//! step. The dispatcher resumes the waiting coroutine.

use super::arguments::{kind, on_service, service, service_id, ticks};
use super::callbacks;
use crate::ltask::message::{Message, Payload, SYSTEM, ServiceId, kind};
use crate::ltask::service::{Posted, Receipt, Service};
use crate::lua::{
    Argument, Call, Either, Fault, Function, FunctionTable, Kind, Maybe, Next, Nil, Outcome, RegistryName, Stack,
    StoredInTable, functions, then,
};
use crate::modules::pack;
use crate::task::{Ending, Reason, Tag, Tasks, Token, WaitError, WaitPath};
use std::rc::Rc;

/// Functions of `ltask` in a service with lio's service library.
pub(super) const PUBLIC: FunctionTable = functions! {
    call = call_service, syscall, send, send_direct = send, sleep, timeout, on_full, no_response: NO_RESPONSE,
};

/// Functions that only the library uses.
pub(super) const PRIVATE: FunctionTable = functions! {
    post, request, await = wait_session, fail_calls, new_session: NEW_SESSION, current: CURRENT, pending: PENDING,
};

/// The functions of `ltask.timeout` whose timers have not expired, by session.
pub(super) static TIMEOUTS: RegistryName = RegistryName::new();

/// Returns the tasks of the calling service. If the service does not use lio's service library, fails with an error
/// that names the function `name`.
pub(super) fn library_tasks(call: &mut Call<'_>, name: &str) -> Result<Rc<Tasks>, Fault> {
    service(call)?.library.tasks().cloned().ok_or_else(|| not_set_up(name))
}

#[cold]
fn not_set_up(name: &str) -> Fault {
    Fault::message(format_args!("{name}: the service library is not set up"))
}

/// Returns how the running task can wait; `None` if it cannot.
#[inline]
fn running_wait_path(call: &mut Call<'_>) -> Option<(Rc<Tasks>, WaitPath)> {
    let (service, stack) = call.data_and_stack::<Service>()?;
    let tasks = service.library.tasks()?;
    Some((tasks.clone(), tasks.wait_path(stack)?))
}

/// Reads the receiver of a message from argument 1.
fn receiver(stack: &Stack) -> Result<ServiceId, Fault> {
    match service_id(stack, 1)? {
        SYSTEM => Err(Fault::argument(1, "service id 0 is the system")),
        to => Ok(to),
    }
}

/// Returns the error text for a message that was not delivered to service `to`.
fn refusal_text(to: ServiceId, posted: Posted) -> String {
    let what = match posted {
        Posted::Full => "busy",
        _ => "dead",
    };
    format!("{{service:{to}}} is {what}")
}

/// Fails with the text of [`refusal_text`], without the position of the call.
#[cold]
fn refusal_error<R>(call: &mut Call<'_>, to: ServiceId, posted: Posted) -> Result<R, Fault> {
    let text = call.create(refusal_text(to, posted))?;
    Err(Fault::value(text))
}

/// Sends a request. If the mailbox is full and the calling service has set `on_full "wait"`, queues the request until
/// there is room. Returns the session, or the reason why the request was refused.
fn send_request(service: &mut Service, to: ServiceId, kind: u8, payload: Payload) -> Result<i64, Posted> {
    let session = service.library.next_session();
    let message = Message { from: service.id, to, session, kind, payload };
    match service.deliver_or_queue(message, 0, service.library.wait_when_full) {
        refused @ (Posted::Missing | Posted::Full) => Err(refused),
        Posted::Done | Posted::Queued => Ok(session),
    }
}

/// `ltask.call(addr, …)`: sends a request and returns the results of the callee, or raises the callee's error.
fn call_service(call: &mut Call<'_>) -> Result<Next, Fault> {
    pack_and_call(call, kind::REQUEST)
}

/// `ltask.syscall(addr, …)`: like `call`, for a request to the service library of `addr`.
fn syscall(call: &mut Call<'_>) -> Result<Next, Fault> {
    pack_and_call(call, kind::SYSTEM)
}

#[inline]
fn pack_and_call(call: &mut Call<'_>, kind: u8) -> Result<Next, Fault> {
    let packed = receiver(call).and_then(|to| Ok((to, pack::block(call, 2)?)));
    match packed {
        Ok((to, Some(payload))) => request_and_wait(call, to, kind, payload),
        // If the call cannot wait, this error is reported first.
        _ if running_wait_path(call).is_none() => refuse_wait(call, kind),
        Ok((_, None)) => pack::copy(call, 2, then(call_with_copies), kind.into()),
        Err(fault) => Err(fault),
    }
}

fn call_with_copies(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let (to, payload) = (receiver(call)?, pack::copied(call, outcome)?);
    request_and_wait(call, to, outcome.kept as u8, payload)
}

#[cold]
fn refuse_wait(call: &mut Call<'_>, kind: u8) -> Result<Next, Fault> {
    let name = match kind {
        kind::SYSTEM => "syscall",
        _ => "call",
    };
    library_tasks(call, name)?.refuse(call, name)
}

fn request_and_wait(call: &mut Call<'_>, to: ServiceId, kind: u8, payload: Payload) -> Result<Next, Fault> {
    let asked = call.data_and_stack::<Service>().and_then(|(service, stack)| {
        let tasks = service.library.tasks().cloned()?;
        let path = tasks.wait_path(stack)?;
        Some((tasks, path, send_request(service, to, kind, payload)))
    });
    match asked {
        Some((tasks, path, Ok(session))) => wait(call, &tasks, path, session, Reason::Call(to)),
        Some((_, _, Err(posted))) => refusal_error(call, to, posted),
        None => refuse_wait(call, kind),
    }
}

/// Suspends the running task until the response to `session` arrives.
#[inline]
fn wait(call: &mut Call<'_>, tasks: &Rc<Tasks>, path: WaitPath, session: i64, reason: Reason) -> Result<Next, Fault> {
    begin_wait(call, tasks, path, session, reason)?;
    Ok(Next::waits(then(resumed), 0))
}

#[inline]
fn begin_wait(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, path: WaitPath, session: i64, reason: Reason,
) -> Result<(), Fault> {
    match tasks.wait_on_path(call, path, Token::Session(session), reason) {
        Ok(()) => Ok(()),
        Err(WaitError::Fault(fault)) => Err(fault),
        Err(_) => Err(Fault::message("another coroutine is already waiting for this session")),
    }
}

/// Returns whether the wait that is ending ends with an error. If so, the error is on top of the stack.
#[inline]
fn is_interrupted(call: &mut Call<'_>) -> bool {
    let found = call.data_and_stack::<Service>();
    found.is_some_and(|(service, stack)| {
        let tasks = service.library.tasks();
        tasks.is_some_and(|tasks| tasks.ends_with_error(stack))
    })
}

/// Continues after a wait: returns the values of the response, or raises its error.
fn resumed(call: &mut Call<'_>, _: Outcome) -> Result<Next, Fault> {
    if is_interrupted(call) { raise(call) } else { Ok(Next::rest(1)) }
}

#[cold]
fn raise(call: &mut Call<'_>) -> Result<Next, Fault> {
    let error = call.count();
    callbacks::push(call, "call_failed")?;
    call.push(Argument(error))?;
    Ok(Next::call(2, then(raised), 0))
}

fn raised(_: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    Err(Fault::value(outcome.first))
}

/// True, or false and a message.
type Sent = Either<bool, (bool, String)>;

/// `ltask.send(addr, …)`: posts a message and returns true; false and an error message if the receiver is dead. If the
/// receiver's mailbox is full, waits if the calling service has set `on_full "wait"`; otherwise raises an error.
fn send(call: &mut Call<'_>) -> Result<Next<Sent>, Fault> {
    receiver(call)?;
    pack::packed(call, 2, |call, payload| {
        let to = receiver(call)?;
        // A caller that cannot wait gets the error that the receiver is busy.
        let path = match service(call)?.library.wait_when_full {
            true => running_wait_path(call),
            false => None,
        };
        let service = service(call)?;
        let send_session = path.as_ref().map_or(0, |_| service.library.next_session());
        let message = Message { from: service.id, to, session: 0, kind: kind::REQUEST, payload };
        match service.deliver_or_queue(message, send_session, path.is_some()) {
            Posted::Done => Ok(Next::returns(Either::One(true))),
            Posted::Missing => {
                let text = refusal_text(to, Posted::Missing);
                Ok(Next::returns(Either::Other((false, text))))
            }
            Posted::Full => refusal_error(call, to, Posted::Full),
            Posted::Queued => {
                call.drop_to(1);
                if let Some((tasks, path)) = path {
                    begin_wait(call, &tasks, path, send_session, Reason::Other)?;
                }
                Ok(Next::yields(0, then(sent), 0))
            }
        }
    })
}

/// Continues `send` after its wait for room. The receiver is at index 1. On top of the stack is a boolean: whether the
/// message was delivered.
fn sent(call: &mut Call<'_>, _: Outcome) -> Result<Sent, Fault> {
    let top = call.count();
    if is_interrupted(call) {
        return Err(Fault::value(top));
    }
    Ok(match call.is_true(top) {
        true => Either::One(true),
        false => Either::Other((false, refusal_text(service_id(call, 1)?, Posted::Missing))),
    })
}

/// Reads the receiver, the session and the type of a message, from argument 1 on.
fn read_header(stack: &Stack) -> Result<(ServiceId, i64, u8), Fault> {
    let (to, session) = (service_id(stack, 1)?, stack.integer(2)?);
    Ok((to, session, kind(stack, 3, "message type")?))
}

/// `core.post(addr, session, type, …)`: packs and posts a message. Returns whether the receiver has accepted the
/// message.
fn post(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    read_header(call)?;
    pack::packed(call, 4, |call, payload| {
        let (to, session, kind) = read_header(call)?;
        let service = service(call)?;
        let receipt = service.post(Message { from: service.id, to, session, kind, payload });
        Ok(Next::returns(matches!(receipt, Receipt::Done)))
    })
}

/// A session, or nil and a message.
type Asked = Either<i64, (Nil, String)>;

/// `core.request(addr, …)`: sends a request without waiting. Returns the session of the response, or nil and a message
/// if the request was refused.
fn request(call: &mut Call<'_>) -> Result<Next<Asked>, Fault> {
    receiver(call)?;
    pack::packed(call, 2, |call, payload| {
        let to = receiver(call)?;
        let asked = send_request(service(call)?, to, kind::REQUEST, payload);
        Ok(Next::returns(match asked {
            Ok(session) => Either::One(session),
            Err(posted) => Either::Other((Nil, refusal_text(to, posted))),
        }))
    })
}

/// `core.await(session[, addr])`: waits for the response to `session`, which service `addr` will send. Returns the
/// results or raises the error of the request.
fn wait_session(call: &mut Call<'_>) -> Result<Next, Fault> {
    let session = call.integer(1)?;
    let reason = call.optional(2, service_id)?.map_or(Reason::Other, Reason::Call);
    let tasks = library_tasks(call, "await")?;
    match tasks.wait_path(call) {
        Some(path) => wait(call, &tasks, path, session, reason),
        None => tasks.refuse(call, "await"),
    }
}

/// `core.fail_calls(addr, text)`: raises the error `text` in each call of this service that waits for a response from
/// `addr`. Returns the number of these calls. Responses that arrive later are dropped.
fn fail_calls(call: &mut Call<'_>) -> Result<i64, Fault> {
    let addr = service_id(call, 1)?;
    call.expect(2, Kind::String, "string")?;
    let tasks = library_tasks(call, "fail_calls")?;
    let (mut failed, mut next) = (0, 0);
    while let Some((id, session)) = tasks.next_call_to(next, addr) {
        next = id + 1;
        call.drop_to(2);
        call.push(Argument(2))?;
        let woken = tasks.wakeup(call, Token::Session(session), 1, Ending::Raises);
        failed += i64::from(woken.unwrap_or(false));
    }
    Ok(failed)
}

/// `core.new_session()`: returns a session that this service has not used before.
const NEW_SESSION: Function = on_service(|service| service.library.next_session());

/// `ltask.sleep(centiseconds)`: suspends the task. With 0, the messages that have arrived are handled first.
fn sleep(call: &mut Call<'_>) -> Result<Next, Fault> {
    let ticks = ticks(call, 1)?;
    let tasks = library_tasks(call, "sleep")?;
    let Some(path) = tasks.wait_path(call) else { return tasks.refuse(call, "sleep") };
    let service = service(call)?;
    let session = service.library.next_session();
    let timer = service.set_timer(session, ticks);
    wait(call, &tasks, path, session, timer.map_or(Reason::Other, Reason::Timer))
}

/// `ltask.timeout(centiseconds, f)`: after this time, starts a task that runs `f`.
fn timeout(call: &mut Call<'_>) -> Result<(), Fault> {
    let ticks = ticks(call, 1)?;
    call.expect(2, Kind::Function, "function")?;
    let session = service(call)?.library.next_session();
    let timeouts = call.registered(&TIMEOUTS)?;
    let key = call.push(session)?;
    call.create(StoredInTable::new(timeouts, key, Argument(2)))?;
    service(call)?.set_timer(session, ticks);
    Ok(())
}

/// `ltask.on_full(what)`: sets whether this service's requests to full mailboxes wait (`"wait"`) or raise (`"error"`);
/// nil changes nothing. Returns the previous value.
fn on_full(call: &mut Call<'_>) -> Result<&'static str, Fault> {
    let wanted = match call.optional(1, Stack::bytes)? {
        None => None,
        Some(b"wait") => Some(true),
        Some(b"error") => Some(false),
        Some(_) => return Err(Fault::argument(1, "'wait' or 'error' expected")),
    };
    let waits = &mut service(call)?.library.wait_when_full;
    let before = std::mem::replace(waits, wanted.unwrap_or(*waits));
    Ok(if before { "wait" } else { "error" })
}

/// `core.pending()`: returns the number of coroutines that wait for a response or a timer, and the number of this
/// service's timers that are set.
const PENDING: Function = on_service(|service| {
    let sessions = service.library.tasks().map_or(0, |tasks| tasks.sessions());
    let timers = service.system().monitor.timers.count_of(service.id);
    (sessions as i64, timers as i64)
});

/// `core.current()`: returns the sender and the session of the request that the running task handles; 0 and 0 if the
/// task handles no request; nothing outside tasks.
const CURRENT: Function = on_service(|service| {
    let tasks = service.library.tasks();
    let tag = tasks.and_then(|tasks| tasks.current().map(|id| tasks.tag(id)));
    Maybe(tag.map(|tag| (tag.from, tag.session)))
});

/// `ltask.no_response()`: the request that the running task handles stays unanswered when its handler returns.
const NO_RESPONSE: Function = on_service(|service| {
    if let Some(tasks) = service.library.tasks()
        && let Some(id) = tasks.current()
    {
        let tag = tasks.tag(id);
        tasks.set_tag(id, Tag { session: 0, ..tag });
    }
});
