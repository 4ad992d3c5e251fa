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
    /// Sets the limits; zero means that there is none. For `None`, the limit of the system applies.
    pub(crate) fn set(&self, watchdog: Option<Duration>, max_run_time: Option<Duration>) {
        self.watchdog.set(watchdog);
        self.max_run_time.set(max_run_time);
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
    fn set(&self, limit: Option<Duration>) {
        let nanos = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(limit.map_or(0, |limit| nanos(limit).saturating_add(1)), Ordering::Relaxed);
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
        limits.set(Some(Duration::ZERO), None);
        assert_eq!([limits.watchdog(system), limits.max_run_time(system)], [Duration::ZERO, system]);
        limits.set(None, Some(Duration::from_secs(u64::MAX)));
        assert_eq!(
            [limits.watchdog(system), limits.max_run_time(system)],
            [system, Duration::from_nanos(u64::MAX - 1)]
        );
    }
}
