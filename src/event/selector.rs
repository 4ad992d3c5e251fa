//! The poll and the table of registrations: adding, changing and deleting, each O(1). `batch.rs` waits.

use super::interest::{Kind, Mode, READ, WRITE, interest};
use super::registration::{Owner, Registration};
use super::verify::Doubts;
use super::waker::Waker;
use mio::unix::SourceFd;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;

pub(super) const WAKER: Token = Token(usize::MAX);

/// A descriptor as it is entered.
pub(super) struct Entry {
    pub(super) number: RawFd,
    pub(super) kind: Kind,
    /// `None` of a descriptor that is not ours.
    pub(super) owner: Option<Owner>,
}

/// Readiness of many descriptors. Dropping it forgets them all.
pub(crate) struct Selector {
    pub(super) poll: RefCell<Poll>,
    pub(super) events: RefCell<Events>,
    pub(super) table: RefCell<Slab<Rc<Registration>>>,
    by_number: RefCell<FxHashMap<RawFd, Rc<Registration>>>,
    pub(super) ready: RefCell<VecDeque<Rc<Registration>>>,
    pub(super) rearm: RefCell<Vec<Rc<Registration>>>,
    /// Scratch space of `Selector::settle`.
    pub(super) doubts: RefCell<Doubts>,
    /// Slots whose registration is gone but whose values elsewhere are not released yet.
    released: RefCell<Vec<usize>>,
    generation: Cell<u32>,
    alive: Cell<usize>,
    pub(super) waker: RefCell<Option<Arc<Waker>>>,
    /// How many of the queue's first entries belong to the batch that is being iterated.
    pub(super) batch: Cell<usize>,
}

impl Selector {
    /// A wait takes up to `max_events` events from the system.
    pub(crate) fn new(max_events: usize) -> io::Result<Rc<Selector>> {
        Ok(Rc::new(Selector {
            poll: RefCell::new(Poll::new()?),
            events: RefCell::new(Events::with_capacity(max_events)),
            table: RefCell::default(),
            by_number: RefCell::default(),
            ready: RefCell::default(),
            rearm: RefCell::default(),
            doubts: RefCell::default(),
            released: RefCell::default(),
            generation: Cell::new(0),
            alive: Cell::new(0),
            waker: RefCell::default(),
            batch: Cell::new(0),
        }))
    }

    /// How many registrations there are.
    pub(crate) fn count(&self) -> usize {
        self.alive.get()
    }

    /// Whether no registration asks for anything. Mostly the first one does.
    pub(crate) fn asks_nothing(&self) -> bool {
        let table = self.table.borrow();
        !table.iter().any(|(_, registration)| registration.alive.get() && registration.asked.get() != 0)
    }

    pub(crate) fn has_waker(&self) -> bool {
        self.waker.borrow().is_some()
    }

    /// The waker, for any thread; made at first use.
    pub(crate) fn waker(&self) -> io::Result<Arc<Waker>> {
        if let Some(waker) = &*self.waker.borrow() {
            return Ok(waker.clone());
        }
        let waker = mio::Waker::new(self.poll.borrow().registry(), WAKER)?;
        let waker = Arc::new(Waker::new(waker));
        *self.waker.borrow_mut() = Some(waker.clone());
        Ok(waker)
    }

    /// The living registration of a descriptor.
    pub(crate) fn find(&self, number: RawFd) -> Option<Rc<Registration>> {
        self.by_number.borrow().get(&number).cloned()
    }

    /// Registers a descriptor that is not ours; a [`Source`](super::Source) registers itself. `EEXIST` when it is
    /// registered and still the same open file.
    pub(crate) fn add(&self, number: RawFd, asked: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        let kind = Kind::Foreign;
        let owner = None;
        let entry = Entry { number, kind, owner };
        self.register(entry, asked, mode)
    }

    pub(super) fn register(&self, entry: Entry, asked: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        let reported = match (entry.kind, asked & (READ | WRITE)) {
            (Kind::Tcp, _) => READ | WRITE,
            (_, 0) => READ,
            (_, wanted) => wanted,
        };
        let generation = self.next_generation();
        let slot = self.table.borrow().vacant_key();
        self.poll.borrow().registry().register(
            &mut SourceFd(&entry.number),
            token(slot, generation),
            interest(reported),
        )?;
        Ok(self.enter(entry, generation, asked, mode, reported))
    }

    /// Registers a descriptor that is new, without telling the system before something is asked for: many a
    /// connection is over by then.
    pub(super) fn register_later(&self, entry: Entry, mode: Mode) -> Rc<Registration> {
        let generation = self.next_generation();
        self.enter(entry, generation, 0, mode, 0)
    }

    fn next_generation(&self) -> u32 {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        generation
    }

    /// Enters a descriptor that the system takes as new.
    fn enter(&self, entry: Entry, generation: u32, asked: u8, mode: Mode, reported: u8) -> Rc<Registration> {
        let number = entry.number;
        let slot = self.table.borrow().vacant_key();
        // What is known under this number is a descriptor closed since.
        if let Some(stale) = self.find(number) {
            self.forget(&stale, false);
        }
        let registration = Rc::new(Registration {
            number,
            owner: entry.owner,
            slot,
            generation,
            kind: entry.kind,
            mode: Cell::new(mode),
            asked: Cell::new(asked),
            ready: Cell::new(0),
            reported: Cell::new(reported),
            known: Cell::new(reported != 0),
            queued: Cell::new(false),
            alive: Cell::new(true),
            rearming: Cell::new(false),
            object: Cell::new(0),
            inbox: OnceCell::new(),
        });
        self.table.borrow_mut().insert(registration.clone());
        self.by_number.borrow_mut().insert(number, registration.clone());
        self.alive.set(self.alive.get() + 1);
        registration
    }

    /// Changes what is asked for.
    pub(crate) fn modify(&self, registration: &Rc<Registration>, asked: u8, mode: Mode) -> io::Result<()> {
        let before = (registration.asked.get(), registration.mode.get());
        registration.asked.set(asked);
        registration.mode.set(mode);
        self.modified(registration).inspect_err(|error| {
            registration.asked.set(before.0);
            registration.mode.set(before.1);
            self.forget_gone(registration, error);
        })
    }

    /// Has the system report what is asked for since it was changed.
    fn modified(&self, registration: &Rc<Registration>) -> io::Result<()> {
        let mode = registration.mode.get();
        let wanted = registration.asked.get() & (READ | WRITE);
        if wanted & !registration.reported.get() != 0 {
            return self.report(registration, registration.reported.get() | wanted);
        }
        let remembered = registration.is_own() && matches!(mode, Mode::Level | Mode::Once | Mode::Epoll);
        if remembered {
            self.enqueue(registration);
        } else if wanted != 0 {
            // A condition that holds is reported anew; and the system says at once when the
            // descriptor is no longer the one that was added.
            return self.report(registration, wanted);
        }
        Ok(())
    }

    /// Asks for `bits` in addition, for one delivery; they may be due at once. When the system refuses, the registration
    /// is as before, and may ask again.
    pub(crate) fn arm(&self, registration: &Rc<Registration>, bits: u8) -> io::Result<()> {
        if registration.ask(bits) {
            return Ok(());
        }
        let before = registration.asked.get();
        registration.asked.set(before | bits);
        let wanted = registration.asked.get() & (READ | WRITE);
        if wanted & !registration.reported.get() != 0 || !registration.known.get() {
            let all = match registration.kind {
                Kind::Tcp => READ | WRITE,
                _ if wanted == 0 => READ,
                _ => registration.reported.get() | wanted,
            };
            return self.report(registration, all).inspect_err(|error| {
                registration.asked.set(before);
                self.forget_gone(registration, error);
            });
        }
        self.enqueue(registration);
        Ok(())
    }

    /// Forgets a registration whose descriptor was closed without a word, as `error` of the system says: it can never
    /// be ready again. Other errors change nothing.
    pub(super) fn forget_gone(&self, registration: &Rc<Registration>, error: &io::Error) {
        let error = Errno::from_io_error(error);
        if matches!(error, Some(Errno::BADF | Errno::NOENT)) {
            self.forget(registration, false);
        }
    }

    /// Tells the system to report `bits`; a condition that holds already is reported anew.
    pub(super) fn report(&self, registration: &Registration, bits: u8) -> io::Result<()> {
        let poll = self.poll.borrow();
        let source = &mut SourceFd(&registration.number);
        let token = token(registration.slot, registration.generation);
        match (registration.known.get(), bits) {
            (false, 0) => {}
            (true, 0) => poll.registry().deregister(source)?,
            (true, _) => poll.registry().reregister(source, token, interest(bits))?,
            (false, _) => poll.registry().register(source, token, interest(bits))?,
        }
        registration.known.set(bits != 0);
        registration.reported.set(bits);
        Ok(())
    }

    /// Removes a registration; its undelivered events die with it. `tell_system` when the descriptor stays open.
    pub(crate) fn forget(&self, registration: &Rc<Registration>, tell_system: bool) {
        if !registration.alive.replace(false) {
            return;
        }
        self.alive.set(self.alive.get() - 1);
        let mut by_number = self.by_number.borrow_mut();
        let known = by_number.get(&registration.number);
        if known.is_some_and(|found| Rc::ptr_eq(found, registration)) {
            by_number.remove(&registration.number);
        }
        if tell_system && registration.known.get() {
            // A descriptor closed behind our back is unknown to the system by now.
            let _ = self.poll.borrow().registry().deregister(&mut SourceFd(&registration.number));
        }
        self.released.borrow_mut().push(registration.slot);
    }

    /// Frees a slot whose registration is gone, and returns it: what is kept for it elsewhere can go. The slot is not
    /// given out before the caller is done with it, since that takes a call of [`Selector::add`].
    pub(crate) fn take_released(&self) -> Option<usize> {
        let slot = self.released.borrow_mut().pop()?;
        self.table.borrow_mut().remove(slot);
        Some(slot)
    }

    pub(super) fn enqueue(&self, registration: &Rc<Registration>) {
        if registration.due() != 0 && !registration.queued.replace(true) {
            self.ready.borrow_mut().push_back(registration.clone());
        }
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        // Sources may outlive the selector: their registrations must read as dead.
        for (_, registration) in self.table.borrow().iter() {
            registration.alive.set(false);
        }
    }
}

fn token(slot: usize, generation: u32) -> Token {
    Token((generation as usize) << 32 | slot)
}

#[cfg(test)]
impl Selector {
    /// Runs `f` while the system refuses every change of interest: the poll's descriptor means another file meanwhile.
    pub(crate) fn refused<T>(&self, f: impl FnOnce() -> T) -> T {
        let number = std::os::fd::AsRawFd::as_raw_fd(&*self.poll.borrow());
        let mut place = std::mem::ManuallyDrop::new(super::adopt::owned(number).unwrap());
        let other = std::fs::File::open("/dev/null").unwrap();
        let kept = rustix::io::dup(&*place).unwrap();
        rustix::io::dup2(&other, &mut place).unwrap();
        let result = f();
        rustix::io::dup2(&kept, &mut place).unwrap();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::adopt::Held;
    use crate::event::{CLOSED, Inbox, Source};
    use std::io::Write;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// The descriptors that one wait delivers.
    fn due(selector: &Selector) -> Vec<RawFd> {
        selector.wait(Some(Duration::from_secs(5)), || false).unwrap();
        std::iter::from_fn(|| selector.next()).map(|(registration, _)| registration.number).collect()
    }

    fn errno<T>(result: io::Result<T>) -> Option<Errno> {
        result.err().and_then(|error| Errno::from_io_error(&error))
    }

    fn source(socket: UnixStream) -> Rc<Source> {
        Source::new(Held::Own(OwnedFd::from(socket).into()), Kind::Tcp)
    }

    #[test]
    fn a_registration_that_the_system_refuses_may_ask_again() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let near = source(near);
        let registration = near.join_later(&selector, Mode::Once);
        let refused = selector.refused(|| near.arm(READ));
        assert_eq!(errno(refused), Some(Errno::INVAL));
        assert!(registration.alive.get());
        assert_eq!(registration.asked.get(), 0);
        far.write_all(b"x").unwrap();
        near.arm(READ).unwrap();
        assert_eq!(due(&selector), [near.as_raw_fd()]);
    }

    #[test]
    fn the_end_of_a_descriptor_that_the_system_does_not_know_yet_is_reported() {
        for kind in [Kind::Tcp, Kind::Other] {
            let (near, far) = UnixStream::pair().unwrap();
            let selector = Selector::new(16).unwrap();
            let near = Source::new(Held::Own(OwnedFd::from(near).into()), kind);
            near.join_later(&selector, Mode::Once);
            near.arm(CLOSED).unwrap();
            drop(far);
            assert_eq!(due(&selector), [near.as_raw_fd()]);
        }
    }

    #[test]
    fn a_change_that_the_system_refuses_changes_nothing() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let registration = selector.add(near.as_raw_fd(), READ, Mode::Level).unwrap();
        let refused = selector.refused(|| selector.modify(&registration, WRITE, Mode::Once));
        assert_eq!(errno(refused), Some(Errno::INVAL));
        assert_eq!(registration.asked.get(), READ);
        assert!(registration.mode.get() == Mode::Level);
        assert_eq!(selector.count(), 1);
        far.write_all(b"x").unwrap();
        assert_eq!(due(&selector), [near.as_raw_fd()]);
    }

    #[test]
    fn a_foreign_descriptor_that_cannot_be_re_armed_fails_the_wait_and_is_kept() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        selector.add(near.as_raw_fd(), READ, Mode::Level).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(due(&selector), [near.as_raw_fd()]);
        let refused = selector.refused(|| selector.wait(Some(Duration::ZERO), || false));
        assert_eq!(errno(refused), Some(Errno::INVAL));
        assert_eq!(due(&selector), [near.as_raw_fd()]);
        assert_eq!(due(&selector), [near.as_raw_fd()]);
    }

    #[test]
    fn a_descriptor_that_is_closed_is_forgotten_and_said() {
        let (near, _far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let registration = selector.add(near.as_raw_fd(), 0, Mode::Once).unwrap();
        drop(near);
        assert_eq!(errno(selector.arm(&registration, WRITE)), Some(Errno::BADF));
        assert_eq!(selector.count(), 0);
    }

    #[test]
    fn events_of_a_registration_with_an_inbox_go_there() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let near = source(near);
        let registration = near.join(&selector, READ, Mode::Once).unwrap();
        let inbox = Rc::new(Inbox::default());
        registration.post_to(&inbox, 7);
        far.write_all(b"x").unwrap();
        assert_eq!(due(&selector), [] as [RawFd; 0]);
        let mut list = Vec::new();
        inbox.take(&mut list);
        assert_eq!(list, [(7, READ)]);
    }

    #[test]
    fn a_source_that_its_owner_drops_is_closed_while_its_event_waits() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let near = source(near);
        near.join(&selector, READ, Mode::Level).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(due(&selector), [near.as_raw_fd()]);
        near.release(false);
        drop(near);
        assert_eq!(errno(far.write_all(b"x")), Some(Errno::PIPE));
        assert_eq!(selector.count(), 0);
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        assert!(selector.next().is_none());
    }
}
