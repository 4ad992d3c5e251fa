//! Where a service that became ready waits for its slice: in the ready queues of the workers, or in the queue of the
//! process's main thread. The scheduler also wakes sleeping workers.

use super::event::Event;
use super::mailbox::Affinity;
use super::message::ServiceId;
use super::ready_queues::ReadyQueues;
use super::sleep::Sleepers;
use super::sync::{Deque, lock};
use super::worker_queue::WorkerQueue;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

thread_local! {
    /// The worker that runs on the calling thread. `Scheduler::leave` clears this variable, because a destructor would
    /// slow down each access.
    static CURRENT: ManuallyDrop<RefCell<Option<CurrentWorker>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// The worker that runs on a thread: the address of its scheduler, and its queue.
struct CurrentWorker(*const Scheduler, Rc<WorkerQueue>);

/// The ready queues and the threads that take from them.
pub(crate) struct Scheduler {
    pub(super) ready: ReadyQueues,
    pub(super) sleepers: Sleepers,
    /// The deque of each worker, by number; None while a thread runs the worker and owns the deque.
    deques: Mutex<Vec<Option<Deque<ServiceId>>>>,
    /// Services that wait for the main thread, and the event that wakes it.
    main: Mutex<VecDeque<ServiceId>>,
    pub(crate) main_event: Arc<Event>,
}

impl Scheduler {
    /// Creates a scheduler for `workers` workers. `lanes` is the number of workers plus the maximum number of spare
    /// workers.
    pub(super) fn new(workers: usize, lanes: usize) -> io::Result<Scheduler> {
        let (ready, deques) = ReadyQueues::new(lanes);
        Ok(Scheduler {
            ready,
            sleepers: Sleepers::new(workers),
            deques: Mutex::new(deques.into_iter().map(Some).collect()),
            main: Mutex::default(),
            main_event: Event::new()?,
        })
    }

    /// Queues a service that became ready. If the calling thread is a worker, and the service can run on any worker,
    /// the service runs next on that worker.
    pub(crate) fn schedule(&self, id: ServiceId, affinity: Affinity) {
        match affinity {
            Affinity::Any if self.hand_off(id) => {}
            Affinity::Any => {
                self.ready.inject(id);
                self.sleepers.notify();
            }
            Affinity::Worker(number) => {
                self.ready.bind(number, id);
                self.sleepers.notify_one(number);
            }
            Affinity::Main => {
                lock(&self.main).push_back(id);
                self.main_event.wake();
            }
        }
    }

    /// If the calling thread is a worker of this scheduler, makes the service run next on that worker and returns true.
    /// Otherwise returns false.
    fn hand_off(&self, id: ServiceId) -> bool {
        CURRENT.with(|current| match &*current.borrow() {
            Some(CurrentWorker(scheduler, queue)) if std::ptr::eq(*scheduler, self) => {
                queue.hand_off(&self.ready, &self.sleepers, id);
                true
            }
            _ => false,
        })
    }

    /// Takes the next service that waits for the main thread.
    pub(crate) fn next_of_main(&self) -> Option<ServiceId> {
        lock(&self.main).pop_front()
    }

    /// Returns the lowest worker number, from `first` on, that is not in use; None if all are in use.
    pub(super) fn free_number(&self, first: usize) -> Option<usize> {
        let deques = lock(&self.deques);
        (first..deques.len()).find(|&number| deques[number].is_some())
    }

    /// Makes the calling thread worker `number`. Returns None if another thread has this number.
    pub(super) fn enter(&self, number: usize) -> Option<Rc<WorkerQueue>> {
        let deque = lock(&self.deques)[number].take()?;
        let queue = Rc::new(WorkerQueue::new(number, deque));
        CURRENT.with(|current| current.replace(Some(CurrentWorker(self, queue.clone()))));
        Some(queue)
    }

    /// Called when the calling thread stops being a worker. Another thread can then take over the worker's deque.
    pub(super) fn leave(&self, queue: Rc<WorkerQueue>) {
        CURRENT.with(|current| current.replace(None));
        let number = queue.number;
        if let Some(queue) = Rc::into_inner(queue) {
            let deque = queue.leave(&self.ready, &self.sleepers);
            lock(&self.deques)[number] = Some(deque);
        }
    }
}

/// Returns the worker number of the calling thread, counted from 0; None if it is not a worker. Spare workers have the
/// highest numbers.
pub(crate) fn worker_number() -> Option<usize> {
    CURRENT.with(|current| current.borrow().as_ref().map(|CurrentWorker(_, queue)| queue.number))
}
