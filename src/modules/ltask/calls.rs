//! The calls of a service that post messages and wait for answers. Packing and posting are one step, and the coroutine
//! that waits is resumed by the dispatcher itself.

use super::arguments::{kind, on_service, service, service_id, ticks};
use super::hooks;
use crate::ltask::message::{Message, Payload, SYSTEM, ServiceId, kind};
use crate::ltask::service::{Posted, Receipt, Service};
use crate::lua::{
    Argument, Call, Either, Entry, Fault, Function, FunctionTable, Kept, Kind, Maybe, Next, Nil, Outcome, Stack,
    functions, then,
};
use crate::modules::pack;
use crate::task::{Denied, Ending, Reason, Tag, Tasks, Token, Way};
use std::rc::Rc;

/// What `ltask` has of these in a service with our library.
pub(super) const PUBLIC: FunctionTable = functions! {
    call = call_service, syscall, send, send_direct = send, sleep, timeout, on_full, no_response: NO_RESPONSE,
};

/// What only the library itself uses.
pub(super) const PRIVATE: FunctionTable = functions! {
    post, request, await = wait_session, fail_calls, new_session: NEW_SESSION, current: CURRENT, pending: PENDING,
};

/// Functions of timers that have not fired, by session.
pub(super) static TIMEOUTS: Kept = Kept::new();

/// The tasks of a service that has set our library up; an error in any other, naming `call`.
pub(super) fn library_tasks(call: &mut Call<'_>, name: &str) -> Result<Rc<Tasks>, Fault> {
    match service(call)?.library.tasks() {
        Some(tasks) => Ok(tasks.clone()),
        None => Err(not_set_up(name)),
    }
}

#[cold]
fn not_set_up(name: &str) -> Fault {
    Fault::message(format_args!("{name}: the service library is not set up"))
}

/// How the running task can wait; `None` if it cannot.
#[inline]
fn way(call: &mut Call<'_>) -> Option<(Rc<Tasks>, Way)> {
    let (service, stack) = call.data_and_stack::<Service>()?;
    let tasks = service.library.tasks()?;
    Some((tasks.clone(), tasks.way(stack)?))
}

/// The receiver of a message, at 1.
fn receiver(stack: &Stack) -> Result<ServiceId, Fault> {
    match service_id(stack, 1)? {
        SYSTEM => Err(Fault::argument(1, "service id 0 is the system")),
        to => Ok(to),
    }
}

/// Why a message was not taken.
fn refusal(to: ServiceId, posted: Posted) -> String {
    let what = match posted {
        Posted::Full => "busy",
        _ => "dead",
    };
    format!("{{service:{to}}} is {what}")
}

/// The same as an error, without the place of the call.
#[cold]
fn refused<R>(call: &mut Call<'_>, to: ServiceId, posted: Posted) -> Result<R, Fault> {
    let text = call.create(refusal(to, posted))?;
    Err(Fault::value(text))
}

/// Delivers a request, or queues it behind what waits for room, if the service wants that. → its session, or why not
fn ask(service: &mut Service, to: ServiceId, kind: u8, payload: Payload) -> Result<i64, Posted> {
    let session = service.library.next_session();
    let message = Message { from: service.id, to, session, kind, payload };
    match service.deliver_or_queue(message, 0, service.library.wait_when_full) {
        refused @ (Posted::Missing | Posted::Full) => Err(refused),
        Posted::Done | Posted::Queued => Ok(session),
    }
}

/// `ltask.call(addr, …)` → the callee's results; raises its error.
fn call_service(call: &mut Call<'_>) -> Result<Next, Fault> {
    pack_and_ask(call, kind::REQUEST)
}

/// `ltask.syscall(addr, …)`: the same to the service library of `addr`.
fn syscall(call: &mut Call<'_>) -> Result<Next, Fault> {
    pack_and_ask(call, kind::SYSTEM)
}

#[inline]
fn pack_and_ask(call: &mut Call<'_>, kind: u8) -> Result<Next, Fault> {
    let packed = receiver(call).and_then(|to| Ok((to, pack::block(call, 2)?)));
    match packed {
        Ok((to, Some(payload))) => ask_and_wait(call, to, kind, payload),
        // That the call cannot wait is the first thing to say.
        _ if way(call).is_none() => refuse(call, kind),
        Ok((_, None)) => pack::copy(call, 2, then(ask_with_copies), kind.into()),
        Err(fault) => Err(fault),
    }
}

fn ask_with_copies(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let (to, payload) = (receiver(call)?, pack::copied(call, outcome)?);
    ask_and_wait(call, to, outcome.kept as u8, payload)
}

#[cold]
fn refuse(call: &mut Call<'_>, kind: u8) -> Result<Next, Fault> {
    let name = match kind {
        kind::SYSTEM => "syscall",
        _ => "call",
    };
    library_tasks(call, name)?.refuse(call, name)
}

fn ask_and_wait(call: &mut Call<'_>, to: ServiceId, kind: u8, payload: Payload) -> Result<Next, Fault> {
    let asked = call.data_and_stack::<Service>().and_then(|(service, stack)| {
        let tasks = service.library.tasks().cloned()?;
        let way = tasks.way(stack)?;
        Some((tasks, way, ask(service, to, kind, payload)))
    });
    match asked {
        Some((tasks, way, Ok(session))) => wait(call, &tasks, way, session, Reason::Call(to)),
        Some((_, _, Err(posted))) => refused(call, to, posted),
        None => refuse(call, kind),
    }
}

/// Suspends the running task until its session is answered.
#[inline]
fn wait(call: &mut Call<'_>, tasks: &Rc<Tasks>, way: Way, session: i64, reason: Reason) -> Result<Next, Fault> {
    begin_wait(call, tasks, way, session, reason)?;
    Ok(Next::waits(then(resumed), 0))
}

#[inline]
fn begin_wait(call: &mut Call<'_>, tasks: &Rc<Tasks>, way: Way, session: i64, reason: Reason) -> Result<(), Fault> {
    match tasks.wait_by(call, way, Token::Session(session), reason) {
        Ok(()) => Ok(()),
        Err(Denied::Fault(fault)) => Err(fault),
        Err(_) => Err(Fault::message("somebody waits for this session already")),
    }
}

/// After a wait: whether it raises the value on top.
#[inline]
fn is_interrupted(call: &mut Call<'_>) -> bool {
    let found = call.data_and_stack::<Service>();
    found.is_some_and(|(service, stack)| {
        let tasks = service.library.tasks();
        tasks.is_some_and(|tasks| tasks.ends_with_error(stack))
    })
}

/// After the wait: the values of the answer, or its error.
fn resumed(call: &mut Call<'_>, _: Outcome) -> Result<Next, Fault> {
    match is_interrupted(call) {
        true => raise(call),
        false => Ok(Next::rest(1)),
    }
}

#[cold]
fn raise(call: &mut Call<'_>) -> Result<Next, Fault> {
    let error = call.count();
    hooks::push(call, "call_failed")?;
    call.push(Argument(error))?;
    Ok(Next::call(2, then(raised), 0))
}

fn raised(_: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    Err(Fault::value(outcome.first))
}

/// True, or false and a message.
type Sent = Either<bool, (bool, String)>;

/// `ltask.send(addr, …)` → true; false and a message when the service is dead. Raises when its mailbox is
/// full, or waits, if the service wants that.
fn send(call: &mut Call<'_>) -> Result<Next<Sent>, Fault> {
    receiver(call)?;
    pack::packed(call, 2, |call, payload| {
        let to = receiver(call)?;
        // Who cannot wait is told that the receiver is busy.
        let way = match service(call)?.library.wait_when_full {
            true => way(call),
            false => None,
        };
        let service = service(call)?;
        let ticket = way.as_ref().map_or(0, |_| service.library.next_session());
        let message = Message { from: service.id, to, session: 0, kind: kind::REQUEST, payload };
        match service.deliver_or_queue(message, ticket, way.is_some()) {
            Posted::Done => Ok(Next::returns(Either::One(true))),
            Posted::Missing => {
                let text = refusal(to, Posted::Missing);
                Ok(Next::returns(Either::Other((false, text))))
            }
            Posted::Full => refused(call, to, Posted::Full),
            Posted::Queued => {
                call.drop_to(1);
                if let Some((tasks, way)) = way {
                    begin_wait(call, &tasks, way, ticket, Reason::Other)?;
                }
                Ok(Next::yields(0, then(sent), 0))
            }
        }
    })
}

/// After the wait of `send` for room: the receiver's address is at 1, whether it took the message on top.
fn sent(call: &mut Call<'_>, _: Outcome) -> Result<Sent, Fault> {
    let top = call.count();
    if is_interrupted(call) {
        return Err(Fault::value(top));
    }
    Ok(match call.is_true(top) {
        true => Either::One(true),
        false => Either::Other((false, refusal(service_id(call, 1)?, Posted::Missing))),
    })
}

/// Receiver, session and type of a message, from 1 on.
fn head(stack: &Stack) -> Result<(ServiceId, i64, u8), Fault> {
    let (to, session) = (service_id(stack, 1)?, stack.integer(2)?);
    Ok((to, session, kind(stack, 3, "message type")?))
}

/// `core.post(addr, session, type, …)` → whether it was taken: packs and posts a message as it is.
fn post(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    head(call)?;
    pack::packed(call, 4, |call, payload| {
        let (to, session, kind) = head(call)?;
        let service = service(call)?;
        let receipt = service.post(Message { from: service.id, to, session, kind, payload });
        Ok(Next::returns(matches!(receipt, Receipt::Done)))
    })
}

/// A session, or nil and a message.
type Asked = Either<i64, (Nil, String)>;

/// `core.request(addr, …)` → the session that will be answered: a call that does not wait. nil and a
/// message when it was refused.
fn request(call: &mut Call<'_>) -> Result<Next<Asked>, Fault> {
    receiver(call)?;
    pack::packed(call, 2, |call, payload| {
        let to = receiver(call)?;
        let asked = ask(service(call)?, to, kind::REQUEST, payload);
        Ok(Next::returns(match asked {
            Ok(session) => Either::One(session),
            Err(posted) => Either::Other((Nil, refusal(to, posted))),
        }))
    })
}

/// `core.await(session[, addr])` → the results of that session's answer, which is expected of that service;
/// raises its error.
fn wait_session(call: &mut Call<'_>) -> Result<Next, Fault> {
    let session = call.integer(1)?;
    let reason = call.optional(2, service_id)?.map_or(Reason::Other, Reason::Call);
    let tasks = library_tasks(call, "await")?;
    match tasks.way(call) {
        Some(way) => wait(call, &tasks, way, session, reason),
        None => tasks.refuse(call, "await"),
    }
}

/// `core.fail_calls(addr, text)` → how many: each call of this service that waits for an answer of `addr`
/// raises that error. Answers that still come are dropped.
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

/// `core.new_session()` → a number that no message of this service has had.
const NEW_SESSION: Function = on_service(|service| service.library.next_session());

/// `ltask.sleep(centiseconds)`: 0 lets the messages go first that are there now.
fn sleep(call: &mut Call<'_>) -> Result<Next, Fault> {
    let ticks = ticks(call, 1)?;
    let tasks = library_tasks(call, "sleep")?;
    let Some(way) = tasks.way(call) else { return tasks.refuse(call, "sleep") };
    let service = service(call)?;
    let session = service.library.next_session();
    let timer = service.set_timer(session, ticks);
    wait(call, &tasks, way, session, timer.map_or(Reason::Other, Reason::Timer))
}

/// `ltask.timeout(centiseconds, f)`: forks `f` when the time is over.
fn timeout(call: &mut Call<'_>) -> Result<(), Fault> {
    let ticks = ticks(call, 1)?;
    call.expect(2, Kind::Function, "function")?;
    let session = service(call)?.library.next_session();
    let timeouts = call.kept(&TIMEOUTS)?;
    let key = call.push(session)?;
    call.create(Entry(timeouts, key, Argument(2)))?;
    service(call)?.set_timer(session, ticks);
    Ok(())
}

/// `ltask.on_full(what)` → the previous: `"wait"` or `"error"`; what becomes of this service's requests to
/// full mailboxes.
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

/// `core.pending()` → how many coroutines wait for an answer or a timer; how many timers of this service are
/// set.
const PENDING: Function = on_service(|service| {
    let sessions = service.library.tasks().map_or(0, |tasks| tasks.sessions());
    let timers = service.system().monitor.timers.count_of(service.id);
    (sessions as i64, timers as i64)
});

/// `core.current()` → from, session of the request that the running coroutine answers; nothing in others.
const CURRENT: Function = on_service(|service| {
    let tasks = service.library.tasks();
    let tag = tasks.and_then(|tasks| tasks.current().map(|id| tasks.tag(id)));
    Maybe(tag.map(|tag| (tag.from, tag.session)))
});

/// `ltask.no_response()`: the running request will not be answered by its function's return.
const NO_RESPONSE: Function = on_service(|service| {
    if let Some(tasks) = service.library.tasks()
        && let Some(id) = tasks.current()
    {
        let tag = tasks.tag(id);
        tasks.set_tag(id, Tag { session: 0, ..tag });
    }
});
