//! A worker's queue: which service it runs next, and whether the others are announced.
//!
//! Belongs to one worker, by whose thread alone it is used; others steal from its deque (`ready.rs`). The
//! invariant: when a slice begins, every service in the deque was announced (`sleep.rs`) after it came
//! there, since the slice may block. Only what runs next needs no announcement. Together with `ready.rs`
//! and `sleep.rs` it is checked by the models in `tests/loom`.

use super::message::ServiceId;
use super::ready::Ready;
use super::sleep::Sleepers;
use super::sync::{Deque, HANDED_MOST, INJECTED_EVERY, SEARCHES, spin_loop};
use std::cell::Cell;

/// See the file's head.
pub(crate) struct Queue {
    /// Its worker's lane in the ready queues.
    pub(crate) number: usize,
    deque: Deque<ServiceId>,
    handed: Cell<u32>,
    turn: Cell<u32>,
    /// Whether the deque may hold a service that came there without an announcement.
    quiet: Cell<bool>,
}

impl Queue {
    /// The queue of worker `number`.
    pub(crate) fn new(number: usize, deque: Deque<ServiceId>) -> Queue {
        Queue { number, deque, handed: Cell::new(0), turn: Cell::new(0), quiet: Cell::new(false) }
    }

    /// A service that this worker's slice made ready: it runs next here, and the one that should have
    /// is for whoever is free.
    pub(crate) fn hand_off(&self, ready: &Ready, sleepers: &Sleepers, id: ServiceId) {
        if let Some(before) = ready.hand_off(self.number, id) {
            self.deque.push(before);
            sleepers.notify();
        }
    }

    /// A service that has more to do goes behind the others. If there are none, it is most likely this
    /// worker's next, and no other needs to wake: `next` decides that.
    pub(crate) fn go_on(&self, ready: &Ready, sleepers: &Sleepers, id: ServiceId) {
        let alone = self.deque.is_empty() && ready.is_lane_empty(self.number);
        self.deque.push(id);
        if alone {
            self.quiet.set(true);
        } else {
            sleepers.notify();
        }
    }

    /// The service to run next, if there is one here or in the injector.
    pub(crate) fn next(&self, ready: &Ready, sleepers: &Sleepers) -> Option<ServiceId> {
        let id = self.choose(ready);
        self.announce(sleepers);
        id
    }

    /// What is left in the deque without an announcement gets one: another service runs before it, one
    /// that came meanwhile or the first of a batch.
    fn announce(&self, sleepers: &Sleepers) {
        if self.quiet.replace(false) && !self.deque.is_empty() {
            sleepers.notify();
        }
    }

    /// Some of what was injected comes here; the first of it is to run now.
    fn take_injected(&self, ready: &Ready) -> Option<ServiceId> {
        self.quiet.set(true);
        ready.take_injected(&self.deque)
    }

    fn choose(&self, ready: &Ready) -> Option<ServiceId> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        if turn.is_multiple_of(INJECTED_EVERY)
            && let Some(id) = self.take_injected(ready)
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
            self.quiet.set(true);
        }
        self.handed.set(0);
        self.deque.pop().or_else(|| ready.take_bound(self.number)).or_else(|| self.take_injected(ready))
    }

    /// Half of what another worker has comes here; the first of it is to run now.
    pub(crate) fn steal(&self, ready: &Ready, sleepers: &Sleepers) -> Option<ServiceId> {
        let id = ready.steal(self.number, &self.deque);
        self.quiet.set(true);
        self.announce(sleepers);
        id
    }

    /// Out of work: searches everywhere, and sleeps until there is some. `is_over` ends that; then
    /// there is none. `woken` is called after each sleep.
    pub(crate) fn search(
        &self, ready: &Ready, sleepers: &Sleepers, is_over: impl Fn() -> bool, woken: impl Fn(),
    ) -> Option<ServiceId> {
        sleepers.search();
        loop {
            for _ in 0..SEARCHES {
                let found = self.choose(ready).or_else(|| ready.steal(self.number, &self.deque));
                if found.is_some() || is_over() {
                    // Announces what is left in the deque as well.
                    self.quiet.set(false);
                    sleepers.found();
                    return found;
                }
                spin_loop();
            }
            sleepers.sleep(self.number, || is_over() || ready.has_work_for(self.number));
            woken();
        }
    }

    /// Its worker ends: what is queued here is for the others. Returns the deque, which is empty.
    pub(crate) fn leave(self, ready: &Ready, sleepers: &Sleepers) -> Deque<ServiceId> {
        let mut left = false;
        while let Some(id) = self.deque.pop().or_else(|| ready.take_handed(self.number)) {
            ready.inject(id);
            left = true;
        }
        if left {
            sleepers.notify();
        }
        self.deque
    }
}

/// What lies in the hand-off slot of worker `number`, which does not come to it, is for the others.
pub(crate) fn release_handed(ready: &Ready, sleepers: &Sleepers, number: usize) {
    if let Some(id) = ready.take_handed(number) {
        ready.inject(id);
        sleepers.notify();
    }
}
