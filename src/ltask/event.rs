//! What wakes a thread that blocks outside of the scheduler: in a selector, in its wait function, or in
//! the scheduler's own sleep. One descriptor (eventfd(2); a pipe elsewhere) that is readable when a
//! message came.
//!
//! A burst of messages costs one system call, however long the reader is busy with it: only the thread that sets `claimed`
//! writes, and the mailbox clears it when the reader finds nothing in it. Both happen in the mailbox's lock,
//! so a sender that finds it set has a message which the reader finds next. The reader empties the
//! descriptor before it reads the mailbox, and reads that before it blocks.

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

/// See the file's head.
pub(crate) struct Event {
    reader: OwnedFd,
    /// Where there is no eventfd: the pipe's other end.
    writer: Option<OwnedFd>,
    /// Since the mailbox was last found empty.
    claimed: AtomicBool,
    /// Since the descriptor was last emptied.
    woken: AtomicBool,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// It was woken.
    Woken,
    /// The time was over.
    TimedOut,
}

impl Event {
    /// A new one, not readable.
    pub(crate) fn new() -> io::Result<Arc<Event>> {
        let (reader, writer) = open()?;
        Ok(Arc::new(Event { reader, writer, claimed: AtomicBool::new(false), woken: AtomicBool::new(false) }))
    }

    /// Its descriptor, for a selector.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Ends the present wait, or the next one: whether or not there is a message.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.signal();
        }
    }

    /// Makes the descriptor readable, once the caller has claimed it or set `woken`.
    pub(crate) fn signal(&self) {
        let one = 1u64;
        let target = self.writer.as_ref().unwrap_or(&self.reader);
        // A full counter or pipe is readable already.
        let _ = rustix::io::write(target, &one.to_ne_bytes());
    }

    /// Takes all wake-ups, without blocking.
    pub(crate) fn take(&self) {
        let mut sink = [0u8; 64];
        // It does not block.
        while rustix::io::read(&self.reader, &mut sink) == Ok(sink.len()) {}
        // What it was woken for was there before; a swap, so that the caller sees it.
        self.woken.swap(false, Ordering::SeqCst);
    }

    /// Blocks until it is woken, and takes that: true; or until a signal comes: false.
    pub(crate) fn wait_once(&self) -> bool {
        let woken = self.poll(None);
        if woken {
            self.take();
        }
        woken
    }

    /// Whether it is readable, within `limit`; false also when a signal comes.
    fn poll(&self, limit: Option<Duration>) -> bool {
        let mut entries = [PollFd::new(&self.reader, PollFlags::IN)];
        let limit = limit.map(|limit| Timespec::try_from(limit).unwrap_or(LONGEST));
        poll(&mut entries, limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Blocks until it is woken, and takes that; or until `limit` is over. None waits for ever.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Waited {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            pause::report(Pause::Begins);
            let is_readable = self.poll(left);
            pause::report(Pause::Ends);
            if is_readable {
                self.take();
                return Waited::Woken;
            }
            // Interrupted by a signal, or the time is over.
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
    fn only_the_first_of_a_burst_wakes() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        assert!(!event.claim());
        event.signal();
        assert_eq!(event.wait(None), Waited::Woken);
        assert!(!event.claim(), "the reader will read its mailbox");
        event.arm();
        assert!(event.claim(), "it has, and found nothing");
    }

    #[test]
    fn wakes_count_once_for_each_wait() {
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
    fn a_wait_ends_by_its_limit_and_not_before() {
        let event = Event::new().unwrap();
        let begin = Instant::now();
        assert_eq!(event.wait(Some(Duration::from_millis(20))), Waited::TimedOut);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_ring_from_another_thread_ends_a_wait() {
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
