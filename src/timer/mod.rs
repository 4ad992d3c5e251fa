//! One timer queue, used by `lio.loop` and `lio.net`, and by the scheduler.
//!
//! - `queue.rs`: the queue itself
//! - `lua.rs`: `lio.timer`

pub(crate) mod lua;
mod queue;

pub(crate) use queue::Queue;

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds of the monotonic clock since the first call in this process.
pub(crate) fn monotonic_nanos() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = ORIGIN.get_or_init(Instant::now);
    // 584 years fit.
    origin.elapsed().as_nanos() as u64
}

/// The same in seconds.
pub(crate) fn monotonic() -> f64 {
    monotonic_nanos() as f64 / 1e9
}
