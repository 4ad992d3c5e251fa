//! One timer queue, used by `lio.loop` and `lio.net`, and by the scheduler.
//!
//! - `queue.rs`: the queue itself
//! - `lua.rs`: `lio.timer`

pub(crate) mod lua;
mod queue;

pub(crate) use queue::Queue;

use std::sync::OnceLock;

/// Nanoseconds of the monotonic clock.
fn clock() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to `time`. Every system has this clock, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of the monotonic clock since the first call in this process.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(clock);
    clock().saturating_sub(origin)
}

/// The same in seconds.
pub(crate) fn monotonic() -> f64 {
    monotonic_nanos() as f64 / 1e9
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to `time`; the clock is the calling thread's own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
