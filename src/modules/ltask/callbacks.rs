//! Lua functions that the service library calls in rare cases: the functions of `ltask.callbacks`, or of the module
//! that `core.use_callbacks` has set. The module is loaded when it is first used.

use super::arguments::service;
use crate::lua::{Argument, Call, Continuation, Fault, Function, Kind, Next, Outcome, Register, RegistryName, then};

/// Lua's own `require`.
pub(super) static REQUIRE: RegistryName = RegistryName::new();
/// The table of callbacks. Before the module is loaded, this is the module's name, or nil for `ltask.callbacks`.
static CALLBACKS: RegistryName = RegistryName::new();

/// Pushes a function that calls the callback `name`, and `name` as its first argument. The caller can push more
/// arguments before it calls the function. Returns the index that the callback's first result will have.
pub(super) fn push(call: &mut Call<'_>, name: &'static str) -> Result<i32, Fault> {
    let index = call.push(Function::new(run_named))?;
    call.create(name)?;
    Ok(index)
}

/// Loads a module with Lua's own `require`.
pub(super) fn require<R>(
    call: &mut Call<'_>, name: &'static str, next: &'static Continuation, kept: u32,
) -> Result<Next<R>, Fault> {
    call.registered(&REQUIRE)?;
    call.create(name)?;
    Ok(Next::call(1, next, kept))
}

/// `core.use_callbacks(module)`: uses the functions of the module as the callbacks.
pub(super) fn use_callbacks(call: &mut Call<'_>) -> Result<(), Fault> {
    call.expect(1, Kind::String, "string")?;
    call.create(Register(&CALLBACKS, Argument(1)))?;
    service(call)?.library.has_own_callbacks = true;
    Ok(())
}

/// `(name, …)`: calls the callback `name` with the other arguments, and returns its results.
fn run_named(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    let callbacks = call.registered(&CALLBACKS)?;
    match call.kind(callbacks) {
        Kind::Table => run(call, callbacks, count),
        Kind::String => {
            call.registered(&REQUIRE)?;
            call.push(Argument(callbacks))?;
            Ok(Next::call(1, then(loaded), count as u32))
        }
        _ => require(call, "ltask.callbacks", then(loaded), count as u32),
    }
}

fn loaded(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let callbacks = call.create(Register(&CALLBACKS, Argument(outcome.first)))?;
    run(call, callbacks, outcome.kept as i32)
}

/// Calls a function of the table at `callbacks`. The first of the `count` values names the function; the other values
/// are its arguments.
fn run(call: &mut Call<'_>, callbacks: i32, count: i32) -> Result<Next, Fault> {
    call.get(callbacks, 1)?;
    call.push_copies(2..=count)?;
    Ok(Next::call(count - 1, then(results), 0))
}

/// Returns all results of a call.
pub(super) fn results(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}

/// Calls a callback with the arguments of this call, and returns its results.
pub(super) fn call_named(call: &mut Call<'_>, name: &'static str) -> Result<Next, Fault> {
    let count = call.count();
    push(call, name)?;
    call.push_copies(1..=count)?;
    Ok(Next::call(count + 1, then(results), 0))
}
