//! The event that wakes a blocked thread that is not a worker: a service's own thread, the process's main thread, or
//! the thread that waits for the end of the system. The event is one descriptor (eventfd(2) on Linux and Android, a
//! pipe elsewhere), which a selector can wait for. The descriptor is readable when a message has arrived or
//! [`Event::wake`] was called.
//!
//! A burst of messages costs one system call, even if the reader is slow: only the thread that sets `claimed` writes,
//! and `claimed` is cleared when the reader finds the mailbox empty. `claimed` changes under the mailbox's lock, so if
//! a sender finds `claimed` set, the reader will find the sender's message when it next reads the mailbox. The reader
//! drains the descriptor before it reads the mailbox, and reads the mailbox before it blocks.

use super::mailbox::Waker;
use crate::event::pause::{self, Pause};
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::event::EventfdFlags;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The event of one thread.
pub(crate) struct Event {
    reader: OwnedFd,
    /// The write end of the pipe; None for an eventfd.
    writer: Option<OwnedFd>,
    /// Whether a sender has claimed the wakeup since the reader last found the mailbox empty.
    claimed: AtomicBool,
    /// Whether [`Event::wake`] was called since the descriptor was last drained.
    woken: AtomicBool,
}

impl Event {
    /// Creates an event that is not readable.
    pub(crate) fn new() -> io::Result<Arc<Event>> {
        let (reader, writer) = open()?;
        Ok(Arc::new(Event { reader, writer, claimed: AtomicBool::new(false), woken: AtomicBool::new(false) }))
    }

    /// Returns the descriptor, for a selector.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Ends the current wait or the next wait, whether or not a message has arrived.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.signal();
        }
    }

    /// Makes the descriptor readable. The caller must have claimed the wakeup or set `woken`.
    pub(crate) fn signal(&self) {
        let one = 1u64;
        let target = self.writer.as_ref().unwrap_or(&self.reader);
        // A full counter or pipe is already readable.
        let _ = rustix::io::write(target, &one.to_ne_bytes());
    }

    /// Drains the descriptor, without blocking.
    pub(crate) fn drain(&self) {
        let mut sink = [0u8; 64];
        // The descriptor is non-blocking.
        while rustix::io::read(&self.reader, &mut sink) == Ok(sink.len()) {}
        // A swap instead of a store, so that the caller sees what other threads wrote before they called `wake`.
        self.woken.swap(false, Ordering::SeqCst);
    }

    /// Blocks until the event is signalled, drains it and returns true. Returns false if a process signal interrupts
    /// the wait.
    pub(crate) fn wait_once(&self) -> bool {
        let mut entries = [PollFd::new(&self.reader, PollFlags::IN)];
        let woken = poll(&mut entries, None).is_ok_and(|ready| ready > 0);
        if woken {
            self.drain();
        }
        woken
    }

    /// Blocks until the event is signalled, and drains it. Reports the wait to the thread's observer.
    pub(crate) fn wait(&self) {
        let mut woken = false;
        while !woken {
            pause::report(Pause::Begins);
            woken = self.wait_once();
            pause::report(Pause::Ends);
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
    use rustix::event::Timespec;

    fn is_readable(event: &Event) -> bool {
        poll(&mut [PollFd::new(&event.reader, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
    }

    #[test]
    fn only_the_first_message_of_a_burst_wakes() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        assert!(!event.claim());
        event.signal();
        event.wait();
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
            event.wait();
            assert!(!is_readable(&event));
        }
    }

    #[test]
    fn a_claimed_event_can_be_woken() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        event.wake();
        event.wait();
    }

    #[test]
    fn a_signal_of_another_thread_ends_a_wait() {
        let event = Event::new().unwrap();
        let other = event.clone();
        let thread = std::thread::spawn(move || {
            assert!(other.claim());
            other.signal();
        });
        event.wait();
        thread.join().unwrap();
    }
}
