//! The sockets of ours in one VM, by their numbers: so that a raw number that Lua got from `handle` means the socket.

use crate::selector::{Kind, Watch};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

/// See the file's head. A socket is entered when its number becomes known outside of it.
#[derive(Default)]
pub(crate) struct Table {
    sockets: RefCell<FxHashMap<RawFd, (Weak<Watch>, Kind)>>,
    /// The event descriptor of the VM's service, which the scheduler closes and no object of Lua's may.
    lent: Cell<Option<RawFd>>,
}

impl Table {
    /// Records `number` as the descriptor that is lent to the VM, in the place of an earlier one.
    pub(crate) fn lend(&self, number: RawFd) {
        self.lent.set(Some(number));
    }

    /// Whether `number` is lent: then closing an object of it leaves it open.
    pub(crate) fn is_lent(&self, number: RawFd) -> bool {
        self.lent.get() == Some(number)
    }

    /// The watch of the socket that `number` means, and how a selector treats it.
    pub(crate) fn find(&self, number: RawFd) -> Option<(Rc<Watch>, Kind)> {
        let sockets = self.sockets.borrow();
        let (watch, kind) = sockets.get(&number)?;
        Some((watch.upgrade()?, *kind))
    }

    pub(super) fn insert(&self, number: RawFd, watch: &Rc<Watch>, kind: Kind) {
        let entry = (Rc::downgrade(watch), kind);
        self.sockets.borrow_mut().insert(number, entry);
    }

    /// Forgets `number` if it still means `watch`.
    pub(super) fn remove(&self, number: RawFd, watch: &Rc<Watch>) {
        let mut sockets = self.sockets.borrow_mut();
        let same = sockets
            .get(&number)
            .is_some_and(|(found, _)| std::ptr::eq(found.as_ptr(), Rc::as_ptr(watch)));
        if same {
            sockets.remove(&number);
        }
    }
}
