//! What an I/O thread watches: the selectors of services that own no loop. `io_thread.rs` runs the thread, and
//! `service_io.rs` is the service's side.
//!
//! An I/O thread waits on one epoll descriptor, to which services add the descriptors of their selectors (epoll(7)
//! allows this). Invariant: a selector is watched for one event at a time (EPOLLONESHOT). After the event, the service
//! takes the events of its selector, and then calls [`Watcher::arm`], which also reports events that arrived in
//! between. So while a service is busy, its connections wake no thread.

use super::message::ServiceId;
use super::sync::lock;
use crate::event::adopt;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// The data of the descriptor that ends the wait of an I/O thread. No service has this id.
const END: u64 = u64::MAX;
/// The maximum number of selectors that one wait returns.
const MAX_EVENTS: usize = 256;

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
    /// The error of epoll_create1(2) or eventfd(2), such as `EMFILE`.
    fn new() -> io::Result<Arc<Watcher>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        Ok(Arc::new(Watcher { epoll, end }))
    }

    /// Starts watching the selector with the descriptor `selector` for one event, on behalf of `service`. Closing the
    /// descriptor ends this.
    ///
    /// # Errors
    /// The error of epoll_ctl(2), such as `ENOSPC`.
    pub(crate) fn add(&self, selector: RawFd, service: ServiceId) -> io::Result<()> {
        let data = EventData::new_u64(u64::from(service));
        adopt::borrowed(selector, |fd| epoll::add(&self.epoll, fd, data, EventFlags::IN | EventFlags::ONESHOT))??;
        Ok(())
    }

    /// Watches a selector for one more event. If the selector has events, the event follows at once.
    ///
    /// # Errors
    /// The error of epoll_ctl(2), such as `ENOENT` if the selector is not watched.
    pub(crate) fn arm(&self, selector: RawFd, service: ServiceId) -> io::Result<()> {
        let data = EventData::new_u64(u64::from(service));
        adopt::borrowed(selector, |fd| epoll::modify(&self.epoll, fd, data, EventFlags::IN | EventFlags::ONESHOT))??;
        Ok(())
    }

    /// Ends watching a selector.
    pub(crate) fn remove(&self, selector: RawFd) {
        // A selector that is not watched needs no removal.
        let _ = adopt::borrowed(selector, |fd| epoll::delete(&self.epoll, fd));
    }

    /// Waits until at least one selector has events, and stores the services whose selectors have events in `services`,
    /// which must be empty. Returns false if the thread must end.
    pub(super) fn wait(&self, services: &mut Vec<ServiceId>) -> bool {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
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
