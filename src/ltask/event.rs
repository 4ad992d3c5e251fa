//! The event of a thread that blocks outside the scheduler: in a selector, in its wait function, or in the scheduler's
//! own sleep. It is one descriptor (eventfd(2); a pipe elsewhere) that is readable when a message has arrived.
//!
//! A burst of messages costs one system call, even if the reader takes long: only the thread that sets `claimed`
//! writes, and the mailbox clears `claimed` when the reader finds it empty. Both happen under the mailbox's lock, so a
//! sender that finds `claimed` set has pushed a message that the reader finds next. The reader drains the descriptor
//! before it reads the mailbox, and reads the mailbox before it blocks.

use super::mailbox::Waker;
use crate::event::pause::{self, Pause};
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::event::EventfdFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// More than 30 years.
const LONGEST: Timespec = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };

/// The event of one thread.
pub(crate) struct Event {
    reader: OwnedFd,
    /// The other end of the pipe, where there is no eventfd.
    writer: Option<OwnedFd>,
    /// Whether a sender has claimed the wakeup since the mailbox was last found empty.
    claimed: AtomicBool,
    /// Whether [`Event::wake`] was called since the descriptor was last drained.
    woken: AtomicBool,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// The event was signalled.
    Woken,
    /// The time limit has passed.
    TimedOut,
}

impl Event {
    /// Creates an event that is not readable.
    pub(crate) fn new() -> io::Result<Arc<Event>> {
        let (reader, writer) = open()?;
        Ok(Arc::new(Event { reader, writer, claimed: AtomicBool::new(false), woken: AtomicBool::new(false) }))
    }

    /// The descriptor, for a selector.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Ends the present wait or the next one, whether or not there is a message.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.signal();
        }
    }

    /// Makes the descriptor readable. The caller has claimed the wakeup or set `woken`.
    pub(crate) fn signal(&self) {
        let one = 1u64;
        let target = self.writer.as_ref().unwrap_or(&self.reader);
        // A full counter or pipe is readable already.
        let _ = rustix::io::write(target, &one.to_ne_bytes());
    }

    /// Drains the descriptor, without blocking.
    pub(crate) fn drain(&self) {
        let mut sink = [0u8; 64];
        // The descriptor does not block.
        while rustix::io::read(&self.reader, &mut sink) == Ok(sink.len()) {}
        // A swap and not a store: the caller then sees what other threads wrote before their wakeups.
        self.woken.swap(false, Ordering::SeqCst);
    }

    /// Blocks until the event is signalled, drains it and returns true. Returns false if a process signal arrives.
    pub(crate) fn wait_once(&self) -> bool {
        let woken = self.poll(None);
        if woken {
            self.drain();
        }
        woken
    }

    /// Whether the descriptor becomes readable within `limit`. Returns false if a process signal arrives first.
    fn poll(&self, limit: Option<Duration>) -> bool {
        let mut entries = [PollFd::new(&self.reader, PollFlags::IN)];
        let limit = limit.map(|limit| Timespec::try_from(limit).unwrap_or(LONGEST));
        poll(&mut entries, limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Blocks until the event is signalled, and drains it; or until `limit` has passed. None is no limit.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Waited {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            pause::report(Pause::Begins);
            let is_readable = self.poll(left);
            pause::report(Pause::Ends);
            if is_readable {
                self.drain();
                return Waited::Woken;
            }
            // A process signal has interrupted the poll, or the time limit has passed.
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Waited::TimedOut;
            }
        }
    }
}

impl Waker for Arc<Event> {
    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }

    fn arm(&self) {
        self.claimed.store(false, Ordering::SeqCst);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    Ok((rustix::event::eventfd(0, flags)?, None))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (writer, reader) = mio::unix::pipe::new()?;
    Ok((reader.into(), Some(writer.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_message_of_a_burst_wakes() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        assert!(!event.claim());
        event.signal();
        assert_eq!(event.wait(None), Waited::Woken);
        assert!(!event.claim(), "the reader has not read its mailbox yet");
        event.arm();
        assert!(event.claim(), "the reader has found the mailbox empty");
    }

    #[test]
    fn several_wakes_end_one_wait() {
        let event = Event::new().unwrap();
        for _ in 0..2 {
            event.wake();
            event.wake();
            assert_eq!(event.wait(None), Waited::Woken);
            assert_eq!(event.wait(Some(Duration::ZERO)), Waited::TimedOut);
        }
    }

    #[test]
    fn a_claimed_event_can_be_woken() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        event.wake();
        assert_eq!(event.wait(None), Waited::Woken);
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_not_before() {
        let event = Event::new().unwrap();
        let begin = Instant::now();
        assert_eq!(event.wait(Some(Duration::from_millis(20))), Waited::TimedOut);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_signal_of_another_thread_ends_a_wait() {
        let event = Event::new().unwrap();
        let other = event.clone();
        let thread = std::thread::spawn(move || {
            assert!(other.claim());
            other.signal();
        });
        assert_eq!(event.wait(Some(Duration::from_secs(20))), Waited::Woken);
        thread.join().unwrap();
    }
}
