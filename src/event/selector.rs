//! The poll and the table of registrations. Adding, changing and removing a registration take O(1) time. `wait.rs`
//! contains the wait.

use super::interest::{Kind, Mode, READ, WRITE, interest};
use super::readiness_check::ReadinessCheck;
use super::registration::{Owner, Registration, system_bits};
use super::waker::Waker;
use mio::unix::SourceFd;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

pub(super) const WAKER: Token = Token(usize::MAX);

/// A descriptor to be registered.
pub(super) struct Entry {
    pub(super) number: RawFd,
    pub(super) kind: Kind,
    /// `None` for a foreign descriptor.
    pub(super) owner: Option<Owner>,
}

/// The readiness of many descriptors. Dropping the selector removes all registrations.
pub(crate) struct Selector {
    pub(super) poll: RefCell<Poll>,
    pub(super) events: RefCell<Events>,
    pub(super) table: RefCell<Slab<Rc<Registration>>>,
    by_number: RefCell<FxHashMap<RawFd, Rc<Registration>>>,
    pub(super) ready: RefCell<VecDeque<Rc<Registration>>>,
    pub(super) rearm: RefCell<Vec<Rc<Registration>>>,
    /// Reusable memory of `Selector::recheck`.
    pub(super) check: RefCell<ReadinessCheck>,
    /// The slots of removed registrations, until [`Selector::take_released`] returns them.
    released: RefCell<Vec<usize>>,
    generation: Cell<u32>,
    pub(super) waker: RefCell<Option<Arc<Waker>>>,
    /// The number of entries at the front of the queue that belong to the current batch.
    pub(super) batch: Cell<usize>,
}

impl Selector {
    /// Creates a selector. A wait receives up to `max_events` events from the system.
    pub(crate) fn new(max_events: usize) -> io::Result<Rc<Selector>> {
        Ok(Rc::new(Selector {
            poll: RefCell::new(Poll::new()?),
            events: RefCell::new(Events::with_capacity(max_events)),
            table: RefCell::default(),
            by_number: RefCell::default(),
            ready: RefCell::default(),
            rearm: RefCell::default(),
            check: RefCell::default(),
            released: RefCell::default(),
            generation: Cell::new(0),
            waker: RefCell::default(),
            batch: Cell::new(0),
        }))
    }

    /// Returns the number of registrations.
    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len() - self.released.borrow().len()
    }

    /// Whether no registration requests an event. The check is fast, because the first registration usually requests an
    /// event.
    pub(crate) fn has_no_requests(&self) -> bool {
        let table = self.table.borrow();
        !table.iter().any(|(_, registration)| registration.is_active.get() && registration.requested.get() != 0)
    }

    /// Returns the number of the selector's own descriptor, which is readable while the system has events for the
    /// selector. Other code may only wait for the descriptor.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.poll.borrow().as_raw_fd()
    }

    /// Whether the next wait has work even if the descriptor is not readable: it delivers or checks remembered
    /// readiness, or re-arms descriptors.
    pub(crate) fn has_remembered(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.rearm.borrow().is_empty()
    }

    pub(crate) fn has_waker(&self) -> bool {
        self.waker.borrow().is_some()
    }

    /// Returns the waker, which any thread can use. The waker is created at first use.
    pub(crate) fn waker(&self) -> io::Result<Arc<Waker>> {
        if let Some(waker) = &*self.waker.borrow() {
            return Ok(waker.clone());
        }
        let waker = mio::Waker::new(self.poll.borrow().registry(), WAKER)?;
        let waker = Arc::new(Waker::new(waker));
        *self.waker.borrow_mut() = Some(waker.clone());
        Ok(waker)
    }

    /// Returns the registration of a descriptor.
    pub(crate) fn find(&self, number: RawFd) -> Option<Rc<Registration>> {
        self.by_number.borrow().get(&number).cloned()
    }

    /// Registers a foreign descriptor; a [`Source`](super::Source) registers itself.
    ///
    /// # Errors
    /// `EEXIST` if the descriptor is registered and still refers to the same open file.
    pub(crate) fn add(&self, number: RawFd, requested: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        self.register(Entry { number, kind: Kind::Foreign, owner: None }, requested, mode)
    }

    pub(super) fn register(&self, entry: Entry, requested: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        let system_interest = match (entry.kind, system_bits(requested)) {
            (Kind::Tcp, _) => READ | WRITE,
            (_, 0) => READ,
            (_, wanted) => wanted,
        };
        let generation = self.next_generation();
        let slot = self.table.borrow().vacant_key();
        self.poll.borrow().registry().register(
            &mut SourceFd(&entry.number),
            token(slot, generation),
            interest(system_interest),
        )?;
        Ok(self.insert(entry, generation, requested, mode, system_interest))
    }

    /// Registers a new descriptor. The descriptor is registered with the system at the first request, because many
    /// connections are closed before a request.
    pub(super) fn register_later(&self, entry: Entry, mode: Mode) -> Rc<Registration> {
        let generation = self.next_generation();
        self.insert(entry, generation, 0, mode, 0)
    }

    /// Changes the requested events and the mode.
    pub(crate) fn modify(&self, registration: &Rc<Registration>, requested: u8, mode: Mode) -> io::Result<()> {
        let before = (registration.requested.get(), registration.mode.get());
        registration.requested.set(requested);
        registration.mode.set(mode);
        self.modified(registration, before.1).inspect_err(|error| {
            registration.requested.set(before.0);
            registration.mode.set(before.1);
            self.remove_if_closed(registration, error);
        })
    }

    /// Requests `bits` in addition, for one delivery, which may follow immediately. If the system refuses, the request
    /// is undone and can be repeated later. If the descriptor was closed without notice, the registration is removed.
    pub(crate) fn arm(&self, registration: &Rc<Registration>, bits: u8) -> io::Result<()> {
        if registration.try_request(bits) {
            return Ok(());
        }
        let before = registration.requested.get();
        registration.requested.set(before | bits);
        let wanted = system_bits(before | bits);
        if wanted & !registration.system_interest.get() != 0 || !registration.in_system.get() {
            let all = match registration.kind {
                Kind::Tcp => READ | WRITE,
                _ if wanted == 0 => READ,
                _ => registration.system_interest.get() | wanted,
            };
            return self.set_system_interest(registration, all).inspect_err(|error| {
                registration.requested.set(before);
                self.remove_if_closed(registration, error);
            });
        }
        self.enqueue(registration);
        Ok(())
    }

    /// Like [`Selector::arm`], but changes the mode to [`Mode::Once`] if it is another one.
    pub(crate) fn arm_once(&self, registration: &Rc<Registration>, bits: u8) -> io::Result<()> {
        match registration.mode.get() {
            Mode::Once => self.arm(registration, bits),
            _ => self.modify(registration, registration.requested.get() | bits, Mode::Once),
        }
    }

    /// Removes a registration if `error` shows that its descriptor was closed without notice, so that it can never be
    /// ready again. Other errors change nothing.
    pub(super) fn remove_if_closed(&self, registration: &Rc<Registration>, error: &io::Error) {
        let error = Errno::from_io_error(error);
        if matches!(error, Some(Errno::BADF | Errno::NOENT)) {
            self.remove(registration, false);
        }
    }

    /// Requests `bits` from the system. The system then reports current conditions again.
    pub(super) fn set_system_interest(&self, registration: &Registration, bits: u8) -> io::Result<()> {
        let poll = self.poll.borrow();
        let source = &mut SourceFd(&registration.number);
        let token = token(registration.slot, registration.generation);
        match (registration.in_system.get(), bits) {
            (false, 0) => {}
            (true, 0) => poll.registry().deregister(source)?,
            (true, _) => poll.registry().reregister(source, token, interest(bits))?,
            (false, _) => poll.registry().register(source, token, interest(bits))?,
        }
        registration.in_system.set(bits != 0);
        registration.system_interest.set(bits);
        Ok(())
    }

    /// Removes a registration and its undelivered events. `stays_open` states whether the descriptor remains open
    /// afterwards.
    pub(crate) fn remove(&self, registration: &Rc<Registration>, stays_open: bool) {
        if !registration.is_active.replace(false) {
            return;
        }
        let mut by_number = self.by_number.borrow_mut();
        let known = by_number.get(&registration.number);
        if known.is_some_and(|found| Rc::ptr_eq(found, registration)) {
            by_number.remove(&registration.number);
        }
        if stays_open && registration.in_system.get() {
            // A descriptor that was closed without notice is unknown to the system, so an error is ignored.
            let _ = self.poll.borrow().registry().deregister(&mut SourceFd(&registration.number));
        }
        self.released.borrow_mut().push(registration.slot);
    }

    /// Frees the slot of a removed registration and returns it, so that the caller can release the values that belong
    /// to the registration. The slot is not used again before the next call of [`Selector::add`].
    pub(crate) fn take_released(&self) -> Option<usize> {
        let slot = self.released.borrow_mut().pop()?;
        self.table.borrow_mut().remove(slot);
        Some(slot)
    }

    pub(super) fn enqueue(&self, registration: &Rc<Registration>) {
        if registration.deliverable() != 0 && !registration.is_queued.replace(true) {
            self.ready.borrow_mut().push_back(registration.clone());
        }
    }

    fn next_generation(&self) -> u32 {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        generation
    }

    /// Adds a registration to the table.
    fn insert(
        &self, entry: Entry, generation: u32, requested: u8, mode: Mode, system_interest: u8,
    ) -> Rc<Registration> {
        let number = entry.number;
        let slot = self.table.borrow().vacant_key();
        // An existing registration with this number belongs to a descriptor that has been closed.
        if let Some(stale) = self.find(number) {
            self.remove(&stale, false);
        }
        let registration = Rc::new(Registration {
            number,
            owner: entry.owner,
            slot,
            generation,
            kind: entry.kind,
            mode: Cell::new(mode),
            requested: Cell::new(requested),
            ready: Cell::new(0),
            system_interest: Cell::new(system_interest),
            in_system: Cell::new(system_interest != 0),
            is_queued: Cell::new(false),
            is_active: Cell::new(true),
            is_rearming: Cell::new(false),
            object: Cell::new(0),
            inbox: OnceCell::new(),
        });
        self.table.borrow_mut().insert(registration.clone());
        self.by_number.borrow_mut().insert(number, registration.clone());
        registration
    }

    /// Updates the system's request after the requested events and the mode, which was `before`, have changed.
    fn modified(&self, registration: &Rc<Registration>, before: Mode) -> io::Result<()> {
        let needed = registration.needed_interest();
        if needed & !registration.system_interest.get() != 0 {
            return self.request_again(registration, registration.system_interest.get() | needed);
        }
        // After a delivery in these modes, a registration does not remember the readiness.
        let forgets = |mode| matches!(mode, Mode::EpollEdge | Mode::EpollOnce);
        if registration.is_own() && !forgets(registration.mode.get()) && !forgets(before) {
            self.enqueue(registration);
            return Ok(());
        }
        let reported = if registration.is_own() && forgets(before) { registration.system_interest.get() } else { 0 };
        if needed | reported != 0 {
            // The system reports current conditions again, and reports an error at once if the number no longer refers
            // to the descriptor that was added.
            return self.request_again(registration, needed | reported);
        }
        Ok(())
    }

    /// Requests `bits` from the system, which reports current conditions again. Remembered conditions may have ended, so
    /// they are forgotten.
    fn request_again(&self, registration: &Registration, bits: u8) -> io::Result<()> {
        self.set_system_interest(registration, bits)?;
        registration.ready.set(0);
        Ok(())
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        // Sources may exist longer than the selector, so their registrations are marked as removed.
        for (_, registration) in self.table.borrow().iter() {
            registration.is_active.set(false);
        }
    }
}

fn token(slot: usize, generation: u32) -> Token {
    Token((generation as usize) << 32 | slot)
}

#[cfg(test)]
mod tests;
