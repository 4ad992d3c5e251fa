//! One descriptor in one selector. Shared by the selector's table, its queue, and the socket's watch.
//!
//! Invariant: `queued` is true exactly while the registration is in the selector's ready queue, so it
//! is there at most once; a dead one (`alive` false) is skipped wherever it is still referenced.

use super::{Core, Kind};
use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::rc::Weak;

/// Readable, or the like for a listener.
pub(crate) const READ: u8 = 1;
/// Writable.
pub(crate) const WRITE: u8 = 2;
/// The peer has ended its side, or more.
pub(crate) const CLOSED: u8 = 4;
/// Both directions are over.
pub(crate) const HANG_UP: u8 = 8;
/// An error is pending.
pub(crate) const ERROR: u8 = 16;

/// How often one condition is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At each wait while it persists, as select(2) does.
    Level,
    /// Once per asking: what is delivered is no longer asked for. Streams use this.
    Once,
    /// As `Level`, with hang-up and error as bits of their own, as epoll(7) reports them.
    Epoll,
    /// As `Epoll`, once per change (EPOLLET).
    EpollEdge,
    /// As `Epoll`, and after one delivery nothing is asked (EPOLLONESHOT).
    EpollOnce,
}

pub(crate) struct Registration {
    pub(crate) descriptor: RawFd,
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
    pub(crate) core: Weak<Core>,
}

impl Registration {
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

    /// Asks for `bits` in addition, for one delivery; they may be due at once. An error of the system means that
    /// nothing will be delivered.
    pub(crate) fn arm(self: &std::rc::Rc<Self>, bits: u8) -> io::Result<()> {
        let before = self.asked.get();
        let asked = before | bits;
        self.asked.set(asked);
        let unreported = asked & (READ | WRITE) & !self.reported.get();
        if unreported == 0 && self.due() == 0 {
            // The system will tell.
            return Ok(());
        }
        let Some(core) = self.core.upgrade() else {
            return Ok(());
        };
        core.asked_more(self)
            .inspect_err(|_| self.asked.set(before))
    }
}
