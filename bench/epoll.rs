//! One epoll instance, level-triggered unless the caller sets another flag. The Rust programs of this folder share this
//! file, so that it contains all their unsafe calls of epoll. The caller owns the registered descriptors; closing a
//! descriptor removes its registration.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An empty event, to initialize the array that [`Epoll::wait`] writes to.
pub(crate) const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    /// Creates the instance, which is closed on exec.
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: no pointer is passed; the result is checked before it is used.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: epoll_create1 has just returned this descriptor, and it has no other owner.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds or changes the registration of `fd`. `operation` is `EPOLL_CTL_ADD` or `EPOLL_CTL_MOD`, `interest` a set of
    /// `EPOLL*` flags. Each event of `fd` contains `token`.
    pub(crate) fn control(
        &self, operation: libc::c_int, fd: RawFd, interest: libc::c_int, token: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: token };
        // SAFETY: `event` is valid during the call. A descriptor that is not open causes an error.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for events, stores them in `events`, and returns their number. If `timeout_ms` is -1, the wait has no
    /// limit. If a signal interrupts the wait, returns 0.
    pub(crate) fn wait(&self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
        // SAFETY: `events` is writable memory for `room` events during the call.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms) };
        if count >= 0 {
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    }
}
