//! Clocks: monotonic time, the clock of a VM, and the CPU time of a thread, in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Returns the time on the monotonic clock since the first call in this process, in nanoseconds.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    let clock = || nanos(clock_gettime(ClockId::Monotonic));
    let origin = *ORIGIN.get_or_init(clock);
    clock().saturating_sub(origin)
}

/// The clock of a VM's loop, timers and servers: the monotonic clock, until a test pauses it. A paused clock moves only
/// when [`VmClock::advance_to`] is called. Invariant: the clock never goes back, even when it is paused or resumed.
#[derive(Default)]
pub(crate) struct VmClock {
    paused_at: Cell<Option<u64>>,
    /// The difference to the monotonic clock while the clock is not paused.
    shift: Cell<i64>,
}

impl VmClock {
    /// Returns the time in nanoseconds.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        match self.paused_at.get() {
            None => monotonic_nanos().wrapping_add_signed(self.shift.get()),
            Some(now) => now,
        }
    }

    /// Returns the system time, to which the time that was skipped or lost in pauses is added.
    pub(crate) fn wall(&self) -> SystemTime {
        let skipped = self.nanos().wrapping_sub(monotonic_nanos()) as i64;
        let span = Duration::from_nanos(skipped.unsigned_abs());
        let now = SystemTime::now();
        let wall = if skipped < 0 { now.checked_sub(span) } else { now.checked_add(span) };
        wall.unwrap_or(now)
    }

    /// Converts a time of this clock to the monotonic clock, for a time at which another thread must act.
    pub(crate) fn to_monotonic(&self, time: u64) -> u64 {
        time.saturating_add_signed(self.shift.get().saturating_neg())
    }

    /// Whether the clock is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_at.get().is_some()
    }

    /// Pauses the clock.
    pub(crate) fn pause(&self) {
        self.paused_at.set(Some(self.nanos()));
    }

    /// Ends a pause: the clock continues from its current time.
    pub(crate) fn resume(&self) {
        if let Some(now) = self.paused_at.take() {
            self.shift.set(now.wrapping_sub(monotonic_nanos()) as i64);
        }
    }

    /// Moves a paused clock forward. An earlier time has no effect.
    pub(crate) fn advance_to(&self, time: u64) {
        if let Some(now) = self.paused_at.get() {
            self.paused_at.set(Some(now.max(time)));
        }
    }
}

/// Like [`monotonic_nanos`], but in seconds.
pub(crate) fn monotonic() -> f64 {
    monotonic_nanos() as f64 / 1e9
}

/// Returns the number of seconds since the Unix epoch. On Linux, uses a fast clock that advances a few hundred times a
/// second.
pub(crate) fn unix_seconds() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Realtime;
    clock_gettime(CLOCK).tv_sec.try_into().unwrap_or(0)
}

/// Returns the number of milliseconds since the Unix epoch.
pub(crate) fn unix_millis() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_nanos() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_paused_clock_moves_only_when_it_is_told_to() {
        let clock = VmClock::default();
        clock.pause();
        let began = clock.nanos();
        while monotonic_nanos() <= began {}
        assert_eq!(clock.nanos(), began);
        clock.advance_to(began + SECOND);
        clock.advance_to(began);
        assert_eq!(clock.nanos(), began + SECOND);
    }

    #[test]
    fn a_resumed_clock_continues_from_the_time_of_the_pause() {
        let clock = VmClock::default();
        clock.pause();
        clock.advance_to(clock.nanos() + 3600 * SECOND);
        let paused = clock.nanos();
        clock.resume();
        assert!(!clock.is_paused());
        let passed = clock.nanos() - paused;
        assert!(passed < 3000 * SECOND, "{passed}");
        // A clock that is not paused cannot be moved.
        clock.advance_to(u64::MAX);
        assert!(clock.nanos() < paused + 3000 * SECOND);
    }

    #[test]
    fn the_system_time_includes_the_skipped_time() {
        let clock = VmClock::default();
        clock.pause();
        clock.advance_to(clock.nanos() + 3600 * SECOND);
        let ahead = clock.wall().duration_since(SystemTime::now()).expect("it is later");
        assert!((3590..=3600).contains(&ahead.as_secs()), "{ahead:?}");
    }
}
