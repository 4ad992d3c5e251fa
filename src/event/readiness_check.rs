//! The check of remembered readiness: one poll(2) for all sources.
//!
//! Called by the selector before a wait, for level-triggered sources whose events were delivered, and whose calls have
//! not proved that the condition has ended. The results are in the order in which the sources were added.
//! `wait.rs` decides what is checked and what is delivered.

use super::interest::{CLOSED, ERROR, HANG_UP, READ, WRITE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The flag for a peer that has closed its sending side. On systems where poll(2) has no such flag, a read reports
/// this.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PEER_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PEER_CLOSED: PollFlags = PollFlags::empty();

/// The sources to check, in reusable memory.
#[derive(Default)]
pub(super) struct ReadinessCheck {
    owners: Vec<Rc<dyn AsFd>>,
    memory: Vec<PollFd<'static>>,
    results: Vec<Option<u8>>,
}

impl ReadinessCheck {
    pub(super) fn push(&mut self, owner: Rc<dyn AsFd>) {
        self.owners.push(owner);
    }

    /// Checks all sources and removes them from the list. Returns the readiness of each source, or `None` for a source
    /// that is not open. The result is `None` if there are no sources, or if the check fails; the remembered readiness
    /// is then kept.
    pub(super) fn results(&mut self) -> Option<impl Iterator<Item = Option<u8>> + '_> {
        if self.owners.is_empty() {
            return None;
        }
        self.results.clear();
        let found = match &self.owners[..] {
            [only] => {
                let mut list = [poll_entry(&**only)];
                let found = poll_now(&mut list);
                self.results.push(bits_of(list[0].revents()));
                found
            }
            owners => {
                let mut list = emptied(std::mem::take(&mut self.memory));
                list.extend(owners.iter().map(|owner| poll_entry(&**owner)));
                let found = poll_now(&mut list);
                self.results.extend(list.iter().map(|entry| bits_of(entry.revents())));
                self.memory = emptied(list);
                found
            }
        };
        self.owners.clear();
        found.is_ok().then(|| self.results.drain(..))
    }
}

fn poll_entry(owner: &dyn AsFd) -> PollFd<'_> {
    PollFd::from_borrowed_fd(owner.as_fd(), PollFlags::IN | PollFlags::OUT | PEER_CLOSED)
}

/// Calls poll(2) without waiting.
fn poll_now(list: &mut [PollFd<'_>]) -> rustix::io::Result<usize> {
    loop {
        match poll(list, Some(&Timespec::default())) {
            Err(Errno::INTR) => {}
            found => return found,
        }
    }
}

/// Empties a list and returns its memory for another list. Collecting elements of the same layout allocates nothing.
fn emptied<'new>(mut list: Vec<PollFd<'_>>) -> Vec<PollFd<'new>> {
    list.clear();
    list.into_iter().map(|_| unreachable!()).collect()
}

#[inline]
fn bits_of(flags: PollFlags) -> Option<u8> {
    let bit = |theirs, ours| if flags.intersects(theirs) { ours } else { 0 };
    let bits = bit(PollFlags::IN, READ)
        | bit(PollFlags::OUT, WRITE)
        | bit(PollFlags::HUP, READ | WRITE | CLOSED | HANG_UP)
        | bit(PollFlags::ERR, READ | WRITE | ERROR)
        | bit(PEER_CLOSED, READ | CLOSED);
    (!flags.contains(PollFlags::NVAL)).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;
    use crate::event::Source;
    use crate::event::adopt::Fd;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn each_source_is_checked_once_in_reused_memory() {
        let (near, far) = UnixStream::pair().unwrap();
        let source = |end| Source::new(Fd::Own(OwnedFd::from(end).into()), Kind::Other);
        let (near, far) = (source(near), source(far));
        let mut check = ReadinessCheck::default();
        assert!(check.results().is_none());
        let mut place = None;
        for _ in 0..3 {
            check.push(near.clone());
            check.push(far.clone());
            let results: Vec<_> = check.results().unwrap().collect();
            assert_eq!(results, [Some(WRITE); 2]);
            let memory = check.memory.as_ptr();
            assert_eq!(*place.get_or_insert(memory), memory);
        }
        drop(far);
        check.push(near);
        let all = READ | WRITE | CLOSED | HANG_UP;
        let results: Vec<_> = check.results().unwrap().collect();
        assert_eq!(results, [Some(all)]);
        assert!(check.results().is_none());
    }
}
