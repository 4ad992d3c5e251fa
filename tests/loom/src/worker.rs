//! Models of whole workers: hand-off slot, deque, injector, stealing, bound services, sleep. A ready service runs if a
//! worker that may run it is free. To check this, a slice blocks until another service has run. If the workers have
//! lost that other service, the model deadlocks. The queues are src/ltask/worker_queue.rs and
//! src/ltask/ready_queues.rs, unchanged. The loop is copied from src/ltask/worker.rs.

use crate::check;
use crate::ready_queues::ReadyQueues;
use crate::sleep::Sleepers;
use crate::sync::{AtomicBool, Condvar, Deque, Mutex, Ordering, lock};
use crate::worker_queue::{self, WorkerQueue};
use loom::sync::Arc;
use loom::thread;

/// The ids of the services, which are not 0.
const X: u32 = 1;
const Y: u32 = 2;
const Z: u32 = 3;
const V: u32 = 4;
const W: u32 = 5;
const SERVICES: usize = 6;

/// The state of a service after a slice.
enum After {
    /// The service waits for a message.
    Idle,
    /// The service has more messages.
    More,
}

type Slice = fn(&Scheduler, &WorkerQueue, u32, u32) -> After;

struct Scheduler {
    ready: ReadyQueues,
    sleepers: Sleepers,
    deques: std::sync::Mutex<Vec<Option<Deque<u32>>>>,
    quit: AtomicBool,
    /// The number of slices that each service has begun.
    begun: Mutex<[u32; SERVICES]>,
    more: Condvar,
    /// The number of all slices; the last slice stops the workers.
    total: u32,
    /// Runs a slice. The last two arguments are the id of the service and the number of the slice, counted from 1.
    slice: Slice,
}

impl Scheduler {
    fn new(workers: usize, spares: usize, total: u32, slice: Slice) -> Arc<Scheduler> {
        let (ready, deques) = ReadyQueues::new(workers + spares);
        Arc::new(Scheduler {
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
        WorkerQueue::new(number, deque.expect("each worker takes its queue once"))
    }

    /// Makes a service ready, as a message from another thread does.
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

    fn is_stopped(&self) -> bool {
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

    /// Like `Worker::run_slices`.
    fn work(&self, number: usize) {
        let queue = self.queue(number);
        let (ready, sleepers) = (&self.ready, &self.sleepers);
        while !self.is_stopped() {
            let found =
                queue.next(ready, sleepers).or_else(|| queue.search(ready, sleepers, || self.is_stopped(), || ()));
            if let Some(id) = found {
                self.run_slice(&queue, id);
            }
        }
        queue.leave(ready, sleepers);
    }

    /// Like `Worker::run_slices` for a spare worker, which does not sleep.
    fn stand_in(&self, number: usize) {
        let queue = self.queue(number);
        let (ready, sleepers) = (&self.ready, &self.sleepers);
        while !self.is_stopped() {
            let found = queue.next(ready, sleepers).or_else(|| queue.steal(ready, sleepers));
            match found {
                Some(id) => self.run_slice(&queue, id),
                None => break,
            }
        }
        queue.leave(ready, sleepers);
    }
}

/// Runs two workers, one of them on the thread of the model, and the other functions in threads.
fn run(scheduler: &Arc<Scheduler>, others: Vec<fn(&Scheduler)>) {
    let mut threads = Vec::new();
    for other in others {
        let scheduler = scheduler.clone();
        threads.push(thread::spawn(move || other(&scheduler)));
    }
    let second = scheduler.clone();
    threads.push(thread::spawn(move || second.work(1)));
    scheduler.work(0);
    for thread in threads {
        thread.join().unwrap();
    }
    let begun = lock(&scheduler.begun).iter().sum::<u32>();
    assert_eq!(begun, scheduler.total, "each slice ran once");
    assert_eq!(scheduler.sleepers.sleeping(), 0, "no worker is left asleep");
}

#[test]
fn a_service_with_more_messages_is_not_stranded_by_a_bound_one_that_blocks() {
    fn slice(scheduler: &Scheduler, _: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => return After::More,
            (Y, _) => scheduler.await_slice(X, 2),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 3, slice);
        scheduler.ready.inject(X);
        run(&scheduler, vec![|scheduler| scheduler.bind(0, Y)]);
    });
}

#[test]
fn a_service_with_more_messages_is_not_stranded_by_an_injected_one_that_blocks() {
    fn slice(scheduler: &Scheduler, _: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1 | 2) => return After::More,
            (Y, _) => scheduler.await_slice(X, 3),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 4, slice);
        scheduler.ready.inject(X);
        run(&scheduler, vec![|scheduler| scheduler.inject(Y)]);
    });
}

#[test]
fn a_service_with_more_messages_is_not_stranded_by_the_one_it_handed_off() {
    fn slice(scheduler: &Scheduler, queue: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => {
                queue.hand_off(&scheduler.ready, &scheduler.sleepers, Y);
                return After::More;
            }
            (Y, _) => scheduler.await_slice(X, 2),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 3, slice);
        scheduler.ready.inject(X);
        run(&scheduler, vec![]);
    });
}

#[test]
fn a_service_that_another_pushes_out_of_the_hand_off_slot_is_not_stranded() {
    fn slice(scheduler: &Scheduler, queue: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            X => {
                queue.hand_off(&scheduler.ready, &scheduler.sleepers, Y);
                queue.hand_off(&scheduler.ready, &scheduler.sleepers, Z);
            }
            Z => scheduler.await_slice(Y, 1),
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 3, slice);
        scheduler.ready.inject(X);
        run(&scheduler, vec![]);
    });
}

#[test]
fn a_service_in_the_hand_off_slot_behind_a_slice_that_blocks_is_released() {
    fn slice(scheduler: &Scheduler, queue: &WorkerQueue, id: u32, _: u32) -> After {
        if id == X {
            queue.hand_off(&scheduler.ready, &scheduler.sleepers, Y);
            scheduler.inject(Z);
            scheduler.await_slice(Y, 1);
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 3, slice);
        scheduler.ready.inject(X);
        // The function in the list runs as the monitor thread, which detects that the slice takes too long.
        run(
            &scheduler,
            vec![|scheduler| {
                scheduler.await_slice(Z, 1);
                worker_queue::release_hand_off(&scheduler.ready, &scheduler.sleepers, 0);
                worker_queue::release_hand_off(&scheduler.ready, &scheduler.sleepers, 1);
            }],
        );
    });
}

#[test]
fn injected_services_that_one_worker_takes_at_once_are_not_stranded_by_the_first() {
    fn slice(scheduler: &Scheduler, _: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            X => [Y, Z, V].into_iter().for_each(|id| scheduler.inject(id)),
            Y => {
                scheduler.await_slice(Z, 1);
                scheduler.await_slice(V, 1);
            }
            _ => {}
        }
        After::Idle
    }
    check(2, || {
        let scheduler = Scheduler::new(2, 0, 4, slice);
        // Worker 0 continues with the next slice, and does not search between slices.
        scheduler.ready.bind(0, X);
        run(&scheduler, vec![]);
    });
}

#[test]
fn services_that_a_stand_in_steals_at_once_are_not_stranded_by_the_first() {
    const STAND_IN: usize = 2;
    fn slice(scheduler: &Scheduler, queue: &WorkerQueue, id: u32, _: u32) -> After {
        match id {
            // X is bound to worker 0 and blocks it. The last service stays in the hand-off slot.
            X => {
                for id in [Y, Z, V, W] {
                    queue.hand_off(&scheduler.ready, &scheduler.sleepers, id);
                }
                scheduler.await_slice(Y, 1);
                scheduler.await_slice(Z, 1);
            }
            // The spare worker takes Y together with Z, for which Y waits.
            Y if queue.number == STAND_IN => scheduler.await_slice(Z, 1),
            _ => {}
        }
        After::Idle
    }
    check(1, || {
        let scheduler = Scheduler::new(2, 1, 5, slice);
        scheduler.ready.bind(0, X);
        run(
            &scheduler,
            vec![|scheduler| {
                scheduler.await_slice(X, 1);
                scheduler.stand_in(STAND_IN);
            }],
        );
    });
}

#[test]
fn a_bound_service_runs_on_its_worker_while_the_other_one_blocks() {
    fn slice(scheduler: &Scheduler, queue: &WorkerQueue, id: u32, number: u32) -> After {
        match (id, number) {
            (X, 1) => {
                scheduler.bind(0, Y);
                return After::More;
            }
            (X, _) => {}
            (Y, _) => assert_eq!(queue.number, 0),
            _ => {}
        }
        After::Idle
    }
    check(1, || {
        let scheduler = Scheduler::new(2, 0, 3, slice);
        run(&scheduler, vec![|scheduler| scheduler.inject(X)]);
    });
}
