//! The check of remembered readiness: one poll(2) for all sources.
//!
//! Called by the selector before a wait, for level-triggered sources whose events were delivered, and whose calls have
//! not proved that the condition has ended. The results are in the order in which the sources were added.

use super::interest::{CLOSED, ERROR, HANG_UP, READ, WRITE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The end of the peer's side. If poll(2) does not report it, a read does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PEER_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PEER_CLOSED: PollFlags = PollFlags::empty();

/// The sources to check, in reusable memory.
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

    /// Checks all sources and removes them. Returns the readiness of each source, or `None` for a source that is not
    /// open. The result is `None` if there are no sources, or if the check fails; the remembered readiness is then
    /// kept.
    pub(super) fn answers(&mut self) -> Option<impl Iterator<Item = Option<u8>> + '_> {
        if self.owners.is_empty() {
            return None;
        }
        self.answers.clear();
        let found = match &self.owners[..] {
            [only] => {
                let mut list = [question(&**only)];
                let found = ask(&mut list);
                self.answers.push(bits_of(list[0].revents()));
                found
            }
            owners => {
                let mut list = emptied(std::mem::take(&mut self.memory));
                list.extend(owners.iter().map(|owner| question(&**owner)));
                let found = ask(&mut list);
                self.answers.extend(list.iter().map(|entry| bits_of(entry.revents())));
                self.memory = emptied(list);
                found
            }
        };
        self.owners.clear();
        found.is_ok().then(|| self.answers.drain(..))
    }
}

fn question(owner: &dyn AsFd) -> PollFd<'_> {
    PollFd::from_borrowed_fd(owner.as_fd(), PollFlags::IN | PollFlags::OUT | PEER_CLOSED)
}

/// Calls poll(2) without a wait.
fn ask(list: &mut [PollFd<'_>]) -> rustix::io::Result<usize> {
    loop {
        match poll(list, Some(&Timespec::default())) {
            Err(Errno::INTR) => {}
            found => return found,
        }
    }
}

/// Returns the memory of a list for another one. Collecting elements of the same layout allocates nothing.
fn emptied<'new>(mut list: Vec<PollFd<'_>>) -> Vec<PollFd<'new>> {
    list.clear();
    list.into_iter().map(|_| unreachable!()).collect()
}

#[inline]
fn bits_of(answer: PollFlags) -> Option<u8> {
    let told = |theirs, ours| if answer.intersects(theirs) { ours } else { 0 };
    let bits = told(PollFlags::IN, READ)
        | told(PollFlags::OUT, WRITE)
        | told(PollFlags::HUP, READ | WRITE | CLOSED | HANG_UP)
        | told(PollFlags::ERR, READ | WRITE | ERROR)
        | told(PEER_CLOSED, READ | CLOSED);
    (!answer.contains(PollFlags::NVAL)).then_some(bits)
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
    fn each_source_is_checked_once_in_reused_memory() {
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
