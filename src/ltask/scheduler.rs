//! Where a service that became ready waits for its slice: the ready queues, the workers that sleep, and the queue of the
//! process's main thread.

use super::event::Event;
use super::mailbox::Affinity;
use super::message::ServiceId;
use super::queue::Queue;
use super::ready::Ready;
use super::sleep::Sleepers;
use super::sync::{Deque, lock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

thread_local! {
    /// Empty when the thread ends: a destructor would cost each access.
    static CURRENT: ManuallyDrop<RefCell<Option<Current>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// The worker that a thread is: whose it is, by address, and its queue.
struct Current(*const Scheduler, Rc<Queue>);

/// See the file's head.
pub(crate) struct Scheduler {
    pub(super) ready: Ready,
    pub(super) sleepers: Sleepers,
    /// Those that no worker has taken.
    deques: Mutex<Vec<Option<Deque<ServiceId>>>>,
    /// Services that wait for the main thread, and what wakes it.
    main: Mutex<VecDeque<ServiceId>>,
    pub(crate) main_event: Arc<Event>,
}

impl Scheduler {
    /// A scheduler for `workers` workers and so many `lanes`, with those of stand-ins.
    pub(super) fn new(workers: usize, lanes: usize) -> io::Result<Scheduler> {
        let (ready, deques) = Ready::new(lanes);
        Ok(Scheduler {
            ready,
            sleepers: Sleepers::new(workers),
            deques: Mutex::new(deques.into_iter().map(Some).collect()),
            main: Mutex::default(),
            main_event: Event::new()?,
        })
    }

    /// Queues a service that became ready: one that a worker's slice made ready runs next there.
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

    /// The service runs next on the calling thread, if that is a worker of this scheduler. Returns whether it is.
    fn hand_off(&self, id: ServiceId) -> bool {
        CURRENT.with(|current| match &*current.borrow() {
            Some(Current(scheduler, queue)) if std::ptr::eq(*scheduler, self) => {
                queue.hand_off(&self.ready, &self.sleepers, id);
                true
            }
            _ => false,
        })
    }

    /// The next service that waits for the main thread.
    pub(crate) fn next_of_main(&self) -> Option<ServiceId> {
        lock(&self.main).pop_front()
    }

    /// A worker's number above `first` that no thread has.
    pub(super) fn free_number(&self, first: usize) -> Option<usize> {
        let deques = lock(&self.deques);
        (first..deques.len()).find(|&number| deques[number].is_some())
    }

    /// The calling thread becomes worker `number`. None when another thread is that.
    pub(super) fn enter(&self, number: usize) -> Option<Rc<Queue>> {
        let deque = lock(&self.deques)[number].take()?;
        let queue = Rc::new(Queue::new(number, deque));
        CURRENT.with(|current| current.replace(Some(Current(self, queue.clone()))));
        Some(queue)
    }

    /// The calling thread's work as a worker is over: its queue is there for another thread.
    pub(super) fn leave(&self, queue: Rc<Queue>) {
        CURRENT.with(|current| current.replace(None));
        let number = queue.number;
        if let Some(queue) = Rc::into_inner(queue) {
            let deque = queue.leave(&self.ready, &self.sleepers);
            lock(&self.deques)[number] = Some(deque);
        }
    }
}

/// The number of the worker that the calling thread is, from 0; stand-ins come behind the others.
pub(crate) fn worker_number() -> Option<usize> {
    CURRENT.with(|current| current.borrow().as_ref().map(|Current(_, queue)| queue.number))
}
