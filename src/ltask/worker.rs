//! A worker: takes a ready service, runs its slice, and decides what it does next.

use super::body::{Body, Outcome};
use super::message::ServiceId;
use super::queue::Queue;
use super::system::System;
use crate::event::clock::monotonic_nanos;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

thread_local! {
    /// The worker that this thread is. Empty when the thread ends: a destructor would cost each access.
    static CURRENT: ManuallyDrop<RefCell<Option<Rc<Worker>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// A service that became ready runs next on the calling thread, if that is a worker of the system. → whether it is
pub(crate) fn hand_off(system: &System, id: ServiceId) -> bool {
    CURRENT.with(|worker| match &*worker.borrow() {
        Some(worker) if std::ptr::eq(&*worker.system, system) => {
            worker.queue.hand_off(&system.ready, &system.sleepers, id);
            true
        }
        _ => false,
    })
}

/// The number of the worker that the calling thread is, from 0; stand-ins come behind the others.
pub(crate) fn number() -> Option<usize> {
    CURRENT.with(|worker| worker.borrow().as_ref().map(|worker| worker.number()))
}

/// What a worker's thread owns.
pub(crate) struct Worker {
    system: Arc<System>,
    /// What it runs next.
    queue: Queue,
    /// When the last slice ended, if nothing that takes time came behind it; else 0.
    ended: Cell<u64>,
    /// Serves in the place of one that is held up.
    stand_in: bool,
}

impl Worker {
    /// Worker `number`, whose deque has not been taken yet.
    pub(crate) fn new(system: &Arc<System>, number: usize) -> Option<Worker> {
        let deque = super::system::lock(&system.deques)[number].take()?;
        Some(Worker {
            system: system.clone(),
            queue: Queue::new(number, deque),
            ended: Cell::new(0),
            stand_in: number >= system.config.worker,
        })
    }

    fn number(&self) -> usize {
        self.queue.number
    }

    /// Runs services until the system ends; its deque is there for another worker then.
    pub(crate) fn run(self, system: &Arc<System>) {
        let number = self.number();
        let worker = Rc::new(self);
        let current = |worker| CURRENT.with(|current| current.replace(worker));
        current(Some(worker.clone()));
        worker.run_slices(system);
        current(None);
        if let Some(worker) = Rc::into_inner(worker) {
            let deque = worker.queue.leave(&system.ready, &system.sleepers);
            super::system::lock(&system.deques)[number] = Some(deque);
        }
    }

    fn run_slices(&self, system: &Arc<System>) {
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
    }

    /// Out of work: takes from others, or sleeps until there is some.
    fn rest(&self, system: &Arc<System>) {
        self.ended.set(0);
        let found =
            self.queue.search(&system.ready, &system.sleepers, || system.is_quitting(), || system.keeper.stir());
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
        service.watch_level();
        // One slice begins when another ends: reading the clock costs as much as a small one.
        service.began = match self.ended.get() {
            0 => monotonic_nanos(),
            ended => ended,
        };
        watch.begin(id);
        let outcome = service.run_slice(None);
        watch.end();
        let ended = monotonic_nanos();
        service.account(ended - service.began);
        self.ended.set(ended);
        self.settle(system, service, outcome);
    }

    fn settle(&self, system: &Arc<System>, mut service: Body, outcome: Outcome) {
        let id = service.id;
        if outcome != Outcome::Yielded || service.statistics.doomed.load(Ordering::Relaxed) {
            self.ended.set(0);
            return super::lifecycle::retire(system, service);
        }
        if service.detach {
            self.ended.set(0);
            return super::run::detach(system, service);
        }
        let Some(slot) = system.slots().get(id) else {
            return;
        };
        let (unread, place) = (service.unread(), service.place);
        let Some(place) = slot.mailbox.end(service, unread, place) else {
            return system.tell_if_wanted(id);
        };
        match place {
            super::mailbox::Place::Any => {
                self.queue.go_on(&system.ready, &system.sleepers, id);
            }
            _ => system.schedule(id, place),
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
    watch.begin(id);
    let outcome = service.run_slice(None);
    watch.end();
    watch.leave();
    let nanos = monotonic_nanos() - service.began;
    service.account(nanos);
    if outcome != Outcome::Yielded || service.statistics.doomed.load(Ordering::Relaxed) {
        return super::lifecycle::retire(system, service);
    }
    if service.detach {
        return super::run::detach(system, service);
    }
    let (unread, place) = (service.unread(), service.place);
    match slot.mailbox.end(service, unread, place) {
        Some(place) => system.schedule(id, place),
        None => system.tell_if_wanted(id),
    }
}
