//! A second descriptor of a listening socket that belongs to another VM of this process: the workers of a web
//! server accept for one that is held up. The owner may close its own at any time, and its number may become
//! another file; so what was copied is compared with the socket's identity (SO_COOKIE of socket(7)).

use crate::event::adopt;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

/// What no other socket has as long as the system runs; an error where the system has nothing of the kind.
fn identity_of(socket: impl AsFd) -> io::Result<u64> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return Ok(rustix::net::sockopt::socket_cookie(socket)?);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = socket;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The identity of the socket with this number.
pub(crate) fn identity(number: RawFd) -> io::Result<u64> {
    adopt::borrowed(number, |socket| identity_of(socket))?
}

/// Another descriptor of the socket with that identity, if `number` still is one.
pub(crate) fn open(number: RawFd, wanted: u64) -> io::Result<OwnedFd> {
    let copy = adopt::borrowed(number, |socket| socket.try_clone_to_owned())??;
    if identity_of(&copy)? == wanted { Ok(copy) } else { Err(Errno::NOTSOCK.into()) }
}
