//! A worker: takes a ready service, runs its slice, and decides what it does next.

use super::message::ServiceId;
use super::queue::Queue;
use super::service::{Outcome, Service};
use super::system::System;
use crate::event::clock::monotonic_nanos;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a worker's thread owns.
pub(crate) struct Worker {
    /// What it runs next.
    queue: Queue,
    /// When the last slice ended, if nothing that takes time came behind it; else 0.
    ended: Cell<u64>,
    /// Serves in the place of one that is held up.
    stand_in: bool,
}

impl Worker {
    /// Worker `number`, whose deque has not been taken yet.
    pub(crate) fn new(system: &System, number: usize) -> Option<Worker> {
        let deque = super::system::lock(&system.deques)[number].take()?;
        Some(Worker {
            queue: Queue::new(number, deque),
            ended: Cell::new(0),
            stand_in: number >= system.config.worker,
        })
    }

    /// Its number, from 0; stand-ins come behind the others.
    pub(crate) fn number(&self) -> usize {
        self.queue.number
    }

    /// A service that this worker's slice made ready: it runs next here.
    pub(crate) fn hand_off(&self, system: &System, id: ServiceId) {
        self.queue.hand_off(&system.ready, &system.sleepers, id);
    }

    /// Runs services until the system ends. Returns its deque, empty or not.
    pub(crate) fn run(self, system: &Arc<System>) {
        let (ready, sleepers) = (&system.ready, &system.sleepers);
        let watch = &system.watches[self.number()];
        watch.enter();
        while !system.is_quitting() {
            if self.stand_in && system.keeper.is_surplus() {
                break;
            }
            match self.queue.next(ready, sleepers) {
                Some(id) => self.slice(system, id),
                None if self.stand_in => match self.queue.steal(ready, sleepers) {
                    Some(id) => self.slice(system, id),
                    None => break,
                },
                None => self.rest(system),
            }
        }
        watch.leave();
        let number = self.number();
        let deque = self.queue.leave(ready, sleepers);
        super::system::lock(&system.deques)[number] = Some(deque);
    }

    /// Out of work: takes from others, or sleeps until there is some.
    fn rest(&self, system: &Arc<System>) {
        self.ended.set(0);
        let found = self.queue.search(
            &system.ready,
            &system.sleepers,
            || system.is_quitting(),
            || system.keeper.stir(),
        );
        if let Some(id) = found {
            self.slice(system, id);
        }
    }

    fn slice(&self, system: &Arc<System>, id: ServiceId) {
        let Some(slot) = system.slots().get(id) else {
            return;
        };
        let Some(mut service) = slot.mailbox.begin(id, |service| &mut service.batch) else {
            return;
        };
        if service.detach {
            // It took an event descriptor before it was a service.
            self.ended.set(0);
            return super::run::detach(system, service);
        }
        let watch = &system.watches[self.number()];
        service.worker = self;
        service.watch_level();
        // One slice begins when another ends: reading the clock costs as much as a small one.
        service.began = match self.ended.get() {
            0 => monotonic_nanos(),
            ended => ended,
        };
        watch.begin(&mut service);
        let outcome = service.resume(false);
        watch.end();
        let ended = monotonic_nanos();
        service.account(ended - service.began);
        self.ended.set(ended);
        self.settle(system, service, outcome);
    }

    fn settle(&self, system: &Arc<System>, mut service: Box<Service>, outcome: Outcome) {
        let id = service.id;
        if outcome != Outcome::Yielded || service.card.doomed.load(Ordering::Relaxed) {
            self.ended.set(0);
            return super::life::bury(system, service, Some(self));
        }
        service.worker = std::ptr::null();
        if service.detach {
            self.ended.set(0);
            return super::run::detach(system, service);
        }
        let Some(slot) = system.slots().get(id) else {
            return;
        };
        let (unread, place) = (service.unread(), service.place);
        let Some(place) = slot.mailbox.end(service, unread, place) else {
            return system.tell_if_wanted(id, Some(self));
        };
        match place {
            super::mailbox::Place::Any => {
                self.queue.go_on(&system.ready, &system.sleepers, id);
            }
            _ => system.schedule(id, place, Some(self)),
        }
    }
}

/// Runs one slice of a service on the process's main thread.
pub(crate) fn main_slice(system: &Arc<System>, id: ServiceId) {
    let Some(slot) = system.slots().get(id) else {
        return;
    };
    let Some(mut service) = slot.mailbox.begin(id, |service| &mut service.batch) else {
        return;
    };
    service.watch_level();
    service.began = monotonic_nanos();
    let watch = &system.main.watch;
    watch.enter();
    watch.begin(&mut service);
    let outcome = service.resume(false);
    watch.end();
    watch.leave();
    let nanos = monotonic_nanos() - service.began;
    service.account(nanos);
    if outcome != Outcome::Yielded || service.card.doomed.load(Ordering::Relaxed) {
        return super::life::bury(system, service, None);
    }
    if service.detach {
        return super::run::detach(system, service);
    }
    let (unread, place) = (service.unread(), service.place);
    match slot.mailbox.end(service, unread, place) {
        Some(place) => system.schedule(id, place, None),
        None => system.tell_if_wanted(id, None),
    }
}
