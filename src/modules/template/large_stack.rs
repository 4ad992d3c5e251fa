//! Runs the template engine on a stack that is large enough, because the engine recurses: the limits of templates
//! (`limits`) are chosen for these stacks. A panic of the engine is an error of the template, and nothing is written to
//! standard error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// The size of a new stack. Only the pages that are used occupy memory.
const SIZE: usize = 64 << 20;

/// How many free bytes complex and other templates need.
const FOR_COMPLEX: usize = 60 << 20;
const FOR_SIMPLE: usize = 1280 << 10;

thread_local! {
    /// Whether this thread runs the engine.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Makes the report of a panic depend on `IS_QUIET`.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                report(info);
            }
        }));
    });
}

/// Returns the result of `run`; or a message if it has panicked. `is_complex`: whether `run` uses a complex template.
pub(super) fn run<T>(is_complex: bool, run: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let needed = if is_complex { FOR_COMPLEX } else { FOR_SIMPLE };
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| stacker::maybe_grow(needed, SIZE, run)));
    IS_QUIET.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the template engine failed: {text}")
    })
}
