//! Connections that become objects: made of a socket, accepted, or sent off by another VM; and how a selector gets
//! them.
//!
//! A connection is registered for nothing, and asks for one event at a time. The first step of a call gives the object;
//! [`REGISTER`] or [`ADOPT`] then registers it.

use super::connection::Connection;
use crate::event::{Mode, READ, Source};
use crate::lua::{Argument, Call, Either, Failure, Fault, Function, New, Next, Outcome, Pushing, failed, then};
use crate::modules::selector::interest::attach;
use crate::modules::selector::state::Selector;
use crate::socket::{Moved, Socket, Table};
use crate::stream::{Pool, Stream};
use std::rc::Rc;

/// Registers `source`, that of the object at `index`, with the selector at 1, which yields that object for it.
fn register(call: &mut Call<'_>, index: i32, source: Option<Rc<Source>>) -> Result<(), Fault> {
    let closed = || Failure::new("event_add", "descriptor is closed", "closed");
    let source = source.ok_or_else(closed)?;
    attach(call, 1, index, index, |selector| source.join(selector, 0, Mode::Once))
}

/// Registers the stream at 2, on which `refused` is called when that fails. → the stream
fn register_stream(call: &mut Call<'_>, refused: impl FnOnce(&mut Connection)) -> Result<Argument, Fault> {
    let source = call.object::<Connection>(2)?.socket().source().cloned();
    let registered = register(call, 2, source);
    if registered.is_err() {
        refused(call.object_mut::<Connection>(2)?);
    }
    registered.map(|()| Argument(2))
}

/// (selector, stream) → the stream, registered. One that is refused is closed at once: nobody could wait on it.
pub(super) const REGISTER: Function =
    Function::new(|call: &mut Call<'_>| register_stream(call, |stream| stream.close()));

/// (selector, stream, number) → the same of a stream that was sent off by that number. One that is refused is there for
/// the sender to take back.
const ADOPT: Function = Function::new(|call: &mut Call<'_>| {
    let number = call.integer(3)? as u64;
    register_stream(call, |stream| {
        stream.send_off(number);
    })
});

/// Has `function` called with the selector at 1, a new stream and `number`; its results are the call's.
fn hand_to(function: Function, stream: Stream, number: i64) -> Pushing<Made> {
    let returned = |_: &mut Call<'_>, outcome: Outcome| -> Result<Next, Fault> { Ok(Next::rest(outcome.first)) };
    Next::call(3, then(returned), 0).pushing((function, Argument(1), New::of(Connection::from(stream)), number))
}

type Made = (Function, Argument, New<Connection>, i64);

/// What is to be done with a connection that was made; false when no peer waits to be accepted.
type Making = Either<Pushing<Made>, bool>;

/// A misuse of a socket that is closed.
fn open(call: &Call<'_>) -> Result<(), Fault> {
    if call.object::<Socket>(2)?.is_closed() { Err(Fault::argument(2, "socket is already closed")) } else { Ok(()) }
}

/// `stream.watch(selector, socket)`: registers a listener, a datagram socket or one that is connecting,
/// asking for nothing; `selector:arm` and `accept` ask for one event at a time. `true`, or
/// `nil, message, code`.
pub(super) fn watch(call: &mut Call<'_>) -> Result<bool, Fault> {
    open(call)?;
    let source = call.object::<Socket>(2)?.source().cloned();
    register(call, 2, source)?;
    Ok(true)
}

/// `stream.new(selector, socket)` → a stream that has taken the socket over; the socket object reads as
/// closed then. `nil, message, code` when the selector refuses it, which closes it.
pub(super) fn new(call: &mut Call<'_>) -> Result<Making, Fault> {
    open(call)?;
    call.object::<Selector>(1)?;
    let pool = call.shared::<Pool>()?;
    let socket = call.object_mut::<Socket>(2)?;
    if let Some(source) = socket.source() {
        source.release(true);
    }
    let stream = Stream::new(socket.take(), &pool);
    Ok(Either::One(hand_to(REGISTER, stream, 0)))
}

/// `stream.accept(selector, listener)` → a stream; `false` when no peer waits, the listener being
/// armed; `nil, message, code` on failure.
pub(super) fn accept(call: &mut Call<'_>) -> Result<Making, Fault> {
    let pool = call.shared::<Pool>()?;
    let listener = call.object::<Socket>(2)?;
    Ok(match listener.accept().map_err(failed("accept"))? {
        Moved::Done(socket) => {
            let stream = Stream::new(socket, &pool);
            Either::One(hand_to(REGISTER, stream, 0))
        }
        Moved::WouldBlock => {
            listener.arm(READ).map_err(failed("accept"))?;
            Either::Other(false)
        }
    })
}

fn gone(call: &'static str) -> Failure {
    Failure::new(call, "the connection is gone", "closed")
}

/// `stream.adopt(selector, number)` → the stream that was sent off; `nil, message, code` when somebody
/// has taken it, or the selector refuses it: then it is there for the sender to take back.
pub(super) fn adopt(call: &mut Call<'_>) -> Result<Making, Fault> {
    let number = call.integer_in(2, 1..=i64::MAX, "number")?;
    let (pool, table) = (call.shared::<Pool>()?, call.shared::<Table>()?);
    let stream = Stream::of_parcel(number as u64, &pool, &table);
    let stream = stream.ok_or_else(|| gone("adopt"))?;
    Ok(Either::One(hand_to(ADOPT, stream, number)))
}

/// `stream.take_back(selector, s)`: a stream that was sent off is again what it was → `true`;
/// `nil, message, code` when somebody has taken it.
pub(super) fn take_back(call: &mut Call<'_>) -> Result<bool, Fault> {
    if !call.object_mut::<Connection>(2)?.take_back() {
        return Err(gone("take_back").into());
    }
    register_stream(call, |stream| stream.close())?;
    Ok(true)
}
