//! Tells who observes a thread when it waits in a selector: a thread that does not come back to a selector is
//! held up. The scheduler observes the threads of services this way. Nothing is told when nobody observes.

use std::cell::Cell;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    Begins,
    Ends,
}

thread_local! {
    static OBSERVER: Cell<Option<fn(Pause)>> = const { Cell::new(None) };
}

/// Sets what is called on the calling thread before and after each wait.
pub(crate) fn observe(observer: fn(Pause)) {
    OBSERVER.set(Some(observer));
}

/// The calling thread's wait begins or ends.
pub(crate) fn tell(pause: Pause) {
    if let Some(observer) = OBSERVER.get() {
        observer(pause);
    }
}
