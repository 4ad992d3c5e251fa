//! `receive`: the next message of a WebSocket connection. Pings are answered, and the closing handshake is completed, in
//! the same step.
//!
//! Invariant: as in `recv` (src/modules/stream/recv.rs), the reader of a connection is `Native` while a `receive` waits,
//! and the token of its wait is the connection itself.

use super::state::WebSocket;
use crate::codec::websocket::close::{self, Close};
use crate::codec::websocket::reader::Event;
use crate::codec::websocket::{Kind, Refusal};
use crate::lua::{
    Argument, BytesOf, Call, Closure, Fault, Function, Next, Nil, Outcome, identity_of, results, then, upvalue,
};
use crate::modules::stream::connection::Connection;
use crate::modules::stream::tls::failure_of;
use crate::modules::task::{in_use, own_tasks, push_tasks_object, tasks};
use crate::stream::holders::Reader;
use crate::stream::{Filled, Stream};
use crate::task::{Reason, Tasks, Token, WaitError};
use std::borrow::Cow;

// The upvalues of `receive` and `poll`. Upvalue 1: the tasks object, or false.
pub(super) const ON_END: i32 = upvalue(2);
pub(super) const ON_QUEUED: i32 = upvalue(3);

results! {
    /// The result of a `receive`.
    enum Reply {
        /// A message that was entirely in the connection's buffer.
        Lent((BytesOf<Connection>, &'static str)),
        /// A message that was joined or decompressed.
        Owned((Vec<u8>, &'static str)),
        /// The connection has ended.
        End(Nil),
        /// No message has arrived.
        Blocked(bool),
    }
}

pub(super) type Callbacks = (Argument, Argument, Argument);

/// `core.receiver(on_end, on_queued)`: returns the function `receive(c)`, which waits for a message. It returns the
/// message and its kind, or nil when the connection has ended. `on_end(c, code, reason)` is called when the connection
/// has ended; `on_queued(c)` when a frame is queued that no task waits to send.
pub(super) fn receiver(call: &mut Call<'_>) -> Result<Closure<Callbacks>, Fault> {
    Tasks::of(call)?.allow_yield_across(RECEIVE);
    let object = push_tasks_object(call)?;
    Ok(Closure(RECEIVE, (Argument(object), Argument(1), Argument(2))))
}

/// `core.poller(on_end, on_queued)`: returns a function like `receive` that does not wait: it returns false if no message
/// has arrived, with the connection armed.
pub(super) fn poller(call: &mut Call<'_>) -> Result<Closure<Callbacks>, Fault> {
    let nothing = call.push(false)?;
    Ok(Closure(POLL, (Argument(nothing), Argument(1), Argument(2))))
}

const RECEIVE: Function = Function::new(receive);
const POLL: Function = Function::new(poll);

fn receive(call: &mut Call<'_>) -> Result<Next<Reply>, Fault> {
    // A `for` passes the last message as the second argument.
    call.drop_to(1);
    let connection = call.object_mut::<Connection>(1).map_err(|fault| fault.in_call("receive", 0))?;
    if let (_, Some(websocket)) = connection.parts()
        && websocket.has_callbacks
    {
        return Err(Fault::message("receive: the callbacks of this connection receive its messages"));
    }
    if connection.holders.reader != Reader::None {
        return Err(Fault::message("receive: another task is already receiving on this connection"));
    }
    step(call, Waiting::Allowed)
}

fn poll(call: &mut Call<'_>) -> Result<Next<Reply>, Fault> {
    call.drop_to(1);
    step(call, Waiting::Refused)
}

/// Whether a call waits for a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Allowed,
    Refused,
}

/// The meaning of the bytes that the peer has sent.
pub(super) enum Step {
    /// A message, the next `length` bytes of the buffer.
    Lent {
        length: usize,
        kind: Kind,
    },
    Owned(Vec<u8>, Kind),
    /// A frame is queued that the system has not accepted; more may follow.
    Queued,
    /// No further message follows: the code and the reason.
    End(u16, Box<str>),
    /// Nothing yet; the stream is armed.
    Blocked,
}

/// This number of decompressed bytes counts as one more read.
const BYTES_PER_READ: u64 = 512;

/// Decodes frames until there is a message, or until the connection ends or has no bytes.
pub(super) fn advance(connection: &mut Connection) -> Step {
    let (stream, websocket) = connection.parts();
    let Some(websocket) = websocket else { return ended("the connection is closed") };
    if stream.has_lent_bytes() {
        // The last message was copied, or lost because there was not enough memory.
        stream.release_lent_bytes();
    }
    loop {
        if let Some(step) = decode(stream, websocket) {
            return step;
        }
        // Decompression can take much longer than reading.
        stream.spend(websocket.reader.take_work() / BYTES_PER_READ);
        match stream.fill(0) {
            Ok(Filled::Some) => websocket.is_alive = true,
            Ok(Filled::WouldBlock) => return Step::Blocked,
            Ok(Filled::End) => return ended("the peer has closed the connection without a close frame"),
            Err(error) => return ended(failure_of("receive", &error).message()),
        }
    }
}

fn ended(reason: impl Into<Box<str>>) -> Step {
    Step::End(close::ABNORMAL, reason.into())
}

/// Decodes the buffered frames. Returns `None` if all bytes are consumed.
fn decode(stream: &mut Stream, websocket: &mut WebSocket) -> Option<Step> {
    while !stream.buffered().is_empty() {
        let (consumed, event) = websocket.reader.next(stream.buffered_mut());
        let event = match event {
            Some(event @ (Event::Message(..) | Event::Ping(_))) => match websocket.check_rate() {
                Some(refusal) => Some(Event::Refused(refusal)),
                None => Some(event),
            },
            other => other,
        };
        let found = match event {
            None => None,
            Some(Event::Message(kind, Cow::Borrowed(data))) => {
                // The message is the end of the consumed bytes.
                let length = data.len();
                stream.consume(consumed - length);
                return Some(Step::Lent { length, kind });
            }
            Some(Event::Message(kind, Cow::Owned(data))) => Some(Found::Message(data, kind)),
            Some(Event::Ping(payload)) => Some(Found::Ping(payload.into_owned())),
            Some(Event::Pong(_)) => None,
            Some(Event::Close(close)) => Some(Found::Close(close)),
            Some(Event::Refused(refusal)) => Some(Found::Refused(refusal)),
        };
        stream.consume(consumed);
        match found {
            None => {}
            Some(Found::Message(data, kind)) => return Some(Step::Owned(data, kind)),
            Some(Found::Ping(payload)) if websocket.answer(stream, &payload) => return Some(Step::Queued),
            Some(Found::Ping(_)) => {}
            Some(Found::Close(close)) => {
                let (code, reason) = websocket.finish_close(stream, close);
                return Some(Step::End(code, reason));
            }
            Some(Found::Refused(refusal)) => {
                let (code, reason) = websocket.refuse(stream, refusal);
                return Some(Step::End(code, reason));
            }
        }
    }
    None
}

/// An event whose bytes are no longer needed.
enum Found {
    Message(Vec<u8>, Kind),
    Ping(Vec<u8>),
    Close(Close),
    Refused(Refusal),
}

pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Binary => "binary",
    }
}

/// Receives a message from the connection at argument 1, the only value.
fn step(call: &mut Call<'_>, waiting: Waiting) -> Result<Next<Reply>, Fault> {
    let connection = call.object_mut::<Connection>(1)?;
    match advance(connection) {
        Step::Lent { length, kind } => {
            connection.lend(length, length);
            Ok(Next::returns(Reply::Lent((BytesOf::at(1), name(kind)))))
        }
        Step::Owned(data, kind) => Ok(Next::returns(Reply::Owned((data, name(kind))))),
        Step::Queued => {
            call.push(Argument(ON_QUEUED))?;
            call.push(Argument(1))?;
            let next = if waiting == Waiting::Allowed { then(receive_again) } else { then(poll_again) };
            Ok(Next::call(1, next, 0))
        }
        Step::End(code, reason) => {
            call.push(Argument(ON_END))?;
            call.push(Argument(1))?;
            call.push(i64::from(code))?;
            call.create(reason.into_string())?;
            Ok(Next::call(3, then(end), 0))
        }
        Step::Blocked if waiting == Waiting::Allowed => wait(call),
        Step::Blocked => Ok(Next::returns(Reply::Blocked(false))),
    }
}

fn receive_again(call: &mut Call<'_>, _: Outcome) -> Result<Next<Reply>, Fault> {
    call.drop_to(1);
    step(call, Waiting::Allowed)
}

fn poll_again(call: &mut Call<'_>, _: Outcome) -> Result<Next<Reply>, Fault> {
    call.drop_to(1);
    step(call, Waiting::Refused)
}

fn end(_: &mut Call<'_>, _: Outcome) -> Result<Reply, Fault> {
    Ok(Reply::End(Nil))
}

// Waiting ------------------------------------------------------------------------------------------------------------

/// Suspends the running task until the connection is readable or closed.
fn wait(call: &mut Call<'_>) -> Result<Next<Reply>, Fault> {
    let tasks = tasks(call)?;
    let connection = call.object_mut::<Connection>(1)?;
    connection.holders.reader = Reader::Native;
    let token = Token::of_userdata(identity_of(connection));
    let refused = match tasks.wait(call, token, Reason::Other) {
        Ok(()) => return Ok(Next::yields(0, then(resumed), 0)),
        Err(error) => error,
    };
    call.object_mut::<Connection>(1)?.holders.reader = Reader::None;
    match refused {
        WaitError::InUse => Err(in_use()),
        WaitError::Unreachable => tasks.refuse(call, "wait"),
        WaitError::Fault(fault) => Err(fault),
    }
}

/// Continues after a wait. The values of the wakeup follow the argument.
fn resumed(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Reply>, Fault> {
    let is_closed = call.string(outcome.first) == Some(b"closed");
    let tasks = own_tasks(call)?;
    if tasks.ends_with_error(call) {
        return Err(Fault::value(call.count()));
    }
    call.drop_to(1);
    call.object_mut::<Connection>(1)?.holders.reader = Reader::None;
    match is_closed {
        true => Ok(Next::returns(Reply::End(Nil))),
        false => step(call, Waiting::Allowed),
    }
}
