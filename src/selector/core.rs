//! The poll and the table of registrations: adding, changing and deleting, each O(1). `batch.rs` waits.
//!
//! The borrows of the cells are short and never span a call into Lua.

use super::Registration;
use super::number::Numbers;
use super::registration::{Mode, READ, WRITE};
use super::verify::Doubts;
use super::wake::Bell;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;

pub(super) const BELL: Token = Token(usize::MAX);

/// Whose descriptor it is; decides what is asked of the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not ours: re-armed after each delivery.
    Foreign,
    /// Our TCP socket: both directions are asked for once and for all, since the kernel reports room
    /// to write only after a write that found none.
    Tcp,
    /// Another socket of ours: only what is wanted is asked for.
    Other,
}

pub(crate) struct Core {
    pub(super) poll: RefCell<Poll>,
    pub(super) events: RefCell<Events>,
    pub(super) table: RefCell<Slab<Rc<Registration>>>,
    by_descriptor: RefCell<Numbers<Rc<Registration>>>,
    pub(super) ready: RefCell<VecDeque<Rc<Registration>>>,
    pub(super) rearm: RefCell<Vec<Rc<Registration>>>,
    /// Scratch space of `Core::settle`.
    pub(super) doubts: RefCell<Doubts>,
    /// Slots whose registration is gone but whose Lua values are not released yet.
    released: RefCell<Vec<usize>>,
    generation: Cell<u32>,
    alive: Cell<usize>,
    pub(super) bell: RefCell<Option<Arc<Bell>>>,
    /// How many of the queue's first entries belong to the batch that is being iterated.
    pub(super) batch: Cell<usize>,
}

impl Core {
    pub(crate) fn new(max_events: usize) -> io::Result<Rc<Core>> {
        Ok(Rc::new(Core {
            poll: RefCell::new(Poll::new()?),
            events: RefCell::new(Events::with_capacity(max_events)),
            table: RefCell::default(),
            by_descriptor: RefCell::default(),
            ready: RefCell::default(),
            rearm: RefCell::default(),
            doubts: RefCell::default(),
            released: RefCell::default(),
            generation: Cell::new(0),
            alive: Cell::new(0),
            bell: RefCell::default(),
            batch: Cell::new(0),
        }))
    }

    /// How many registrations there are.
    pub(crate) fn count(&self) -> usize {
        self.alive.get()
    }

    /// Whether no registration asks for anything. Mostly the first that it looks at does.
    pub(super) fn asks_nothing(&self) -> bool {
        let table = self.table.borrow();
        !table
            .iter()
            .any(|(_, registration)| registration.alive.get() && registration.asked.get() != 0)
    }

    pub(crate) fn has_bell(&self) -> bool {
        self.bell.borrow().is_some()
    }

    /// The bell that other threads ring; made at first use.
    pub(crate) fn bell(&self) -> io::Result<Arc<Bell>> {
        if let Some(bell) = &*self.bell.borrow() {
            return Ok(bell.clone());
        }
        let waker = mio::Waker::new(self.poll.borrow().registry(), BELL)?;
        let bell = Arc::new(Bell::new(waker));
        *self.bell.borrow_mut() = Some(bell.clone());
        Ok(bell)
    }

    /// The living registration of a descriptor.
    pub(crate) fn find(&self, descriptor: RawFd) -> Option<Rc<Registration>> {
        self.by_descriptor.borrow().get(&descriptor).cloned()
    }

    /// Registers a descriptor. `EEXIST` when it is registered and still the same open file.
    pub(crate) fn add(
        self: &Rc<Self>,
        descriptor: RawFd,
        asked: u8,
        mode: Mode,
        kind: Kind,
    ) -> io::Result<Rc<Registration>> {
        let reported = match (kind, asked & (READ | WRITE)) {
            (Kind::Tcp, _) => READ | WRITE,
            (_, 0) => READ,
            (_, wanted) => wanted,
        };
        let generation = self.next_generation();
        let slot = self.table.borrow().vacant_key();
        self.poll.borrow().registry().register(
            &mut SourceFd(&descriptor),
            token(slot, generation),
            interest(reported),
        )?;
        Ok(self.enter(descriptor, generation, asked, mode, kind, reported))
    }

    /// Registers a socket of ours that is new, without telling the system before something is asked for: many a
    /// connection is over by then.
    pub(crate) fn add_later(
        self: &Rc<Self>,
        descriptor: RawFd,
        mode: Mode,
        kind: Kind,
    ) -> Rc<Registration> {
        let generation = self.next_generation();
        self.enter(descriptor, generation, 0, mode, kind, 0)
    }

    fn next_generation(&self) -> u32 {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        generation
    }

    /// Enters a descriptor that the system takes as new.
    fn enter(
        self: &Rc<Self>,
        descriptor: RawFd,
        generation: u32,
        asked: u8,
        mode: Mode,
        kind: Kind,
        reported: u8,
    ) -> Rc<Registration> {
        let slot = self.table.borrow().vacant_key();
        // What we know under this number is a descriptor closed since.
        if let Some(stale) = self.find(descriptor) {
            self.forget(&stale, false);
        }
        let registration = Rc::new(Registration {
            descriptor,
            slot,
            generation,
            kind,
            mode: Cell::new(mode),
            asked: Cell::new(asked),
            ready: Cell::new(0),
            reported: Cell::new(reported),
            known: Cell::new(reported != 0),
            queued: Cell::new(false),
            alive: Cell::new(true),
            rearming: Cell::new(false),
            core: Rc::downgrade(self),
        });
        self.table.borrow_mut().insert(registration.clone());
        self.by_descriptor
            .borrow_mut()
            .insert(descriptor, registration.clone());
        self.alive.set(self.alive.get() + 1);
        registration
    }

    /// Changes what is asked for.
    pub(crate) fn modify(
        &self,
        registration: &Rc<Registration>,
        asked: u8,
        mode: Mode,
    ) -> io::Result<()> {
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
        let remembered =
            registration.is_own() && matches!(mode, Mode::Level | Mode::Once | Mode::Epoll);
        if remembered {
            self.enqueue(registration);
        } else if wanted != 0 {
            // A condition that holds is reported anew; and the system says at once when the
            // descriptor is no longer the one that was added.
            return self.report(registration, wanted);
        }
        Ok(())
    }

    /// A registration asks for more than before, by [`Registration::arm`]. When the system refuses, the registration
    /// is as before, and may ask again.
    pub(super) fn asked_more(&self, registration: &Rc<Registration>) -> io::Result<()> {
        let wanted = registration.asked.get() & (READ | WRITE);
        if wanted & !registration.reported.get() != 0 {
            let all = match registration.kind {
                Kind::Tcp => READ | WRITE,
                _ => registration.reported.get() | wanted,
            };
            return self
                .report(registration, all)
                .inspect_err(|error| self.forget_gone(registration, error));
        }
        self.enqueue(registration);
        Ok(())
    }

    /// Forgets a registration whose descriptor was closed without a word, as `error` of the system says: it can never
    /// be ready again. Other errors change nothing.
    pub(super) fn forget_gone(&self, registration: &Rc<Registration>, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOENT)) {
            self.forget(registration, false);
        }
    }

    /// Tells the system to report `bits`; a condition that holds already is reported anew.
    pub(super) fn report(&self, registration: &Registration, bits: u8) -> io::Result<()> {
        let poll = self.poll.borrow();
        let source = &mut SourceFd(&registration.descriptor);
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

    /// Removes a registration; its undelivered events die with it.
    pub(crate) fn forget(&self, registration: &Rc<Registration>, tell_system: bool) {
        if !registration.alive.replace(false) {
            return;
        }
        self.alive.set(self.alive.get() - 1);
        let mut by_descriptor = self.by_descriptor.borrow_mut();
        let same = by_descriptor
            .get(&registration.descriptor)
            .is_some_and(|found| Rc::ptr_eq(found, registration));
        if same {
            by_descriptor.remove(&registration.descriptor);
        }
        if tell_system && registration.known.get() {
            // A descriptor closed behind our back is unknown to the system by now.
            let _ = self
                .poll
                .borrow()
                .registry()
                .deregister(&mut SourceFd(&registration.descriptor));
        }
        self.released.borrow_mut().push(registration.slot);
    }

    /// Gives each slot whose registration is gone to `clear`, then frees it for reuse.
    pub(crate) fn sweep(&self, mut clear: impl FnMut(usize)) {
        loop {
            let Some(slot) = self.released.borrow_mut().pop() else {
                return;
            };
            clear(slot);
            self.table.borrow_mut().remove(slot);
        }
    }

    /// Whether [`Core::sweep`] has work.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.borrow().is_empty()
    }

    pub(super) fn enqueue(&self, registration: &Rc<Registration>) {
        if registration.due() != 0 && !registration.queued.replace(true) {
            self.ready.borrow_mut().push_back(registration.clone());
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Sockets may outlive the selector: their registrations must read as dead.
        for (_, registration) in self.table.borrow().iter() {
            registration.alive.set(false);
        }
    }
}

fn token(slot: usize, generation: u32) -> Token {
    Token((generation as usize) << 32 | slot)
}

fn interest(bits: u8) -> Interest {
    match bits & (READ | WRITE) {
        READ => Interest::READABLE,
        WRITE => Interest::WRITABLE,
        _ => Interest::READABLE | Interest::WRITABLE,
    }
}

#[cfg(test)]
impl Core {
    /// Runs `f` while the system refuses every change of interest: the poll's descriptor means another file meanwhile.
    pub(crate) fn refused<T>(&self, f: impl FnOnce() -> T) -> T {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        let number = self.poll.borrow().as_raw_fd();
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: a duplicate of our own descriptor, which nobody else has.
        let kept = unsafe { OwnedFd::from_raw_fd(libc::dup(number)) };
        // SAFETY: the number is the poll's before and after, and no other thread uses this core.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        let result = f();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(kept.as_raw_fd(), number) }, number);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// The descriptors that one wait delivers.
    fn due(core: &Core) -> Vec<RawFd> {
        core.wait(Some(Duration::from_secs(5)), || false).unwrap();
        std::iter::from_fn(|| core.next())
            .map(|(registration, _)| registration.descriptor)
            .collect()
    }

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn a_registration_that_the_system_refuses_may_ask_again() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let core = Core::new(16).unwrap();
        let registration = core.add_later(near.as_raw_fd(), Mode::Once, Kind::Tcp);
        let refused = core.refused(|| registration.arm(READ));
        assert_eq!(errno(refused), Some(libc::EINVAL));
        assert!(registration.alive.get());
        assert_eq!(registration.asked.get(), 0);
        far.write_all(b"x").unwrap();
        registration.arm(READ).unwrap();
        assert_eq!(due(&core), [near.as_raw_fd()]);
    }

    #[test]
    fn a_change_that_the_system_refuses_changes_nothing() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let core = Core::new(16).unwrap();
        let registration = core
            .add(near.as_raw_fd(), READ, Mode::Level, Kind::Foreign)
            .unwrap();
        let refused = core.refused(|| core.modify(&registration, WRITE, Mode::Once));
        assert_eq!(errno(refused), Some(libc::EINVAL));
        assert_eq!(registration.asked.get(), READ);
        assert!(registration.mode.get() == Mode::Level);
        assert_eq!(core.count(), 1);
        far.write_all(b"x").unwrap();
        assert_eq!(due(&core), [near.as_raw_fd()]);
    }

    #[test]
    fn a_foreign_descriptor_that_cannot_be_re_armed_fails_the_wait_and_is_kept() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let core = Core::new(16).unwrap();
        core.add(near.as_raw_fd(), READ, Mode::Level, Kind::Foreign)
            .unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(due(&core), [near.as_raw_fd()]);
        let refused = core.refused(|| core.wait(Some(Duration::ZERO), || false));
        assert_eq!(errno(refused), Some(libc::EINVAL));
        assert_eq!(due(&core), [near.as_raw_fd()]);
        assert_eq!(due(&core), [near.as_raw_fd()]);
    }

    #[test]
    fn a_descriptor_that_is_closed_is_forgotten_and_said() {
        let (near, _far) = UnixStream::pair().unwrap();
        let core = Core::new(16).unwrap();
        let registration = core.add_later(near.as_raw_fd(), Mode::Once, Kind::Tcp);
        drop(near);
        assert_eq!(errno(registration.arm(READ)), Some(libc::EBADF));
        assert_eq!(core.count(), 0);
    }
}
