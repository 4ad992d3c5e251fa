//! When a worker may sleep, and when a sleeping worker must be woken: the protocol between workers without work and
//! threads that produce work.
//!
//! A producer puts a service into a queue and then calls `notify`. A worker that found every queue empty announces that
//! it sleeps, checks the queues once more, and only then parks. A sequentially consistent fence separates the
//! announcement from the second check, and another fence separates the push from the load of `sleeping`: the thread
//! that executes its fence later reads the values that the other thread has written. A push wakes one worker at most,
//! and none while a woken worker is still searching: the searching worker calls `notify` when it finds work (`found`).
//! So a burst of pushes wakes the workers one after another, only as long as there is work. The models in `tests/loom`
//! check this protocol.

use super::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock};

struct Parker {
    /// Whether there is a wakeup that the worker has not consumed yet.
    woken: Mutex<bool>,
    unparked: Condvar,
}

/// The workers, and which of them sleep.
pub(crate) struct Sleepers {
    parkers: Box<[Parker]>,
    /// Numbers of the sleeping workers, in the order in which they parked.
    asleep: Mutex<Vec<usize>>,
    /// The length of `asleep`.
    sleeping: AtomicU32,
    /// The number of searching workers: those that were woken or have run out of work, and have neither found work nor
    /// parked.
    searching: AtomicU32,
}

impl Sleepers {
    /// Creates parkers for `workers` workers, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        Sleepers {
            parkers: (0..workers).map(|_| Parker { woken: Mutex::new(false), unparked: Condvar::new() }).collect(),
            asleep: Mutex::new(Vec::with_capacity(workers)),
            sleeping: AtomicU32::new(0),
            searching: AtomicU32::new(0),
        }
    }

    /// Called after a service was queued for any worker. Wakes one worker, unless a worker is already searching or all
    /// are awake.
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

    /// Called after a service was queued for `worker` only. Wakes `worker` if it is asleep.
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

    /// Counts a worker as searching and wakes it. The caller has locked `asleep`, whose new length is `left`.
    fn unpark(&self, worker: usize, left: usize) {
        self.sleeping.store(left as u32, Ordering::Relaxed);
        self.searching.fetch_add(1, Ordering::Relaxed);
        let parker = &self.parkers[worker];
        *lock(&parker.woken) = true;
        parker.unparked.notify_one();
    }

    /// Wakes all workers, because the system is ending.
    pub(crate) fn notify_all(&self) {
        fence(Ordering::SeqCst);
        let mut asleep = lock(&self.asleep);
        while let Some(worker) = asleep.pop() {
            self.unpark(worker, asleep.len());
        }
    }

    /// Called by a worker that has run out of work and starts searching.
    pub(crate) fn search(&self) {
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// Called by a worker that has found work. If no other worker is searching, wakes a sleeping worker, since there
    /// may be more work.
    pub(crate) fn found(&self) {
        if self.searching.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.notify();
        }
    }

    /// Called by a worker that has found no work. Sleeps until it is woken. `has_work` is the second check of the
    /// queues: if it returns true, the worker does not sleep. The worker counts as searching when this function
    /// returns.
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
            // Another thread has woken this worker meanwhile. The loop below consumes the wakeup without sleeping.
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

    /// Returns the number of sleeping workers.
    pub(crate) fn sleeping(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed) as usize
    }
}
