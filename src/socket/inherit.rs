//! The sockets that the process was started with, after sd_listen_fds(3).
//!
//! Invariant: the inherited descriptors themselves stay open and are never given away, only duplicates of them. So every
//! VM of the process gets the same sockets, whoever closed theirs before.

use crate::event::adopt;
use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
use std::env;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// The first inherited descriptor.
const FIRST: RawFd = 3;
/// A sane bound for `LISTEN_FDS`.
const MOST: i32 = 4096;

/// One of them.
pub(crate) struct Inherited {
    number: RawFd,
    pub(crate) name: String,
}

/// What the environment told at the first call, but for what is no socket. Variables are not removed, which threads that
/// read the environment would not survive: `LISTEN_PID` keeps children from taking them for theirs.
pub(crate) fn inherited() -> &'static [Inherited] {
    static ALL: OnceLock<Vec<Inherited>> = OnceLock::new();
    ALL.get_or_init(|| {
        let number = |name| env::var(name).ok()?.trim().parse::<i32>().ok();
        if number("LISTEN_PID").and_then(|pid| u32::try_from(pid).ok()) != Some(std::process::id()) {
            return Vec::new();
        }
        let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
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

/// Keeps an inherited descriptor from children. → whether it is a socket
fn keep(descriptor: BorrowedFd<'_>) -> bool {
    let kept = fcntl_getfd(descriptor).and_then(|flags| fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC));
    let is_socket = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_socket();
    kept.is_ok() && fstat(descriptor).is_ok_and(is_socket)
}

impl Inherited {
    /// A descriptor of its own for the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        let copy = adopt::borrowed(self.number, |fd| fcntl_dupfd_cloexec(fd, FIRST))?;
        Ok(copy?)
    }
}
