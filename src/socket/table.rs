//! The sockets of one VM by their descriptors, so that a number that Lua got from `handle` refers to the socket.

use crate::event::Source;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::{Rc, Weak};

/// The sockets by descriptor. A socket is added when other code gets its number.
#[derive(Default)]
pub(crate) struct Table {
    sockets: RefCell<FxHashMap<RawFd, Weak<Source>>>,
    /// The event descriptor of the VM's service. The scheduler closes it, and Lua objects must not.
    lent: Cell<Option<RawFd>>,
}

impl Table {
    /// Records `number` as the descriptor that is lent to the VM. This replaces the descriptor that was lent before.
    pub(crate) fn lend(&self, number: RawFd) {
        self.lent.set(Some(number));
    }

    /// Returns whether `number` is lent, so that closing an object for it must leave the descriptor open.
    pub(crate) fn is_lent(&self, number: RawFd) -> bool {
        self.lent.get() == Some(number)
    }

    /// Returns the source of the socket with the descriptor `number`.
    pub(crate) fn find(&self, number: RawFd) -> Option<Rc<Source>> {
        self.sockets.borrow().get(&number)?.upgrade()
    }

    pub(super) fn insert(&self, source: &Rc<Source>) {
        let (number, source) = (source.as_raw_fd(), Rc::downgrade(source));
        self.sockets.borrow_mut().insert(number, source);
    }

    /// Removes the descriptor of `source` from the table, if the table still maps it to this source.
    pub(super) fn remove(&self, source: &Rc<Source>) {
        let number = source.as_raw_fd();
        let mut sockets = self.sockets.borrow_mut();
        let known = sockets.get(&number);
        if known.is_some_and(|found| std::ptr::eq(found.as_ptr(), Rc::as_ptr(source))) {
            sockets.remove(&number);
        }
    }
}
