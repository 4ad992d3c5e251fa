//! `skynet.sockets`: sockets that all services know by a number. The files of `lualib/skynet/socket/` are the only
//! users.

use crate::lua::{
    Call, Either, Fault, Function, FunctionTable, Module, New, Nil, Object, Stack, Value, functions, results,
};
use crate::socket::numbered::{self, Holder, Priority, Taken, Written};
use std::io::IoSlice;

impl Object for Holder {
    const NAME: &'static str = "skynet.socket";
    const METHODS: FunctionTable = functions! { number: NUMBER, set_writer, take, end: END, remove: REMOVE };
}

/// `h:number()`: returns the number of the socket.
const NUMBER: Function = Function::method(|holder: &Holder| i64::from(holder.number()));

/// `h:end()`: refuses further writes.
const END: Function = Function::method(|holder: &Holder| holder.end());

/// `h:remove()`: removes the socket.
const REMOVE: Function = Function::method(|holder: &Holder| holder.remove());

results! {
    enum Write {
        Sent(bool),
        /// True, the owner, whether the owner must be notified, and the number of queued KiB for a warning.
        Queued((bool, i64, bool, Option<i64>)),
    }
}

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

/// `sockets.write(number, data, is_low)`: writes a string. Returns true if the system has accepted it; false if there is
/// no such socket. If bytes are queued, returns true, the owner, whether the owner must be notified them, and, if it
/// must be warned, how many KiB are queued.
fn write(call: &mut Call<'_>) -> Result<Write, Fault> {
    let priority = if call.is_true(3) { Priority::Low } else { Priority::High };
    let written = numbered::write(number(call, 1, "socket")?, &[IoSlice::new(call.bytes(2)?)], priority);
    Ok(match written {
        Written::Missing => Write::Sent(false),
        Written::Sent => Write::Sent(true),
        Written::Queued { owner, is_first, warning } => {
            let kibibytes = warning.map(|bytes| bytes.div_ceil(1024) as i64);
            Write::Queued((true, owner.into(), is_first, kibibytes))
        }
    })
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
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { hold, adopt, owner, write, list })));
