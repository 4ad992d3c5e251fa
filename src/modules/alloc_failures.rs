//! `lio.alloc_failures`, only in builds with the feature `alloc_failures`: `make alloc-failures` lets each allocation of
//! each function that the library binds fail, in the executable and in stock Lua.

use crate::lua::library::Library;
use crate::lua::{Call, Fault, Function, Many, Module, Next, Outcome, alloc_failures, then};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the function of the last `call` has returned.
static RETURNED: AtomicBool = AtomicBool::new(false);

/// `call(n, fails_on, f, …)`: calls `f(…)` in protected mode. The `n`-th allocation during the call fails (0: none). If
/// `fails_on` is true, all later allocations fail as well. Returns the results of `f`, or the error.
fn call(call: &mut Call<'_>) -> Result<Next, Fault> {
    let first = call.integer_in(1, 0..=i64::MAX, "allocation")?;
    call.any(3)?;
    let (fails_on, arguments) = (call.is_true(2), call.count() - 3);
    call.set_alloc_failures(first as u64, fails_on);
    Ok(Next::protected(arguments, -1, 0, then(called), 0))
}

fn called(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    alloc_failures::reset();
    RETURNED.store(outcome.ok, Ordering::Relaxed);
    Ok(Next::rest(outcome.first))
}

/// `report()`: returns whether the function of the last `call` has returned, the number of its allocations, and how many
/// of them have failed.
fn report(_: &mut Call<'_>) -> Result<(bool, i64, i64), Fault> {
    let (requests, failures) = alloc_failures::reset();
    Ok((RETURNED.load(Ordering::Relaxed), requests as i64, failures as i64))
}

/// `live()`: returns the number of blocks that Rust code owns, and their size in bytes.
fn live(_: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    Ok(alloc_failures::live())
}

/// `modules()`: returns the names of the native modules.
fn modules<L: Library>(_: &mut Call<'_>) -> Result<Many<&'static str>, Fault> {
    let names = L::NATIVES.iter().map(|(name, _)| *name);
    Ok(Many(names.collect()))
}

/// Opens `lio.alloc_failures`.
pub(crate) const fn open<L: Library>() -> Function {
    Function::new(|_: &mut Call<'_>| {
        Ok(Module(
            const {
                &[
                    (c"call" as &CStr, Function::new(call)),
                    (c"report", Function::new(report)),
                    (c"live", Function::new(live)),
                    (c"modules", Function::new(modules::<L>)),
                ]
            },
        ))
    })
}
