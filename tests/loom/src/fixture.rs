//! What the mailbox's models share: one service with its mailbox, a ready queue, and a worker's slice
//! as src/ltask/worker.rs and src/ltask/service.rs do it. Invariant: whoever finds nothing to do waits
//! for an alarm, so that what nobody announces is a deadlock.

use crate::mailbox::{Affinity, Mailbox, Refusal, Wake, Waker};
use crate::sync::{Condvar, Mutex, lock};
use std::collections::VecDeque;
// Not loom's: the book-keeping of the model is no part of it.
use std::sync::atomic::{AtomicUsize, Ordering};

/// The service's number.
pub(crate) const ID: u32 = 5;

/// A message: who sent it, and which of his it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) from: u32,
    pub(crate) number: u32,
}

/// A service without a thread of its own has no waker.
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

/// The service's body: what it has not read, and what it has.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) batch: VecDeque<Note>,
    pub(crate) read: Vec<Note>,
}

#[derive(Default)]
struct Queue {
    ready: Vec<u32>,
    over: bool,
    /// Senders that were told of room.
    told: Vec<u32>,
}

/// See the file's head.
pub(crate) struct Fixture {
    pub(crate) mailbox: Mailbox<Note, Body, NoWaker>,
    queue: Mutex<Queue>,
    /// The ready queue is not empty, or all is over.
    work: Condvar,
    /// Somebody was told of room.
    room: Condvar,
    /// How many messages were taken and not read, and how many there may be. A sender counts after its
    /// push, a reader before it says so: the count is never too high.
    unread: AtomicUsize,
    capacity: usize,
}

impl Fixture {
    /// With an idle service whose mailbox holds `capacity` messages.
    pub(crate) fn new(capacity: usize) -> Fixture {
        let mailbox = Mailbox::new(capacity);
        mailbox.open(ID);
        assert!(matches!(mailbox.install(Body::default(), Affinity::Any), Wake::None));
        Fixture {
            mailbox,
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            room: Condvar::new(),
            unread: AtomicUsize::new(0),
            capacity,
        }
    }

    /// Posts a message, and does what the mailbox asks for.
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
        assert!(before < self.capacity as isize, "more than there is room for");
    }

    /// Posts a message when there is room. False when the service is dead.
    pub(crate) fn post_or_wait(&self, from: u32, number: u32) -> bool {
        loop {
            match self.post(from, number) {
                Ok(()) => return true,
                Err(Refusal::Missing) => return false,
                Err(Refusal::Full) => self.await_room(from),
            }
        }
    }

    fn await_room(&self, who: u32) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(at) = queue.told.iter().position(|&one| one == who) {
                queue.told.remove(at);
                return;
            }
            queue = self.room.wait(queue).unwrap();
        }
    }

    /// Tells senders of room.
    pub(crate) fn tell(&self, waiting: Vec<u32>) {
        if waiting.is_empty() {
            return;
        }
        lock(&self.queue).told.extend(waiting);
        self.room.notify_all();
    }

    fn notify_if_refused(&self) {
        if self.mailbox.has_refused() {
            self.tell(self.mailbox.take_refused());
        }
    }

    /// Puts the service into the ready queue.
    pub(crate) fn schedule(&self) {
        let mut queue = lock(&self.queue);
        assert!(queue.ready.is_empty(), "the service is queued twice");
        queue.ready.push(ID);
        self.work.notify_one();
    }

    /// The next ready service; waits for it. None when all is over.
    pub(crate) fn next(&self) -> Option<u32> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.over {
                return None;
            }
            if let Some(id) = queue.ready.pop() {
                return Some(id);
            }
            queue = self.work.wait(queue).unwrap();
        }
    }

    /// The next ready service, if there is one now.
    pub(crate) fn next_now(&self) -> Option<u32> {
        lock(&self.queue).ready.pop()
    }

    /// Workers stop.
    pub(crate) fn close(&self) {
        lock(&self.queue).over = true;
        self.work.notify_all();
    }

    /// Takes the body of a ready service.
    pub(crate) fn begin(&self, id: u32) -> Option<Body> {
        self.mailbox.begin_slice(id, |body| &mut body.batch)
    }

    /// Reads a message as `Service::receive` does. False when there is none.
    pub(crate) fn receive(&self, body: &mut Body) -> bool {
        if body.batch.is_empty() && !self.mailbox.has_arrived() {
            return false;
        }
        if body.batch.is_empty() && self.mailbox.refill(&mut body.batch) == 0 {
            // One may have been refused while the last of the batch was read.
            self.notify_if_refused();
            return false;
        }
        let note = body.batch.pop_front().unwrap();
        self.unread.fetch_sub(1, Ordering::Relaxed);
        if self.mailbox.record_read(true) {
            self.tell(self.mailbox.take_refused());
        }
        let before = body.read.iter().filter(|one| one.from == note.from);
        assert_eq!(note.number as usize, before.count(), "a message is lost, doubled or out of order");
        body.read.push(note);
        true
    }

    /// A slice of at most `most` messages. Returns how many messages the service has read in all.
    pub(crate) fn slice(&self, mut body: Body, most: usize) -> usize {
        for _ in 0..most {
            if !self.receive(&mut body) {
                break;
            }
        }
        let (unread, read) = (body.batch.len(), body.read.len());
        let next = self.mailbox.end_slice(body, unread, Affinity::Any);
        // As above: the slice may have ended before it found nothing.
        self.notify_if_refused();
        if next.is_some() {
            self.schedule();
        }
        read
    }

    /// Runs slices until the service has read `count` messages.
    pub(crate) fn work(&self, count: usize, most: usize) {
        while let Some(id) = self.next() {
            let body = self.begin(id).expect("it is ready");
            if self.slice(body, most) == count {
                return self.close();
            }
        }
    }

    /// At the end: all was read, and the service is idle.
    pub(crate) fn assert_idle(&self, count: usize) {
        assert_eq!(self.mailbox.statistics().queued, 0, "unread at the end");
        assert!(self.next_now().is_none(), "ready with nothing to read");
        assert!(self.begin(ID).is_none(), "ready at the end");
        let body = self.mailbox.take_vm().expect("idle: its body lies here");
        assert_eq!(body.read.len(), count);
    }
}
