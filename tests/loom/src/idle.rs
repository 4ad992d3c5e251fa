//! Workers that sleep and producers that wake them: whatever was queued is taken although nobody polls,
//! and workers that are needed at the same time are both woken. The workers do as src/ltask/worker.rs
//! does. The queues are counters with the weakest order that a queue may have, so that nothing but the
//! protocol's own fences makes a push visible to the second check.

use crate::check;
use crate::sleep::Sleepers;
use crate::sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering, lock};
use loom::sync::Arc;
use loom::thread;

const WORKERS: usize = 2;

struct Pool {
    sleepers: Sleepers,
    /// Items for any worker, and for one each.
    shared: AtomicU32,
    bound: [AtomicU32; WORKERS],
    quit: AtomicBool,
    /// Items that were begun.
    begun: Mutex<u32>,
    more: Condvar,
    /// How many items there are, and how many must be under way at the same time.
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

    /// One item: waits until as many are under way as must be; the last one ends the pool.
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

    /// As `Worker::run` and `Worker::rest`.
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

/// Two workers, one on the model's own thread, and producers.
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
    assert_eq!(pool.sleepers.sleeping(), 0, "nobody is left asleep");
}

#[test]
fn an_item_is_taken_although_nobody_polls() {
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
fn two_items_that_need_each_other_wake_both_workers() {
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
    // One worker may take both, so they do not need each other.
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
