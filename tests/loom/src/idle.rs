//! Workers that sleep and producers that wake them. Every queued item is taken although no worker polls, and two
//! workers that are needed at the same time are both woken. The workers follow src/ltask/worker.rs and
//! src/ltask/worker_queue.rs. The queues are counters with the weakest memory order that is allowed for a queue, so
//! only the fences of the protocol make a push visible to the second check.

use crate::check;
use crate::sleep::Sleepers;
use crate::sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering, lock};
use loom::sync::Arc;
use loom::thread;

const WORKERS: usize = 2;

struct Pool {
    sleepers: Sleepers,
    /// The number of items for any worker, and of items for each worker.
    shared: AtomicU32,
    bound: [AtomicU32; WORKERS],
    quit: AtomicBool,
    /// The number of items that workers have begun.
    begun: Mutex<u32>,
    more: Condvar,
    /// The number of all items, and the number of items that must run at the same time.
    total: u32,
    together: u32,
}

fn take(counter: &AtomicU32) -> bool {
    let mut seen = counter.load(Ordering::Relaxed);
    while seen > 0 {
        let next = seen - 1;
        match counter.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

impl Pool {
    fn new(total: u32, together: u32) -> Arc<Pool> {
        Arc::new(Pool {
            sleepers: Sleepers::new(WORKERS),
            shared: AtomicU32::new(0),
            bound: [AtomicU32::new(0), AtomicU32::new(0)],
            quit: AtomicBool::new(false),
            begun: Mutex::new(0),
            more: Condvar::new(),
            total,
            together,
        })
    }

    fn push(&self) {
        self.shared.fetch_add(1, Ordering::Release);
        self.sleepers.notify();
    }

    fn push_for(&self, worker: usize) {
        self.bound[worker].fetch_add(1, Ordering::Release);
        self.sleepers.notify_one(worker);
    }

    fn stop(&self) {
        self.quit.store(true, Ordering::Release);
        self.sleepers.notify_all();
    }

    fn is_over(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }

    fn next(&self, worker: usize) -> bool {
        take(&self.bound[worker]) || take(&self.shared)
    }

    fn has_work_for(&self, worker: usize) -> bool {
        self.shared.load(Ordering::Relaxed) > 0 || self.bound[worker].load(Ordering::Relaxed) > 0
    }

    /// Handles an item: waits until `together` items have begun. The last item stops the workers.
    fn handle(&self) {
        let mut begun = lock(&self.begun);
        *begun += 1;
        self.more.notify_all();
        while *begun < self.together {
            begun = self.more.wait(begun).unwrap();
        }
        if *begun == self.total {
            drop(begun);
            self.stop();
        }
    }

    /// Like `Worker::run_slices`; `rest` is like `WorkerQueue::search`.
    fn work(&self, worker: usize) {
        while !self.is_over() {
            match self.next(worker) {
                true => self.handle(),
                false => self.rest(worker),
            }
        }
    }

    fn rest(&self, worker: usize) {
        self.sleepers.search();
        loop {
            if self.next(worker) {
                self.sleepers.found();
                return self.handle();
            }
            if self.is_over() {
                return self.sleepers.found();
            }
            self.sleepers.sleep(worker, || self.is_over() || self.has_work_for(worker));
        }
    }
}

/// Runs two workers, one of them on the thread of the model, and the producers.
fn run(pool: &Arc<Pool>, producers: Vec<fn(&Pool)>) {
    let mut threads = Vec::new();
    for produce in producers {
        let pool = pool.clone();
        threads.push(thread::spawn(move || produce(&pool)));
    }
    let other = pool.clone();
    threads.push(thread::spawn(move || other.work(1)));
    pool.work(0);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*lock(&pool.begun), pool.total, "each item was taken once");
    assert_eq!(pool.sleepers.sleeping(), 0, "no worker is left asleep");
}

#[test]
fn an_item_is_taken_although_no_worker_polls() {
    check(2, || run(&Pool::new(1, 1), vec![Pool::push]));
}

#[test]
fn two_items_are_taken() {
    check(2, || {
        run(
            &Pool::new(2, 1),
            vec![|pool| {
                pool.push();
                pool.push();
            }],
        );
    });
}

#[test]
fn two_items_that_wait_for_each_other_wake_both_workers() {
    check(2, || {
        run(
            &Pool::new(2, 2),
            vec![|pool| {
                pool.push();
                pool.push();
            }],
        );
    });
}

#[test]
fn two_producers_wake_both_workers() {
    check(1, || run(&Pool::new(2, 2), vec![Pool::push, Pool::push]));
}

#[test]
fn an_item_for_one_worker_wakes_that_one() {
    check(3, || run(&Pool::new(1, 1), vec![|pool| pool.push_for(1)]));
}

#[test]
fn an_item_for_one_worker_and_one_for_any_are_taken() {
    // One worker may take both items, so the items must not wait for each other.
    check(2, || {
        run(
            &Pool::new(2, 1),
            vec![|pool| {
                pool.push_for(1);
                pool.push();
            }],
        );
    });
}

#[test]
fn an_item_for_each_worker_wakes_both() {
    check(2, || {
        run(&Pool::new(2, 2), vec![|pool| pool.push_for(0), |pool| pool.push_for(1)]);
    });
}

#[test]
fn the_end_wakes_all() {
    check(3, || run(&Pool::new(0, 0), vec![Pool::stop]));
}
