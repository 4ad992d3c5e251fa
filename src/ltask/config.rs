//! The configuration of a system. `bootstrap.init` reads the configuration from a table and writes it back.

use std::time::Duration;

/// How a request to a service with a full mailbox is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FullMailbox {
    /// The request fails: `{service:N} is busy`.
    Error,
    /// The sender waits until there is room.
    Wait,
}

/// The configuration, with defaults for the missing values.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The number of worker threads, 1 to 256.
    pub(crate) worker: usize,
    /// The number of I/O threads, 1 to 64. A thread starts when it is first needed.
    pub(crate) io: usize,
    /// The capacity of a mailbox, in messages.
    pub(crate) queue: usize,
    /// The maximum number of undelivered messages of an exclusive service.
    pub(crate) queue_sending: usize,
    /// The maximum number of services at the same time.
    pub(crate) max_service: usize,
    /// The maximum number of external messages that root has not read.
    pub(crate) external_queue: usize,
    /// The maximum number of log entries that the logger has not read. Further lines are dropped.
    pub(crate) log_queue: usize,
    /// The time after which the watchdog reports a slice; if it is zero, no slice is reported.
    pub(crate) watchdog: Duration,
    /// The CPU time after which an error is raised in a task that does not wait; zero if there is no limit.
    pub(crate) max_run_time: Duration,
    pub(crate) full: FullMailbox,
    pub(crate) crashlog: Option<String>,
    /// The path of a file, or "=" for standard output.
    pub(crate) debuglog: Option<String>,
}

/// The maximum number of spare workers. A spare worker replaces a worker that a long slice blocks.
pub(crate) const MAX_SPARE_WORKERS: usize = 32;

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            worker: cores.saturating_sub(1).max(1),
            io: 1,
            queue: 4096,
            queue_sending: 4096,
            max_service: 65536,
            external_queue: 4096,
            log_queue: 131_072,
            watchdog: Duration::from_secs(5),
            max_run_time: Duration::ZERO,
            full: FullMailbox::Error,
            crashlog: None,
            debuglog: None,
        }
    }
}
