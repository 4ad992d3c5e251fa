//! The second look at sockets that are believed ready: one poll(2) for all of them.
//!
//! Called by the core before a wait, for our own level-triggered registrations that were delivered and
//! not proven over since. Answers come in the order in which the doubts were pushed.

use super::registration::{CLOSED, ERROR, HANG_UP, READ, WRITE};
use std::os::fd::RawFd;

/// End of the peer's side; where poll(2) does not tell of it, reading does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PEER_CLOSED: i16 = libc::POLLRDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PEER_CLOSED: i16 = 0;

/// Descriptors to be looked at, in reusable memory.
#[derive(Default)]
pub(super) struct Doubts {
    list: Vec<libc::pollfd>,
}

impl Doubts {
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn push(&mut self, descriptor: RawFd) {
        self.list.push(libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN | libc::POLLOUT | PEER_CLOSED,
            revents: 0,
        });
    }

    /// What holds for each, `None` for one that is not open. Nothing at all when there are no doubts, or
    /// when the system cannot tell: then what is believed stands.
    pub(super) fn answers(&mut self) -> Option<impl Iterator<Item = Option<u8>> + '_> {
        if self.list.is_empty() || !look(&mut self.list) {
            return None;
        }
        Some(self.list.iter().map(|entry| bits_of(entry.revents)))
    }
}

/// Fills in `revents`; false when poll(2) fails.
fn look(list: &mut [libc::pollfd]) -> bool {
    loop {
        // SAFETY: pointer and length come from one slice; a zero time-out never blocks.
        let found = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, 0) };
        if found >= 0 {
            return true;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
}

fn bits_of(revents: i16) -> Option<u8> {
    if revents & libc::POLLNVAL != 0 {
        return None;
    }
    let mut bits = 0;
    for (theirs, ours) in [
        (libc::POLLIN, READ),
        (libc::POLLOUT, WRITE),
        (libc::POLLHUP, READ | WRITE | CLOSED | HANG_UP),
        (libc::POLLERR, READ | WRITE | ERROR),
        (PEER_CLOSED, READ | CLOSED),
    ] {
        if revents & theirs != 0 {
            bits |= ours;
        }
    }
    Some(bits)
}
