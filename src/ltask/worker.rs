//! A worker: takes a ready service, runs its slice, and decides what it does next.

use super::message::ServiceId;
use super::service::{Outcome, Service};
use super::system::System;
use crate::timer::monotonic_nanos;
use crossbeam_deque::Worker as Deque;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many services in a row may come from the hand-off slot while others wait in the deque.
const HANDED_MOST: u32 = 64;
/// Every so many turns the injector comes first, so that a busy deque does not starve it.
const INJECTED_EVERY: u32 = 61;
/// Looks around so often before it lies down: a wake-up costs more.
const SEARCHES: u32 = 16;

/// What a worker's thread owns.
pub(crate) struct Worker {
    /// Its lane in the ready queues.
    pub(crate) number: usize,
    deque: Deque<ServiceId>,
    handed: Cell<u32>,
    turn: Cell<u32>,
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
            number,
            deque,
            handed: Cell::new(0),
            turn: Cell::new(0),
            ended: Cell::new(0),
            stand_in: number >= system.config.worker,
        })
    }

    /// A service that this worker's slice made ready: it runs next here, and the one that should have
    /// is for whoever is free.
    pub(crate) fn hand_off(&self, system: &System, id: ServiceId) {
        if let Some(before) = system.ready.hand_off(self.number, id) {
            self.offer(system, before);
        }
    }

    /// Queues a service behind the others, where idle workers find it.
    fn offer(&self, system: &System, id: ServiceId) {
        self.deque.push(id);
        system.sleepers.notify();
    }

    /// Runs services until the system ends. Returns its deque, empty or not.
    pub(crate) fn run(self, system: &Arc<System>) {
        let watch = &system.watches[self.number];
        watch.enter();
        while !system.is_quitting() {
            if self.stand_in && system.keeper.is_surplus() {
                break;
            }
            match self.next(system) {
                Some(id) => self.slice(system, id),
                None if self.stand_in => match system.ready.steal(self.number, &self.deque) {
                    Some(id) => self.slice(system, id),
                    None => break,
                },
                None => self.rest(system),
            }
        }
        watch.leave();
        self.leave(system);
    }

    /// Gives back what it has queued.
    fn leave(self, system: &System) {
        let mut left = false;
        while let Some(id) = self
            .deque
            .pop()
            .or_else(|| system.ready.take_handed(self.number))
        {
            system.ready.inject(id);
            left = true;
        }
        if left {
            system.sleepers.notify();
        }
        super::system::lock(&system.deques)[self.number] = Some(self.deque);
    }

    fn next(&self, system: &System) -> Option<ServiceId> {
        let ready = &system.ready;
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        if turn.is_multiple_of(INJECTED_EVERY)
            && let Some(id) = ready.take_injected(&self.deque)
        {
            return Some(id);
        }
        // Bound services take turns with the others.
        if turn.is_multiple_of(2)
            && let Some(id) = ready.take_bound(self.number)
        {
            return Some(id);
        }
        if self.handed.get() < HANDED_MOST {
            if let Some(id) = ready.take_handed(self.number) {
                self.handed.set(self.handed.get() + 1);
                return Some(id);
            }
        } else if let Some(id) = ready.take_handed(self.number) {
            self.deque.push(id);
        }
        self.handed.set(0);
        self.deque
            .pop()
            .or_else(|| ready.take_bound(self.number))
            .or_else(|| ready.take_injected(&self.deque))
    }

    /// Out of work: takes from others, or sleeps until there is some.
    fn rest(&self, system: &Arc<System>) {
        self.ended.set(0);
        let sleepers = &system.sleepers;
        sleepers.search();
        loop {
            for _ in 0..SEARCHES {
                let found = self
                    .next(system)
                    .or_else(|| system.ready.steal(self.number, &self.deque));
                if let Some(id) = found {
                    sleepers.found();
                    return self.slice(system, id);
                }
                if system.is_quitting() {
                    return sleepers.found();
                }
                std::hint::spin_loop();
            }
            sleepers.sleep(self.number, || {
                system.is_quitting() || system.ready.has_work_for(self.number)
            });
            system.keeper.stir();
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
        let watch = &system.watches[self.number];
        service.worker = self;
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
            super::mailbox::Place::Any => self.offer_self(system, id),
            _ => system.schedule(id, place, Some(self)),
        }
    }

    /// A service that has more to do goes behind the others. If there are none, it is this worker's next,
    /// and nobody needs to wake.
    fn offer_self(&self, system: &System, id: ServiceId) {
        let alone = self.deque.is_empty() && system.ready.is_lane_empty(self.number);
        self.deque.push(id);
        if !alone {
            system.sleepers.notify();
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
