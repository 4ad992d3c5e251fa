//! A second descriptor of a listening socket that belongs to another VM of this process. With it, the workers of a web
//! server accept connections in place of a busy worker.
//!
//! The owner may close its descriptor at any time, and the descriptor's number may then refer to another file.
//! Therefore the identity of the copy (SO_COOKIE of socket(7)) is compared with the identity of the original socket.

use crate::event::adopt;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

/// Returns the identity of the socket with this descriptor.
pub(crate) fn identity(number: RawFd) -> io::Result<u64> {
    adopt::borrowed(number, |socket| identity_of(socket))?
}

/// Returns another descriptor of the socket with the descriptor `number`, if this socket still has the identity
/// `wanted`; otherwise fails with `ENOTSOCK`.
pub(crate) fn open(number: RawFd, wanted: u64) -> io::Result<OwnedFd> {
    let copy = adopt::borrowed(number, |socket| socket.try_clone_to_owned())??;
    if identity_of(&copy)? == wanted { Ok(copy) } else { Err(Errno::NOTSOCK.into()) }
}

/// Returns a number that no other socket has until the system restarts. Fails if the system has no socket cookies.
fn identity_of(socket: impl AsFd) -> io::Result<u64> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return Ok(rustix::net::sockopt::socket_cookie(socket)?);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = socket;
        Err(io::ErrorKind::Unsupported.into())
    }
}
