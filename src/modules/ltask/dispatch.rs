//! The main loop of lio's service library. One entry into the VM handles a batch of messages.
//!
//! The values of a message are pushed between two steps, so that an error while pushing them (not enough memory,
//! corrupt bytes) does not skip a Rust frame. Until a task has the values, `library.current_message` describes the
//! message: after an error, `recover` answers it. The stack frame of the loop is empty between two messages.

use super::arguments::service;
use super::callbacks;
use super::calls::library_tasks;
use super::handlers::{IDLE, POLL, REQUESTS, ROUND};
use super::system::push_system_call;
use super::unused::{end_if_unused, has_finished};
use super::wake::{handle_signal, run_timeout, wake_waiter};
use crate::event::clock::monotonic_nanos;
use crate::ltask::library_state::MessageHeader;
use crate::ltask::message::{BorrowedPayload, Message, Payload, kind};
use crate::ltask::service::Service;
use crate::lua::{
    Argument, Call, DecodedOnPush, Fault, Function, INDEX, Kind, Next, Nil, Outcome, Pushing, results, then,
};
use crate::modules::pack;
use crate::task::{Ending, Tag, Tasks};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A slice ends after this number of messages or nanoseconds, even if no other service waits, because checking that
/// would cost more than a new slice.
const MAX_MESSAGES: u32 = 512;
const MAX_NANOS: u64 = 2_000_000;
/// The number of messages between two readings of the clock.
const CLOCK_INTERVAL: u32 = 32;
/// The maximum number of rounds of the ready queue without a message, so that coroutines that only yield do not delay
/// messages forever.
const MAX_ROUNDS: u32 = 1000;

/// The numbers of the functions that run the loop, `core.loop` and `core.schedule`. The continuations keep the number.
const LOOP: u32 = 0;
const SCHEDULE: u32 = 1;

results! {
    /// The next action of the loop.
    pub(super) enum LoopStep {
        /// Pushes the values of a message.
        Unpack(Pushing<DecodedOnPush<BorrowedPayload>>),
        Next(Next<bool>),
    }
}

impl LoopStep {
    fn next(next: Next<bool>) -> Result<LoopStep, Fault> {
        Ok(LoopStep::Next(next))
    }
}

/// `core.loop()`: handles messages, slice after slice, until `core.end_service` is called. Called by the main function.
pub(super) const LOOP_FUNCTION: Function = Function::new(|call: &mut Call<'_>| {
    library_tasks(call, "loop")?;
    call.drop_to(0);
    begin_batch(call, LOOP)
});

/// `core.schedule()`: handles the messages that have arrived, for a main function with its own loop. Returns whether
/// the service must end.
pub(super) const SCHEDULE_FUNCTION: Function = Function::new(schedule);

fn schedule(call: &mut Call<'_>) -> Result<LoopStep, Fault> {
    let library = &mut service(call)?.library;
    if library.tasks().is_none_or(|tasks| tasks.current().is_some()) {
        return Err(Fault::message("schedule_message: only the main function may call this function"));
    }
    library.has_own_loop = true;
    call.drop_to(0);
    begin_batch(call, SCHEDULE)
}

/// Begins a batch. The frame must be empty.
#[inline(always)]
fn begin_batch(call: &mut Call<'_>, runner: u32) -> Result<LoopStep, Fault> {
    let service = service(call)?;
    service.library.handled = 0;
    let began = service.slice_began;
    let Some(tasks) = service.library.tasks().cloned() else {
        return LoopStep::next(Next::returns(true));
    };
    tasks.set_now(began);
    tasks.review_waits(call);
    continue_batch(call, &tasks, runner)
}

/// Runs the tasks that are ready, and takes the next message. The frame must be empty.
fn continue_batch(call: &mut Call<'_>, tasks: &Rc<Tasks>, runner: u32) -> Result<LoopStep, Fault> {
    loop {
        let may_receive = !tasks.has_ready() || run_ready(call, tasks)?;
        let service = service(call)?;
        let Some(message) = next_message(service, may_receive) else {
            return match can_end_slice(service, tasks) {
                true => end_slice(service, tasks, runner),
                false => end_batch(call, tasks, runner),
            };
        };
        let (kind, from) = (message.kind, message.from);
        match kind {
            kind::REQUEST | kind::RESPONSE | kind::ERROR | kind::SYSTEM => {
                return push_values(service, message, runner);
            }
            kind::SIGNAL => handle_signal(call, tasks, from)?,
            kind::IDLE => {
                let handler = call.registered(&IDLE)?;
                if call.kind(handler) == Kind::Function {
                    return LoopStep::next(Next::call(0, then(call_returned), runner));
                }
                // Without a handler (G2), the service sleeps until a message arrives.
                self::service(call)?.wait();
            }
            _ => {}
        }
        call.drop_to(0);
    }
}

/// Takes the next message of the slice, unless the slice must end.
#[inline]
fn next_message(service: &mut Service, may_receive: bool) -> Option<Message> {
    let handled = service.library.handled;
    if !may_receive || service.library.is_ending || service.needs_own_thread || handled >= MAX_MESSAGES {
        return None;
    }
    if handled % CLOCK_INTERVAL == CLOCK_INTERVAL - 1 && monotonic_nanos() - service.slice_began > MAX_NANOS {
        return None;
    }
    if service.affinity != service.slice_affinity {
        return None;
    }
    let message = service.receive()?;
    service.library.handled = handled + 1;
    Some(message)
}

/// Returns the step that pushes the values of a message.
#[inline]
fn push_values(service: &mut Service, message: Message, runner: u32) -> Result<LoopStep, Fault> {
    let library = &mut service.library;
    library.current_message = Some(MessageHeader { kind: message.kind, from: message.from, session: message.session });
    let values = DecodedOnPush(message.payload.borrow());
    let number = library.decoding.len() as u32;
    library.decoding.push(message.payload);
    let next = Next::step(0, then(values_pushed), runner | number << 1);
    Ok(LoopStep::Unpack(next.pushing(values)))
}

/// Handles a message whose values were pushed.
fn values_pushed(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    let (runner, number) = (outcome.kept & 1, outcome.kept >> 1);
    let library = &mut service(call)?.library;
    library.decoding.truncate(number as usize);
    let (Some(tasks), Some(header)) = (library.tasks().cloned(), library.current_message) else {
        return LoopStep::next(Next::returns(true));
    };
    match header.kind {
        kind::RESPONSE => {
            library.current_message = None;
            handle_response(call, &tasks, header, outcome.count, runner)
        }
        kind::ERROR => handle_error(call, header, runner),
        kind => handle_request(call, &tasks, kind == kind::REQUEST, header, outcome.count, runner),
    }
}

/// Continues a batch after a call has returned.
fn call_returned(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    call.drop_to(0);
    let tasks = library_tasks(call, "loop")?;
    service(call)?.library.current_message = None;
    continue_batch(call, &tasks, outcome.kept)
}

/// Returns whether the slice can end without polling I/O and without checking whether the service must end.
#[inline]
fn can_end_slice(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    (!library.polls_io || service.batch.is_empty())
        && !library.wants_round()
        && (library.is_ending || !has_finished(service, tasks))
}

/// Ends a batch. If there are more messages and the service polls I/O, polls it first.
fn end_batch(call: &mut Call<'_>, tasks: &Rc<Tasks>, runner: u32) -> Result<LoopStep, Fault> {
    let service = service(call)?;
    if service.library.polls_io && !service.batch.is_empty() {
        let handler = call.registered(&POLL)?;
        if call.kind(handler) == Kind::Function {
            return LoopStep::next(Next::call(0, then(polled), runner));
        }
        run_ready(call, tasks)?;
    } else if service.library.wants_round() && !service.library.is_ending {
        return begin_round(call, tasks, runner);
    }
    end_polled_batch(call, tasks, runner)
}

/// Runs a round of the loop of a service that owns no loop; see `ltask/service_io.rs`.
fn begin_round(call: &mut Call<'_>, tasks: &Rc<Tasks>, runner: u32) -> Result<LoopStep, Fault> {
    if let Some(io) = &mut service(call)?.library.io {
        io.begin_round();
    }
    let handler = call.registered(&ROUND)?;
    match call.kind(handler) == Kind::Function {
        true => LoopStep::next(Next::call(0, then(end_round), runner)),
        false => end_polled_batch(call, tasks, runner),
    }
}

/// Continues after a round. If no task became ready, the I/O thread watches the selector again.
fn end_round(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    call.drop_to(0);
    let tasks = library_tasks(call, "loop")?;
    let service = service(call)?;
    if !tasks.has_ready()
        && let Some(io) = &mut service.library.io
        && let Some(error) = io.arm()
    {
        let text = format!("the I/O thread cannot watch this service, which polls its connections instead: {error}");
        service.system().log_text(service.id, &text);
    }
    run_ready(call, &tasks)?;
    end_polled_batch(call, &tasks, outcome.kept)
}

/// Continues after the handler that polls I/O has returned.
fn polled(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    let tasks = library_tasks(call, "loop")?;
    run_ready(call, &tasks)?;
    end_polled_batch(call, &tasks, outcome.kept)
}

/// Ends a batch after I/O has been polled. Ends the service if it is no longer used.
fn end_polled_batch(call: &mut Call<'_>, tasks: &Rc<Tasks>, runner: u32) -> Result<LoopStep, Fault> {
    let service = service(call)?;
    let service = match !service.library.is_ending && has_finished(service, tasks) {
        true => end_if_unused(call)?,
        false => service,
    };
    end_slice(service, tasks, runner)
}

/// Ends the slice.
#[inline]
fn end_slice(service: &mut Service, tasks: &Tasks, runner: u32) -> Result<LoopStep, Fault> {
    let (more, created) = tasks.slice_status();
    service.wants_slice = more || service.library.wants_round();
    service.statistics.coroutines.store(created, Ordering::Relaxed);
    let ended = service.library.is_ending;
    match ended || runner == SCHEDULE {
        true => LoopStep::next(Next::returns(ended)),
        false => LoopStep::next(Next::waits(then(resumed), runner)),
    }
}

/// Continues when the next slice begins.
fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    if outcome.count > 0 {
        call.drop_to(0);
    }
    begin_batch(call, outcome.kept)
}

/// Runs the ready tasks, and the tasks that become ready in the meantime. Returns whether a message can be taken: no
/// task is ready, the ready tasks have only yielded, or `MAX_ROUNDS` rounds have passed since the last message. If no
/// message can be taken, the slice ends.
fn run_ready(call: &mut Call<'_>, tasks: &Rc<Tasks>) -> Result<bool, Fault> {
    let service = self::service(call)?;
    let (began, mut rounds) = (service.slice_began, service.library.rounds);
    let mut may_receive = true;
    while tasks.has_ready() && rounds < MAX_ROUNDS {
        if rounds % 8 == 7 && monotonic_nanos() - began > MAX_NANOS {
            may_receive = tasks.only_yielded();
            break;
        }
        tasks.run_ready(call);
        rounds += 1;
    }
    self::service(call)?.library.rounds = if may_receive { 0 } else { rounds };
    Ok(may_receive)
}

/// Handles a request. The first value is the request's name. The handler runs in a task, whose results answer the
/// request. If `user` is true, the service's own handlers are searched, otherwise the handlers of the library.
fn handle_request(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, user: bool, header: MessageHeader, mut count: i32, runner: u32,
) -> Result<LoopStep, Fault> {
    let tag = Tag { from: header.from, session: header.session };
    if count == 0 {
        count = call.push(Nil)?;
    }
    let handlers = call.registered(&REQUESTS)?;
    if user {
        let handler = call.get(handlers, 1)?;
        if !call.is_none(handler) {
            return start_request(call, tasks, count, handler, tag, runner);
        }
        if call.has_metafield(handlers, c"__index")? {
            call.drop_to(handlers);
            call.push(INDEX)?;
            call.push(Argument(handlers))?;
            call.push(Argument(1))?;
            return LoopStep::next(Next::call(2, then(handler_found), runner));
        }
    }
    handle_without_handler(call, tasks, count, user, tag, runner)
}

/// Continues after the `__index` metamethod of the handlers has returned a handler or nil.
fn handler_found(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    let tasks = library_tasks(call, "loop")?;
    let Some(MessageHeader { from, session, .. }) = service(call)?.library.current_message else {
        call.drop_to(0);
        return continue_batch(call, &tasks, outcome.kept);
    };
    let (tag, count) = (Tag { from, session }, outcome.first - 2);
    call.drop_to(outcome.first);
    match call.is_none(outcome.first) {
        true => handle_without_handler(call, &tasks, count, true, tag, outcome.kept),
        false => start_request(call, &tasks, count, outcome.first, tag, outcome.kept),
    }
}

/// Handles a system message of `count` values, or a request for which the service has no handler. The request `tasks`,
/// which inspects the service's tasks, has the same effect as the system message `tasks`. While the service's file has
/// not returned, the requests of other services are held.
#[cold]
fn handle_without_handler(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, user: bool, tag: Tag, runner: u32,
) -> Result<LoopStep, Fault> {
    call.drop_to(count);
    if (!user || call.string(1) == Some(b"tasks")) && push_system_call(call)? {
        let handler = call.count();
        return start_request(call, tasks, count, handler, tag, runner);
    }
    let library = &service(call)?.library;
    if library.is_starting && user && !library.has_own_callbacks {
        if tag.from != service(call)?.id {
            hold_request(call, tag)?;
            return continue_batch(call, tasks, runner);
        }
        // The file may wait for the answer, so the request is not held.
        callbacks::push(call, "early_request")?;
        call.push(Argument(1))?;
        call.push(tag.from)?;
        call.push(tag.session)?;
        return LoopStep::next(Next::call(4, then(call_returned), runner));
    }
    // There is no handler with this name. The sender gets an error; if there is no sender, the error is logged.
    callbacks::push(call, "unknown_request")?;
    call.push(Argument(1))?;
    call.push(tag.from)?;
    call.push(tag.session)?;
    call.push_copies(2..=count)?;
    LoopStep::next(Next::call(count + 3, then(call_returned), runner))
}

/// Holds the request whose values are on the stack until the service's file has returned.
fn hold_request(call: &mut Call<'_>, tag: Tag) -> Result<(), Fault> {
    // Values that were received have no metamethods, so the packing calls no Lua code.
    let payload = pack::block(call, 1)?.unwrap_or_else(|| Payload::pack(&[]));
    let service = service(call)?;
    service.library.current_message = None;
    let (from, to) = (tag.from, service.id);
    service.hold(Message { from, to, session: tag.session, kind: kind::REQUEST, payload });
    call.drop_to(0);
    Ok(())
}

/// Starts the task of a request of `count` values. The request's handler is on top of the stack, at `handler`.
#[inline]
fn start_request(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, handler: i32, tag: Tag, runner: u32,
) -> Result<LoopStep, Fault> {
    let id = tasks.acquire(call)?;
    let Some((service, stack)) = call.data_and_stack::<Service>() else {
        return Err(Fault::message("the service has ended"));
    };
    if let Some(name) = stack.string(1) {
        service.library.set_name(id, name);
    }
    stack.copy_down(handler, 1, count);
    let header = service.library.current_message.take();
    if tasks.start(call, id, count, tag).is_err() {
        self::service(call)?.library.current_message = header;
        return Err(Fault::message("too many values in a message"));
    }
    continue_batch(call, tasks, runner)
}

/// Handles a response of `count` values: wakes the task that waits for the response's session.
fn handle_response(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, header: MessageHeader, count: i32, runner: u32,
) -> Result<LoopStep, Fault> {
    if wake_waiter(call, tasks, count, Ending::Returns, header)? {
        return continue_batch(call, tasks, runner);
    }
    if service(call)?.library.was_assigned(header.session) {
        run_timeout(call, tasks, header.session)?;
        return continue_batch(call, tasks, runner);
    }
    callbacks::push(call, "unknown_response")?;
    call.push(header.from)?;
    call.push(header.session)?;
    call.push_copies(1..=count)?;
    LoopStep::next(Next::call(count + 3, then(call_returned), runner))
}

/// Handles an error response. The library creates the error object for the task that waits for the session.
#[cold]
fn handle_error(call: &mut Call<'_>, header: MessageHeader, runner: u32) -> Result<LoopStep, Fault> {
    let count = call.count();
    callbacks::push(call, "error_response")?;
    call.push(header.from)?;
    call.push_copies(1..=count)?;
    LoopStep::next(Next::call(count + 2, then(error_described), runner))
}

/// Continues after the library has created the error object.
fn error_described(call: &mut Call<'_>, outcome: Outcome) -> Result<LoopStep, Fault> {
    let tasks = library_tasks(call, "loop")?;
    if call.count() < outcome.first {
        call.push(Nil)?;
    }
    call.drop_to(outcome.first);
    if let Some(header) = service(call)?.library.current_message.take() {
        wake_waiter(call, &tasks, 1, Ending::Raises, header)?;
    }
    call.drop_to(0);
    continue_batch(call, &tasks, outcome.kept)
}
