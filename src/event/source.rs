//! A descriptor of ours: its calls report to each selector what they learnt, and closing it removes it everywhere.

use super::adopt::Held;
use super::interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
use super::registration::Registration;
use super::selector::{Entry, Selector};
use std::cell::RefCell;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::{Rc, Weak};

/// A descriptor to be registered.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Own(&'a Rc<Source>),
    Foreign(RawFd),
}

impl Target<'_> {
    /// Registers it in a selector. `EEXIST` when it is there already.
    pub(crate) fn join(self, selector: &Rc<Selector>, asked: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        match self {
            Target::Own(source) => source.join(selector, asked, mode),
            Target::Foreign(number) => selector.add(number, asked, mode),
        }
    }
}

/// A registration of a source, and the selector that has it.
struct Link {
    selector: Weak<Selector>,
    registration: Rc<Registration>,
}

/// Most sources are in one selector: no list for that.
enum Links {
    None,
    One(Link),
    Many(Vec<Link>),
}

impl Links {
    fn each(&self, mut visit: impl FnMut(&Link)) {
        match self {
            Links::None => {}
            Links::One(link) => visit(link),
            Links::Many(list) => list.iter().for_each(visit),
        }
    }
}

/// A descriptor of ours, and its registrations. Its owner has the only lasting share of it, so that it is closed when
/// the owner drops that; a registration finds it by a weak one.
pub(crate) struct Source {
    held: Held,
    kind: Kind,
    links: RefCell<Links>,
}

impl Deref for Source {
    type Target = socket2::Socket;

    fn deref(&self) -> &socket2::Socket {
        &self.held
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

impl Source {
    pub(crate) fn new(held: Held, kind: Kind) -> Rc<Source> {
        let links = RefCell::new(Links::None);
        Rc::new(Source { held, kind, links })
    }

    /// Whether the descriptor outlives it.
    pub(crate) fn is_lent(&self) -> bool {
        self.held.is_lent()
    }

    fn each_ready(&self, change: impl Fn(&Registration) -> u8) {
        self.links.borrow().each(|link| link.registration.ready.set(change(&link.registration)));
    }

    fn entry(self: &Rc<Self>) -> Entry {
        Entry { number: self.as_raw_fd(), kind: self.kind, owner: Some(Rc::downgrade(self) as _) }
    }

    /// Registers it in a selector. `EEXIST` when it is there already.
    pub(crate) fn join(
        self: &Rc<Self>, selector: &Rc<Selector>, asked: u8, mode: Mode,
    ) -> io::Result<Rc<Registration>> {
        let registration = selector.register(self.entry(), asked, mode)?;
        self.link(selector, registration.clone());
        Ok(registration)
    }

    /// The same when it is new, without telling the system before something is asked for: many a connection is over by
    /// then.
    pub(crate) fn join_later(self: &Rc<Self>, selector: &Rc<Selector>, mode: Mode) -> Rc<Registration> {
        let registration = selector.register_later(self.entry(), mode);
        self.link(selector, registration.clone());
        registration
    }

    /// A selector took it in. Those that forgot it since are dropped.
    fn link(&self, selector: &Rc<Selector>, registration: Rc<Registration>) {
        let link = Link { selector: Rc::downgrade(selector), registration };
        let mut links = self.links.borrow_mut();
        let old = std::mem::replace(&mut *links, Links::None);
        *links = match old {
            Links::One(other) if other.registration.alive.get() => Links::Many(vec![other, link]),
            Links::Many(mut list) => {
                list.retain(|other| other.registration.alive.get());
                list.push(link);
                Links::Many(list)
            }
            _ => Links::One(link),
        };
    }

    /// A read met `EWOULDBLOCK`: nothing to read until the system says so again.
    pub(crate) fn read_blocked(&self) {
        self.each_ready(|known| known.ready.get() & !(READ | CLOSED | HANG_UP | ERROR));
    }

    /// A stream gave less than was asked for: it is empty, unless its end is known to follow.
    pub(crate) fn read_short(&self) {
        self.each_ready(|known| if known.is_over() { known.ready.get() } else { known.ready.get() & !READ });
    }

    /// A write met `EWOULDBLOCK` or was taken in part: no room until the system says so again.
    pub(crate) fn write_blocked(&self) {
        self.each_ready(|known| known.ready.get() & !WRITE);
    }

    /// `connect` or `listen` began: what was reported of the unconnected socket is void.
    pub(crate) fn restarted(&self) {
        self.each_ready(|_| 0);
    }

    fn any(&self, test: impl Fn(&Registration) -> bool) -> bool {
        let mut any = false;
        self.links.borrow().each(|link| any |= test(&link.registration));
        any
    }

    /// Whether the peer's end of its side, or an error, was reported.
    pub(crate) fn peer_is_over(&self) -> bool {
        self.any(Registration::is_over)
    }

    /// Whether a read may find something: not after a short read or `EWOULDBLOCK`, until the system reports again.
    pub(crate) fn may_read(&self) -> bool {
        self.any(|known| known.ready.get() & READ != 0)
    }

    /// Whether a selector has it.
    pub(crate) fn is_linked(&self) -> bool {
        self.any(|known| known.alive.get())
    }

    /// Asks for `bits` once, in each selector that has it. An error means that one of them will not report them.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        let mut armed = Ok(());
        self.links.borrow().each(|link| {
            if link.registration.alive.get()
                && let Err(error) = arm(link, bits)
            {
                armed = Err(error);
            }
        });
        armed
    }

    /// It is closing, or given away: every selector forgets it. `tell_system` when the descriptor stays open, so that
    /// the system would go on reporting it.
    pub(crate) fn release(&self, tell_system: bool) {
        let links = std::mem::replace(&mut *self.links.borrow_mut(), Links::None);
        links.each(|link| {
            if let Some(selector) = link.selector.upgrade() {
                selector.forget(&link.registration, tell_system);
            }
        });
    }

    /// Takes the descriptor out, whose selectors forget it; `None` when something else still uses it.
    pub(crate) fn into_held(self: Rc<Self>) -> Option<Held> {
        self.release(true);
        Rc::into_inner(self).map(|source| source.held)
    }
}

/// As [`Selector::arm`], which is asked only when there is something to do.
#[inline]
fn arm(link: &Link, bits: u8) -> io::Result<()> {
    if link.registration.ask(bits) {
        return Ok(());
    }
    match link.selector.upgrade() {
        Some(selector) => selector.arm(&link.registration, bits),
        None => Ok(()),
    }
}
