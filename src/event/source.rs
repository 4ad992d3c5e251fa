//! A descriptor owned by lio. Calls on it report to each selector when the descriptor is not ready. Closing the
//! descriptor removes all its registrations.

use super::adopt::Fd;
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
    /// Registers the descriptor with a selector.
    ///
    /// # Errors
    /// `EEXIST` if the descriptor is already registered, and other system errors.
    pub(crate) fn join(self, selector: &Rc<Selector>, requested: u8, mode: Mode) -> io::Result<Rc<Registration>> {
        match self {
            Target::Own(source) => source.join(selector, requested, mode),
            Target::Foreign(number) => selector.add(number, requested, mode),
        }
    }
}

/// A registration of a source, and its selector.
struct Link {
    selector: Weak<Selector>,
    registration: Rc<Registration>,
}

/// The registrations of a source. Most sources are in only one selector and need no list.
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

/// A descriptor owned by lio, and its registrations. The owner has the only lasting reference, so the descriptor is
/// closed when the owner drops this reference; registrations have weak references.
pub(crate) struct Source {
    fd: Fd,
    kind: Kind,
    links: RefCell<Links>,
}

impl Deref for Source {
    type Target = socket2::Socket;

    fn deref(&self) -> &socket2::Socket {
        &self.fd
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Source {
    pub(crate) fn new(fd: Fd, kind: Kind) -> Rc<Source> {
        let links = RefCell::new(Links::None);
        Rc::new(Source { fd, kind, links })
    }

    /// Whether the descriptor stays open when the source is dropped.
    pub(crate) fn is_lent(&self) -> bool {
        self.fd.is_lent()
    }

    /// Registers the source with a selector.
    ///
    /// # Errors
    /// `EEXIST` if the source is already registered, and other system errors.
    pub(crate) fn join(
        self: &Rc<Self>, selector: &Rc<Selector>, requested: u8, mode: Mode,
    ) -> io::Result<Rc<Registration>> {
        Ok(self.link(selector, selector.register(self.entry(), requested, mode)?))
    }

    /// Registers a new source like [`Source::join`], but the descriptor is registered with the system at the first
    /// request, because many connections are closed before a request.
    pub(crate) fn join_later(self: &Rc<Self>, selector: &Rc<Selector>, mode: Mode) -> Rc<Registration> {
        self.link(selector, selector.register_later(self.entry(), mode))
    }

    /// Records that a read returned `EWOULDBLOCK`: the descriptor is not readable until the system reports readiness
    /// again.
    pub(crate) fn read_blocked(&self) {
        self.update_ready(|registration| registration.ready.get() & !(READ | CLOSED | HANG_UP | ERROR));
    }

    /// Records that a read returned fewer bytes than requested: nothing more can be read now, unless the end of the
    /// stream was reported.
    pub(crate) fn read_short(&self) {
        self.update_ready(|registration| {
            if registration.end_was_reported() { registration.ready.get() } else { registration.ready.get() & !READ }
        });
    }

    /// Records that a write returned `EWOULDBLOCK` or was partial: the descriptor is not writable until the system
    /// reports readiness again.
    pub(crate) fn write_blocked(&self) {
        self.update_ready(|registration| registration.ready.get() & !WRITE);
    }

    /// Discards the readiness of the unconnected socket. Called after `connect` or `listen` has started.
    pub(crate) fn clear_readiness(&self) {
        self.update_ready(|_| 0);
    }

    /// Whether the system has reported a closed direction or an error.
    pub(crate) fn end_was_reported(&self) -> bool {
        self.any(Registration::end_was_reported)
    }

    /// Whether a read may return data. After a short read or `EWOULDBLOCK`, this is false until the system reports
    /// readiness again.
    pub(crate) fn may_read(&self) -> bool {
        self.any(|registration| registration.ready.get() & READ != 0)
    }

    /// Whether the source is registered with a selector.
    pub(crate) fn is_linked(&self) -> bool {
        self.any(|registration| registration.is_active.get())
    }

    /// Requests one delivery of `bits` from each selector with which the source is registered.
    ///
    /// # Errors
    /// The error from a selector that cannot report these events.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        let mut armed = Ok(());
        self.links.borrow().each(|link| {
            if link.registration.is_active.get()
                && let Err(error) = arm(link, bits)
            {
                armed = Err(error);
            }
        });
        armed
    }

    /// Removes the source from all selectors, because it is closing or its owner changes. `stays_open` states whether
    /// the descriptor remains open; if so, it is removed from the system's selector as well.
    pub(crate) fn release(&self, stays_open: bool) {
        let links = std::mem::replace(&mut *self.links.borrow_mut(), Links::None);
        links.each(|link| {
            if let Some(selector) = link.selector.upgrade() {
                selector.remove(&link.registration, stays_open);
            }
        });
    }

    /// Removes the source from all selectors, and returns the descriptor; `None` if there is another reference to the
    /// source.
    pub(crate) fn into_fd(self: Rc<Self>) -> Option<Fd> {
        self.release(true);
        Rc::into_inner(self).map(|source| source.fd)
    }

    fn update_ready(&self, change: impl Fn(&Registration) -> u8) {
        self.links.borrow().each(|link| link.registration.ready.set(change(&link.registration)));
    }

    fn entry(self: &Rc<Self>) -> Entry {
        Entry { number: self.as_raw_fd(), kind: self.kind, owner: Some(Rc::downgrade(self) as _) }
    }

    /// Adds a registration and returns it. Drops the links of registrations that are no longer active.
    fn link(&self, selector: &Rc<Selector>, registration: Rc<Registration>) -> Rc<Registration> {
        let link = Link { selector: Rc::downgrade(selector), registration: registration.clone() };
        let mut links = self.links.borrow_mut();
        let old = std::mem::replace(&mut *links, Links::None);
        *links = match old {
            Links::One(other) if other.registration.is_active.get() => Links::Many(vec![other, link]),
            Links::Many(mut list) => {
                list.retain(|other| other.registration.is_active.get());
                list.push(link);
                Links::Many(list)
            }
            _ => Links::One(link),
        };
        registration
    }

    fn any(&self, test: impl Fn(&Registration) -> bool) -> bool {
        let mut any = false;
        self.links.borrow().each(|link| any |= test(&link.registration));
        any
    }
}

/// Requests `bits` like [`Selector::arm`], but calls that method only if necessary.
#[inline]
fn arm(link: &Link, bits: u8) -> io::Result<()> {
    if link.registration.try_request(bits) {
        return Ok(());
    }
    match link.selector.upgrade() {
        Some(selector) => selector.arm(&link.registration, bits),
        None => Ok(()),
    }
}
