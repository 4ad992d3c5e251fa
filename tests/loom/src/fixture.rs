//! The fixture of the mailbox models: one service with its mailbox, a ready queue, and slices as in
//! src/ltask/worker.rs and src/ltask/service.rs. Invariant: a thread without work waits for a notification, so a
//! missing notification is a deadlock.

use crate::mailbox::{Affinity, Mailbox, Refusal, Wake, Waker};
use crate::sync::{Condvar, Mutex, lock};
use std::collections::VecDeque;
// These are not loom's types, because the counters of the fixture are not part of the model.
use std::sync::atomic::{AtomicUsize, Ordering};

/// The id of the service.
pub(crate) const ID: u32 = 5;

/// A message: the id of its sender, and its number among the messages of that sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) from: u32,
    pub(crate) number: u32,
}

/// The type of the waker of a service without its own thread. No such waker is used.
#[derive(Clone, Debug)]
pub(crate) struct NoWaker;

impl Waker for NoWaker {
    fn claim(&self) -> bool {
        unreachable!("the service has no waker")
    }

    fn arm(&self) {
        unreachable!("the service has no waker")
    }
}

/// The body of the service: messages that it has not read, and messages that it has read.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) batch: VecDeque<Note>,
    pub(crate) read: Vec<Note>,
}

#[derive(Default)]
struct WorkerQueue {
    ready: Vec<u32>,
    stopped: bool,
    /// The senders that were notified that the mailbox has room.
    notified: Vec<u32>,
}

/// The service, its mailbox and the ready queue.
pub(crate) struct Fixture {
    pub(crate) mailbox: Mailbox<Note, Body, NoWaker>,
    queue: Mutex<WorkerQueue>,
    /// Notified when the ready queue is not empty, or when the workers stop.
    work: Condvar,
    /// Notified when senders are added to `notified`.
    room: Condvar,
    /// The number of accepted messages that are not read, which is at most `capacity`. A sender increments the number
    /// after its push, and the reader decrements it before it reports the read, so the number is never too high.
    unread: AtomicUsize,
    capacity: usize,
}

impl Fixture {
    /// Creates a fixture with an idle service, whose mailbox has room for `capacity` messages.
    pub(crate) fn new(capacity: usize) -> Fixture {
        let mailbox = Mailbox::new(capacity);
        mailbox.open(ID);
        assert!(matches!(mailbox.install(Body::default(), Affinity::Any), Wake::None));
        Fixture {
            mailbox,
            queue: Mutex::new(WorkerQueue::default()),
            work: Condvar::new(),
            room: Condvar::new(),
            unread: AtomicUsize::new(0),
            capacity,
        }
    }

    /// Posts a message, and wakes the service as the mailbox requests.
    pub(crate) fn post(&self, from: u32, number: u32) -> Result<(), Refusal> {
        let pushed = self.mailbox.push(ID, Note { from, number }, true, from);
        if pushed.is_ok() {
            self.count_in();
        }
        match pushed {
            Ok(Wake::None) => Ok(()),
            Ok(Wake::Schedule(place)) => {
                assert_eq!(place, Affinity::Any);
                self.schedule();
                Ok(())
            }
            Ok(Wake::Waker(NoWaker)) => unreachable!(),
            Err((note, refusal)) => {
                assert_eq!(note, Note { from, number });
                Err(refusal)
            }
        }
    }

    fn count_in(&self) {
        let before = self.unread.fetch_add(1, Ordering::Relaxed) as isize;
        assert!(before < self.capacity as isize, "more messages than the capacity");
    }

    /// Posts a message, and waits for room if the mailbox is full. Returns false if the service is dead.
    pub(crate) fn post_or_wait(&self, from: u32, number: u32) -> bool {
        loop {
            match self.post(from, number) {
                Ok(()) => return true,
                Err(Refusal::Missing) => return false,
                Err(Refusal::Full) => self.await_room(from),
            }
        }
    }

    fn await_room(&self, sender: u32) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(at) = queue.notified.iter().position(|&one| one == sender) {
                queue.notified.remove(at);
                return;
            }
            queue = self.room.wait(queue).unwrap();
        }
    }

    /// Notifies the senders `waiting` that there is room.
    pub(crate) fn notify(&self, waiting: Vec<u32>) {
        if waiting.is_empty() {
            return;
        }
        lock(&self.queue).notified.extend(waiting);
        self.room.notify_all();
    }

    fn notify_if_refused(&self) {
        if self.mailbox.has_refused() {
            self.notify(self.mailbox.take_refused());
        }
    }

    /// Puts the service into the ready queue.
    pub(crate) fn schedule(&self) {
        let mut queue = lock(&self.queue);
        assert!(queue.ready.is_empty(), "the service is queued twice");
        queue.ready.push(ID);
        self.work.notify_one();
    }

    /// Waits for the next ready service. Returns None when the workers stop.
    pub(crate) fn next(&self) -> Option<u32> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(id) = queue.ready.pop() {
                return Some(id);
            }
            queue = self.work.wait(queue).unwrap();
        }
    }

    /// Returns the next ready service, if there is one.
    pub(crate) fn next_now(&self) -> Option<u32> {
        lock(&self.queue).ready.pop()
    }

    /// Stops the workers.
    pub(crate) fn close(&self) {
        lock(&self.queue).stopped = true;
        self.work.notify_all();
    }

    /// Takes the body of a ready service.
    pub(crate) fn begin(&self, id: u32) -> Option<Body> {
        self.mailbox.begin_slice(id, |body| &mut body.batch)
    }

    /// Reads a message as `Service::receive` does. Returns false if there is none.
    pub(crate) fn receive(&self, body: &mut Body) -> bool {
        if body.batch.is_empty() && !self.mailbox.has_arrived() {
            return false;
        }
        if body.batch.is_empty() && self.mailbox.refill(&mut body.batch) == 0 {
            // A message may have been refused while the last message of the batch was read.
            self.notify_if_refused();
            return false;
        }
        let note = body.batch.pop_front().unwrap();
        self.unread.fetch_sub(1, Ordering::Relaxed);
        if self.mailbox.record_read(true) {
            self.notify(self.mailbox.take_refused());
        }
        let before = body.read.iter().filter(|one| one.from == note.from);
        assert_eq!(note.number as usize, before.count(), "a message is lost, duplicated or out of order");
        body.read.push(note);
        true
    }

    /// Runs a slice of at most `most` messages. Returns the number of messages that the service has read so far.
    pub(crate) fn slice(&self, mut body: Body, most: usize) -> usize {
        for _ in 0..most {
            if !self.receive(&mut body) {
                break;
            }
        }
        let (unread, read) = (body.batch.len(), body.read.len());
        let next = self.mailbox.end_slice(body, unread, Affinity::Any);
        // The slice may have ended before `receive` found the mailbox empty.
        self.notify_if_refused();
        if next.is_some() {
            self.schedule();
        }
        read
    }

    /// Runs slices until the service has read `count` messages.
    pub(crate) fn work(&self, count: usize, most: usize) {
        while let Some(id) = self.next() {
            let body = self.begin(id).expect("the service is ready");
            if self.slice(body, most) == count {
                return self.close();
            }
        }
    }

    /// Asserts that the service has read all messages and is idle.
    pub(crate) fn assert_idle(&self, count: usize) {
        assert_eq!(self.mailbox.statistics().queued, 0, "messages are unread at the end");
        assert!(self.next_now().is_none(), "the service is ready although there is nothing to read");
        assert!(self.begin(ID).is_none(), "the service is ready at the end");
        let body = self.mailbox.take_vm().expect("an idle service has its body");
        assert_eq!(body.read.len(), count);
    }
}
