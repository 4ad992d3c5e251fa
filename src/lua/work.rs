//! The piece of work that a VM is doing, and when an interrupt first found it.
//!
//! The hook of an interrupt runs between two instructions, so while a C function runs, only the signal handler knows how
//! long the work takes. The handler records it here, and reports a C function that takes very long.

use std::io::{Cursor, Write};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};
use std::time::Duration;

/// A C function is reported if this many signals have arrived without an instruction of the VM in between.
const PENDING: u32 = 3;

/// The piece of work that a VM is doing. The fields are atomic, because the signal handler accesses them between any two
/// instructions of the thread that runs the VM; other threads do not access them.
#[derive(Default, Debug)]
pub(crate) struct Work {
    /// Changes whenever another piece of work begins.
    number: AtomicU64,
    /// One more than the number of the work that the signal handler has found; 0 if it has found none. `found_at` is the
    /// CPU time of the thread at that moment, in nanoseconds.
    found: AtomicU64,
    found_at: AtomicU64,
    /// The number of signals since the VM has run an instruction.
    pending: AtomicU32,
    /// The age of a piece of work, in nanoseconds, from which on the signal handler reports a C function; 0: never.
    limit: AtomicU64,
    /// The value of `found` for the work that was reported last.
    reported: AtomicU64,
}

impl Work {
    /// Records that another piece of work begins.
    #[inline]
    pub(crate) fn begin(&self) {
        self.number.store(self.number().wrapping_add(1), Relaxed);
    }

    /// Returns a value that changes whenever another piece of work begins.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Returns the CPU time of the thread when an interrupt first found the work with this number, if one has.
    pub(crate) fn found_at(&self, number: u64) -> Option<Duration> {
        (self.found.load(Relaxed) == number.wrapping_add(1)).then(|| {
            compiler_fence(SeqCst);
            Duration::from_nanos(self.found_at.load(Relaxed))
        })
    }

    /// Sets the CPU time after which a C function is reported on standard error; zero means never.
    pub(crate) fn report_c_functions_after(&self, limit: Duration) {
        self.limit.store(limit.as_nanos() as u64, Relaxed);
    }

    /// Simulates a signal at this CPU time.
    #[cfg(test)]
    pub(crate) fn find(&self, now: Duration) {
        self.interrupted(now.as_nanos() as u64);
    }

    /// Called by the hook of an interrupt.
    pub(super) fn continues(&self) {
        self.pending.store(0, Relaxed);
    }

    /// Called by the signal handler, so this function only calls functions that are async-signal-safe. `now` is the CPU
    /// time of the thread, in nanoseconds. Returns the age of the work if the VM has to report a C function.
    pub(super) fn interrupted(&self, now: u64) -> Option<Duration> {
        let found = self.number().wrapping_add(1);
        if self.found.load(Relaxed) != found {
            self.found_at.store(now, Relaxed);
            compiler_fence(SeqCst);
            self.found.store(found, Relaxed);
            self.pending.store(1, Relaxed);
            return None;
        }
        let pending = self.pending.load(Relaxed).saturating_add(1);
        self.pending.store(pending, Relaxed);
        let (age, limit) = (now.saturating_sub(self.found_at.load(Relaxed)), self.limit.load(Relaxed));
        if limit == 0 || age < limit || pending < PENDING || self.reported.load(Relaxed) == found {
            return None;
        }
        self.reported.store(found, Relaxed);
        Some(Duration::from_nanos(age))
    }
}

/// Reports a C function on standard error. Async-signal-safe: allocates nothing and takes no lock.
pub(super) fn report_c_function(age: Duration) {
    let mut text = [0; 256];
    let mut line = Cursor::new(&mut text[..]);
    let tenths = age.as_millis() as u64 / 100;
    let _ = writeln!(
        line,
        "lio: a task has run for {}.{} s without waiting; it is in a C function, such as string.find, or in a finalizer, \
         a debug hook, a message handler or a coroutine that is being closed",
        tenths / 10,
        tenths % 10
    );
    // If standard error is closed, there is no place for the report.
    let length = line.position() as usize;
    let _ = rustix::io::write(rustix::stdio::stderr(), &text[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_first_signal_belongs_to_the_work_that_it_found() {
        let work = Work::default();
        assert_eq!(work.found_at(work.number()), None);
        work.begin();
        work.interrupted(100);
        work.interrupted(200);
        assert_eq!(work.found_at(work.number()), Some(Duration::from_nanos(100)));
        work.begin();
        assert_eq!(work.found_at(work.number()), None);
    }

    #[test]
    fn a_c_function_is_reported_once_after_the_limit() {
        let work = Work::default();
        work.report_c_functions_after(Duration::from_nanos(50));
        assert_eq!([0, 40, 49].map(|now| work.interrupted(now)), [None; 3]);
        assert_eq!(work.interrupted(60), Some(Duration::from_nanos(60)));
        assert_eq!(work.interrupted(70), None);
        work.begin();
        assert_eq!([100, 160].map(|now| work.interrupted(now)), [None; 2]);
        assert_eq!(work.interrupted(170), Some(Duration::from_nanos(70)));
    }

    #[test]
    fn work_that_runs_instructions_is_not_in_a_c_function() {
        let work = Work::default();
        work.report_c_functions_after(Duration::from_nanos(50));
        for now in 0..100 {
            assert_eq!(work.interrupted(10 * now), None);
            work.continues();
        }
    }
}
