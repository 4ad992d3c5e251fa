//! One descriptor in one selector. Shared by the selector's table, its queue, and its source.
//!
//! Invariant: `queued` is true exactly while the registration is in the selector's ready queue, so it
//! is there at most once; a dead one (`alive` false) is skipped wherever it is still referenced.

use super::interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::{AsFd, RawFd};
use std::rc::{Rc, Weak};

/// A descriptor of ours, which is closed by its owner.
pub(super) type Owner = Weak<dyn AsFd>;

/// Where a protocol that looks after many descriptors finds which of them had events.
#[derive(Default)]
pub(crate) struct Inbox(RefCell<Vec<(u64, u8)>>);

impl Inbox {
    /// Puts the keys of registrations that had events, with the bits, into `list`, which is empty.
    pub(crate) fn take(&self, list: &mut Vec<(u64, u8)>) {
        std::mem::swap(&mut *self.0.borrow_mut(), list);
    }
}

pub(crate) struct Registration {
    pub(crate) number: RawFd,
    /// `None` of a descriptor that is not ours.
    pub(super) owner: Option<Owner>,
    pub(crate) slot: usize,
    /// Distinguishes this registration from a predecessor in the same slot.
    pub(crate) generation: u32,
    /// Whose descriptor it is.
    pub(crate) kind: Kind,
    pub(crate) mode: Cell<Mode>,
    /// Bits that the user wants to hear of.
    pub(crate) asked: Cell<u8>,
    /// Bits believed to hold.
    pub(crate) ready: Cell<u8>,
    /// READ and WRITE as the system was asked to report them.
    pub(crate) reported: Cell<u8>,
    /// The system knows the descriptor.
    pub(crate) known: Cell<bool>,
    pub(crate) queued: Cell<bool>,
    pub(crate) alive: Cell<bool>,
    /// In the list of those to re-arm before the next poll.
    pub(crate) rearming: Cell<bool>,
    /// What tells the object that stands for it from others, if a task can wait on that; else 0. Whoever registered it says.
    pub(crate) object: Cell<usize>,
    /// Where its events go, under which key; without it the one who waits gets them.
    pub(super) inbox: OnceCell<(Rc<Inbox>, u64)>,
}

impl Registration {
    /// Its events go to `inbox` under `key` from now on, unless they go to one already.
    pub(crate) fn post_to(&self, inbox: &Rc<Inbox>, key: u64) {
        let _ = self.inbox.set((inbox.clone(), key));
    }

    /// Puts an event where it is to go. → whether that is an inbox
    #[inline]
    pub(super) fn post(&self, bits: u8) -> bool {
        match self.inbox.get() {
            Some((inbox, key)) => {
                inbox.0.borrow_mut().push((*key, bits));
                true
            }
            None => false,
        }
    }

    /// A socket of ours: it tells us when it would block.
    pub(crate) fn is_own(&self) -> bool {
        self.kind != Kind::Foreign
    }

    /// Delivered at each wait while the condition persists.
    pub(crate) fn is_level(&self) -> bool {
        matches!(self.mode.get(), Mode::Level | Mode::Epoll)
    }

    /// Level-triggered and ours: its number cannot have become another file, so poll(2) may be asked.
    pub(crate) fn is_verifiable(&self) -> bool {
        self.is_level() && self.is_own()
    }

    /// READ and WRITE as the system has to report them for what is asked. epoll(7) tells of hang-up and
    /// error even when nothing is asked, for which the system has to know the descriptor.
    pub(crate) fn watched(&self) -> u8 {
        let wanted = self.asked.get() & (READ | WRITE);
        match self.mode.get() {
            Mode::Epoll | Mode::EpollEdge if wanted == 0 => READ,
            _ => wanted,
        }
    }

    /// The bits that are due now.
    pub(crate) fn due(&self) -> u8 {
        if !self.alive.get() {
            return 0;
        }
        let asked = match self.mode.get() {
            Mode::Level | Mode::Once => self.asked.get(),
            Mode::EpollOnce if self.asked.get() == 0 => 0,
            _ => self.asked.get() | HANG_UP | ERROR,
        };
        self.ready.get() & asked
    }

    /// Whether an end or error was reported: then the direction stays ready whatever a short read says.
    pub(crate) fn is_over(&self) -> bool {
        self.ready.get() & (CLOSED | HANG_UP | ERROR) != 0
    }

    /// Asks for `bits` in addition, for one delivery, if nothing else has to be done for that: the system reports them
    /// anyhow, and none is due. Returns whether it did.
    #[inline]
    pub(super) fn ask(&self, bits: u8) -> bool {
        let before = self.asked.get();
        let asked = before | bits;
        self.asked.set(asked);
        let unreported = asked & (READ | WRITE) & !self.reported.get();
        // A system that does not know the descriptor does not tell of its end either.
        let enough = unreported == 0 && self.known.get() && self.due() == 0;
        if !enough {
            self.asked.set(before);
        }
        enough
    }
}
