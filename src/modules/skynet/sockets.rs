//! `skynet.sockets`: sockets that all services know by a number. The files of `lualib/skynet/socket/` are the only
//! users.
//!
//! The owner of a socket is notified with the system message `skynet_socket`, which contains the number. A mailbox
//! accepts it even if it is full. There is at most one unread notification for each socket.

use crate::codec::pack::Value as Packed;
use crate::ltask::message::{Message, SYSTEM, kind};
use crate::ltask::service::Service;
use crate::lua::{Call, Either, Fault, Function, FunctionTable, Module, New, Nil, Object, Stack, Value, functions};
use crate::socket::numbered::{self, End, Holder, Priority, Taken, Written};
use std::io::IoSlice;

impl Object for Holder {
    const NAME: &'static str = "skynet.socket";
    const METHODS: FunctionTable =
        functions! { number: NUMBER, set_writer, take, take_commands, end: END, remove: REMOVE };
}

/// `h:number()`: returns the number of the socket.
const NUMBER: Function = Function::method(|holder: &Holder| i64::from(holder.number()));

/// `h:end()`: refuses further writes.
const END: Function = Function::method(|holder: &Holder| holder.end());

/// `h:remove()`: removes the socket.
const REMOVE: Function = Function::method(|holder: &Holder| holder.remove());

/// Whether the owner must send, the number of queued KiB for a warning, and how the owner must end the socket.
type Orders = (bool, Option<i64>, Option<&'static str>);

/// Reads the number of a socket, or the address of a service.
fn number(stack: &Stack, index: i32, what: &'static str) -> Result<u32, Fault> {
    Ok(stack.integer_in(index, 0..=u32::MAX.into(), what)? as u32)
}

fn text(stack: &Stack, index: i32) -> Result<String, Fault> {
    Ok(String::from_utf8_lossy(stack.bytes(index)?).into_owned())
}

/// `sockets.hold(owner, kind, name)`: returns the holder of a new socket, whose owner is that service. The socket exists
/// until the holder is collected.
fn hold(call: &mut Call<'_>) -> Result<New<Holder>, Fault> {
    let owner = number(call, 1, "service")?;
    Ok(New::of(Holder::new(owner, text(call, 2)?, text(call, 3)?)))
}

/// `sockets.adopt(number, owner)`: makes a service the owner of a socket, and returns its holder; nil if there is no
/// such socket.
fn adopt(call: &mut Call<'_>) -> Result<Option<New<Holder>>, Fault> {
    let (number, owner) = (number(call, 1, "socket")?, number(call, 2, "service")?);
    Ok(Holder::adopt(number, owner).map(New::of))
}

/// `sockets.owner(number)`: returns the service that owns a socket, or nil.
fn owner(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    Ok(numbered::owner(number(call, 1, "socket")?).map(i64::from))
}

/// Notifies the owner of a socket, if there is one, that it has commands for the socket. Returns whether the owner is the
/// calling service, which gets no message.
fn notify(call: &mut Call<'_>, number: u32, owner: Option<u32>) -> bool {
    let (Some(owner), Some(service)) = (owner, call.data::<Service>()) else { return false };
    if owner == service.id {
        return true;
    }
    let values = [Packed::String(b"skynet_socket"), Packed::Integer(number.into())];
    // The sockets of a service that has died are closed.
    let _ = service.system().post(Message::with_values(SYSTEM, owner, 0, kind::SYSTEM, &values), 0);
    false
}

/// `sockets.write(number, data, is_low)`: writes a string. Returns whether there is such a socket, or nil if no socket can
/// have this number, and whether the caller, as its owner, must take commands. Notifies another owner.
fn write(call: &mut Call<'_>) -> Result<(Option<bool>, bool), Fault> {
    let priority = if call.is_true(3) { Priority::Low } else { Priority::High };
    let Some(number) = call.integer_value(1).and_then(|number| u32::try_from(number).ok()) else {
        return Ok((None, false));
    };
    Ok(match numbered::write(number, &[IoSlice::new(call.bytes(2)?)], priority) {
        Written::Missing => (Some(false), false),
        Written::Sent => (Some(true), false),
        Written::Queued { notify: owner } => (Some(true), notify(call, number, owner)),
    })
}

/// `sockets.finish(number, is_shutdown)`: makes the owner close a socket, or shut it down. Returns whether the caller,
/// as its owner, must take commands. Notifies another owner.
fn finish(call: &mut Call<'_>) -> Result<bool, Fault> {
    let end = if call.is_true(2) { End::Shutdown } else { End::Close };
    let number = number(call, 1, "socket")?;
    let owner = numbered::end(number, end);
    Ok(notify(call, number, owner))
}

/// `h:take_commands()`: returns what the owner must do: whether it must send the queued bytes; the number of queued KiB
/// if it must be warned; and "close" or "shutdown" if it must end the socket.
fn take_commands(call: &mut Call<'_>) -> Result<Orders, Fault> {
    let commands = call.object::<Holder>(1)?.take_commands();
    let kibibytes = commands.warning.map(|bytes| bytes.div_ceil(1024) as i64);
    let end = commands.end.map(|end| match end {
        End::Close => "close",
        End::Shutdown => "shutdown",
    });
    Ok((commands.send, kibibytes, end))
}

/// `h:set_writer(number)`: sets the shared writer of the connection.
fn set_writer(call: &mut Call<'_>) -> Result<(), Fault> {
    let writer = call.integer_in(2, 1..=i64::MAX, "number")? as u64;
    call.object::<Holder>(1)?.set_writer(writer);
    Ok(())
}

/// `h:take()`: returns the next queued bytes. When all bytes are sent, returns nil, and whether the owner was warned.
fn take(call: &mut Call<'_>) -> Result<Either<Vec<u8>, (Nil, bool)>, Fault> {
    Ok(match call.object::<Holder>(1)?.take() {
        Taken::Piece(bytes) => Either::One(bytes),
        Taken::Empty { was_warned } => Either::Other((Nil, was_warned)),
    })
}

/// `sockets.list()`: returns a list of all sockets of the process.
fn list(_: &mut Call<'_>) -> Result<Value, Fault> {
    let describe = |one: numbered::Description| {
        Value::Record(vec![
            ("id", Value::Integer(one.number.into())),
            ("owner", Value::Integer(one.owner.into())),
            ("type", Value::String(one.kind.into_bytes())),
            ("name", Value::String(one.name.into_bytes())),
            ("write", Value::Integer(one.written as i64)),
            ("wbuffer", Value::Integer(one.queued as i64)),
        ])
    };
    Ok(Value::List(numbered::list().into_iter().map(describe).collect()))
}

/// Opens `skynet.sockets`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { hold, adopt, owner, write, finish, list })));
