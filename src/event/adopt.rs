//! Descriptors of raw numbers, which Lua code, the service manager or a parent process hands over. The one place of
//! this kind.
//!
//! The contract: a number that is given to [`owned`] belongs to the process, and to nothing else from then on; one that
//! is given to the others stays open while they use it. The compiler cannot check either. A program that breaks it (two
//! objects for one number, a close behind our back) may read, write or close another file of the process; it cannot
//! corrupt memory.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A socket, or another descriptor that is treated as one, which is closed when it is dropped unless it is only lent.
pub(crate) enum Held {
    Own(socket2::Socket),
    Lent(ManuallyDrop<socket2::Socket>),
}

impl Held {
    /// Whether dropping it leaves the descriptor open.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self, Held::Lent(_))
    }
}

impl Deref for Held {
    type Target = socket2::Socket;

    fn deref(&self) -> &socket2::Socket {
        match self {
            Held::Own(socket) => socket,
            Held::Lent(socket) => socket,
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

/// The descriptor `number`, which the process owns, and which nothing else closes. `EBADF` when it is not open.
pub(crate) fn owned(number: RawFd) -> io::Result<OwnedFd> {
    borrowed(number, |descriptor| rustix::io::fcntl_getfd(descriptor))??;
    // SAFETY: it is open, and the caller gives it away.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The descriptor `number`, which somebody else closes when this is dropped or later. `EBADF` when it is not open.
pub(crate) fn lent(number: RawFd) -> io::Result<Held> {
    let socket = socket2::Socket::from(owned(number)?);
    Ok(Held::Lent(ManuallyDrop::new(socket)))
}

/// Runs `f` with the descriptor `number`, which stays open meanwhile. The system refuses what `f` asks of one that is not
/// open; `EBADF` for a number that none can have.
#[inline]
pub(crate) fn borrowed<R>(number: RawFd, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
    if number < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: not -1, and the caller keeps it open until `f` returns, which cannot keep the borrow.
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
    fn what_is_lent_stays_open_and_what_is_owned_does_not() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = near.into_raw_fd();
        let held = lent(number).unwrap();
        assert!(held.is_lent());
        assert_eq!(held.as_raw_fd(), number);
        drop(held);
        let held = Held::Own(owned(number).unwrap().into());
        assert!(!held.is_lent());
        assert!(borrowed(number, |fd| fd.as_raw_fd() == number).unwrap());
    }
}
