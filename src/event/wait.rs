//! Waiting, and the batch of registrations that a wait has found ready.
//!
//! Invariant: a delivered registration goes to the end of the queue, and each wait asks the system for new events even
//! if the queue is not empty. So every ready registration is delivered eventually, even if a program takes one event
//! per wait.
//!
//! The cost of a wait is proportional to the number of ready registrations. A wait first finishes the last batch: it
//! checks remembered readiness again, and re-arms foreign descriptors whose events were delivered.

use super::interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
use super::pause::{self, Pause};
use super::registration::Registration;
use super::selector::{Selector, WAKER};
use mio::Token;
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

impl Selector {
    /// Waits until there is an event to deliver, the waker fires, `timeout` has passed, or `interrupted` returns true
    /// after a signal. After that, [`Selector::next`] returns the registrations of the batch.
    pub(crate) fn wait(&self, timeout: Option<Duration>, mut interrupted: impl FnMut() -> bool) -> io::Result<()> {
        let pending = self.recheck();
        self.rearm()?;
        let timeout = if pending { Some(Duration::ZERO) } else { timeout };
        let deadline = match timeout {
            Some(span) if !span.is_zero() => Some(Instant::now() + span),
            _ => None,
        };
        let mut left = timeout;
        loop {
            let polled = {
                let mut poll = self.poll.borrow_mut();
                pause::report(Pause::Begins);
                let polled = poll.poll(&mut self.events.borrow_mut(), left);
                pause::report(Pause::Ends);
                polled
            };
            match polled {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if interrupted() {
                        break;
                    }
                    left = remaining(deadline, left);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let woken = self.take_events();
            let waiting = left.is_none_or(|span| !span.is_zero());
            if woken || !waiting || !self.ready.borrow().is_empty() {
                break;
            }
            left = remaining(deadline, left);
            if left.is_some_and(|span| span.is_zero()) {
                break;
            }
        }
        self.batch.set(self.ready.borrow().len());
        Ok(())
    }

    /// Returns the next registration of the batch and the bits for which it is ready.
    pub(crate) fn next(&self) -> Option<(Rc<Registration>, u8)> {
        while self.batch.get() > 0 {
            self.batch.set(self.batch.get() - 1);
            let registration = self.ready.borrow_mut().pop_front()?;
            registration.is_queued.set(false);
            let bits = registration.deliverable();
            if bits == 0 {
                continue;
            }
            self.record_delivery(&registration, bits);
            if registration.post(bits) {
                continue;
            }
            return Some((registration, bits));
        }
        None
    }

    /// Ends the iteration over a batch. The remaining events are delivered with the next batch.
    pub(crate) fn end_batch(&self) {
        self.batch.set(0);
    }

    /// Moves the system's events into the queue. Returns true if the waker fired.
    fn take_events(&self) -> bool {
        let events = self.events.borrow();
        let mut woken = false;
        for event in events.iter() {
            if event.token() == WAKER {
                woken = true;
                if let Some(waker) = &*self.waker.borrow() {
                    waker.taken();
                }
                continue;
            }
            let Token(packed) = event.token();
            let slot = packed & 0xffff_ffff;
            let generation = (packed >> 32) as u32;
            let found = self.table.borrow().get(slot).cloned();
            let Some(registration) = found else { continue };
            if registration.generation == generation && registration.is_active.get() {
                self.take_event(&registration, bits_of(event));
            }
        }
        woken
    }

    fn take_event(&self, registration: &Rc<Registration>, bits: u8) {
        registration.ready.set(registration.ready.get() | bits);
        if registration.deliverable() != 0 {
            self.enqueue(registration);
            return;
        }
        // The event was not requested. A socket owned by lio records it; a foreign descriptor will be checked again. If
        // the kernel would keep reporting an unrequested event, the request is changed.
        let needed = registration.needed_interest();
        let (wanted, known) = match registration.kind {
            Kind::Tcp => return,
            Kind::Other => (needed | READ, registration.system_interest.get()),
            Kind::Foreign => {
                let reported = registration.ready.replace(0);
                let known = registration.system_interest.get() | reported & needed;
                // As after a delivery, the descriptor is re-armed at the next request of an event that was reported.
                registration.system_interest.set(known & !reported);
                (needed, known)
            }
        };
        if wanted != known
            && let Err(error) = self.set_system_interest(registration, wanted)
        {
            self.remove_if_closed(registration, &error);
        }
    }

    /// Updates a registration whose event is delivered, according to its mode.
    fn record_delivery(&self, registration: &Rc<Registration>, bits: u8) {
        match registration.mode.get() {
            Mode::Once => {
                registration.requested.set(registration.requested.get() & !bits);
                if !registration.is_own() {
                    // The descriptor is re-armed at the next request of an event that was reported.
                    let reported = registration.ready.replace(0);
                    registration.system_interest.set(registration.system_interest.get() & !reported);
                }
            }
            Mode::EpollEdge => registration.ready.set(0),
            Mode::EpollOnce => {
                registration.requested.set(0);
                registration.ready.set(0);
            }
            Mode::Level | Mode::Epoll if registration.is_own() => {
                registration.is_queued.set(true);
                self.ready.borrow_mut().push_back(registration.clone());
            }
            Mode::Level | Mode::Epoll => {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
        }
    }

    /// Checks the registrations that the last batch left in the queue. Returns true if events are certain to be
    /// delivered.
    ///
    /// A level-triggered registration is delivered again only if its condition still holds: a handler may call `accept`
    /// or `recv` only once per event, and after a spurious event that call would return `false`. Sockets owned by lio
    /// are checked together with one poll(2); other descriptors are re-armed.
    fn recheck(&self) -> bool {
        let mut ready = self.ready.borrow_mut();
        // Usually the delivered conditions have ended.
        while ready.front().is_some_and(|first| first.deliverable() == 0) {
            if let Some(over) = ready.pop_front() {
                over.is_queued.set(false);
            }
        }
        if ready.is_empty() {
            return false;
        }
        let mut check = self.check.borrow_mut();
        ready.retain(|registration| {
            let is_ready = registration.deliverable() != 0;
            if is_ready
                && registration.is_checkable()
                && let Some(owner) = registration.owner.as_ref().and_then(Weak::upgrade)
            {
                check.push(owner);
                return true;
            }
            if is_ready && !registration.is_level() {
                return true;
            }
            registration.is_queued.set(false);
            if is_ready {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
            false
        });
        if let Some(mut results) = check.results() {
            ready.retain(|registration| {
                if registration.is_checkable() {
                    match results.next() {
                        Some(Some(bits)) => registration.ready.set(bits),
                        // The descriptor was closed without event_del and can never be ready again.
                        Some(None) => self.remove(registration, false),
                        None => {}
                    }
                }
                let is_ready = registration.deliverable() != 0;
                registration.is_queued.set(is_ready);
                is_ready
            });
        }
        !ready.is_empty()
    }

    fn request_rearm(&self, registration: &Rc<Registration>) {
        if !registration.is_rearming.replace(true) {
            self.rearm.borrow_mut().push(registration.clone());
        }
    }

    /// Re-arms foreign descriptors whose events were delivered, so that the next poll reports these events again.
    /// Descriptors that the system refuses stay in the list for the next wait, and the error is returned.
    fn rearm(&self) -> io::Result<()> {
        if self.rearm.borrow().is_empty() {
            return Ok(());
        }
        let mut list = std::mem::take(&mut *self.rearm.borrow_mut());
        let mut outcome = Ok(());
        list.retain(|registration| {
            if registration.is_active.get()
                && let Err(error) = self.set_system_interest(registration, registration.needed_interest())
            {
                self.remove_if_closed(registration, &error);
                if registration.is_active.get() {
                    outcome = Err(error);
                    return true;
                }
            }
            registration.is_rearming.set(false);
            false
        });
        *self.rearm.borrow_mut() = list;
        outcome
    }
}

fn remaining(deadline: Option<Instant>, otherwise: Option<Duration>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())).or(otherwise)
}

fn bits_of(event: &mio::event::Event) -> u8 {
    let mut bits = 0;
    if event.is_readable() {
        bits |= READ;
    }
    if event.is_writable() {
        bits |= WRITE;
    }
    if event.is_read_closed() {
        bits |= READ | CLOSED;
        if event.is_write_closed() {
            bits |= WRITE | HANG_UP;
        }
    }
    if event.is_error() {
        bits |= READ | WRITE | ERROR;
    }
    bits
}
