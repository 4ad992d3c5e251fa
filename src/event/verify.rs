//! The second look at sources that are believed ready: one poll(2) for all of them.
//!
//! Called by the selector before a wait, for level-triggered sources that were delivered and not proven over since.
//! Answers come in the order in which the doubts were pushed.

use super::interest::{CLOSED, ERROR, HANG_UP, READ, WRITE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::rc::Rc;

/// End of the peer's side; where poll(2) does not report it, reading does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PEER_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PEER_CLOSED: PollFlags = PollFlags::empty();

/// Sources to be checked, in reusable memory.
#[derive(Default)]
pub(super) struct Doubts {
    owners: Vec<Rc<dyn AsFd>>,
    memory: Vec<PollFd<'static>>,
    answers: Vec<Option<u8>>,
}

impl Doubts {
    pub(super) fn push(&mut self, owner: Rc<dyn AsFd>) {
        self.owners.push(owner);
    }

    /// What holds for each, `None` for one that is not open; then there are no doubts. Nothing at all when there were
    /// none, or when the system cannot tell: then what is believed stands.
    pub(super) fn answers(&mut self) -> Option<impl Iterator<Item = Option<u8>> + '_> {
        if self.owners.is_empty() {
            return None;
        }
        let mut list = emptied(std::mem::take(&mut self.memory));
        let asked = PollFlags::IN | PollFlags::OUT | PEER_CLOSED;
        let owners = self.owners.iter();
        list.extend(owners.map(|owner| PollFd::from_borrowed_fd(owner.as_fd(), asked)));
        let found = loop {
            match poll(&mut list, Some(&Timespec::default())) {
                Err(Errno::INTR) => {}
                found => break found,
            }
        };
        self.answers.clear();
        let answers = list.iter().map(|entry| bits_of(entry.revents()));
        self.answers.extend(answers);
        self.memory = emptied(list);
        self.owners.clear();
        found.is_ok().then(|| self.answers.drain(..))
    }
}

/// The memory of a list, for another one: collecting without a change of layout allocates nothing.
fn emptied<'new>(mut list: Vec<PollFd<'_>>) -> Vec<PollFd<'new>> {
    list.clear();
    list.into_iter().map(|_| unreachable!()).collect()
}

fn bits_of(answer: PollFlags) -> Option<u8> {
    if answer == PollFlags::IN {
        return Some(READ);
    }
    if answer.contains(PollFlags::NVAL) {
        return None;
    }
    let mut bits = 0;
    for (theirs, ours) in [
        (PollFlags::IN, READ),
        (PollFlags::OUT, WRITE),
        (PollFlags::HUP, READ | WRITE | CLOSED | HANG_UP),
        (PollFlags::ERR, READ | WRITE | ERROR),
        (PEER_CLOSED, READ | CLOSED),
    ] {
        if answer.intersects(theirs) {
            bits |= ours;
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;
    use crate::event::Source;
    use crate::event::adopt::Held;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn each_doubt_is_answered_once_in_memory_that_is_kept() {
        let (near, far) = UnixStream::pair().unwrap();
        let source = |end| Source::new(Held::Own(OwnedFd::from(end).into()), Kind::Other);
        let (near, far) = (source(near), source(far));
        let mut doubts = Doubts::default();
        assert!(doubts.answers().is_none());
        let mut place = None;
        for _ in 0..3 {
            doubts.push(near.clone());
            doubts.push(far.clone());
            let answers: Vec<_> = doubts.answers().unwrap().collect();
            assert_eq!(answers, [Some(WRITE); 2]);
            let memory = doubts.memory.as_ptr();
            assert_eq!(*place.get_or_insert(memory), memory);
        }
        drop(far);
        doubts.push(near);
        let all = READ | WRITE | CLOSED | HANG_UP;
        let answers: Vec<_> = doubts.answers().unwrap().collect();
        assert_eq!(answers, [Some(all)]);
        assert!(doubts.answers().is_none());
    }
}
