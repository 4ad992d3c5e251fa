//! A switch for tests, in builds with the feature `panics` only: the n-th step from now on panics. Lua turns it by
//! `lio.panics`.

use std::sync::atomic::{AtomicI64, Ordering};

/// How many functions are entered until one panics; 0 or less: none does.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// The `number`th function that is entered from now on panics; 0: none does.
pub(crate) fn after(number: i64) {
    LEFT.store(number, Ordering::Relaxed);
}

/// Counts a function that is entered.
pub(super) fn count() {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // A panic like any other, but for the message on standard error.
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}
