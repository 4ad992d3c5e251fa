//! A switch for tests, only in builds with the feature `panics`: makes the nth step from now panic. Lua code sets the
//! switch with `lio.panics`.

use std::sync::atomic::{AtomicI64, Ordering};

/// The number of steps up to and including the step that panics; if 0 or less, no step panics.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// Sets the switch: the `number`th step that is entered from now on panics. With 0, no step panics.
pub(crate) fn after(number: i64) {
    LEFT.store(number, Ordering::Relaxed);
}

/// Counts a step that is starting. Panics if this is the step that [`after`] has chosen.
pub(super) fn count() {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // Like any other panic, but without the message on standard error.
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}
