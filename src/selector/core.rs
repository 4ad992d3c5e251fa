//! The poll, the table of registrations and the queue of those that are ready.
//!
//! Costs: adding, changing and deleting are O(1); a wait costs in proportion to what is ready. The
//! borrows of the cells are short and never span a call into Lua.

use super::Registration;
use super::registration::{CLOSED, ERROR, HANG_UP, Mode, READ, WRITE};
use super::verify::Doubts;
use super::wake::Bell;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BELL: Token = Token(usize::MAX);

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
    poll: RefCell<Poll>,
    events: RefCell<Events>,
    table: RefCell<Slab<Rc<Registration>>>,
    by_descriptor: RefCell<HashMap<RawFd, Rc<Registration>>>,
    ready: RefCell<VecDeque<Rc<Registration>>>,
    rearm: RefCell<Vec<Rc<Registration>>>,
    /// Scratch space of [`Core::settle`].
    doubts: RefCell<Doubts>,
    /// Slots whose registration is gone but whose Lua values are not released yet.
    released: RefCell<Vec<usize>>,
    generation: Cell<u32>,
    alive: Cell<usize>,
    bell: RefCell<Option<Arc<Bell>>>,
    /// How many of the queue's first entries belong to the batch that is being iterated.
    batch: Cell<usize>,
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
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let slot = self.table.borrow().vacant_key();
        self.poll.borrow().registry().register(
            &mut SourceFd(&descriptor),
            token(slot, generation),
            interest(reported),
        )?;
        // The system took it as new: what we know under this number is a descriptor closed since.
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
            known: Cell::new(true),
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
        Ok(registration)
    }

    /// Changes what is asked for.
    pub(crate) fn modify(
        &self,
        registration: &Rc<Registration>,
        asked: u8,
        mode: Mode,
    ) -> io::Result<()> {
        registration.asked.set(asked);
        registration.mode.set(mode);
        let wanted = asked & (READ | WRITE);
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

    /// A registration asks for more than before, by [`Registration::arm`].
    pub(super) fn asked_more(&self, registration: &Rc<Registration>) {
        let wanted = registration.asked.get() & (READ | WRITE);
        if wanted & !registration.reported.get() != 0 {
            let all = registration.reported.get() | wanted;
            if self.report(registration, all).is_err() {
                self.forget(registration, false);
            }
            return;
        }
        self.enqueue(registration);
    }

    /// Tells the system to report `bits`; a condition that holds already is reported anew.
    fn report(&self, registration: &Registration, bits: u8) -> io::Result<()> {
        let poll = self.poll.borrow();
        let source = &mut SourceFd(&registration.descriptor);
        let known = registration.known.replace(bits != 0);
        registration.reported.set(bits);
        let token = token(registration.slot, registration.generation);
        match (known, bits) {
            (false, 0) => Ok(()),
            (true, 0) => poll.registry().deregister(source),
            (true, _) => poll.registry().reregister(source, token, interest(bits)),
            (false, _) => poll.registry().register(source, token, interest(bits)),
        }
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

    fn enqueue(&self, registration: &Rc<Registration>) {
        if registration.due() != 0 && !registration.queued.replace(true) {
            self.ready.borrow_mut().push_back(registration.clone());
        }
    }

    fn request_rearm(&self, registration: &Rc<Registration>) {
        if !registration.rearming.replace(true) {
            self.rearm.borrow_mut().push(registration.clone());
        }
    }

    /// Re-arms foreign descriptors that were delivered, so that the coming poll reports them again.
    fn rearm(&self) {
        let list = std::mem::take(&mut *self.rearm.borrow_mut());
        for registration in &list {
            registration.rearming.set(false);
            if !registration.alive.get() {
                continue;
            }
            if self.report(registration, registration.watched()).is_err() {
                // Closed without event_del: it can never be ready again.
                self.forget(registration, false);
            }
        }
        let mut list = list;
        list.clear();
        *self.rearm.borrow_mut() = list;
    }

    /// Settles what the last batch left in the queue; true when something is due for certain.
    ///
    /// A level-triggered registration is delivered again only when its condition holds at this moment:
    /// a handler may accept or read without a second try, and a spurious event would show it a `false`.
    /// Sockets of ours are looked at together by one poll(2); the system is asked about the others.
    fn settle(&self) -> bool {
        let mut ready = self.ready.borrow_mut();
        let mut doubts = self.doubts.borrow_mut();
        doubts.clear();
        ready.retain(|registration| {
            let due = registration.due() != 0;
            if due && registration.is_verifiable() {
                doubts.push(registration.descriptor);
                return true;
            }
            if due && !registration.is_level() {
                return true;
            }
            registration.queued.set(false);
            if due {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
            false
        });
        if let Some(mut answers) = doubts.answers() {
            ready.retain(|registration| {
                if registration.is_verifiable() {
                    match answers.next() {
                        Some(Some(bits)) => registration.ready.set(bits),
                        // Closed without event_del: it can never be ready again.
                        Some(None) => self.forget(registration, false),
                        None => {}
                    }
                }
                let due = registration.due() != 0;
                registration.queued.set(due);
                due
            });
        }
        !ready.is_empty()
    }

    /// Waits until something is due, the bell rings, `timeout` is over, or `interrupted` says so after a
    /// signal. Then [`Core::next`] yields the batch.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        mut interrupted: impl FnMut() -> bool,
    ) -> io::Result<()> {
        let pending = self.settle();
        self.rearm();
        let timeout = if pending {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        let deadline = match timeout {
            Some(span) if !span.is_zero() => Some(Instant::now() + span),
            _ => None,
        };
        let mut left = timeout;
        loop {
            let polled = {
                let mut poll = self.poll.borrow_mut();
                poll.poll(&mut self.events.borrow_mut(), left)
            };
            match polled {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if interrupted() {
                        break;
                    }
                    left = remaining(deadline, left);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let rang = self.take_events();
            let waiting = left.is_none_or(|span| !span.is_zero());
            if rang || !waiting || !self.ready.borrow().is_empty() {
                break;
            }
            left = remaining(deadline, left);
            if left.is_some_and(|span| span.is_zero()) {
                break;
            }
        }
        self.batch.set(self.ready.borrow().len());
        Ok(())
    }

    /// Moves what the system reported into the queue; true when the bell rang.
    fn take_events(&self) -> bool {
        let events = self.events.borrow();
        let mut rang = false;
        for event in events.iter() {
            if event.token() == BELL {
                rang = true;
                if let Some(bell) = &*self.bell.borrow() {
                    bell.heard();
                }
                continue;
            }
            let Token(packed) = event.token();
            let slot = packed & 0xffff_ffff;
            let generation = (packed >> 32) as u32;
            let found = self.table.borrow().get(slot).cloned();
            let Some(registration) = found else { continue };
            if registration.generation == generation && registration.alive.get() {
                self.take_event(&registration, bits_of(event));
            }
        }
        rang
    }

    fn take_event(&self, registration: &Rc<Registration>, bits: u8) {
        registration.ready.set(registration.ready.get() | bits);
        if registration.due() != 0 {
            self.enqueue(registration);
            return;
        }
        // Reported, but not wanted now. A socket of ours remembers it; a foreign descriptor will be
        // asked again. Where the kernel would go on reporting what nobody wants, it is told to stop.
        let wanted = match registration.kind {
            Kind::Tcp => return,
            Kind::Other => registration.watched() | READ,
            Kind::Foreign => {
                registration.ready.set(0);
                registration.watched()
            }
        };
        if wanted != registration.reported.get() && self.report(registration, wanted).is_err() {
            self.forget(registration, false);
        }
    }

    /// The next registration of the batch and the bits it is ready for.
    pub(crate) fn next(&self) -> Option<(Rc<Registration>, u8)> {
        while self.batch.get() > 0 {
            self.batch.set(self.batch.get() - 1);
            let registration = self.ready.borrow_mut().pop_front()?;
            registration.queued.set(false);
            let bits = registration.due();
            if bits == 0 {
                continue;
            }
            self.delivered(&registration, bits);
            return Some((registration, bits));
        }
        None
    }

    fn delivered(&self, registration: &Rc<Registration>, bits: u8) {
        match registration.mode.get() {
            Mode::Once => {
                registration.asked.set(registration.asked.get() & !bits);
                if !registration.is_own() {
                    // Re-armed when it is asked for again.
                    registration.ready.set(0);
                    registration
                        .reported
                        .set(registration.reported.get() & !bits);
                }
            }
            Mode::EpollEdge => registration.ready.set(0),
            Mode::EpollOnce => {
                registration.asked.set(0);
                registration.ready.set(0);
            }
            Mode::Level | Mode::Epoll if registration.is_own() => {
                registration.queued.set(true);
                self.ready.borrow_mut().push_back(registration.clone());
            }
            Mode::Level | Mode::Epoll => {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
        }
    }

    /// The iteration is over or abandoned: what is left waits for the next batch.
    pub(crate) fn end_batch(&self) {
        self.batch.set(0);
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

fn remaining(deadline: Option<Instant>, otherwise: Option<Duration>) -> Option<Duration> {
    match deadline {
        Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
        None => otherwise,
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

fn bits_of(event: &mio::event::Event) -> u8 {
    let mut bits = 0;
    if event.is_readable() {
        bits |= READ;
    }
    if event.is_writable() {
        bits |= WRITE;
    }
    if event.is_read_closed() {
        bits |= READ | CLOSED;
        if event.is_write_closed() {
            bits |= WRITE | HANG_UP;
        }
    }
    if event.is_error() {
        bits |= READ | WRITE | ERROR;
    }
    bits
}
