//! How connections become objects: they are created from a socket, accepted, or received from another VM, and are
//! registered with a selector.
//!
//! A connection is registered without events, and requests one event at a time. The first step of a call returns the
//! object; then [`REGISTER`] or [`REGISTER_PARCEL`] registers it.

use super::connection::Connection;
use crate::event::{Mode, READ, Source};
use crate::lua::{Argument, Call, Either, Failure, Fault, Function, New, Next, Outcome, Pushing, failed, then};
use crate::modules::selector::interest::attach;
use crate::modules::selector::state::Selector;
use crate::socket::{Attempt, Socket, Table};
use crate::stream::{Pool, Stream};
use std::rc::Rc;

/// (selector, stream): registers the stream and returns it. If registering fails, the stream is closed, because no task
/// could wait on it.
pub(super) const REGISTER: Function =
    Function::new(|call: &mut Call<'_>| register_stream(call, |stream| stream.close()));

/// (selector, stream, number): like `REGISTER`, for the stream that was taken with this number. If registering fails,
/// the sender can take the stream back.
const REGISTER_PARCEL: Function = Function::new(|call: &mut Call<'_>| {
    let number = call.integer(3)? as u64;
    register_stream(call, |stream| {
        stream.make_parcel(number);
    })
});

type CreateArguments = (Function, Argument, New<Connection>, i64);

/// The next step for a new connection; false if no peer is waiting to be accepted.
type Creation = Either<Pushing<CreateArguments>, bool>;

/// `stream.register_socket(selector, socket)`: registers a listener, a datagram socket or a connecting socket, without
/// events. `selector:arm` and `accept` request one event at a time. Returns `true`, or `nil, message, code`.
pub(super) fn register_socket(call: &mut Call<'_>) -> Result<bool, Fault> {
    check_open(call)?;
    let source = call.object::<Socket>(2)?.source().cloned();
    register(call, 2, source)?;
    Ok(true)
}

/// `stream.new(selector, socket)`: returns a stream that takes over the socket; the socket object is then closed. If
/// the selector refuses the socket, the socket is closed and the result is `nil, message, code`.
pub(super) fn new(call: &mut Call<'_>) -> Result<Creation, Fault> {
    check_open(call)?;
    call.object::<Selector>(1)?;
    let pool = call.shared::<Pool>()?;
    let socket = call.object_mut::<Socket>(2)?;
    if let Some(source) = socket.source() {
        source.release(true);
    }
    let stream = Stream::new(socket.take(), &pool);
    Ok(Either::One(register_with(REGISTER, stream, 0)))
}

/// `stream.accept(selector, listener)`: returns a stream; `false` if no peer is waiting, with the listener armed; or
/// `nil, message, code`.
pub(super) fn accept(call: &mut Call<'_>) -> Result<Creation, Fault> {
    let pool = call.shared::<Pool>()?;
    let listener = call.object::<Socket>(2)?;
    Ok(match listener.accept().map_err(failed("accept"))? {
        Attempt::Done(socket) => {
            let stream = Stream::new(socket, &pool);
            Either::One(register_with(REGISTER, stream, 0))
        }
        Attempt::WouldBlock => {
            listener.arm(READ).map_err(failed("accept"))?;
            Either::Other(false)
        }
    })
}

/// `stream.from_parcel(selector, number)`: returns the stream that was sent under this number. Returns `nil, message,
/// code` if the stream was taken before, or if the selector refuses it; in the latter case, the sender can take the
/// stream back.
pub(super) fn from_parcel(call: &mut Call<'_>) -> Result<Creation, Fault> {
    let number = call.integer_in(2, 1..=i64::MAX, "number")?;
    let (pool, table) = (call.shared::<Pool>()?, call.shared::<Table>()?);
    let stream = Stream::from_parcel(number as u64, &pool, &table);
    let stream = stream.ok_or_else(|| taken_failure("adopt"))?;
    Ok(Either::One(register_with(REGISTER_PARCEL, stream, number)))
}

/// `stream.take_back(selector, s)`: takes back the connection that `s` has sent to another VM. Returns `true`, or `nil,
/// message, code` if another VM has taken it.
pub(super) fn take_back(call: &mut Call<'_>) -> Result<bool, Fault> {
    if !call.object_mut::<Connection>(2)?.take_back() {
        return Err(taken_failure("take_back").into());
    }
    register_stream(call, |stream| stream.close())?;
    Ok(true)
}

/// Registers `source`, which belongs to the object at `index`, with the selector at index 1. For events of the source,
/// the selector yields that object.
fn register(call: &mut Call<'_>, index: i32, source: Option<Rc<Source>>) -> Result<(), Fault> {
    let closed = || Failure::new("event_add", "descriptor is closed", "closed");
    let source = source.ok_or_else(closed)?;
    attach(call, 1, index, index, |selector| source.join(selector, 0, Mode::Once))
}

/// Registers the stream at index 2 and returns it. If registering fails, calls `refused` with the stream.
fn register_stream(call: &mut Call<'_>, refused: impl FnOnce(&mut Connection)) -> Result<Argument, Fault> {
    let source = call.object::<Connection>(2)?.socket().source().cloned();
    let registered = register(call, 2, source);
    if registered.is_err() {
        refused(call.object_mut::<Connection>(2)?);
    }
    registered.map(|()| Argument(2))
}

/// Calls `function` with the selector at index 1, a new stream and `number`, and returns the function's results.
fn register_with(function: Function, stream: Stream, number: i64) -> Pushing<CreateArguments> {
    let returned = |_: &mut Call<'_>, outcome: Outcome| -> Result<Next, Fault> { Ok(Next::rest(outcome.first)) };
    Next::call(3, then(returned), 0).pushing((function, Argument(1), New::of(Connection::from(stream)), number))
}

/// Fails if the socket at index 2 is closed.
fn check_open(call: &Call<'_>) -> Result<(), Fault> {
    if call.object::<Socket>(2)?.is_closed() { Err(Fault::argument(2, "socket is already closed")) } else { Ok(()) }
}

fn taken_failure(call: &'static str) -> Failure {
    Failure::new(call, "the connection was taken or closed", "closed")
}
