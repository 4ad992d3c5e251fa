//! The limits of the time that a service runs without waiting: its own, or those of the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A service's own limits, which the watchdog's thread reads.
#[derive(Default)]
pub(crate) struct RunLimits {
    watchdog: OwnLimit,
    max_run_time: OwnLimit,
}

/// A limit in nanoseconds plus one; 0 if the limit of the system applies.
#[derive(Default)]
struct OwnLimit(AtomicU64);

impl RunLimits {
    /// Sets the limits; zero means that there is none.
    pub(crate) fn set(&self, watchdog: Duration, max_run_time: Duration) {
        self.watchdog.set(watchdog);
        self.max_run_time.set(max_run_time);
    }

    /// Makes the limits of the system apply again.
    pub(crate) fn clear(&self) {
        self.watchdog.0.store(0, Ordering::Relaxed);
        self.max_run_time.0.store(0, Ordering::Relaxed);
    }

    /// Returns the time after which the watchdog reports a slice; `system` is the limit of the system.
    pub(super) fn watchdog(&self, system: Duration) -> Duration {
        self.watchdog.get(system)
    }

    /// Returns `max_run_time`; `system` is the limit of the system.
    pub(super) fn max_run_time(&self, system: Duration) -> Duration {
        self.max_run_time.get(system)
    }
}

impl OwnLimit {
    fn set(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos.saturating_add(1), Ordering::Relaxed);
    }

    fn get(&self, system: Duration) -> Duration {
        self.0.load(Ordering::Relaxed).checked_sub(1).map_or(system, Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_not_set_is_that_of_the_system() {
        let (limits, system) = (RunLimits::default(), Duration::from_secs(5));
        assert_eq!([limits.watchdog(system), limits.max_run_time(system)], [system; 2]);
        limits.set(Duration::ZERO, Duration::from_secs(u64::MAX));
        assert_eq!(limits.watchdog(system), Duration::ZERO);
        assert_eq!(limits.max_run_time(system), Duration::from_nanos(u64::MAX - 1));
        limits.clear();
        assert_eq!([limits.watchdog(system), limits.max_run_time(system)], [system; 2]);
    }
}
