//! Waiting, and the batch of registrations that a wait has found ready.
//!
//! The cost of a wait is proportional to the number of ready registrations. First the last batch is finished:
//! remembered readiness is checked again, and foreign descriptors with delivered events are re-armed.

use super::interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
use super::pause::{self, Pause};
use super::registration::Registration;
use super::selector::{Selector, WAKER};
use mio::Token;
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

impl Selector {
    fn request_rearm(&self, registration: &Rc<Registration>) {
        if !registration.rearming.replace(true) {
            self.rearm.borrow_mut().push(registration.clone());
        }
    }

    /// Re-arms foreign descriptors with delivered events, so that the next poll reports them again. Those that the
    /// system refuses stay in the list for the next wait.
    fn rearm(&self) -> io::Result<()> {
        if self.rearm.borrow().is_empty() {
            return Ok(());
        }
        let mut list = std::mem::take(&mut *self.rearm.borrow_mut());
        let mut outcome = Ok(());
        list.retain(|registration| {
            if registration.alive.get()
                && let Err(error) = self.report(registration, registration.watched())
            {
                self.forget_closed(registration, &error);
                if registration.alive.get() {
                    outcome = Err(error);
                    return true;
                }
            }
            registration.rearming.set(false);
            false
        });
        *self.rearm.borrow_mut() = list;
        outcome
    }

    /// Checks the registrations that the last batch left in the queue. Returns true if events are certain to be
    /// delivered.
    ///
    /// A level-triggered registration is delivered again only if its condition holds at this moment: a handler may
    /// accept or read without a second try, and a spurious event would make that call return `false`. Sockets owned by
    /// lio are checked together by one poll(2); the others are re-armed.
    fn recheck(&self) -> bool {
        let mut ready = self.ready.borrow_mut();
        // Usually the delivered conditions have ended.
        while ready.front().is_some_and(|first| first.due() == 0) {
            if let Some(over) = ready.pop_front() {
                over.queued.set(false);
            }
        }
        if ready.is_empty() {
            return false;
        }
        let mut check = self.check.borrow_mut();
        ready.retain(|registration| {
            let due = registration.due() != 0;
            if due
                && registration.is_verifiable()
                && let Some(owner) = registration.owner.as_ref().and_then(Weak::upgrade)
            {
                check.push(owner);
                return true;
            }
            if due && !registration.is_level() {
                return true;
            }
            registration.queued.set(false);
            if due {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
            false
        });
        if let Some(mut results) = check.results() {
            ready.retain(|registration| {
                if registration.is_verifiable() {
                    match results.next() {
                        Some(Some(bits)) => registration.ready.set(bits),
                        // The descriptor was closed without event_del and can never be ready again.
                        Some(None) => self.forget(registration, false),
                        None => {}
                    }
                }
                let due = registration.due() != 0;
                registration.queued.set(due);
                due
            });
        }
        !ready.is_empty()
    }

    /// Waits until an event is to be delivered, the waker fires, `timeout` has passed, or `interrupted` returns true
    /// after a signal. Then [`Selector::next`] returns the batch.
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

    /// Moves the events of the system into the queue. Returns true if the waker fired.
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
            if registration.generation == generation && registration.alive.get() {
                self.take_event(&registration, bits_of(event));
            }
        }
        woken
    }

    fn take_event(&self, registration: &Rc<Registration>, bits: u8) {
        registration.ready.set(registration.ready.get() | bits);
        if registration.due() != 0 {
            self.enqueue(registration);
            return;
        }
        // The event was not requested. A socket owned by lio remembers it; a foreign descriptor will be checked again.
        // If the kernel would keep reporting an unrequested event, the request is changed.
        let wanted = match registration.kind {
            Kind::Tcp => return,
            Kind::Other => registration.watched() | READ,
            Kind::Foreign => {
                registration.ready.set(0);
                registration.watched()
            }
        };
        if wanted != registration.reported.get()
            && let Err(error) = self.report(registration, wanted)
        {
            self.forget_closed(registration, &error);
        }
    }

    /// Returns the next registration of the batch and the bits for which it is ready.
    pub(crate) fn next(&self) -> Option<(Rc<Registration>, u8)> {
        while self.batch.get() > 0 {
            self.batch.set(self.batch.get() - 1);
            let registration = self.ready.borrow_mut().pop_front()?;
            registration.queued.set(false);
            let bits = registration.due();
            if bits == 0 {
                continue;
            }
            self.delivered(&registration, bits);
            if registration.post(bits) {
                continue;
            }
            return Some((registration, bits));
        }
        None
    }

    fn delivered(&self, registration: &Rc<Registration>, bits: u8) {
        match registration.mode.get() {
            Mode::Once => {
                registration.requested.set(registration.requested.get() & !bits);
                if !registration.is_own() {
                    // It is re-armed at its next request.
                    registration.ready.set(0);
                    registration.reported.set(registration.reported.get() & !bits);
                }
            }
            Mode::EpollEdge => registration.ready.set(0),
            Mode::EpollOnce => {
                registration.requested.set(0);
                registration.ready.set(0);
            }
            Mode::Level | Mode::Epoll if registration.is_own() => {
                registration.queued.set(true);
                self.ready.borrow_mut().push_back(registration.clone());
            }
            Mode::Level | Mode::Epoll => {
                registration.ready.set(0);
                self.request_rearm(registration);
            }
        }
    }

    /// Ends the iteration of a batch. The rest of it is delivered with the next batch.
    pub(crate) fn end_batch(&self) {
        self.batch.set(0);
    }
}

fn remaining(deadline: Option<Instant>, otherwise: Option<Duration>) -> Option<Duration> {
    match deadline {
        Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
        None => otherwise,
    }
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
