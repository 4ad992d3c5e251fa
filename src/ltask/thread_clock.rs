//! The CPU time of a thread, which other threads can read. `rustix` does not support the clocks of other threads.

/// Returns the CPU time, in nanoseconds, of the thread whose CPU clock is `clock`; 0 if `clock` is 0 or the thread has
/// ended.
pub(crate) fn nanos(clock: i32) -> u64 {
    if clock == 0 {
        return 0;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to `time` only; if the thread of the clock has ended, the call fails.
    match unsafe { libc::clock_gettime(clock as libc::clockid_t, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// Returns the CPU clock of the calling thread; 0 if it has none.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn own() -> i32 {
    let mut clock = 0;
    // SAFETY: `pthread_self` returns a running thread, and `clock` is valid for the write of the clock's id.
    match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } {
        0 => clock,
        _ => 0,
    }
}

/// Returns 0: on this operating system, lio does not read the CPU clocks of threads.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn own() -> i32 {
    0
}
