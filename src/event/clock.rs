//! Clocks: monotonic time, and the CPU time of a thread, in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::OnceLock;

/// Returns the time on the monotonic clock since the first call in this process, in nanoseconds.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    let clock = || nanos(clock_gettime(ClockId::Monotonic));
    let origin = *ORIGIN.get_or_init(clock);
    clock().saturating_sub(origin)
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
