//! A switch for tests, in builds with the feature `panics` only: the n-th step from now on panics. `make
//! panics` puts a panic into each function that the library binds, in both hosts.

use super::{Call, Fault, Function, Many, Module};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};

/// How many functions are entered until one panics; 0 or less: none does.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// Counts a function that is entered.
pub(crate) fn count() {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        // A panic like any other, but for the message on standard error.
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

/// `panics.after(n)`: the n-th function that is entered from now on panics; 0 switches it off.
fn after(call: &mut Call<'_>) -> Result<(), Fault> {
    let number = call.integer(1)?;
    LEFT.store(number, Ordering::Relaxed);
    Ok(())
}

/// `panics.modules()` → the names of the native modules.
fn modules<L: super::library::Library>(_: &mut Call<'_>) -> Result<Many<&'static str>, Fault> {
    let names = L::NATIVES.iter().map(|(name, _)| *name);
    Ok(Many(names.collect()))
}

/// Opens `lio.panics`.
pub(crate) const fn open<L: super::library::Library>() -> Function {
    Function::new(|_: &mut Call<'_>| {
        Ok(Module(
            const { &[(c"after" as &CStr, Function::new(after)), (c"modules" as &CStr, Function::new(modules::<L>))] },
        ))
    })
}
