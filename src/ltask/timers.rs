//! The scheduler's timers: which service gets a RESPONSE with which session at what time.
//!
//! Any thread adds timers. The monitor thread, which sleeps until the first timer expires, takes the expired timers.
//! The timers of a service form a linked list, so that all of them can be removed when the service dies.

use super::message::ServiceId;
use super::sync::lock;
use crate::event::timers::Queue;
use std::collections::HashMap;
use std::sync::Mutex;

const NONE: usize = usize::MAX;

/// A timer, and its neighbours in the list of its service.
#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    service: ServiceId,
    session: i64,
    previous: usize,
    next: usize,
}

#[derive(Default)]
struct Inner {
    queue: Queue,
    /// The timers, by their slot in the queue.
    entries: Vec<Option<Entry>>,
    /// The first slot of each service's list.
    heads: HashMap<ServiceId, usize>,
    /// The time at which the monitor thread will wake, in nanoseconds of the monotonic clock.
    planned_wakeup: u64,
}

/// The timers of a system.
#[derive(Default)]
pub(crate) struct Timers {
    inner: Mutex<Inner>,
}

/// A timer that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredTimer {
    pub(crate) service: ServiceId,
    pub(crate) session: i64,
}

impl Timers {
    /// Sets a timer that expires at `deadline` nanoseconds of the monotonic clock. Returns the timer's id, and whether
    /// the monitor thread must wake earlier than planned.
    pub(crate) fn add(&self, service: ServiceId, session: i64, deadline: u64) -> (u64, bool) {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        let id = inner.queue.create(true);
        let slot = Queue::slot(id);
        inner.queue.set(id, deadline);
        if inner.entries.len() <= slot {
            inner.entries.resize(slot + 1, None);
        }
        let head = inner.heads.insert(service, slot);
        if let Some(first) = head.and_then(|first| inner.entries[first].as_mut()) {
            first.previous = slot;
        }
        inner.entries[slot] = Some(Entry { id, service, session, previous: NONE, next: head.unwrap_or(NONE) });
        (id, deadline < inner.planned_wakeup)
    }

    /// Removes a service's timer, if it has not expired.
    pub(crate) fn cancel(&self, service: ServiceId, id: u64) {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        let slot = Queue::slot(id);
        let Some(&Some(entry)) = inner.entries.get(slot) else { return };
        if entry.id == id && entry.service == service {
            inner.entries[slot] = None;
            inner.queue.free(id);
            inner.unlink(entry);
        }
    }

    /// Returns how many timers a service has.
    pub(crate) fn count_of(&self, service: ServiceId) -> usize {
        let inner = lock(&self.inner);
        let mut slot = inner.heads.get(&service).copied().unwrap_or(NONE);
        let mut count = 0;
        while let Some(Some(entry)) = inner.entries.get(slot) {
            count += 1;
            slot = entry.next;
        }
        count
    }

    /// Removes all timers of a service that has died.
    pub(crate) fn remove_all(&self, service: ServiceId) {
        let mut inner = lock(&self.inner);
        let mut slot = inner.heads.remove(&service).unwrap_or(NONE);
        while slot != NONE {
            let Some(entry) = inner.entries[slot].take() else { return };
            inner.queue.free(entry.id);
            slot = entry.next;
        }
        if inner.queue.len() == 0 {
            inner.entries = Vec::new();
        }
    }

    /// Moves expired timers to `out`, until `out` contains `most` timers. The timers are ordered by time, then by
    /// creation.
    pub(crate) fn expire(&self, now: u64, most: usize, out: &mut Vec<ExpiredTimer>) {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        while out.len() < most {
            let Some((id, _)) = inner.queue.expire(now) else { return };
            let Some(entry) = inner.entries[Queue::slot(id)].take() else { continue };
            inner.unlink(entry);
            out.push(ExpiredTimer { service: entry.service, session: entry.session });
        }
    }

    /// Returns the time of the first timer, but at most `until`, and records the result as the time at which the
    /// monitor thread will wake.
    pub(crate) fn plan_wakeup(&self, until: u64) -> u64 {
        let mut inner = lock(&self.inner);
        let first = inner.queue.next_due().unwrap_or(u64::MAX);
        inner.planned_wakeup = first.min(until);
        inner.planned_wakeup
    }

    /// Returns the number of timers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.inner).queue.len()
    }
}

impl Inner {
    fn unlink(&mut self, entry: Entry) {
        match self.entries.get_mut(entry.previous).and_then(Option::as_mut) {
            Some(previous) => previous.next = entry.next,
            None if entry.next == NONE => {
                self.heads.remove(&entry.service);
            }
            None => {
                self.heads.insert(entry.service, entry.next);
            }
        }
        if let Some(next) = self.entries.get_mut(entry.next).and_then(Option::as_mut) {
            next.previous = entry.previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(timers: &Timers, now: u64) -> Vec<(ServiceId, i64)> {
        let mut out = Vec::new();
        timers.expire(now, usize::MAX, &mut out);
        out.iter().map(|timer| (timer.service, timer.session)).collect()
    }

    #[test]
    fn timers_expire_by_time_then_in_order_of_creation() {
        let timers = Timers::default();
        timers.add(1, 10, 30);
        timers.add(2, 11, 20);
        timers.add(1, 12, 20);
        assert_eq!(drain(&timers, 19), []);
        assert_eq!(drain(&timers, 30), [(2, 11), (1, 12), (1, 10)]);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn the_timers_of_a_dead_service_are_removed_and_no_others() {
        let timers = Timers::default();
        for session in 0..100 {
            timers.add(7, session, 50);
            timers.add(8, session, 50);
        }
        let mut first = Vec::new();
        timers.expire(50, 10, &mut first);
        timers.remove_all(7);
        assert_eq!(timers.len(), 95);
        let rest = drain(&timers, 50);
        assert_eq!(rest.len(), 95);
        assert!(rest.iter().all(|&(service, _)| service == 8));
        timers.remove_all(8);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn only_an_earlier_timer_wakes_the_monitor_thread() {
        let timers = Timers::default();
        assert_eq!(timers.plan_wakeup(u64::MAX), u64::MAX);
        assert!(timers.add(1, 1, 100).1);
        assert_eq!(timers.plan_wakeup(u64::MAX), 100);
        assert!(!timers.add(1, 2, 100).1);
        assert!(!timers.add(1, 3, 200).1);
        assert!(timers.add(1, 4, 99).1);
        assert_eq!(timers.plan_wakeup(50), 50);
    }

    #[test]
    fn a_cancelled_timer_does_not_expire_and_its_neighbours_do() {
        let timers = Timers::default();
        let ids: Vec<u64> = (0..5).map(|at| timers.add(7, at, 10 + at as u64).0).collect();
        timers.cancel(7, ids[0]);
        timers.cancel(7, ids[2]);
        timers.cancel(7, ids[2]);
        timers.cancel(7, ids[4]);
        timers.cancel(8, ids[1]);
        assert_eq!(timers.count_of(7), 2);
        assert_eq!(drain(&timers, 100), [(7, 1), (7, 3)]);
        timers.cancel(7, ids[1]);
        assert_eq!(timers.count_of(7), 0);
    }
}
