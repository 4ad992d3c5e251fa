//! What a system is made of; `bootstrap.init` reads it from a table and writes it back.

use std::time::Duration;

/// What becomes of a request to a service whose mailbox is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// It fails: `{service:N} is busy`.
    Error,
    /// Its sender waits until there is room.
    Wait,
}

/// The values in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Worker threads, 1 to 256.
    pub(crate) worker: usize,
    /// Messages in a mailbox.
    pub(crate) queue: usize,
    /// Messages that an exclusive service may have waiting to be delivered.
    pub(crate) queue_sending: usize,
    /// Services at a time.
    pub(crate) max_service: usize,
    /// External messages that may wait.
    pub(crate) external_queue: usize,
    /// Entries that wait for the logger; then lines are dropped.
    pub(crate) log_queue: usize,
    /// How long a slice may take before the watchdog reports it; zero is never.
    pub(crate) watchdog: Duration,
    pub(crate) full: Full,
    pub(crate) crashlog: Option<String>,
    /// A file, or "=" for standard output.
    pub(crate) debuglog: Option<String>,
}

/// Workers that may be added, one for each that is held up by a long slice.
pub(crate) const STAND_INS: usize = 32;

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            worker: cores.saturating_sub(1).max(1),
            queue: 4096,
            queue_sending: 4096,
            max_service: 65536,
            external_queue: 4096,
            log_queue: 131_072,
            watchdog: Duration::from_secs(5),
            full: Full::Error,
            crashlog: None,
            debuglog: None,
        }
    }
}
