//! The selectors that an I/O thread watches: those of services that own no loop. `io_thread.rs` runs the thread, and
//! `service_io.rs` is the service's side.
//!
//! An I/O thread waits on one epoll descriptor, to which services add the descriptors of their selectors (epoll(7)
//! allows this). Invariant: a selector is watched for one event at a time (EPOLLONESHOT). After the event, the service
//! takes the events of its selector, and then calls [`Watcher::arm`], which also reports events that arrived in
//! between. So while a service is busy, its connections wake no thread.

use super::message::ServiceId;
use super::sync::lock;
use crate::event::adopt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// The descriptors of one I/O thread.
pub(crate) struct Watcher {
    epoll: OwnedFd,
    /// An eventfd, which is readable when the thread must end.
    end: OwnedFd,
}

impl Watcher {
    /// Creates a watcher that watches no selector.
    ///
    /// # Errors
    /// The error of epoll_create1(2) or eventfd(2), such as `EMFILE`; `Unsupported` on systems without epoll(7).
    fn new() -> io::Result<Arc<Watcher>> {
        let (epoll, end) = system::create()?;
        Ok(Arc::new(Watcher { epoll, end }))
    }

    /// Starts watching the selector with the descriptor `selector` for one event, on behalf of `service`. Closing the
    /// descriptor ends this.
    ///
    /// # Errors
    /// The error of epoll_ctl(2), such as `ENOSPC`.
    pub(crate) fn add(&self, selector: RawFd, service: ServiceId) -> io::Result<()> {
        adopt::borrowed(selector, |fd| system::add(&self.epoll, fd, service))?
    }

    /// Watches a selector for one more event. If the selector has events, the event follows at once.
    ///
    /// # Errors
    /// The error of epoll_ctl(2), such as `ENOENT` if the selector is not watched.
    pub(crate) fn arm(&self, selector: RawFd, service: ServiceId) -> io::Result<()> {
        adopt::borrowed(selector, |fd| system::arm(&self.epoll, fd, service))?
    }

    /// Ends watching a selector.
    pub(crate) fn remove(&self, selector: RawFd) {
        // A selector that is not watched needs no removal.
        let _ = adopt::borrowed(selector, |fd| system::remove(&self.epoll, fd));
    }

    /// Waits until at least one selector has events, and stores the services whose selectors have events in `services`,
    /// which must be empty. Returns false if the thread must end.
    pub(super) fn wait(&self, services: &mut Vec<ServiceId>) -> bool {
        system::wait(&self.epoll, services)
    }
}

/// The watchers of a system's I/O threads. A thread starts when its watcher is first needed.
pub(crate) struct Watchers(Box<[Mutex<Option<Arc<Watcher>>>]>);

impl Watchers {
    /// Returns `count` watchers that do not exist yet.
    pub(crate) fn new(count: usize) -> Watchers {
        Watchers((0..count).map(|_| Mutex::default()).collect())
    }

    /// Returns the watcher that is responsible for a service. If it does not exist, creates it and calls `start` with
    /// it and its number.
    ///
    /// # Errors
    /// The system's error, or the error of `start`.
    pub(super) fn watcher_of(
        &self, service: ServiceId, start: impl FnOnce(&Arc<Watcher>, usize) -> io::Result<()>,
    ) -> io::Result<Arc<Watcher>> {
        let number = service as usize % self.0.len();
        let mut place = lock(&self.0[number]);
        if let Some(watcher) = &*place {
            return Ok(watcher.clone());
        }
        let watcher = Watcher::new()?;
        start(&watcher, number)?;
        *place = Some(watcher.clone());
        Ok(watcher)
    }

    /// Makes all I/O threads end. A thread that starts later must end by itself.
    pub(crate) fn end(&self) {
        for place in &self.0 {
            if let Some(watcher) = &*lock(place) {
                // If the counter is full, the eventfd is readable anyway.
                let _ = rustix::io::write(&watcher.end, &1u64.to_ne_bytes());
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::ServiceId;
    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::Errno;
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};

    /// The data of the descriptor that ends the wait of an I/O thread. No service has this id.
    const END: u64 = u64::MAX;
    /// The maximum number of selectors that one wait returns.
    const MAX_EVENTS: usize = 256;

    /// Returns an epoll descriptor, and an eventfd that it watches.
    pub(super) fn create() -> io::Result<(OwnedFd, OwnedFd)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        Ok((epoll, end))
    }

    pub(super) fn add(epoll: &OwnedFd, selector: BorrowedFd<'_>, service: ServiceId) -> io::Result<()> {
        Ok(epoll::add(epoll, selector, data(service), EventFlags::IN | EventFlags::ONESHOT)?)
    }

    pub(super) fn arm(epoll: &OwnedFd, selector: BorrowedFd<'_>, service: ServiceId) -> io::Result<()> {
        Ok(epoll::modify(epoll, selector, data(service), EventFlags::IN | EventFlags::ONESHOT)?)
    }

    pub(super) fn remove(epoll: &OwnedFd, selector: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(epoll, selector)?)
    }

    pub(super) fn wait(epoll: &OwnedFd, services: &mut Vec<ServiceId>) -> bool {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        loop {
            match epoll::wait(epoll, spare_capacity(&mut events), None) {
                Err(Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => break,
            }
        }
        let mut goes_on = true;
        for event in &events {
            match ServiceId::try_from({ event.data }.u64()) {
                Ok(service) => services.push(service),
                Err(_) => goes_on = false,
            }
        }
        goes_on
    }

    fn data(service: ServiceId) -> EventData {
        EventData::new_u64(u64::from(service))
    }
}

/// Without epoll(7), there are no I/O threads.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::ServiceId;
    use std::io::{self, ErrorKind::Unsupported};
    use std::os::fd::{BorrowedFd, OwnedFd};

    pub(super) fn create() -> io::Result<(OwnedFd, OwnedFd)> {
        Err(Unsupported.into())
    }

    pub(super) fn add(_: &OwnedFd, _: BorrowedFd<'_>, _: ServiceId) -> io::Result<()> {
        Err(Unsupported.into())
    }

    pub(super) fn arm(_: &OwnedFd, _: BorrowedFd<'_>, _: ServiceId) -> io::Result<()> {
        Err(Unsupported.into())
    }

    pub(super) fn remove(_: &OwnedFd, _: BorrowedFd<'_>) -> io::Result<()> {
        Err(Unsupported.into())
    }

    pub(super) fn wait(_: &OwnedFd, _: &mut Vec<ServiceId>) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::event::{Mode, READ, Selector};
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Returns the services that one wait of the watcher reports.
    fn reported(watcher: &Watcher) -> Vec<ServiceId> {
        let mut services = Vec::new();
        assert!(watcher.wait(&mut services));
        services
    }

    /// Ends the next wait of a watcher that has nothing to report.
    fn end(watcher: &Watcher) {
        rustix::io::write(&watcher.end, &1u64.to_ne_bytes()).unwrap();
    }

    #[test]
    fn a_selector_is_reported_once_until_it_is_armed() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let (watcher, selector) = (Watcher::new().unwrap(), Selector::new(16).unwrap());
        selector.add(near.as_raw_fd(), READ, Mode::Once).unwrap();
        watcher.add(selector.descriptor(), 7).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(reported(&watcher), [7]);
        // The selector still has its event. Only the end is reported.
        end(&watcher);
        let mut services = Vec::new();
        assert!(!watcher.wait(&mut services));
        assert!(services.is_empty(), "{services:?}");
        let mut drained = [0; 8];
        rustix::io::read(&watcher.end, &mut drained).unwrap();
        watcher.arm(selector.descriptor(), 7).unwrap();
        assert_eq!(reported(&watcher), [7]);
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        near.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn an_event_that_arrives_before_the_selector_is_armed_is_reported() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (watcher, selector) = (Watcher::new().unwrap(), Selector::new(16).unwrap());
        let registration = selector.add(near.as_raw_fd(), READ, Mode::Once).unwrap();
        watcher.add(selector.descriptor(), 9).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(reported(&watcher), [9]);
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        assert!(selector.next().is_some());
        selector.modify(&registration, READ, Mode::Once).unwrap();
        far.write_all(b"y").unwrap();
        watcher.arm(selector.descriptor(), 9).unwrap();
        assert_eq!(reported(&watcher), [9]);
    }

    #[test]
    fn a_selector_that_was_removed_or_dropped_is_not_reported() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let watcher = Watcher::new().unwrap();
        for id in [1, 2] {
            let selector = Selector::new(16).unwrap();
            selector.add(near.as_raw_fd(), READ, Mode::Once).unwrap();
            watcher.add(selector.descriptor(), id).unwrap();
            if id == 1 {
                watcher.remove(selector.descriptor());
                assert!(watcher.arm(selector.descriptor(), id).is_err());
            }
        }
        far.write_all(b"x").unwrap();
        end(&watcher);
        let mut services = Vec::new();
        assert!(!watcher.wait(&mut services));
        assert!(services.is_empty(), "{services:?}");
    }

    #[test]
    fn services_share_the_watchers_and_a_watcher_starts_once() {
        let watchers = Watchers::new(2);
        let started = std::cell::RefCell::new(Vec::new());
        let start = |_: &Arc<Watcher>, number| {
            started.borrow_mut().push(number);
            Ok(())
        };
        let of = |service| watchers.watcher_of(service, start).unwrap();
        assert!(Arc::ptr_eq(&of(4), &of(6)));
        assert!(!Arc::ptr_eq(&of(4), &of(5)));
        assert_eq!(*started.borrow(), [0, 1]);
        let refused = Watchers::new(1).watcher_of(1, |_, _| Err(io::Error::other("no thread")));
        assert_eq!(refused.err().unwrap().to_string(), "no thread");
        watchers.end();
        assert!(!of(4).wait(&mut Vec::new()));
    }
}
