//! A switch for tests, only in builds with the feature `panics`: the n-th step from now on panics. Lua sets it by
//! `lio.panics`.

use std::sync::atomic::{AtomicI64, Ordering};

/// How many steps are entered until one panics; if 0 or less, none does.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// Sets the switch: the `number`th step that is entered from now on panics. With 0, none does.
pub(crate) fn after(number: i64) {
    LEFT.store(number, Ordering::Relaxed);
}

/// Counts a step that is entered, and panics if it is its turn.
pub(super) fn count() {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // Like any other panic, but without the message on standard error.
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}
