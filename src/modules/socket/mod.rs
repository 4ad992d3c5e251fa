//! `lio.socket`: what makes sockets. Values on success, `false` when it would block, `nil, message, code` on failure;
//! misuse raises. `methods.rs` has what its objects can do, `bytes.rs` what they send and receive, `endpoint.rs` addresses
//! as objects, `reply.rs` what the calls share.

mod bytes;
pub(crate) mod endpoint;
pub(crate) mod methods;
mod reply;

use crate::lua::{Call, Fault, Function, FunctionTable, List, ModuleWith, New, Value, failed, functions};
use crate::socket::{Protocol, Socket, Table, inherit, twin};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};

/// A new socket, or what the system says to `call`.
fn made(call: &'static str, socket: io::Result<Socket>) -> Result<New<Socket>, Fault> {
    socket.map(New::of).map_err(failed(call))
}

/// `socket.create(protocol)`: `"tcp"`, `"udp"`, `"tcp6"`, `"udp6"` or `"unix"` → a socket.
fn create(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let protocol = match call.bytes(1)? {
        b"tcp" => Protocol::Tcp,
        b"udp" => Protocol::Udp,
        b"tcp6" => Protocol::Tcp6,
        b"udp6" => Protocol::Udp6,
        b"unix" => Protocol::UnixStream,
        _ => {
            let message = "'tcp', 'udp', 'tcp6', 'udp6' or 'unix' expected";
            return Err(Fault::argument(1, message));
        }
    };
    let table = call.shared::<Table>()?;
    made("socket", Socket::create(protocol, &table))
}

/// `socket.pair()` → two connected sockets.
fn pair(call: &mut Call<'_>) -> Result<(New<Socket>, New<Socket>), Fault> {
    let table = call.shared::<Table>()?;
    let (left, right) = Socket::pair(&table).map_err(failed("socketpair"))?;
    Ok((New::of(left), New::of(right)))
}

/// The descriptor at argument 1: a lightuserdata or an integer.
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

/// Whether an object may own the descriptor `number`, as argument 2 says. One that lio has lent to the VM is never owned.
fn owns(call: &Call<'_>, number: RawFd, table: &Table) -> bool {
    !call.is_true(2) && !table.is_lent(number)
}

/// `socket.fd(handle [, no_ownership])`: a socket of a descriptor made elsewhere (a lightuserdata or an
/// integer). It becomes non-blocking and close-on-exec. With `no_ownership` closing leaves it open.
fn fd(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let (number, table) = (number(call)?, call.shared::<Table>()?);
    let owns = owns(call, number, &table);
    made("fd", Socket::from_number(number, owns, &table))
}

/// `socket._fd_of_any(handle [, no_ownership])`: as `fd`, for `bee.socket`: a descriptor that is no socket gives an
/// object too, for selectors, `handle`, `detach` and `close`.
fn fd_of_any(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let (number, table) = (number(call)?, call.shared::<Table>()?);
    let owns = owns(call, number, &table);
    let socket = match Socket::from_number(number, owns, &table) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTSOCK) => Socket::from_other(number, owns, &table),
        taken => taken,
    };
    made("fd", socket)
}

/// `socket._identity(handle)` → an integer that no other socket has as long as the system runs; nil where the system has
/// none.
fn identity(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let identity = twin::identity(number(call)?);
    Ok(identity.ok().map(|identity| identity as i64))
}

/// `socket._twin(handle, identity)` → a socket with a descriptor of its own for the listening socket of another VM of this
/// process; `nil, message, code` when the handle is that socket's no longer.
fn open_twin(call: &mut Call<'_>) -> Result<New<Socket>, Fault> {
    let (number, identity) = (number(call)?, call.integer(2)? as u64);
    let table = call.shared::<Table>()?;
    let copy = twin::open(number, identity);
    made("twin", copy.and_then(|copy| Socket::from_own(copy, &table)))
}

/// `socket.gethostname()` → the host's name.
fn gethostname(_: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(rustix::system::uname().nodename().to_bytes().to_vec())
}

/// `socket.chmod(path, mode)`: permission bits of a unix socket's file (chmod(2)) → `true`.
fn chmod(call: &mut Call<'_>) -> Result<bool, Fault> {
    let path = OsStr::from_bytes(call.bytes(1)?);
    let mode = call.integer_in(2, 0..=0o7777, "mode")? as u32;
    let changed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    changed.map_err(failed("chmod"))?;
    Ok(true)
}

/// `lio.systemd()` → the sockets that the process was started with, as a list whose field `names` has the name of each;
/// empty when there are none. `nil, message, code` when one cannot be duplicated. Each call gives sockets of their own.
fn systemd(call: &mut Call<'_>) -> Result<List<New<Socket>>, Fault> {
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
}

/// `lio.systemd`.
pub(crate) const SYSTEMD: Function = Function::new(systemd);

const FUNCTIONS: FunctionTable = functions! {
    create, pair, fd, _fd_of_any = fd_of_any, _identity = identity, _twin = open_twin, endpoint::endpoint,
    gethostname, chmod,
};

/// Opens `lio.socket`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(ModuleWith { functions: FUNCTIONS, values: vec![("_NAME", Value::Name("lio.socket"))] })
});
