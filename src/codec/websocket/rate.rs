//! A limit of the number of messages per second: a token bucket.

use std::time::Duration;

/// The number of seconds whose messages may arrive at once.
const BURST: f64 = 2.0;

/// The messages that a peer may send now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: f64,
    tokens: f64,
    /// The time of the last message.
    last: Duration,
}

impl Rate {
    /// Returns a limit of `per_second` messages, a finite number above 0. At the time 0, the peer may send a burst.
    pub(crate) fn new(per_second: f64) -> Rate {
        Rate { per_second, tokens: Rate::most(per_second), last: Duration::ZERO }
    }

    /// Counts a message at the time `now`. Returns whether the peer was allowed to send it. Times must not decrease.
    pub(crate) fn admit(&mut self, now: Duration) -> bool {
        let gained = now.saturating_sub(self.last).as_secs_f64() * self.per_second;
        self.last = now;
        self.tokens = (self.tokens + gained).min(Rate::most(self.per_second));
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }

    fn most(per_second: f64) -> f64 {
        (per_second * BURST).max(1.0)
    }
}
