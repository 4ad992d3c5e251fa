//! The sockets that the process was started with, according to sd_listen_fds(3).
//!
//! Invariant: the inherited descriptors stay open, and callers get only duplicates. So every VM of the process gets the
//! same sockets, even if another VM has closed its duplicates before.

use crate::event::adopt;
use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
use std::env;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// The first inherited descriptor.
const FIRST: RawFd = 3;
/// The highest accepted value of `LISTEN_FDS`.
const MAX_INHERITED: i32 = 4096;

/// An inherited socket.
pub(crate) struct Inherited {
    number: RawFd,
    pub(crate) name: String,
}

/// Returns the sockets that the environment described at the first call. The variables are not removed, because other
/// threads may read the environment at the same time. `LISTEN_PID` prevents children from using the variables.
pub(crate) fn inherited() -> &'static [Inherited] {
    static ALL: OnceLock<Vec<Inherited>> = OnceLock::new();
    ALL.get_or_init(|| {
        let number = |name| env::var(name).ok()?.trim().parse::<i32>().ok();
        if number("LISTEN_PID").and_then(|pid| u32::try_from(pid).ok()) != Some(std::process::id()) {
            return Vec::new();
        }
        let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MAX_INHERITED);
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names = names.split(':').chain(std::iter::repeat(""));
        let all = (FIRST..FIRST + count).zip(names).map(|(number, name)| {
            let name = if name.is_empty() { "unknown" } else { name };
            Inherited { number, name: name.to_owned() }
        });
        let kept = all.filter(|one| adopt::borrowed(one.number, keep).unwrap_or(false));
        kept.collect()
    })
}

impl Inherited {
    /// Returns a new descriptor of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        let copy = adopt::borrowed(self.number, |fd| fcntl_dupfd_cloexec(fd, FIRST))?;
        Ok(copy?)
    }
}

/// Makes an inherited descriptor close-on-exec. Returns whether it is a socket.
fn keep(descriptor: BorrowedFd<'_>) -> bool {
    let kept = fcntl_getfd(descriptor).and_then(|flags| fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC));
    let is_socket = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_socket();
    kept.is_ok() && fstat(descriptor).is_ok_and(is_socket)
}
