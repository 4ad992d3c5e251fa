//! A second descriptor of a listening socket that belongs to another VM of this process: the workers of a web
//! server accept for one that is held up. The owner may close its own at any time, and its number may become
//! another file; so what was copied is compared with the socket's identity (SO_COOKIE of socket(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What no other socket has as long as the system runs.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn identity(socket: &impl AsRawFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: getsockopt(2) writes at most `size` bytes, which `cookie` has; a wrong descriptor is an error.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    match failed {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As above.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn identity(_: &impl AsRawFd) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Another descriptor of the socket with that identity, if `number` still is one.
pub(crate) fn open(number: RawFd, wanted: u64) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is not -1, and is used for the copy alone, which fails when it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = borrowed.try_clone_to_owned()?;
    match identity(&copy)? == wanted {
        true => Ok(copy),
        false => Err(io::Error::from_raw_os_error(libc::ENOTSOCK)),
    }
}
