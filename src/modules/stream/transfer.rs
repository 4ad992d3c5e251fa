//! `lio.stream`: the calls of a connection that move bytes, and those that wait for that.
//!
//! Invariant: `Stream::turns` tells who has a turn. It is `Here` from the wait of a `recv` of this file until that call
//! ends, and the token of that wait is the stream itself.

use super::connection::Connection;
use crate::event::clock::monotonic_nanos;
use crate::lua::{
    Argument, ByteSource, BytesOf, Call, Continuation, Failure, Fault, Flow, Function, Kind, Next, Nil, Outcome,
    Pushable, Pusher, Returns, Stack, identity_of, results, then, upvalue,
};
use crate::modules::task::{in_use, own_tasks, tasks};
use crate::modules::timer::Timers;
use crate::stream::turns::{Alarm, Reading};
use crate::stream::{Form, Received, Stream};
use crate::task::{Reason, Tasks, Token, WaitError};
use std::rc::Rc;

// The upvalues, after the tasks: of both functions, of `recv`, and of `send`.
const IN_TURN: i32 = upvalue(2);
const PASS_ON: i32 = upvalue(3);
const TIMERS: i32 = upvalue(4);
const REST: i32 = upvalue(3);

/// So many strings of one `put` are gathered on the stack.
const FEW: usize = 8;

impl ByteSource for Connection {
    fn bytes_to_push(&self) -> &[u8] {
        Stream::lent(self)
    }
    fn bytes_pushed(&mut self) {
        Stream::handed_over(self);
    }
}

results! {
    /// What a `recv` comes to.
    enum Reply {
        /// What was asked for.
        Bytes(BytesOf<Connection>),
        /// The end.
        End(Nil),
        /// It would block.
        Blocked(bool),
        /// Nothing, or the part that came.
        Failed(Failed<Option<BytesOf<Connection>>>),
        /// Nothing is left: the call that this one runs in, as a finalizer, is handing it over.
        Overtaken(Failed<&'static str>),
    }
}

/// `nil, message, part, code`.
pub(super) struct Failed<P> {
    why: Why,
    part: P,
}

enum Why {
    Word(Word),
    System(Failure),
}

#[derive(Clone, Copy)]
pub(super) enum Word {
    Closed,
    Timeout,
    TooLong,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Word::Closed => "closed",
            Word::Timeout => "timeout",
            Word::TooLong => "too long",
        }
    }
}

impl<P: Pushable> Returns for Failed<P> {
    #[cold]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self.why {
            Why::Word(word) => (Nil, word.text(), self.part, word.text()).push_results(to),
            Why::System(failure) => {
                let (message, code) = (failure.message(), failure.code());
                drop(failure);
                (Nil, message, self.part, code).push_results(to)
            }
        }
    }
}

impl<P> Failed<P> {
    pub(super) fn word(word: Word, part: P) -> Self {
        let why = Why::Word(word);
        Failed { why, part }
    }

    #[cold]
    pub(super) fn by(failure: Failure, part: P) -> Self {
        let why = Why::System(failure);
        Failed { why, part }
    }
}

/// The size or limit at `index`.
fn whole(stack: &Stack, index: i32, high: i64, what: &str) -> Result<usize, Fault> {
    Ok(stack.integer_in(index, 0..=high, what)? as usize)
}

fn limit(stack: &Stack, index: i32) -> Result<usize, Fault> {
    if stack.is_none(index) { Ok(usize::MAX) } else { whole(stack, index, i64::MAX, "limit") }
}

/// What the arguments from the second on ask for.
fn form(stack: &Stack) -> Result<Form<'_>, Fault> {
    match stack.kind(2) {
        Kind::None | Kind::Nil => return Ok(Form::Any),
        Kind::Number => return Ok(Form::Exactly(whole(stack, 2, i64::MAX / 2, "size")?)),
        _ => {}
    }
    match stack.bytes(2)? {
        b"line" => Ok(Form::Line { limit: limit(stack, 3)? }),
        b"all" => Ok(Form::All { limit: limit(stack, 3)? }),
        b"until" => {
            let delimiter = stack.bytes(3)?;
            if delimiter.is_empty() {
                return Err(Fault::argument(3, "the delimiter is empty"));
            }
            let limit = limit(stack, 4)?;
            Ok(Form::Until { delimiter, limit })
        }
        _ => Err(Fault::argument(2, "a size, 'line', 'until' or 'all' expected")),
    }
}

/// A failure, which hands over what is buffered.
#[cold]
fn failed(stream: &mut Stream, why: Why) -> Reply {
    if stream.has_lent() {
        return Reply::Overtaken(Failed { why, part: "" });
    }
    let length = stream.buffered().len();
    stream.lend(length, length);
    let part = Some(BytesOf::at(1));
    Reply::Failed(Failed { why, part })
}

#[inline]
fn received(stream: &mut Stream, form: Form<'_>) -> Reply {
    if stream.is_closed() {
        return Reply::Failed(Failed::word(Word::Closed, None));
    }
    match stream.receive(form) {
        Ok(Received::Ready { length, consume }) => {
            stream.lend(length, consume);
            Reply::Bytes(BytesOf::at(1))
        }
        Ok(Received::WouldBlock) => Reply::Blocked(false),
        Ok(Received::Ended) if matches!(form, Form::Any) => Reply::End(Nil),
        Ok(Received::Ended) => failed(stream, Why::Word(Word::Closed)),
        Ok(Received::TooLong) => Reply::Failed(Failed::word(Word::TooLong, None)),
        Err(error) => failed(stream, Why::System(Failure::io("recv", &error))),
    }
}

/// What was to be handed over when memory was short is there again; what a call is handing over, in which a
/// finalizer calls this, is not.
#[cold]
fn settle_loan(stream: &mut Stream, stack: &Stack) {
    if !stack.may_be_finalizer() {
        stream.take_lent_back();
    }
}

/// `s:take([form …])` → a string; `false` would block, the stream is armed; `nil` at the end for the
/// form without arguments; else `nil, message, partial, code`. The forms are those of `net.recv`.
fn take(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let form = form(stack)?;
    if stream.has_lent() {
        settle_loan(stream, stack);
    }
    Ok(received(stream, form))
}

pub(crate) const TAKE: Function = Function::new(take);

/// The connection at argument 1, and the values of the call.
fn connection<'c>(call: &'c mut Call<'_>, name: &'static str) -> Result<(&'c mut Connection, &'c mut Stack), Fault> {
    call.object_and_stack::<Connection>(1).map_err(|fault| fault.in_call(name, 0))
}

/// Calls one of the functions of Lua's with the arguments of this call; its results are the call's.
#[cold]
fn in_lua<R>(call: &mut Call<'_>, function: i32) -> Result<Next<R>, Fault> {
    let count = call.count();
    call.push(Argument(function))?;
    for index in 1..=count {
        call.push(Argument(index))?;
    }
    Ok(Next::call(count, then(returned), 0))
}

fn returned(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}

/// `c:recv([form …])`, as `net.recv`: a string; `nil` at the end; `nil, message, partial, code`.
fn recv(call: &mut Call<'_>) -> Result<Next<Reply>, Fault> {
    let (stream, stack) = connection(call, "recv")?;
    if stream.turns.reading != Reading::Free {
        return in_lua(call, IN_TURN);
    }
    if stream.has_lent() {
        settle_loan(stream, stack);
    }
    let form = match stack.count() {
        1 => Form::Any,
        _ => form(stack).map_err(|fault| fault.in_call("recv", 0))?,
    };
    // Mostly what came last was all there was.
    if matches!(form, Form::Any) && stream.is_dry() {
        let turn = take_turn(stream);
        return wait(call, turn);
    }
    match received(stream, form) {
        Reply::Blocked(_) => {
            let turn = take_turn(stream);
            wait(call, turn)
        }
        reply => Ok(Next::returns(reply)),
    }
}

/// A turn to read that a `recv` of this file has.
struct Turn {
    /// The tasks of which the running one waits; none before the first wait on this connection.
    tasks: Option<Rc<Tasks>>,
    /// What its wait is on.
    token: Token,
    /// Whether that ends after a while.
    is_limited: bool,
}

impl Turn {
    fn of(connection: &Connection) -> Turn {
        Turn {
            tasks: connection.tasks.clone(),
            token: Token::of_userdata(identity_of(connection)),
            is_limited: connection.turns.limit.is_some(),
        }
    }
}

/// The call has the turn to read from now on.
fn take_turn(connection: &mut Connection) -> Turn {
    connection.turns.reading = Reading::Here;
    Turn::of(connection)
}

/// The tasks of the function, which the connection knows from now on.
#[cold]
fn introduce(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
    let tasks = tasks(call)?;
    connection(call, "recv")?.0.tasks = Some(tasks.clone());
    Ok(tasks)
}

/// The running task, in `recv`, which has the turn, waits until the stream is ready.
fn wait(call: &mut Call<'_>, turn: Turn) -> Result<Next<Reply>, Fault> {
    let tasks = match turn.tasks {
        Some(tasks) => tasks,
        None => introduce(call)?,
    };
    tasks.check_open()?;
    match tasks.wait(call, turn.token, Reason::Other) {
        Ok(()) => {}
        Err(WaitError::InUse) => return end_turn(call, then(taken)),
        Err(WaitError::Unreachable) => return end_turn(call, then(refused)),
        Err(WaitError::Fault(fault)) => return Err(fault),
    }
    if turn.is_limited {
        set_alarm(call, |Alarm { nanos, .. }| Some(monotonic_nanos() + nanos))?;
    }
    Ok(Next::yields(0, then(resumed), 0))
}

/// Sets the timer of a limited turn to the nanosecond that `until` gives, or clears it.
#[cold]
fn set_alarm(call: &mut Call<'_>, until: impl FnOnce(Alarm) -> Option<u64>) -> Result<(), Fault> {
    let limit = call.object::<Connection>(1)?.turns.limit;
    if let Some(alarm) = limit
        && let Ok(timers) = call.object_mut::<Timers>(TIMERS)
    {
        match until(alarm) {
            Some(nanos) => timers.0.set(alarm.timer, nanos),
            None => timers.0.clear(alarm.timer),
        };
    }
    Ok(())
}

fn taken(_: &mut Call<'_>, _: Outcome) -> Result<(), Fault> {
    Err(in_use())
}

fn refused(call: &mut Call<'_>, _: Outcome) -> Result<Next, Fault> {
    tasks(call)?.refuse(call, "wait")
}

/// The turn to read ends, and `next` follows: the next that queues has the turn, which Lua's books tell.
#[cold]
fn end_turn<R>(call: &mut Call<'_>, next: &'static Continuation) -> Result<Next<R>, Fault> {
    let (stream, _) = connection(call, "recv")?;
    stream.turns.reading = Reading::Free;
    call.push(Argument(PASS_ON))?;
    call.push(Argument(1))?;
    Ok(Next::call(1, next, 0))
}

/// The rest of a `recv` that waited. Behind its arguments lies what the waker said.
fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Reply>, Fault> {
    let ends = match call.string(outcome.first) {
        Some(b"timeout") => Some(Word::Timeout),
        Some(b"closed") => Some(Word::Closed),
        _ => None,
    };
    // Also where the turn was handed on, as after an interrupt. A program may have put another value in the place of
    // the connection, which knows the tasks.
    let known = call.as_object::<Connection>(1).and_then(|connection| connection.tasks.as_ref());
    let tasks = known.map_or_else(|| own_tasks(call), Ok)?;
    tasks.check_open()?;
    if tasks.ends_with_error(call) {
        return Err(Fault::value(call.count()));
    }
    let (stream, stack) = connection(call, "recv")?;
    // What was asked for is read from the arguments, if there are any.
    if outcome.first > 2 {
        stack.drop_to(outcome.first - 1);
    }
    let queued = stream.turns.reading == Reading::HereQueued;
    let reply = match (ends, queued) {
        (Some(word), false) => Reply::Failed(Failed::word(word, None)),
        (None, false) => received(stream, form_again(stack, outcome.first - 1)?),
        // Looked at once more when the turn was passed on, since Lua code runs meanwhile.
        (None, true) => {
            let form = form_again(stack, outcome.first - 1)?;
            match stream.is_closed() || !matches!(stream.receive(form), Ok(Received::WouldBlock)) {
                true => Reply::End(Nil),
                false => Reply::Blocked(false),
            }
        }
        (Some(_), true) => Reply::End(Nil),
    };
    if let Reply::Blocked(_) = reply {
        let turn = Turn::of(stream);
        call.drop_to(outcome.first - 1);
        return wait(call, turn);
    }
    let is_limited = stream.turns.limit.is_some();
    stream.turns.reading = Reading::Free;
    if is_limited {
        set_alarm(call, |_| None)?;
    }
    if !queued {
        return Ok(Next::returns(reply));
    }
    call.drop_to(outcome.first - 1);
    match ends {
        Some(Word::Timeout) => end_turn(call, then(timed_out)),
        Some(_) => end_turn(call, then(closed)),
        None => end_turn(call, then(passed)),
    }
}

/// The form that a `recv` with `count` arguments was called with.
fn form_again(stack: &Stack, count: i32) -> Result<Form<'_>, Fault> {
    match count {
        1 => Ok(Form::Any),
        _ => form(stack),
    }
}

fn passed(call: &mut Call<'_>, outcome: Outcome) -> Result<Reply, Fault> {
    let (stream, stack) = connection(call, "recv")?;
    let form = form_again(stack, outcome.first - 1)?;
    Ok(received(stream, form))
}

fn timed_out(_: &mut Call<'_>, _: Outcome) -> Result<Reply, Fault> {
    Ok(Reply::Failed(Failed::word(Word::Timeout, None)))
}

fn closed(_: &mut Call<'_>, _: Outcome) -> Result<Reply, Fault> {
    Ok(Reply::Failed(Failed::word(Word::Closed, None)))
}

pub(crate) const RECV: Function = Function::new(recv);

results! {
    /// What a `send` comes to.
    pub(super) enum Sent {
        Done(bool),
        /// So many bytes are gone; the stream is armed.
        Part(i64),
        Failed(Failed<i64>),
    }
}

/// Sends what is queued and the strings from argument `first` on, of which `sent` bytes are gone. A misuse has the
/// number that the caller of `net.send` counts, where the first is the second.
#[inline]
fn put_strings(stream: &mut Stream, stack: &Stack, first: i32, mut sent: usize) -> Result<Sent, Fault> {
    let last = stack.count();
    let count = (last + 1 - first).max(0) as usize;
    let one: [&[u8]; 1];
    let mut few: [&[u8]; FEW];
    let many: Vec<&[u8]>;
    let pieces = if count == 1 {
        one = [stack.bytes(last)?];
        &one[..]
    } else if count <= FEW {
        few = [&[]; FEW];
        for (piece, index) in few.iter_mut().zip(first..=last) {
            *piece = stack.bytes(index)?;
        }
        &few[..count]
    } else {
        many = (first..=last).map(|index| stack.bytes(index)).collect::<Result<_, _>>()?;
        &many[..]
    };
    if stream.is_closed() {
        return Ok(Sent::Failed(Failed::word(Word::Closed, sent as i64)));
    }
    // Nothing to add means that somebody only flushes, and may not come back.
    let begun = if sent == 0 && count > 0 { stream.begin_message() } else { Ok(true) };
    let done = match begun {
        Ok(true) => stream.send(pieces, &mut sent),
        other => other,
    };
    Ok(match done {
        Ok(true) => Sent::Done(true),
        Ok(false) => Sent::Part(sent as i64),
        Err(error) => Sent::Failed(Failed::by(Failure::io("send", &error), sent as i64)),
    })
}

/// `s:put(sent, data, …)`: sends what is queued and the strings, of which `sent` bytes are gone already.
/// `true` when all is taken by the system; the new `sent` when it would block, or when others have to
/// get their turn, the stream being armed; `nil, message, sent, code` on failure.
fn put(call: &mut Call<'_>) -> Result<Sent, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let sent = stack.integer_in(2, 0..=i64::MAX, "sent")? as usize;
    put_strings(stream, stack, 3, sent).map_err(|fault| fault.shifted(-1))
}

pub(crate) const PUT: Function = Function::new(put);

/// `c:send(data, …)`, as `net.send`: `true`; `nil, message, sent, code`.
fn send(call: &mut Call<'_>) -> Result<Next<Sent>, Fault> {
    let (stream, stack) = connection(call, "send")?;
    if stream.turns.writes {
        return in_lua(call, IN_TURN);
    }
    match put_strings(stream, stack, 2, 0).map_err(|fault| fault.in_call("send", 0))? {
        Sent::Part(sent) => {
            let count = call.count();
            call.push(Argument(REST))?;
            call.push(Argument(1))?;
            call.push(sent)?;
            for index in 2..=count {
                call.push(Argument(index))?;
            }
            Ok(Next::call(count + 1, then(returned), 0))
        }
        sent => Ok(Next::returns(sent)),
    }
}

pub(crate) const SEND: Function = Function::new(send);
