//! `recv` of a connection, and `try_recv`, which does not wait.
//!
//! Invariant: `Stream::holders` records which tasks hold the stream. The reader is `Native` from the time when a `recv`
//! of this file starts waiting until the `recv` ends; the token of its wait is the stream itself.

use super::connection::{self, Connection};
use super::failure::{Cause, Code, Failed};
use super::form;
use super::queued::queue;
use super::tls::failure_of;
use crate::lua::{
    Argument, ByteSource, BytesOf, Call, Continuation, Fault, Function, Next, Nil, Outcome, Stack, identity_of,
    results, then, upvalue,
};
use crate::modules::task::{in_use, own_tasks, tasks};
use crate::modules::timer::Timers;
use crate::stream::holders::{ReadTimeout, Reader};
use crate::stream::{Received, RecvForm, Stream};
use crate::task::{Reason, Tasks, Token, WaitError};
use std::rc::Rc;

// Upvalues 3 and 4 of `recv`. Upvalues 1 and 2: the tasks object, and the Lua function that queues a call.
const RELEASE: i32 = upvalue(3);
const TIMERS: i32 = upvalue(4);

impl ByteSource for Connection {
    fn bytes_to_push(&self) -> &[u8] {
        Stream::lent_bytes(self)
    }
    fn bytes_pushed(&mut self) {
        Stream::release_lent_bytes(self);
    }
}

results! {
    /// The result of a `recv`.
    enum Reply {
        /// The requested data.
        Bytes(BytesOf<Connection>),
        /// The end of the stream.
        End(Nil),
        /// The call would block.
        Blocked(bool),
        /// A failure, with the data received so far.
        Failed(Failed<Option<BytesOf<Connection>>>),
        /// A failure without data, because this call runs in a finalizer during the call that returns the data.
        Overtaken(Failed<&'static str>),
    }
}

pub(crate) const TRY_RECV: Function = Function::new(try_recv);

/// `s:try_recv([form …])`: returns a string; `false` if it would block, with the stream armed; `nil` at the end for the
/// form without arguments; otherwise `nil, message, partial, code`. The forms are those of `net.recv`.
fn try_recv(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let form = form::of_arguments(stack)?;
    if stream.has_lent_bytes() {
        put_back_lent_bytes(stream, stack);
    }
    Ok(received(stream, form))
}

pub(crate) const RECV: Function = Function::new(recv);

/// `c:recv([form …])`, as `net.recv`: returns a string; `nil` at the end; or `nil, message, partial, code`.
fn recv(call: &mut Call<'_>) -> Result<Next<Reply>, Fault> {
    let (stream, stack) = connection::of_call(call, "recv")?;
    if stream.holders.reader != Reader::None {
        return queue(call);
    }
    if stream.has_lent_bytes() {
        put_back_lent_bytes(stream, stack);
    }
    let form = form::of_call(stack, stack.count()).map_err(|fault| fault.in_call("recv", 0))?;
    // Usually the last read returned all available data.
    if matches!(form, RecvForm::Any) && stream.arm_if_empty() {
        let hold = begin_hold(stream);
        return wait(call, hold);
    }
    match received(stream, form) {
        Reply::Blocked(_) => {
            let hold = begin_hold(stream);
            wait(call, hold)
        }
        reply => Ok(Next::returns(reply)),
    }
}

/// A `recv` of this file that holds the connection for reading.
struct Hold {
    /// The tasks, one of which waits; `None` before the first wait on this connection.
    tasks: Option<Rc<Tasks>>,
    /// The token of the wait.
    token: Token,
    /// Whether the wait has a time limit.
    has_timeout: bool,
}

impl Hold {
    fn of(connection: &Connection) -> Hold {
        Hold {
            tasks: connection.tasks.clone(),
            token: Token::of_userdata(identity_of(connection)),
            has_timeout: connection.holders.recv_timeout.is_some(),
        }
    }
}

/// Makes this call hold the connection for reading.
fn begin_hold(connection: &mut Connection) -> Hold {
    connection.holders.reader = Reader::Native;
    Hold::of(connection)
}

/// Suspends the running task, which holds the connection for reading, until the stream is ready.
fn wait(call: &mut Call<'_>, hold: Hold) -> Result<Next<Reply>, Fault> {
    let tasks = match hold.tasks {
        Some(tasks) => tasks,
        None => load_tasks(call)?,
    };
    tasks.check_open()?;
    match tasks.wait(call, hold.token, Reason::Other) {
        Ok(()) => {}
        Err(WaitError::InUse) => return release(call, then(fail_in_use)),
        Err(WaitError::Unreachable) => return release(call, then(fail_unreachable)),
        Err(WaitError::Fault(fault)) => return Err(fault),
    }
    if hold.has_timeout {
        set_timer(call, |ReadTimeout { nanos, .. }, now| Some(now + nanos))?;
    }
    Ok(Next::yields(0, then(resumed), 0))
}

/// Returns the tasks in the running function's upvalue, and stores them in the connection.
#[cold]
fn load_tasks(call: &mut Call<'_>) -> Result<Rc<Tasks>, Fault> {
    let tasks = tasks(call)?;
    connection::of_call(call, "recv")?.0.tasks = Some(tasks.clone());
    Ok(tasks)
}

/// If `recv` has a time limit, sets its timer to the time that `until` returns, in nanoseconds of the VM's clock, or
/// clears the timer if `until` returns None. `until` gets the current time.
#[cold]
fn set_timer(call: &mut Call<'_>, until: impl FnOnce(ReadTimeout, u64) -> Option<u64>) -> Result<(), Fault> {
    let limit = call.object::<Connection>(1)?.holders.recv_timeout;
    if let Some(timeout) = limit
        && let Ok(timers) = call.object_mut::<Timers>(TIMERS)
    {
        match until(timeout, timers.now()) {
            Some(nanos) => timers.set(timeout.timer, nanos),
            None => timers.queue.clear(timeout.timer),
        };
    }
    Ok(())
}

/// Continues a `recv` after its wait. The values of the wakeup follow the arguments of the call.
fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Reply>, Fault> {
    let end = match call.string(outcome.first) {
        Some(b"timeout") => Some(Code::Timeout),
        Some(b"closed") => Some(Code::Closed),
        _ => None,
    };
    // The connection stores the tasks, and keeps them even if another task already holds the connection, for example
    // after an interrupt. If a program has replaced argument 1 with another value, the tasks are those of the upvalue.
    let known = call.as_object::<Connection>(1).and_then(|connection| connection.tasks.as_ref());
    let tasks = known.map_or_else(|| own_tasks(call), Ok)?;
    tasks.check_open()?;
    if tasks.ends_with_error(call) {
        return Err(Fault::value(call.count()));
    }
    let (stream, stack) = connection::of_call(call, "recv")?;
    // The form is read from the arguments, if there are any.
    if outcome.first > 2 {
        stack.drop_to(outcome.first - 1);
    }
    let queued = stream.holders.reader == Reader::NativeQueued;
    let reply = match (end, queued) {
        (Some(code), false) => Reply::Failed(Failed::code(code, None)),
        (None, false) => received(stream, form::of_call(stack, outcome.first - 1)?),
        // The stream is read again after the release, because Lua code runs in between.
        (None, true) => {
            let form = form::of_call(stack, outcome.first - 1)?;
            match stream.is_closed() || !matches!(stream.receive(form), Ok(Received::WouldBlock)) {
                true => Reply::End(Nil),
                false => Reply::Blocked(false),
            }
        }
        (Some(_), true) => Reply::End(Nil),
    };
    if let Reply::Blocked(_) = reply {
        let hold = Hold::of(stream);
        call.drop_to(outcome.first - 1);
        return wait(call, hold);
    }
    let has_timeout = stream.holders.recv_timeout.is_some();
    stream.holders.reader = Reader::None;
    if has_timeout {
        set_timer(call, |_, _| None)?;
    }
    if !queued {
        return Ok(Next::returns(reply));
    }
    call.drop_to(outcome.first - 1);
    match end {
        Some(Code::Timeout) => release(call, then(fail_timeout)),
        Some(_) => release(call, then(fail_closed)),
        None => release(call, then(receive_again)),
    }
}

/// Releases the connection. Lua code lets the next task in the queue hold the connection; then `next` runs.
#[cold]
fn release<R>(call: &mut Call<'_>, next: &'static Continuation) -> Result<Next<R>, Fault> {
    let (stream, _) = connection::of_call(call, "recv")?;
    stream.holders.reader = Reader::None;
    call.push(Argument(RELEASE))?;
    call.push(Argument(1))?;
    Ok(Next::call(1, next, 0))
}

fn receive_again(call: &mut Call<'_>, outcome: Outcome) -> Result<Reply, Fault> {
    let (stream, stack) = connection::of_call(call, "recv")?;
    let form = form::of_call(stack, outcome.first - 1)?;
    Ok(received(stream, form))
}

fn fail_timeout(_: &mut Call<'_>, _: Outcome) -> Result<Reply, Fault> {
    Ok(Reply::Failed(Failed::code(Code::Timeout, None)))
}

fn fail_closed(_: &mut Call<'_>, _: Outcome) -> Result<Reply, Fault> {
    Ok(Reply::Failed(Failed::code(Code::Closed, None)))
}

fn fail_in_use(_: &mut Call<'_>, _: Outcome) -> Result<(), Fault> {
    Err(in_use())
}

fn fail_unreachable(call: &mut Call<'_>, _: Outcome) -> Result<Next, Fault> {
    tasks(call)?.refuse(call, "wait")
}

#[inline]
fn received(stream: &mut Stream, form: RecvForm<'_>) -> Reply {
    if stream.is_closed() {
        return Reply::Failed(Failed::code(Code::Closed, None));
    }
    match stream.receive(form) {
        Ok(Received::Ready { length, consume }) => {
            stream.lend(length, consume);
            Reply::Bytes(BytesOf::at(1))
        }
        Ok(Received::WouldBlock) => Reply::Blocked(false),
        Ok(Received::Ended) if matches!(form, RecvForm::Any) => Reply::End(Nil),
        Ok(Received::Ended) => failed(stream, Cause::Code(Code::Closed)),
        Ok(Received::TooLong) => Reply::Failed(Failed::code(Code::TooLong, None)),
        Err(error) => failed(stream, Cause::System(failure_of("recv", &error))),
    }
}

/// Returns a failure with the buffered bytes.
#[cold]
fn failed(stream: &mut Stream, cause: Cause) -> Reply {
    if stream.has_lent_bytes() {
        return Reply::Overtaken(Failed::new(cause, ""));
    }
    let length = stream.buffered().len();
    stream.lend(length, length);
    let part = Some(BytesOf::at(1));
    Reply::Failed(Failed::new(cause, part))
}

/// Ends a loan. Lent bytes that a call could not return, because there was not enough memory, are put back. If this
/// call may run in a finalizer, the bytes are not put back, because an outer call may be returning them.
#[cold]
fn put_back_lent_bytes(stream: &mut Stream, stack: &Stack) {
    if !stack.may_be_finalizer() {
        stream.restore_lent_bytes();
    }
}
