//! The sockets of ours in one VM, by their numbers: so that a raw number that Lua got from `handle` means the socket.

use crate::event::Source;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::{Rc, Weak};

/// See the file's head. A socket is entered when its number becomes known outside of it.
#[derive(Default)]
pub(crate) struct Table {
    sockets: RefCell<FxHashMap<RawFd, Weak<Source>>>,
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

    /// The source of the socket that `number` means.
    pub(crate) fn find(&self, number: RawFd) -> Option<Rc<Source>> {
        self.sockets.borrow().get(&number)?.upgrade()
    }

    pub(super) fn insert(&self, source: &Rc<Source>) {
        let (number, source) = (source.as_raw_fd(), Rc::downgrade(source));
        self.sockets.borrow_mut().insert(number, source);
    }

    /// Forgets the number of `source` if it still means that.
    pub(super) fn remove(&self, source: &Rc<Source>) {
        let number = source.as_raw_fd();
        let mut sockets = self.sockets.borrow_mut();
        let known = sockets.get(&number);
        if known.is_some_and(|found| std::ptr::eq(found.as_ptr(), Rc::as_ptr(source))) {
            sockets.remove(&number);
        }
    }
}
