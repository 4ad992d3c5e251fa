//! The CPU time of a thread, which other threads may read. `rustix` has no such clock.

/// The CPU time of a thread by its clock, in nanoseconds; 0 if the clock is 0 or the thread has ended.
pub(crate) fn nanos(clock: i32) -> u64 {
    if clock == 0 {
        return 0;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to `time` only; the clock of an ended thread is an error.
    match unsafe { libc::clock_gettime(clock as libc::clockid_t, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// The CPU clock of the calling thread; 0 if the system has none.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn own() -> i32 {
    let mut clock = 0;
    // SAFETY: `pthread_self` is a running thread, and `clock` has room for the number of its clock.
    match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } {
        0 => clock,
        _ => 0,
    }
}

/// The CPU clock of the calling thread: none on this system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn own() -> i32 {
    0
}
