//! The configuration of a system. `bootstrap.init` reads it from a table and writes it back.

use std::time::Duration;

/// The handling of a request to a service with a full mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FullMailbox {
    /// The request fails: `{service:N} is busy`.
    Error,
    /// The sender waits until there is room.
    Wait,
}

/// The values in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Worker threads, 1 to 256.
    pub(crate) worker: usize,
    /// Messages in a mailbox.
    pub(crate) queue: usize,
    /// Undelivered messages of an exclusive service.
    pub(crate) queue_sending: usize,
    /// Services at the same time.
    pub(crate) max_service: usize,
    /// Undelivered external messages.
    pub(crate) external_queue: usize,
    /// Entries of the log that the logger has not read. Further lines are dropped.
    pub(crate) log_queue: usize,
    /// The time after which the watchdog reports a slice; zero is never.
    pub(crate) watchdog: Duration,
    pub(crate) full: FullMailbox,
    pub(crate) crashlog: Option<String>,
    /// A file's path, or "=" for standard output.
    pub(crate) debuglog: Option<String>,
}

/// Spare workers at most. One starts for each worker that a long slice blocks.
pub(crate) const MAX_SPARE_WORKERS: usize = 32;

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
            full: FullMailbox::Error,
            crashlog: None,
            debuglog: None,
        }
    }
}
