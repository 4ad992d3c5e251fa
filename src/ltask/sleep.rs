//! When a worker may sleep and when one must be woken: the protocol between workers without work and those who make some.
//!
//! A producer puts a service into a queue and then calls `notify`. A worker that found every queue empty
//! announces that it sleeps, checks the queues once more, and only then parks. Whichever of the two
//! comes second sees the other: the announcement and the second check, and the push and the load of
//! `sleeping`, have a sequentially consistent fence between them. At most one wakes per push, and none
//! while a woken worker still searches: that one will notify when it finds work (`found`), so a burst of
//! pushes wakes the workers one after another, and only as long as there is work. Checked by the models
//! in `tests/loom`.

use super::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock};

struct Parker {
    /// A wake-up that has not been taken.
    woken: Mutex<bool>,
    unparked: Condvar,
}

/// The workers, and which of them sleep.
pub(crate) struct Sleepers {
    parkers: Box<[Parker]>,
    /// Numbers of the workers that sleep, in the order in which they parked.
    asleep: Mutex<Vec<usize>>,
    /// How many that are.
    sleeping: AtomicU32,
    /// Workers that were woken, or search before they park, and have not found work yet.
    searching: AtomicU32,
}

impl Sleepers {
    /// Parkers for `workers` workers, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        Sleepers {
            parkers: (0..workers).map(|_| Parker { woken: Mutex::new(false), unparked: Condvar::new() }).collect(),
            asleep: Mutex::new(Vec::with_capacity(workers)),
            sleeping: AtomicU32::new(0),
            searching: AtomicU32::new(0),
        }
    }

    /// Something that any worker can take was queued: wakes one, unless one searches already or all are
    /// awake.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) == 0 || self.searching.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut asleep = lock(&self.asleep);
        if self.searching.load(Ordering::Relaxed) > 0 {
            return;
        }
        let Some(worker) = asleep.pop() else { return };
        self.unpark(worker, asleep.len());
    }

    /// Something that only `worker` can take was queued.
    pub(crate) fn notify_one(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut asleep = lock(&self.asleep);
        let Some(at) = asleep.iter().position(|&other| other == worker) else { return };
        asleep.remove(at);
        self.unpark(worker, asleep.len());
    }

    /// With `asleep` locked: counts it as searching and wakes it.
    fn unpark(&self, worker: usize, left: usize) {
        self.sleeping.store(left as u32, Ordering::Relaxed);
        self.searching.fetch_add(1, Ordering::Relaxed);
        let parker = &self.parkers[worker];
        *lock(&parker.woken) = true;
        parker.unparked.notify_one();
    }

    /// Wakes all, for the end.
    pub(crate) fn notify_all(&self) {
        fence(Ordering::SeqCst);
        let mut asleep = lock(&self.asleep);
        while let Some(worker) = asleep.pop() {
            self.unpark(worker, asleep.len());
        }
    }

    /// A worker has run out of work and begins to search.
    pub(crate) fn search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// It found some. The last one that searches passes the word on, since there may be more.
    pub(crate) fn found(&self) {
        if self.searching.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.notify();
        }
    }

    /// It found none: sleeps until woken. `has_work` is the second check. Returns as one that searches.
    pub(crate) fn sleep(&self, worker: usize, has_work: impl Fn() -> bool) {
        {
            let mut asleep = lock(&self.asleep);
            asleep.push(worker);
            self.sleeping.store(asleep.len() as u32, Ordering::Relaxed);
            self.searching.fetch_sub(1, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        if has_work() {
            let mut asleep = lock(&self.asleep);
            if let Some(at) = asleep.iter().position(|&other| other == worker) {
                asleep.remove(at);
                self.sleeping.store(asleep.len() as u32, Ordering::Relaxed);
                self.searching.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // Another thread woke it meanwhile: the wake-up is taken below, at once.
        }
        let parker = &self.parkers[worker];
        let mut woken = lock(&parker.woken);
        while !*woken {
            woken = match parker.unparked.wait(woken) {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        *woken = false;
    }

    /// How many workers sleep.
    pub(crate) fn sleeping(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed) as usize
    }
}
