//! `lio.socket`: functions that create sockets. Calls return values on success, `false` if they would block, and `nil,
//! message, code` on failure. Misuse raises an error.
//!
//! | file | topic |
//! |---|---|
//! | `methods` | the methods of a socket |
//! | `send_receive` | the methods that send and receive bytes and datagrams |
//! | `endpoint` | addresses as objects |
//! | `reply` | what the calls have in common |

pub(crate) mod endpoint;
pub(crate) mod methods;
mod reply;
mod send_receive;

use crate::lua::{Argument, Call, Fault, Function, FunctionTable, List, ModuleWith, New, Value, failed, functions};
use crate::socket::{Protocol, Socket, Table, duplicate, inherit};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};
use std::rc::Rc;

/// Converts the result of the system call `call`: a socket to an object, an error to a failure.
fn made(call: &'static str, socket: io::Result<Socket>) -> Result<New<Socket>, Fault> {
    socket.map(New::of).map_err(failed(call))
}

/// `socket.create(protocol)`: returns a socket. `protocol` is `"tcp"`, `"udp"`, `"tcp6"`, `"udp6"` or `"unix"`.
fn create(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let protocol = match call.bytes(1)? {
        b"tcp" => Protocol::Tcp,
        b"udp" => Protocol::Udp,
        b"tcp6" => Protocol::Tcp6,
        b"udp6" => Protocol::Udp6,
        b"unix" => Protocol::UnixStream,
        _ => return Err(Fault::argument(1, "'tcp', 'udp', 'tcp6', 'udp6' or 'unix' expected")),
    };
    let table = call.shared::<Table>()?;
    made("socket", Socket::create(protocol, &table))
}

/// `socket.pair()`: returns two connected sockets.
fn pair(call: &mut Call<'_>) -> Result<(New<Socket>, New<Socket>), Fault> {
    let table = call.shared::<Table>()?;
    let (left, right) = Socket::pair(&table).map_err(failed("socketpair"))?;
    Ok((New::of(left), New::of(right)))
}

/// Returns the descriptor at argument 1: a lightuserdata or an integer.
fn number(call: &Call<'_>) -> Result<RawFd, Fault> {
    let number = match call.light(1) {
        Some(light) => light.0 as isize as i64,
        None => call.integer(1)?,
    };
    match RawFd::try_from(number) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(Fault::argument(1, "not a descriptor")),
    }
}

/// Creates an object for the descriptor at argument 1. The object owns the descriptor only when nothing can fail
/// afterwards: if memory runs out, the descriptor still belongs to the caller, and must not be closed.
fn adopt(call: &mut Call<'_>, lend: impl FnOnce(RawFd, &Rc<Table>) -> io::Result<Socket>) -> Result<Argument, Fault> {
    let (number, table) = (number(call)?, call.shared::<Table>()?);
    let owns = owns(call, number, &table);
    let socket = made("fd", lend(number, &table))?;
    let object = call.create(socket)?;
    if owns {
        call.object_mut::<Socket>(object)?.own();
    }
    Ok(Argument(object))
}

/// Returns whether the object for the descriptor `number` will own the descriptor. The result is false if argument 2 is
/// true, or if lio has lent the descriptor to the VM.
fn owns(call: &Call<'_>, number: RawFd, table: &Table) -> bool {
    !call.is_true(2) && !table.is_lent(number)
}

/// `socket.fd(handle [, no_ownership])`: returns a socket for a foreign descriptor (a lightuserdata or an integer),
/// which becomes non-blocking and close-on-exec. With `no_ownership`, closing the socket leaves the descriptor open.
fn fd(call: &mut Call<'_>) -> Result<Argument, Fault> {
    adopt(call, Socket::from_number)
}

/// `socket._fd_of_any(handle [, no_ownership])`: like `fd`, for `bee.socket`. A descriptor that is not a socket gets an
/// object as well, for selectors, `handle`, `detach` and `close`.
fn fd_of_any(call: &mut Call<'_>) -> Result<Argument, Fault> {
    adopt(call, |number, table| match Socket::from_number(number, table) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTSOCK) => Socket::from_other(number, table),
        taken => taken,
    })
}

/// `socket._identity(handle)`: returns an integer that no other socket has until the operating system restarts; nil if
/// the operating system provides no such integer.
fn identity(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let identity = duplicate::identity(number(call)?);
    Ok(identity.ok().map(|identity| identity as i64))
}

/// `socket._duplicate(handle, identity)`: returns a socket with its own descriptor for the listening socket of another
/// VM of this process; `nil, message, code` if the handle no longer belongs to that socket.
fn open_duplicate(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let (number, identity) = (number(call)?, call.integer(2)? as u64);
    let table = call.shared::<Table>()?;
    let copy = duplicate::open(number, identity);
    made("duplicate", copy.and_then(|copy| Socket::from_own(copy, &table)))
}

/// `socket.gethostname()`: returns the host's name.
fn gethostname(_: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(rustix::system::uname().nodename().to_bytes().to_vec())
}

/// `socket.chmod(path, mode)`: sets the permission bits of a unix socket's file (chmod(2)). Returns `true`.
fn chmod(call: &mut Call<'_>) -> Result<bool, Fault> {
    let path = OsStr::from_bytes(call.bytes(1)?);
    let mode = call.integer_in(2, 0..=0o7777, "mode")? as u32;
    let changed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    changed.map_err(failed("chmod"))?;
    Ok(true)
}

/// `lio.systemd()`: returns a list of the sockets that the process was started with; its field `names` is a list of
/// their names. The list is empty if there are none. Returns `nil, message, code` if a socket cannot be duplicated.
/// Each call returns new sockets.
pub(crate) const SYSTEMD: Function = Function::new(|call: &mut Call<'_>| {
    let table = call.shared::<Table>()?;
    let mut items = Vec::new();
    let mut names = Vec::new();
    for one in inherit::inherited() {
        let copy = one.duplicate();
        items.push(made("systemd", copy.and_then(|copy| Socket::from_own(copy, &table)))?);
        names.push(Value::Name(&one.name));
    }
    let named = vec![("names", Value::List(names))];
    Ok(List { items, named })
});

const FUNCTIONS: FunctionTable = functions! {
    create, pair, fd, _fd_of_any = fd_of_any, _identity = identity, _duplicate = open_duplicate, endpoint::endpoint,
    gethostname, chmod,
};

/// Opens `lio.socket`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(ModuleWith { functions: FUNCTIONS, values: vec![("_NAME", Value::Name("lio.socket"))] })
});
