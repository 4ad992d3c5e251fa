//! What wakes a thread that blocks outside of the scheduler: in a selector, in its wait function, or in
//! the scheduler's own sleep. One descriptor (eventfd(2); a pipe elsewhere) that is readable when a
//! message came.
//!
//! A burst of messages costs one system call: only who sets `rung` writes. The reader empties the
//! descriptor first and clears `rung` then, and looks at its mailbox after that; a sender sets it inside
//! the mailbox's lock, so one that finds it set has a message which that look will see.

use super::mailbox::Bell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Event {
    reader: OwnedFd,
    /// Where there is no eventfd: the pipe's other end.
    writer: Option<OwnedFd>,
    rung: AtomicBool,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// The bell rang.
    Rung,
    /// The time was over.
    Late,
}

impl Event {
    /// A new one, not rung.
    pub(crate) fn new() -> io::Result<Arc<Event>> {
        let (reader, writer) = open()?;
        Ok(Arc::new(Event {
            reader,
            writer,
            rung: AtomicBool::new(false),
        }))
    }

    /// Its descriptor, for a selector.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Rings whether or not it has rung.
    pub(crate) fn touch(&self) {
        self.rung.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Makes the descriptor readable; by who claimed it.
    pub(crate) fn ring(&self) {
        let one = 1u64;
        let target = self.writer.as_ref().unwrap_or(&self.reader);
        // SAFETY: writes 8 bytes of a local. A full counter or pipe is readable already.
        unsafe { libc::write(target.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes what has rung, without blocking.
    pub(crate) fn take(&self) {
        let mut sink = [0u8; 64];
        // SAFETY: reads into `sink` only; the descriptor does not block.
        while unsafe {
            libc::read(
                self.reader.as_raw_fd(),
                sink.as_mut_ptr().cast(),
                sink.len(),
            )
        } == sink.len() as isize
        {}
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Blocks until it rings, and takes that: true; or until a signal comes: false.
    pub(crate) fn wait_once(&self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, alive during the call.
        let rung = unsafe { libc::poll(&mut entry, 1, -1) } > 0;
        if rung {
            self.take();
        }
        rung
    }

    /// Blocks until it rings, and takes that; or until `limit` is over. None waits for ever.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Waited {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // Rounded up: a wait is never shorter than asked for.
            let millis = left.map_or(-1, |left| {
                left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
            });
            let mut entry = libc::pollfd {
                fd: self.reader.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry, alive during the call.
            let ready = unsafe { libc::poll(&mut entry, 1, millis) };
            if ready > 0 {
                self.take();
                return Waited::Rung;
            }
            // Interrupted by a signal, or the time is over.
            if left == Some(Duration::ZERO)
                || ready == 0 && deadline.is_some_and(|d| Instant::now() >= d)
            {
                return Waited::Late;
            }
        }
    }
}

impl Bell for Arc<Event> {
    fn claim(&self) -> bool {
        !self.rung.swap(true, Ordering::SeqCst)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    // SAFETY: a plain system call.
    let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok((unsafe { OwnedFd::from_raw_fd(number) }, None))
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
    fn only_the_first_of_a_burst_rings() {
        let event = Event::new().unwrap();
        assert!(event.claim());
        assert!(!event.claim());
        event.ring();
        assert_eq!(event.wait(None), Waited::Rung);
        assert!(event.claim(), "heard: the next one rings anew");
    }

    #[test]
    fn a_wait_ends_by_its_limit_and_not_before() {
        let event = Event::new().unwrap();
        let begin = Instant::now();
        assert_eq!(event.wait(Some(Duration::from_millis(20))), Waited::Late);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_ring_from_another_thread_ends_a_wait() {
        let event = Event::new().unwrap();
        let other = event.clone();
        let thread = std::thread::spawn(move || {
            assert!(other.claim());
            other.ring();
        });
        assert_eq!(event.wait(Some(Duration::from_secs(20))), Waited::Rung);
        thread.join().unwrap();
    }
}
