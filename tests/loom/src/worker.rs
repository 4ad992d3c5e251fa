//! Whole workers: hand-off slot, deque, injector, stealing, bound services, sleep. A service that can run
//! does run as long as one worker that may run it is free: a slice that blocks until another service has run
//! is a deadlock if that one was forgotten. The queues are src/ltask/worker_queue.rs and src/ltask/ready_queues.rs, as
//! they are; the loop around them is that of src/ltask/worker.rs.

use crate::check;
use crate::ready_queues::ReadyQueues;
use crate::sleep::Sleepers;
use crate::sync::{AtomicBool, Condvar, Deque, Mutex, Ordering, lock};
use crate::worker_queue::{self, WorkerQueue};
use loom::sync::Arc;
use loom::thread;

/// The services; their numbers are not 0.
const X: u32 = 1;
const Y: u32 = 2;
const Z: u32 = 3;
const V: u32 = 4;
const W: u32 = 5;
const SERVICES: usize = 6;

/// What a service does after a slice.
enum After {
    /// It waits for a message.
    Idle,
    /// It has more to do.
    More,
}

type Slice = fn(&Town, &WorkerQueue, u32, u32) -> After;

struct Town {
    ready: ReadyQueues,
    sleepers: Sleepers,
    deques: std::sync::Mutex<Vec<Option<Deque<u32>>>>,
    quit: AtomicBool,
    /// How many slices each service has begun.
    begun: Mutex<[u32; SERVICES]>,
    more: Condvar,
    /// How many slices there are in all; the last one ends the town.
    total: u32,
    /// What a service does, by its number and that of its slice, from 1.
    slice: Slice,
}

impl Town {
    fn new(workers: usize, spares: usize, total: u32, slice: Slice) -> Arc<Town> {
        let (ready, deques) = ReadyQueues::new(workers + spares);
        Arc::new(Town {
            ready,
            sleepers: Sleepers::new(workers),
            deques: std::sync::Mutex::new(deques.into_iter().map(Some).collect()),
            quit: AtomicBool::new(false),
            begun: Mutex::new([0; SERVICES]),
            more: Condvar::new(),
            total,
            slice,
        })
    }

    fn queue(&self, number: usize) -> WorkerQueue {
        let deque = self.deques.lock().unwrap()[number].take();
        WorkerQueue::new(number, deque.expect("a worker of its own"))
    }

    /// A message from another thread makes a service ready.
    fn inject(&self, id: u32) {
        self.ready.inject(id);
        self.sleepers.notify();
    }

    fn bind(&self, worker: usize, id: u32) {
        self.ready.bind(worker, id);
        self.sleepers.notify_one(worker);
    }

    /// Blocks until service `id` has begun its slice `count`.
    fn await_slice(&self, id: u32, count: u32) {
        let mut begun = lock(&self.begun);
        while begun[id as usize] < count {
            begun = self.more.wait(begun).unwrap();
        }
    }

    fn has_ended(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }

    fn run_slice(&self, queue: &WorkerQueue, id: u32) {
        let (number, is_last) = {
            let mut begun = lock(&self.begun);
            begun[id as usize] += 1;
            (begun[id as usize], begun.iter().sum::<u32>() == self.total)
        };
        self.more.notify_all();
        if let After::More = (self.slice)(self, queue, id, number) {
            queue.requeue(&self.ready, &self.sleepers, id);
        }
        if is_last {
            self.quit.store(true, Ordering::Release);
            self.sleepers.notify_all();
        }
    }

    /// As `Worker::run`.
    fn work(&self, number: usize) {
        let queue = self.queue(number);
        let (ready, sleepers) = (&self.ready, &self.sleepers);
        while !self.has_ended() {
            let found =
                queue.next(ready, sleepers).or_else(|| queue.search(ready, sleepers, || self.has_ended(), || ()));
            if let Some(id) = found {
                self.run_slice(&queue, id);
            }
        }
        queue.leave(ready, sleepers);
    }

    /// As `Worker::run` of a spare worker: it does not sleep.
    fn run_spare(&self, number: usize) {
        let queue = self.queue(number);
        let (ready, sleepers) = (&self.ready, &self.sleepers);
        while !self.has_ended() {
            let found = queue.next(ready, sleepers).or_else(|| queue.steal(ready, sleepers));
            match found {
                Some(id) => self.run_slice(&queue, id),
                None => break,
            }
        }
        queue.leave(ready, sleepers);
    }
}

/// Two workers, one of them on the model's own thread, and others beside them.
fn run(town: &Arc<Town>, others: Vec<fn(&Town)>) {
    let mut threads = Vec::new();
    for other in others {
        let town = town.clone();
        threads.push(thread::spawn(move || other(&town)));
    }
    let second = town.clone();
    threads.push(thread::spawn(move || second.work(1)));
    town.work(0);
    for thread in threads {
        thread.join().unwrap();
    }
    let begun = lock(&town.begun).iter().sum::<u32>();
    assert_eq!(begun, town.total, "each slice ran once");
    assert_eq!(town.sleepers.sleeping(), 0, "no worker is left asleep");
}

#[test]
fn a_service_that_goes_on_is_not_stranded_by_a_bound_one_that_blocks() {
    fn slice(town: &Town, _: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => return After::More,
            (Y, _) => town.await_slice(X, 2),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 3, slice);
        town.ready.inject(X);
        run(&town, vec![|town| town.bind(0, Y)]);
    });
}

#[test]
fn a_service_that_goes_on_is_not_stranded_by_an_injected_one_that_blocks() {
    fn slice(town: &Town, _: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1 | 2) => return After::More,
            (Y, _) => town.await_slice(X, 3),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 4, slice);
        town.ready.inject(X);
        run(&town, vec![|town| town.inject(Y)]);
    });
}

#[test]
fn a_service_that_goes_on_is_not_stranded_by_the_one_it_handed_off() {
    fn slice(town: &Town, queue: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => {
                queue.hand_off(&town.ready, &town.sleepers, Y);
                return After::More;
            }
            (Y, _) => town.await_slice(X, 2),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 3, slice);
        town.ready.inject(X);
        run(&town, vec![]);
    });
}

#[test]
fn a_service_that_another_pushes_out_of_the_hand_off_slot_is_not_stranded() {
    fn slice(town: &Town, queue: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            X => {
                queue.hand_off(&town.ready, &town.sleepers, Y);
                queue.hand_off(&town.ready, &town.sleepers, Z);
            }
            Z => town.await_slice(Y, 1),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 3, slice);
        town.ready.inject(X);
        run(&town, vec![]);
    });
}

#[test]
fn a_service_in_the_hand_off_slot_of_a_slice_that_blocks_is_rescued() {
    fn slice(town: &Town, queue: &WorkerQueue, id: u32, _: u32) -> After {
        if id == X {
            queue.hand_off(&town.ready, &town.sleepers, Y);
            town.inject(Z);
            town.await_slice(Y, 1);
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 3, slice);
        town.ready.inject(X);
        // The timekeeper, which sees that the slice takes long.
        run(
            &town,
            vec![|town| {
                town.await_slice(Z, 1);
                worker_queue::release_hand_off(&town.ready, &town.sleepers, 0);
                worker_queue::release_hand_off(&town.ready, &town.sleepers, 1);
            }],
        );
    });
}

#[test]
fn injected_services_that_one_worker_takes_at_once_are_not_stranded_by_the_first() {
    fn slice(town: &Town, _: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            X => [Y, Z, V].into_iter().for_each(|id| town.inject(id)),
            Y => {
                town.await_slice(Z, 1);
                town.await_slice(V, 1);
            }
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let town = Town::new(2, 0, 4, slice);
        // Worker 0 goes on from one slice to the next, and does not search between them.
        town.ready.bind(0, X);
        run(&town, vec![]);
    });
}

#[test]
fn services_that_a_spare_worker_steals_at_once_are_not_stranded_by_the_first() {
    const SPARE: usize = 2;
    fn slice(town: &Town, queue: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            // Bound to worker 0, which it holds up. The last one stays in the hand-off slot.
            X => {
                for id in [Y, Z, V, W] {
                    queue.hand_off(&town.ready, &town.sleepers, id);
                }
                town.await_slice(Y, 1);
                town.await_slice(Z, 1);
            }
            // One that the spare worker takes with another one that it has to wait for.
            Y if queue.number == SPARE => town.await_slice(Z, 1),
            _ => {}
        }
        After::Idle
    }
    check(1, || {
        let town = Town::new(2, 1, 5, slice);
        town.ready.bind(0, X);
        run(
            &town,
            vec![|town| {
                town.await_slice(X, 1);
                town.run_spare(SPARE);
            }],
        );
    });
}

#[test]
fn a_bound_service_runs_on_its_worker_while_the_other_one_blocks() {
    fn slice(town: &Town, queue: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => {
                town.bind(0, Y);
                return After::More;
            }
            (X, _) => {}
            (Y, _) => assert_eq!(queue.number, 0),
            _ => {}
        }
        After::Idle
    }
    check(1, || {
        let town = Town::new(2, 0, 3, slice);
        run(&town, vec![|town| town.inject(X)]);
    });
}
