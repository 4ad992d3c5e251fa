//! The main loop of our service library. One entry into the VM handles a batch of messages.
//!
//! The values of a message are pushed between two steps, so that an error of that (no memory, corrupt bytes) skips no
//! frame. `library.current_message` is that message until a task has the values: after an error, `recover` answers it. The
//! stack frame of the loop is empty between two messages.

use super::arguments::service;
use super::calls::{TIMEOUTS, library_tasks};
use super::handlers::{IDLE, POLL, REQUESTS, is_unused};
use super::hooks;
use super::system::{SYSTEM_CALLS, push_system_call};
use crate::event::clock::monotonic_nanos;
use crate::ltask::library_state::MessageHeader;
use crate::ltask::message::{BorrowedPayload, Message, ServiceId, kind};
use crate::ltask::service::Service;
use crate::lua::{
    Argument, Call, DecodedOnPush, Fault, Function, INDEX, Kind, Next, Nil, Outcome, Pushing, results, then,
};
use crate::task::{Ending, Tag, Tasks, Token};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A slice ends after this many messages or this time, even if no other service waits: checking that would cost more.
const MESSAGES_MOST: u32 = 512;
const NANOS_MOST: u64 = 2_000_000;
/// Messages between two readings of the clock.
const CLOCK_EVERY: u32 = 32;
/// Rounds of the ready queue without a message: coroutines that only yield must not keep messages away.
const ROUNDS_MOST: u32 = 1000;

/// Which function runs the loop. The continuations keep it.
const LOOP: u32 = 0;
const SCHEDULE: u32 = 1;

results! {
    /// What follows a step of the loop.
    pub(super) enum Turn {
        /// The values of a message are pushed.
        Unpack(Pushing<DecodedOnPush<BorrowedPayload>>),
        Next(Next<bool>),
    }
}

impl Turn {
    fn next(next: Next<bool>) -> Result<Turn, Fault> {
        Ok(Turn::Next(next))
    }
}

/// `core.loop()`: handles messages, slice after slice, until `core.finish`. For the main function.
pub(super) const LOOP_FUNCTION: Function = Function::new(|call: &mut Call<'_>| {
    library_tasks(call, "loop")?;
    call.drop_to(0);
    begin(call, LOOP)
});

/// `core.schedule()`: handles the messages that have arrived, for a main function with a loop of its own. Returns
/// whether the service must end.
pub(super) const SCHEDULE_FUNCTION: Function = Function::new(schedule);

fn schedule(call: &mut Call<'_>) -> Result<Turn, Fault> {
    let library = &mut service(call)?.library;
    if library.tasks().is_none_or(|tasks| tasks.current().is_some()) {
        return Err(Fault::message("schedule_message: for the main function only"));
    }
    library.has_own_loop = true;
    call.drop_to(0);
    begin(call, SCHEDULE)
}

/// Begins a batch. The frame is empty.
#[inline(always)]
fn begin(call: &mut Call<'_>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    service.library.handled = 0;
    let began = service.slice_began;
    let Some(tasks) = service.library.tasks().cloned() else {
        return Turn::next(Next::returns(true));
    };
    tasks.set_now(began);
    tasks.review_waits(call);
    go_on(call, &tasks, owner)
}

/// Runs the tasks that are ready, and takes the next message. The frame is empty.
fn go_on(call: &mut Call<'_>, tasks: &Rc<Tasks>, owner: u32) -> Result<Turn, Fault> {
    loop {
        let is_quiet = !tasks.has_ready() || run_ready(call, tasks)?;
        let service = service(call)?;
        let Some(message) = next_message(service, is_quiet) else {
            return match may_wait(service, tasks) {
                true => wait(service, tasks, owner),
                false => end_batch(call, tasks, owner),
            };
        };
        let (kind, from) = (message.kind, message.from);
        match kind {
            kind::REQUEST | kind::RESPONSE | kind::ERROR | kind::SYSTEM => {
                return unpack(service, message, owner);
            }
            kind::SIGNAL => signal(call, tasks, from)?,
            kind::IDLE => {
                let handler = call.registered(&IDLE)?;
                if call.kind(handler) == Kind::Function {
                    return Turn::next(Next::call(0, then(called), owner));
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
fn next_message(service: &mut Service, is_quiet: bool) -> Option<Message> {
    let handled = service.library.handled;
    if !is_quiet || service.library.is_ending || service.needs_own_thread || handled >= MESSAGES_MOST {
        return None;
    }
    if handled % CLOCK_EVERY == CLOCK_EVERY - 1 && monotonic_nanos() - service.slice_began > NANOS_MOST {
        return None;
    }
    if service.affinity != service.slice_affinity {
        return None;
    }
    let message = service.receive()?;
    service.library.handled = handled + 1;
    Some(message)
}

/// Requests that the values of a message are pushed.
#[inline]
fn unpack(service: &mut Service, message: Message, owner: u32) -> Result<Turn, Fault> {
    let library = &mut service.library;
    library.current_message = Some(MessageHeader { kind: message.kind, from: message.from, session: message.session });
    let values = DecodedOnPush(message.payload.borrow());
    let number = library.decoding.len() as u32;
    library.decoding.push(message.payload);
    let next = Next::step(0, then(unpacked), owner | number << 1);
    Ok(Turn::Unpack(next.pushing(values)))
}

/// The values of a message were pushed.
fn unpacked(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let (owner, number) = (outcome.kept & 1, outcome.kept >> 1);
    let library = &mut service(call)?.library;
    library.decoding.truncate(number as usize);
    let (Some(tasks), Some(head)) = (library.tasks().cloned(), library.current_message) else {
        return Turn::next(Next::returns(true));
    };
    match head.kind {
        kind::RESPONSE => {
            library.current_message = None;
            answer(call, &tasks, head, outcome.count, owner)
        }
        kind::ERROR => error_answer(call, head, owner),
        kind => request(call, &tasks, kind == kind::REQUEST, head, outcome.count, owner),
    }
}

/// A call in the middle of a batch has ended.
fn called(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    call.drop_to(0);
    let tasks = library_tasks(call, "loop")?;
    service(call)?.library.current_message = None;
    go_on(call, &tasks, outcome.kept)
}

/// Whether the slice can end without polling I/O and without a check whether the service ends.
#[inline]
fn may_wait(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    (!library.polls_io || service.batch.is_empty()) && (library.is_ending || !has_nothing_left(service, tasks))
}

/// Ends a batch. If there are more messages, I/O is polled first.
fn end_batch(call: &mut Call<'_>, tasks: &Rc<Tasks>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    if service.library.polls_io && !service.batch.is_empty() {
        let handler = call.registered(&POLL)?;
        if call.kind(handler) == Kind::Function {
            return Turn::next(Next::call(0, then(polled), owner));
        }
        run_ready(call, tasks)?;
    }
    end(call, tasks, owner)
}

fn polled(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let tasks = library_tasks(call, "loop")?;
    run_ready(call, &tasks)?;
    end(call, &tasks, outcome.kept)
}

/// Ends a batch after I/O was polled, and the service if it is no longer used.
fn end(call: &mut Call<'_>, tasks: &Rc<Tasks>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    let service = match !service.library.is_ending && has_nothing_left(service, tasks) {
        true => end_unused(call)?,
        false => service,
    };
    wait(service, tasks, owner)
}

/// Ends the slice.
#[inline]
fn wait(service: &mut Service, tasks: &Tasks, owner: u32) -> Result<Turn, Fault> {
    let (more, created) = tasks.slice_status();
    service.wants_slice = more;
    service.statistics.coroutines.store(created, Ordering::Relaxed);
    let ended = service.library.is_ending;
    match ended || owner == SCHEDULE {
        true => Turn::next(Next::returns(ended)),
        false => Turn::next(Next::waits(then(resumed), owner)),
    }
}

fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    if outcome.count > 0 {
        call.drop_to(0);
    }
    begin(call, outcome.kept)
}

/// Whether the file of a service without handlers has returned, no task is left, and no message waits to be delivered.
fn has_nothing_left(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    !(library.is_starting || library.has_handlers || library.polls_io)
        && tasks.count() <= library.end_waits
        && service.batch.is_empty()
        && service.send_queue.is_empty()
        && library.outbox.is_empty()
}

/// Ends the service, unless it has the function of a timer, a handler or a loop of its own.
#[cold]
fn end_unused<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Service, Fault> {
    let mut is_unused = true;
    for name in [&REQUESTS, &TIMEOUTS, &SYSTEM_CALLS, &IDLE] {
        is_unused &= self::is_unused(call, name)?;
    }
    let is_exclusive = service(call)?.statistics.exclusive.load(Ordering::Relaxed);
    if is_unused && !(is_exclusive && has_on_idle(call)?) {
        service(call)?.library.is_ending = true;
    }
    call.drop_to(0);
    service(call)
}

/// Whether the service has assigned `ltask.on_idle` (G1).
fn has_on_idle(call: &mut Call<'_>) -> Result<bool, Fault> {
    let ltask = call.loaded("ltask")?;
    let handler = call.raw_field(ltask, "on_idle")?;
    Ok(!call.is_none(handler))
}

/// Runs the ready tasks, and those that become ready meanwhile. Returns whether a message may be taken: when no task is
/// ready, when the ready tasks have only yielded, or when `ROUNDS_MOST` rounds have passed since the last message. If
/// not, the slice ends.
fn run_ready(call: &mut Call<'_>, tasks: &Rc<Tasks>) -> Result<bool, Fault> {
    let service = self::service(call)?;
    let (began, mut rounds) = (service.slice_began, service.library.rounds);
    let mut is_quiet = true;
    while tasks.has_ready() && rounds < ROUNDS_MOST {
        if rounds % 8 == 7 && monotonic_nanos() - began > NANOS_MOST {
            is_quiet = tasks.only_yielded();
            break;
        }
        tasks.run_ready(call);
        rounds += 1;
    }
    self::service(call)?.library.rounds = if is_quiet { 0 } else { rounds };
    Ok(is_quiet)
}

/// Starts a task with the topmost `count` values: a function and its arguments.
fn start_task(call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32) -> Result<(), Fault> {
    let id = tasks.acquire(call)?;
    tasks.start(call, id, count, Tag::default()).map_err(|_| Fault::message("too many values in a message"))
}

/// Handles a request, whose first value names it: its handler runs in a task that answers it. `user` selects the
/// service's own handlers, not those of the library.
fn request(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, user: bool, head: MessageHeader, mut count: i32, owner: u32,
) -> Result<Turn, Fault> {
    let tag = Tag { from: head.from, session: head.session };
    if count == 0 {
        count = call.push(Nil)?;
    }
    let handlers = call.registered(&REQUESTS)?;
    if user {
        let handler = call.get(handlers, 1)?;
        if !call.is_none(handler) {
            return start(call, tasks, count, handler, tag, owner);
        }
        if call.has_metafield(handlers, c"__index")? {
            call.drop_to(handlers);
            call.push(INDEX)?;
            call.push(Argument(handlers))?;
            call.push(Argument(1))?;
            return Turn::next(Next::call(2, then(indexed), owner));
        }
    }
    fallback(call, tasks, count, user, tag, owner)
}

/// The `__index` metamethod of the handlers has returned a handler.
fn indexed(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let tasks = library_tasks(call, "loop")?;
    let Some(MessageHeader { from, session, .. }) = service(call)?.library.current_message else {
        call.drop_to(0);
        return go_on(call, &tasks, outcome.kept);
    };
    let (tag, count) = (Tag { from, session }, outcome.first - 2);
    call.drop_to(outcome.first);
    match call.is_none(outcome.first) {
        true => fallback(call, &tasks, count, true, tag, outcome.kept),
        false => start(call, &tasks, count, outcome.first, tag, outcome.kept),
    }
}

/// Handles a system message of `count` values. The message `tasks`, which inspects the service's tasks, may also be a
/// request, unless the service has a handler of that name.
#[cold]
fn fallback(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, user: bool, tag: Tag, owner: u32,
) -> Result<Turn, Fault> {
    call.drop_to(count);
    if (!user || call.string(1) == Some(b"tasks")) && push_system_call(call)? {
        let handler = call.count();
        return start(call, tasks, count, handler, tag, owner);
    }
    // The service has no handler of that name. The sender gets an error; without a sender it is logged.
    hooks::push(call, "unknown_request")?;
    call.push(Argument(1))?;
    call.push(tag.from)?;
    call.push(tag.session)?;
    call.push_copies(2..=count)?;
    Turn::next(Next::call(count + 3, then(called), owner))
}

/// Starts the task of a request of `count` values. Its handler is on top, at `handler`.
#[inline]
fn start(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, handler: i32, tag: Tag, owner: u32,
) -> Result<Turn, Fault> {
    let id = tasks.acquire(call)?;
    let Some((service, stack)) = call.data_and_stack::<Service>() else {
        return Err(Fault::message("the service has ended"));
    };
    if let Some(name) = stack.string(1) {
        service.library.set_name(id, name);
    }
    stack.copy_down(handler, 1, count);
    let head = service.library.current_message.take();
    if tasks.start(call, id, count, tag).is_err() {
        self::service(call)?.library.current_message = head;
        return Err(Fault::message("too many values in a message"));
    }
    go_on(call, tasks, owner)
}

/// Handles a response of `count` values: wakes the task that waits for its session.
fn answer(call: &mut Call<'_>, tasks: &Rc<Tasks>, head: MessageHeader, count: i32, owner: u32) -> Result<Turn, Fault> {
    if wake(call, tasks, count, Ending::Returns, head)? {
        return go_on(call, tasks, owner);
    }
    if service(call)?.library.was_assigned(head.session) {
        fire(call, tasks, head.session)?;
        return go_on(call, tasks, owner);
    }
    hooks::push(call, "unknown_answer")?;
    call.push(head.from)?;
    call.push(head.session)?;
    call.push_copies(1..=count)?;
    Turn::next(Next::call(count + 3, then(called), owner))
}

/// Resumes the task that waits for the session with the topmost `count` values. Returns whether there was one.
#[inline]
fn wake(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, ending: Ending, head: MessageHeader,
) -> Result<bool, Fault> {
    let woken = tasks.resume_waiter(call, Token::Session(head.session), count, ending);
    if woken.is_err() {
        service(call)?.library.current_message = Some(head);
    }
    woken.map_err(|_| Fault::message("too many values in an answer"))
}

/// Handles a response without a waiting coroutine: it may run a timer's function. Otherwise the coroutine was killed.
fn fire(call: &mut Call<'_>, tasks: &Rc<Tasks>, session: i64) -> Result<(), Fault> {
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

/// Handles an error response. The library creates the error object for the task that waits for the session.
#[cold]
fn error_answer(call: &mut Call<'_>, head: MessageHeader, owner: u32) -> Result<Turn, Fault> {
    let count = call.count();
    hooks::push(call, "error_answer")?;
    call.push(head.from)?;
    call.push_copies(1..=count)?;
    Turn::next(Next::call(count + 2, then(refused), owner))
}

fn refused(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let tasks = library_tasks(call, "loop")?;
    if call.count() < outcome.first {
        call.push(Nil)?;
    }
    call.drop_to(outcome.first);
    if let Some(head) = service(call)?.library.current_message.take() {
        wake(call, &tasks, 1, Ending::Raises, head)?;
    }
    call.drop_to(0);
    go_on(call, &tasks, outcome.kept)
}

/// Another service has died: runs `ltask.signal_handler`, if there is one, in a task.
fn signal(call: &mut Call<'_>, tasks: &Rc<Tasks>, from: ServiceId) -> Result<(), Fault> {
    let ltask = call.loaded("ltask")?;
    let handler = call.raw_field(ltask, "signal_handler")?;
    if call.kind(handler) != Kind::Function {
        return Ok(());
    }
    call.push(from)?;
    start_task(call, tasks, 2)
}
