//! A registration: one descriptor in one selector. It is shared by the selector's table, the selector's queue, and the
//! source.
//!
//! Invariants: `is_queued` is true exactly while the registration is in the selector's ready queue, so the queue
//! contains it at most once. A removed registration (`is_active` false) is skipped wherever it is still referenced.

use super::interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::{AsFd, RawFd};
use std::rc::{Rc, Weak};

/// A weak reference to the owner of a descriptor that lio owns. The owner closes the descriptor.
pub(super) type Owner = Weak<dyn AsFd>;

/// The events of all descriptors of one protocol. The protocol's implementation takes them from this list.
#[derive(Default)]
pub(crate) struct Inbox(RefCell<Vec<(u64, u8)>>);

impl Inbox {
    /// Moves the keys of registrations that had events, with the event bits, into `list`, which must be empty.
    pub(crate) fn take(&self, list: &mut Vec<(u64, u8)>) {
        std::mem::swap(&mut *self.0.borrow_mut(), list);
    }
}

/// Returns the READ and WRITE bits to request from the system for the requested bits. The system reports a closed
/// sending side of the peer only together with READ.
#[inline]
pub(super) fn system_bits(requested: u8) -> u8 {
    let closed = if requested & CLOSED == 0 { 0 } else { READ };
    requested & (READ | WRITE) | closed
}

pub(crate) struct Registration {
    pub(crate) number: RawFd,
    /// `None` for a foreign descriptor.
    pub(super) owner: Option<Owner>,
    pub(crate) slot: usize,
    /// Distinguishes this registration from earlier registrations in the same slot.
    pub(crate) generation: u32,
    /// The kind of the descriptor.
    pub(crate) kind: Kind,
    pub(crate) mode: Cell<Mode>,
    /// The requested event bits.
    pub(crate) requested: Cell<u8>,
    /// The remembered readiness.
    pub(crate) ready: Cell<u8>,
    /// The READ and WRITE bits that are requested from the system.
    pub(crate) system_interest: Cell<u8>,
    /// Whether the descriptor is registered with the system.
    pub(crate) in_system: Cell<bool>,
    pub(crate) is_queued: Cell<bool>,
    pub(crate) is_active: Cell<bool>,
    /// Whether the registration waits in the selector's list to be re-armed before the next poll.
    pub(crate) is_rearming: Cell<bool>,
    /// The identity of the object that represents the descriptor, if a task can wait on that object; otherwise 0. Set
    /// by the code that creates the registration.
    pub(crate) object: Cell<usize>,
    /// The inbox for the events, and the key that is stored with them. Without an inbox, the caller of the wait gets
    /// the events.
    pub(super) inbox: OnceCell<(Rc<Inbox>, u64)>,
}

impl Registration {
    /// Makes the registration store its events in `inbox`, with `key`. Does nothing if it already has an inbox.
    pub(crate) fn post_to(&self, inbox: &Rc<Inbox>, key: u64) {
        let _ = self.inbox.set((inbox.clone(), key));
    }

    /// Stores an event in the inbox. Returns false if there is no inbox.
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

    /// Whether lio owns the descriptor, so that calls on the descriptor report when they would block.
    pub(crate) fn is_own(&self) -> bool {
        self.kind != Kind::Foreign
    }

    /// Whether events are delivered at each wait while the condition persists.
    pub(crate) fn is_level(&self) -> bool {
        matches!(self.mode.get(), Mode::Level | Mode::Epoll)
    }

    /// Whether poll(2) can check the descriptor: it is level-triggered, and lio owns it, so its number cannot refer to
    /// another file.
    pub(crate) fn is_checkable(&self) -> bool {
        self.is_level() && self.is_own()
    }

    /// Returns the READ and WRITE bits to request from the system. epoll(7) reports hang-up and error even if no event
    /// is requested, but only if the descriptor is registered.
    pub(crate) fn needed_interest(&self) -> u8 {
        let requested = self.requested.get();
        match (self.mode.get(), system_bits(requested)) {
            (Mode::Epoll | Mode::EpollEdge, 0) => READ,
            (Mode::EpollOnce, 0) if requested != 0 => READ,
            (_, wanted) => wanted,
        }
    }

    /// Returns the bits to deliver now.
    pub(crate) fn deliverable(&self) -> u8 {
        if !self.is_active.get() {
            return 0;
        }
        let requested = match self.mode.get() {
            Mode::Level | Mode::Once => self.requested.get(),
            Mode::EpollOnce if self.requested.get() == 0 => 0,
            _ => self.requested.get() | HANG_UP | ERROR,
        };
        self.ready.get() & requested
    }

    /// Whether the system has reported a closed direction or an error. If so, the descriptor stays ready even after a
    /// short read.
    pub(crate) fn end_was_reported(&self) -> bool {
        self.ready.get() & (CLOSED | HANG_UP | ERROR) != 0
    }

    /// Requests `bits` in addition if that needs no other work: the system already reports them, and there is no event
    /// to deliver now. Otherwise changes nothing and returns false.
    #[inline]
    pub(super) fn try_request(&self, bits: u8) -> bool {
        let before = self.requested.get();
        let requested = before | bits;
        self.requested.set(requested);
        let unreported = system_bits(requested) & !self.system_interest.get();
        // The system reports the end of a stream only if the descriptor is registered.
        let enough = unreported == 0 && self.in_system.get() && self.deliverable() == 0;
        if !enough {
            self.requested.set(before);
        }
        enough
    }
}
