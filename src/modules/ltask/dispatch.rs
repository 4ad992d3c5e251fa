//! The main loop of our service library: one entry into the VM handles a batch of messages.
//!
//! The values of a message are pushed between two steps, so that an error of that (no memory, corrupt bytes) skips no
//! frame. `library.current` says which message that is until a task has the values: `recover` answers it then. The frame
//! of the loop is empty between two messages.

use super::arguments::service;
use super::calls::{TIMEOUTS, library_tasks};
use super::handlers::{IDLE, POLL, REQUESTS, is_unused};
use super::hooks;
use super::system::{SYSTEM_CALLS, push_system_call};
use crate::event::clock::monotonic_nanos;
use crate::ltask::library::Head;
use crate::ltask::message::{Borrowed, Message, ServiceId, kind};
use crate::ltask::service::Service;
use crate::lua::{
    Argument, Call, DecodedLate, Fault, Function, INDEX, Kind, Next, Nil, Outcome, Pushing, results, then,
};
use crate::task::{Ending, Tag, Tasks, Token};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A slice ends after so many messages, or so long, if others wait or not: they cannot be asked cheaply.
const MESSAGES_MOST: u32 = 512;
const NANOS_MOST: u64 = 2_000_000;
/// So often the clock is read.
const CLOCK_EVERY: u32 = 32;
/// Coroutines that do nothing but yield do not keep messages away for ever.
const ROUNDS_MOST: u32 = 1000;

/// What the steps keep: whose they are.
const LOOP: u32 = 0;
const SCHEDULE: u32 = 1;

results! {
    /// What follows a step of the loop.
    pub(super) enum Turn {
        /// The values of a message.
        Unpack(Pushing<DecodedLate<Borrowed>>),
        Next(Next<bool>),
    }
}

impl Turn {
    fn next(next: Next<bool>) -> Result<Turn, Fault> {
        Ok(Turn::Next(next))
    }
}

/// `core.loop()`: handles messages, slice after slice, until `core.finish`. In the main function.
pub(super) const LOOP_FUNCTION: Function = Function::new(|call: &mut Call<'_>| {
    library_tasks(call, "loop")?;
    call.drop_to(0);
    begin(call, LOOP)
});

/// `core.schedule()` → whether the service is to end: handles the messages that are there now, for a main
/// function that has its own loop.
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

/// A batch begins. The frame is empty.
#[inline(always)]
fn begin(call: &mut Call<'_>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    service.library.handled = 0;
    let began = service.began;
    let Some(tasks) = service.library.tasks().cloned() else {
        return Turn::next(Next::returns(true));
    };
    tasks.set_now(began);
    tasks.review_waits(call);
    go_on(call, &tasks, owner)
}

/// Runs what is ready, and takes the next message. The frame is empty.
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
                let handler = call.kept(&IDLE)?;
                if call.kind(handler) == Kind::Function {
                    return Turn::next(Next::call(0, then(called), owner));
                }
                // Nothing to do (G2): the service sleeps until a message comes.
                self::service(call)?.wait();
            }
            _ => {}
        }
        call.drop_to(0);
    }
}

/// The next message of the slice, if it is to have one more.
#[inline]
fn next_message(service: &mut Service, is_quiet: bool) -> Option<Message> {
    let handled = service.library.handled;
    if !is_quiet || service.library.ended || service.detach || handled >= MESSAGES_MOST {
        return None;
    }
    if handled % CLOCK_EVERY == CLOCK_EVERY - 1 && monotonic_nanos() - service.began > NANOS_MOST {
        return None;
    }
    if service.affinity != service.slice_affinity {
        return None;
    }
    let message = service.receive()?;
    service.library.handled = handled + 1;
    Some(message)
}

/// Has the values of a message pushed.
#[inline]
fn unpack(service: &mut Service, message: Message, owner: u32) -> Result<Turn, Fault> {
    let library = &mut service.library;
    library.current = Some(Head { kind: message.kind, from: message.from, session: message.session });
    let values = DecodedLate(message.payload.lend());
    let number = library.reading.len() as u32;
    library.reading.push(message.payload);
    let next = Next::goes_on(0, then(unpacked), owner | number << 1);
    Ok(Turn::Unpack(next.pushing(values)))
}

/// The values of a message are there.
fn unpacked(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let (owner, number) = (outcome.kept & 1, outcome.kept >> 1);
    let library = &mut service(call)?.library;
    library.reading.truncate(number as usize);
    let (Some(tasks), Some(head)) = (library.tasks().cloned(), library.current) else {
        return Turn::next(Next::returns(true));
    };
    match head.kind {
        kind::RESPONSE => {
            library.current = None;
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
    service(call)?.library.current = None;
    go_on(call, &tasks, outcome.kept)
}

/// Whether there is nothing left to do before the next slice: no I/O to be looked after, no end.
#[inline]
fn may_wait(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    (!library.polls || service.batch.is_empty()) && (library.ended || !has_nothing_left(service, tasks))
}

/// No more messages now: I/O is looked after if more are there.
fn end_batch(call: &mut Call<'_>, tasks: &Rc<Tasks>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    if service.library.polls && !service.batch.is_empty() {
        let handler = call.kept(&POLL)?;
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

/// The batch has ended.
fn end(call: &mut Call<'_>, tasks: &Rc<Tasks>, owner: u32) -> Result<Turn, Fault> {
    let service = service(call)?;
    let service = match !service.library.ended && has_nothing_left(service, tasks) {
        true => end_unused(call)?,
        false => service,
    };
    wait(service, tasks, owner)
}

/// The slice has ended.
#[inline]
fn wait(service: &mut Service, tasks: &Tasks, owner: u32) -> Result<Turn, Fault> {
    let (more, created) = tasks.at_rest();
    service.again = more;
    service.statistics.coroutines.store(created, Ordering::Relaxed);
    let ended = service.library.ended;
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

/// Whether the file of a service without handlers has returned, no task is left, and nothing waits to be delivered.
fn has_nothing_left(service: &Service, tasks: &Tasks) -> bool {
    let library = &service.library;
    !(library.starting || library.serves || library.polls)
        && tasks.count() <= library.end_waits
        && service.batch.is_empty()
        && service.sending.is_empty()
        && library.outbox.is_empty()
}

/// The service ends if no timer has a function either, and it has no handler and no loop of its own.
#[cold]
fn end_unused<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Service, Fault> {
    let mut is_unused = true;
    for name in [&REQUESTS, &TIMEOUTS, &SYSTEM_CALLS, &IDLE] {
        is_unused &= self::is_unused(call, name)?;
    }
    let is_exclusive = service(call)?.statistics.exclusive.load(Ordering::Relaxed);
    if is_unused && !(is_exclusive && has_on_idle(call)?) {
        service(call)?.library.ended = true;
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

/// Runs what is ready, and what that makes ready. False when the slice is to end before all has run; a
/// message is taken only when it has, when what is left has yielded by itself, or when `ROUNDS_MOST` rounds
/// have passed since the last one.
fn run_ready(call: &mut Call<'_>, tasks: &Rc<Tasks>) -> Result<bool, Fault> {
    let service = self::service(call)?;
    let (began, mut rounds) = (service.began, service.library.rounds);
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

/// Runs a task with the topmost `count` values: a function and its arguments.
fn start_task(call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32) -> Result<(), Fault> {
    let id = tasks.acquire(call)?;
    tasks.start(call, id, count, Tag::default()).map_err(|_| Fault::message("too many values in a message"))
}

/// A request: its handler runs in a task that answers it. The first value names it. `user`: one of the
/// service's own handlers, not of the library's.
fn request(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, user: bool, head: Head, mut count: i32, owner: u32,
) -> Result<Turn, Fault> {
    let tag = Tag { from: head.from, session: head.session };
    if count == 0 {
        count = call.push(Nil)?;
    }
    let handlers = call.kept(&REQUESTS)?;
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

/// The handlers' `__index` has given one.
fn indexed(call: &mut Call<'_>, outcome: Outcome) -> Result<Turn, Fault> {
    let tasks = library_tasks(call, "loop")?;
    let Some(Head { from, session, .. }) = service(call)?.library.current else {
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

/// The handler of a system message, of which there are `count` values. What tells of the service's tasks is a request as
/// well, unless it has one of that name.
#[cold]
fn fallback(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, user: bool, tag: Tag, owner: u32,
) -> Result<Turn, Fault> {
    call.drop_to(count);
    if (!user || call.string(1) == Some(b"tasks")) && push_system_call(call)? {
        let handler = call.count();
        return start(call, tasks, count, handler, tag, owner);
    }
    // The service has no handler of that name: the caller gets an error, or the log.
    hooks::push(call, "unknown_request")?;
    call.push(Argument(1))?;
    call.push(tag.from)?;
    call.push(tag.session)?;
    call.push_copies(2..=count)?;
    Turn::next(Next::call(count + 3, then(called), owner))
}

/// Starts the task of a request, of which there are `count` values; its handler lies on top, at `handler`.
#[inline]
fn start(
    call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, handler: i32, tag: Tag, owner: u32,
) -> Result<Turn, Fault> {
    let id = tasks.acquire(call)?;
    let Some((service, stack)) = call.data_and_stack::<Service>() else {
        return Err(Fault::message("the service is gone"));
    };
    if let Some(name) = stack.string(1) {
        service.library.set_name(id, name);
    }
    stack.copy_down(handler, 1, count);
    let head = service.library.current.take();
    if tasks.start(call, id, count, tag).is_err() {
        self::service(call)?.library.current = head;
        return Err(Fault::message("too many values in a message"));
    }
    go_on(call, tasks, owner)
}

/// An answer of `count` values: the task that waits for its session goes on with them.
fn answer(call: &mut Call<'_>, tasks: &Rc<Tasks>, head: Head, count: i32, owner: u32) -> Result<Turn, Fault> {
    if wake(call, tasks, count, Ending::Returns, head)? {
        return go_on(call, tasks, owner);
    }
    if service(call)?.library.was_given(head.session) {
        fire(call, tasks, head.session)?;
        return go_on(call, tasks, owner);
    }
    hooks::push(call, "unknown_answer")?;
    call.push(head.from)?;
    call.push(head.session)?;
    call.push_copies(1..=count)?;
    Turn::next(Next::call(count + 3, then(called), owner))
}

/// The task that waits for the session goes on with the topmost `count` values. → whether there was one
#[inline]
fn wake(call: &mut Call<'_>, tasks: &Rc<Tasks>, count: i32, ending: Ending, head: Head) -> Result<bool, Fault> {
    let woken = tasks.resume_waiter(call, Token::Session(head.session), count, ending);
    if woken.is_err() {
        service(call)?.library.current = Some(head);
    }
    woken.map_err(|_| Fault::message("too many values in an answer"))
}

/// No coroutine waits: a timer's function, perhaps. Others waited once, and were killed.
fn fire(call: &mut Call<'_>, tasks: &Rc<Tasks>, session: i64) -> Result<(), Fault> {
    call.drop_to(0);
    let timeouts = call.kept(&TIMEOUTS)?;
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

/// An error for the task that waits for the session: the library makes the error object.
#[cold]
fn error_answer(call: &mut Call<'_>, head: Head, owner: u32) -> Result<Turn, Fault> {
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
    if let Some(head) = service(call)?.library.current.take() {
        wake(call, &tasks, 1, Ending::Raises, head)?;
    }
    call.drop_to(0);
    go_on(call, &tasks, outcome.kept)
}

/// Another service has died: `ltask.signal_handler`, if there is one, runs in a task.
fn signal(call: &mut Call<'_>, tasks: &Rc<Tasks>, from: ServiceId) -> Result<(), Fault> {
    let ltask = call.loaded("ltask")?;
    let handler = call.raw_field(ltask, "signal_handler")?;
    if call.kind(handler) != Kind::Function {
        return Ok(());
    }
    call.push(from)?;
    start_task(call, tasks, 2)
}
