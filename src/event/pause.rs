//! Reports to the observer of a thread when the thread waits in a selector. A thread that does not return to its
//! selector is blocked. The scheduler observes the threads of services. Without an observer nothing is reported.

use std::cell::Cell;

/// The event that is reported to the observer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    Begins,
    Ends,
}

thread_local! {
    static OBSERVER: Cell<Option<fn(Pause)>> = const { Cell::new(None) };
}

/// Sets the function that is called on this thread before and after each wait.
pub(crate) fn observe(observer: fn(Pause)) {
    OBSERVER.set(Some(observer));
}

/// Reports that the calling thread's wait begins or ends.
pub(crate) fn report(pause: Pause) {
    if let Some(observer) = OBSERVER.get() {
        observer(pause);
    }
}
