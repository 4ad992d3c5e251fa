//! The side of registrations that a socket of ours holds: through it the socket's calls tell each
//! selector what they learnt, and closing the socket removes it everywhere.

use super::Registration;
use super::registration::{CLOSED, ERROR, HANG_UP, READ, WRITE};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Most sockets are in one selector: no list for that.
enum Links {
    None,
    One(Rc<Registration>),
    Many(Vec<Rc<Registration>>),
}

/// Kept by each socket; empty while it is in no selector.
pub(crate) struct Watch {
    links: RefCell<Links>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch {
            links: RefCell::new(Links::None),
        }
    }

    fn each(&self, mut visit: impl FnMut(&Rc<Registration>)) {
        match &*self.links.borrow() {
            Links::None => {}
            Links::One(registration) => visit(registration),
            Links::Many(list) => list.iter().for_each(visit),
        }
    }

    /// A selector took the socket in. Those that forgot it since are dropped.
    pub(crate) fn link(&self, registration: Rc<Registration>) {
        let mut links = self.links.borrow_mut();
        let old = std::mem::replace(&mut *links, Links::None);
        *links = match old {
            Links::One(other) if other.alive.get() => Links::Many(vec![other, registration]),
            Links::Many(mut list) => {
                list.retain(|other| other.alive.get());
                list.push(registration);
                Links::Many(list)
            }
            _ => Links::One(registration),
        };
    }

    /// A read met `EWOULDBLOCK`: nothing to read until the system says so again.
    pub(crate) fn read_blocked(&self) {
        self.each(|registration| {
            let over = READ | CLOSED | HANG_UP | ERROR;
            registration.ready.set(registration.ready.get() & !over);
        });
    }

    /// A stream gave less than was asked for: it is empty, unless its end is known to follow.
    pub(crate) fn read_short(&self) {
        self.each(|registration| {
            if !registration.is_over() {
                registration.ready.set(registration.ready.get() & !READ);
            }
        });
    }

    /// A write met `EWOULDBLOCK` or was taken in part: no room until the system says so again.
    pub(crate) fn write_blocked(&self) {
        self.each(|registration| {
            registration.ready.set(registration.ready.get() & !WRITE);
        });
    }

    /// `connect` or `listen` began: what was reported of the unconnected socket is void.
    pub(crate) fn restarted(&self) {
        self.each(|registration| {
            registration.ready.set(0);
        });
    }

    /// Whether the peer's end of its side, or an error, was reported.
    pub(crate) fn peer_is_over(&self) -> bool {
        let mut over = false;
        self.each(|registration| over |= registration.is_over());
        over
    }

    /// Whether a read may find something: not after a short read or `EWOULDBLOCK`, until the system
    /// reports again.
    pub(crate) fn may_read(&self) -> bool {
        let mut ready = false;
        self.each(|registration| ready |= registration.ready.get() & READ != 0);
        ready
    }

    /// Whether a selector has the socket.
    pub(crate) fn is_linked(&self) -> bool {
        let mut linked = false;
        self.each(|registration| linked |= registration.alive.get());
        linked
    }

    /// Asks for `bits` once, in each selector the socket is in. An error means that one of them will not report them.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        let mut armed = Ok(());
        self.each(|registration| {
            if registration.alive.get()
                && let Err(error) = registration.arm(bits)
            {
                armed = Err(error);
            }
        });
        armed
    }

    /// The socket is closing: every selector forgets it. `tell_system` when the descriptor itself
    /// stays open, so that the system would go on reporting it.
    pub(crate) fn release(&self, tell_system: bool) {
        let links = std::mem::replace(&mut *self.links.borrow_mut(), Links::None);
        let forget = |registration: &Rc<Registration>| {
            if let Some(core) = registration.core.upgrade() {
                core.forget(registration, tell_system);
            }
        };
        match links {
            Links::None => {}
            Links::One(registration) => forget(&registration),
            Links::Many(list) => list.iter().for_each(forget),
        }
    }
}
