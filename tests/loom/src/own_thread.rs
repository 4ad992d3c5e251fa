//! A service with its own thread, which sleeps until its waker is used, receives every message. The waker works like
//! the one in src/ltask/event.rs, with a flag instead of the descriptor. A sender claims the waker under the lock of
//! the mailbox and uses it after unlocking. The reader resets the flag, then reads the mailbox. If the mailbox is
//! empty, the mailbox arms the waker. Where event.rs stores a value, this waker swaps it, with a memory order that is
//! not stronger: loom does not fix the order of a store and another thread's swap, even if a loaded value implies this
//! order.

use crate::check;
use crate::fixture::{Body, ID, Note};
use crate::mailbox::{Affinity, Mailbox, Wake, Waker};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock};
use loom::sync::Arc;
use loom::thread;

struct Event {
    readable: Mutex<bool>,
    became: Condvar,
    claimed: AtomicBool,
    woken: AtomicBool,
}

impl Event {
    fn new() -> Arc<Event> {
        Arc::new(Event {
            readable: Mutex::new(false),
            became: Condvar::new(),
            claimed: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        })
    }

    fn signal(&self) {
        *lock(&self.readable) = true;
        self.became.notify_one();
    }

    fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.signal();
        }
    }

    fn wait(&self) {
        let mut readable = lock(&self.readable);
        while !*readable {
            readable = self.became.wait(readable).unwrap();
        }
        *readable = false;
        drop(readable);
        self.woken.swap(false, Ordering::SeqCst);
    }
}

impl Waker for Arc<Event> {
    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }

    fn arm(&self) {
        self.claimed.swap(false, Ordering::Release);
    }
}

type Box = Mailbox<Note, Body, Arc<Event>>;

/// Creates a service that runs because of its first message, which it has read. Returns its mailbox and its body.
fn running(capacity: usize) -> (Arc<Box>, Body) {
    let mailbox = Box::new(capacity);
    mailbox.open(ID);
    let _ = mailbox.install(Body::default(), Affinity::Any);
    let _ = mailbox.push(ID, Note { from: 9, number: 0 }, true, 0);
    let mut body = mailbox.begin_slice(ID, |body| &mut body.batch).expect("ready");
    body.batch.clear();
    mailbox.record_read(true);
    (Arc::new(mailbox), body)
}

fn sender(mailbox: &Arc<Box>, from: u32, count: u32) -> thread::JoinHandle<()> {
    let mailbox = mailbox.clone();
    thread::spawn(move || {
        for number in 0..count {
            match mailbox.push(ID, Note { from, number }, true, 0) {
                Ok(Wake::Waker(event)) => event.signal(),
                Ok(Wake::None) => {}
                Ok(Wake::Schedule(_)) => panic!("a running service was queued"),
                Err(_) => panic!("there is room"),
            }
        }
    })
}

/// Runs the service on its own thread: reads messages, and sleeps while the mailbox is empty.
fn read_all(mailbox: &Box, event: &Event, body: &mut Body, count: usize) {
    while body.read.len() < count {
        if mailbox.refill(&mut body.batch) == 0 {
            event.wait();
            continue;
        }
        while let Some(note) = body.batch.pop_front() {
            body.read.push(note);
            mailbox.record_read(true);
        }
    }
    for from in 1..=2 {
        let mine = body.read.iter().filter(|note| note.from == from);
        let numbers: Vec<_> = mine.map(|note| note.number).collect();
        assert!(numbers.is_sorted(), "out of order: {numbers:?}");
    }
}

#[test]
fn an_own_thread_is_woken_for_every_message() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        let event = Event::new();
        mailbox.detach_running(event.clone());
        let threads = [sender(&mailbox, 1, 2), sender(&mailbox, 2, 1)];
        read_all(&mailbox, &event, &mut body, 3);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// `eventinit` makes the descriptor readable. The service may consume this event before its slice ends, and then moves
/// to its own thread while messages arrive.
#[test]
fn messages_that_arrive_while_a_service_moves_to_its_own_thread_are_read() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        let threads = [sender(&mailbox, 1, 2), sender(&mailbox, 2, 1)];
        let event = Event::new();
        event.wake();
        event.wait();
        mailbox.detach_running(event.clone());
        read_all(&mailbox, &event, &mut body, 3);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn another_waker_works_after_a_reset() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        mailbox.detach_running(Event::new());
        let thread = sender(&mailbox, 1, 2);
        let event = Event::new();
        event.wake();
        mailbox.replace_waker(ID, event.clone());
        read_all(&mailbox, &event, &mut body, 2);
        thread.join().unwrap();
    });
}

#[test]
fn a_wake_between_messages_hides_no_message() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        let event = Event::new();
        mailbox.detach_running(event.clone());
        let thread = sender(&mailbox, 1, 2);
        let other = mailbox.clone();
        let waking = thread::spawn(move || {
            if let Some(event) = other.waker(ID) {
                event.wake();
            }
        });
        read_all(&mailbox, &event, &mut body, 2);
        thread.join().unwrap();
        waking.join().unwrap();
    });
}

/// If the service is woken while it reads a burst of messages, its next wait ends at once.
#[test]
fn a_wake_is_not_lost_while_its_service_reads() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        let event = Event::new();
        mailbox.detach_running(event.clone());
        let thread = sender(&mailbox, 1, 1);
        read_all(&mailbox, &event, &mut body, 1);
        thread.join().unwrap();
        let other = mailbox.clone();
        let waking = thread::spawn(move || {
            if let Some(event) = other.waker(ID) {
                event.wake();
            }
        });
        while mailbox.refill(&mut body.batch) != 0 {}
        event.wait();
        waking.join().unwrap();
    });
}

/// A burst of messages signals the reader at most once before its first empty read, and at most once for each empty
/// read.
#[test]
fn a_burst_signals_at_most_once_per_empty_read() {
    check(3, || {
        let (mailbox, mut body) = running(64);
        let event = Event::new();
        mailbox.detach_running(event.clone());
        let other = mailbox.clone();
        let thread = thread::spawn(move || {
            let mut signals = 0;
            for number in 0..3 {
                match other.push(ID, Note { from: 1, number }, true, 0) {
                    Ok(Wake::Waker(event)) => {
                        signals += 1;
                        event.signal();
                    }
                    Ok(Wake::None) => {}
                    _ => panic!("the mailbox has a waker and room"),
                }
            }
            signals
        });
        let mut empty = 0;
        while body.read.len() < 3 {
            if mailbox.refill(&mut body.batch) == 0 {
                empty += 1;
                event.wait();
            }
            body.read.extend(body.batch.drain(..));
        }
        let signals = thread.join().unwrap();
        assert!(signals <= empty + 1, "{signals} signals for {empty} empty reads");
    });
}

/// With a full mailbox, the sender sleeps until it is notified that there is room, and the reader until its waker is
/// used.
#[test]
fn an_own_thread_notifies_senders_of_room_before_it_sleeps() {
    const SENDER: u32 = 1;
    check(3, || {
        let (mailbox, mut body) = running(1);
        let event = Event::new();
        mailbox.detach_running(event.clone());
        let (other, has_room) = (mailbox.clone(), Event::new());
        let room = has_room.clone();
        let thread = thread::spawn(move || {
            let mut number = 0;
            while number < 3 {
                match other.push(ID, Note { from: SENDER, number }, true, SENDER) {
                    Err(_) => room.wait(),
                    Ok(wake) => {
                        number += 1;
                        if let Wake::Waker(event) = wake {
                            event.signal();
                        }
                    }
                }
            }
        });
        let notify = || {
            for id in mailbox.take_refused() {
                assert_eq!(id, SENDER);
                has_room.signal();
            }
        };
        while body.read.len() < 3 {
            if body.batch.is_empty() && mailbox.refill(&mut body.batch) == 0 {
                if mailbox.has_refused() {
                    notify();
                }
                event.wait();
                continue;
            }
            body.read.extend(body.batch.pop_front());
            if mailbox.record_read(true) {
                notify();
            }
        }
        thread.join().unwrap();
    });
}
