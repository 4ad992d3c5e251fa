//! Descriptors given as raw numbers by Lua code, the service manager or a parent process. No other file converts
//! numbers to descriptors.
//!
//! Contract: a number that is passed to [`owned`] is owned by the process and has no other user from then on; a number
//! that is passed to the other functions stays open while they use it. The compiler cannot check these rules. A program
//! that breaks the contract (two objects for one number, or a close by other code) may read, write or close another
//! file of the process; it cannot corrupt memory.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A socket, or another descriptor that is treated as a socket. Dropping the value closes the descriptor, unless it is
/// lent.
pub(crate) enum Fd {
    Own(socket2::Socket),
    Lent(ManuallyDrop<socket2::Socket>),
}

impl Fd {
    /// Whether the descriptor stays open when the value is dropped.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self, Fd::Lent(_))
    }

    /// Makes the value the owner of the descriptor, under the conditions of [`owned`].
    pub(crate) fn into_own(self) -> Fd {
        match self {
            Fd::Lent(socket) => Fd::Own(ManuallyDrop::into_inner(socket)),
            own => own,
        }
    }
}

impl Deref for Fd {
    type Target = socket2::Socket;

    fn deref(&self) -> &socket2::Socket {
        match self {
            Fd::Own(socket) => socket,
            Fd::Lent(socket) => socket,
        }
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

/// Takes ownership of the descriptor `number`; no other code may close it.
///
/// # Errors
/// `EBADF` if the descriptor is not open.
pub(crate) fn owned(number: RawFd) -> io::Result<OwnedFd> {
    borrowed(number, |descriptor| rustix::io::fcntl_getfd(descriptor))??;
    // SAFETY: the descriptor is open, and the caller transfers its ownership.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns the descriptor `number`, which belongs to other code. That code must not close the descriptor before the
/// returned value is dropped.
///
/// # Errors
/// `EBADF` if the descriptor is not open.
pub(crate) fn lent(number: RawFd) -> io::Result<Fd> {
    let socket = socket2::Socket::from(owned(number)?);
    Ok(Fd::Lent(ManuallyDrop::new(socket)))
}

/// Calls `f` with the descriptor `number`, which must stay open meanwhile. If it is not open, the system refuses the
/// operations of `f`.
///
/// # Errors
/// `EBADF` for a negative number.
#[inline]
pub(crate) fn borrowed<R>(number: RawFd, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
    if number < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the number is not -1. The caller keeps it open until `f` returns, and `f` cannot store the borrowed
    // descriptor.
    Ok(f(unsafe { BorrowedFd::borrow_raw(number) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        let closed = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        for number in [-1, RawFd::MIN, 1_000_000, closed + 1000] {
            assert_eq!(errno(owned(number)), Some(libc::EBADF));
            assert_eq!(errno(lent(number)), Some(libc::EBADF));
        }
        for number in [-1, RawFd::MIN] {
            assert_eq!(errno(borrowed(number, |_| ())), Some(libc::EBADF));
        }
    }

    #[test]
    fn a_lent_descriptor_stays_open_and_an_owned_one_is_closed() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = near.into_raw_fd();
        let fd = lent(number).unwrap();
        assert!(fd.is_lent());
        assert_eq!(fd.as_raw_fd(), number);
        drop(fd);
        let fd = Fd::Own(owned(number).unwrap().into());
        assert!(!fd.is_lent());
        assert!(borrowed(number, |fd| fd.as_raw_fd() == number).unwrap());
    }
}
