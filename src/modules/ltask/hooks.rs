//! Rarely used functions of the service library: the functions of `ltask.hooks`, or of the module that `core.use_hooks`
//! has named. The module is loaded at its first use.

use crate::lua::{Argument, Call, Continuation, Fault, Function, Kind, Next, Outcome, Register, RegistryName, then};

/// Lua's own `require`.
pub(super) static REQUIRE: RegistryName = RegistryName::new();
/// The table of hooks. Before it is loaded: the module's name, or nil for `ltask.hooks`.
static HOOKS: RegistryName = RegistryName::new();

/// Pushes the hook `name` and that name, its first argument. The caller may push more arguments. Returns the index of
/// the hook's first result.
pub(super) fn push(call: &mut Call<'_>, name: &'static str) -> Result<i32, Fault> {
    let index = call.push(Function::new(hook))?;
    call.create(name)?;
    Ok(index)
}

/// Loads a module by Lua's own `require`.
pub(super) fn require<R>(
    call: &mut Call<'_>, name: &'static str, next: &'static Continuation, kept: u32,
) -> Result<Next<R>, Fault> {
    call.registered(&REQUIRE)?;
    call.create(name)?;
    Ok(Next::call(1, next, kept))
}

/// `core.use_hooks(module)`: makes the functions of this module the hooks.
pub(super) fn use_hooks(call: &mut Call<'_>) -> Result<(), Fault> {
    call.expect(1, Kind::String, "string")?;
    call.create(Register(&HOOKS, Argument(1)))?;
    Ok(())
}

/// `(name, …)`: calls the function of that name and returns its results.
fn hook(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    let hooks = call.registered(&HOOKS)?;
    match call.kind(hooks) {
        Kind::Table => run(call, hooks, count),
        Kind::String => {
            call.registered(&REQUIRE)?;
            call.push(Argument(hooks))?;
            Ok(Next::call(1, then(loaded), count as u32))
        }
        _ => require(call, "ltask.hooks", then(loaded), count as u32),
    }
}

fn loaded(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let hooks = call.create(Register(&HOOKS, Argument(outcome.first)))?;
    run(call, hooks, outcome.kept as i32)
}

/// Calls the function of the table at `hooks` that the first of `count` values names, with the other values.
fn run(call: &mut Call<'_>, hooks: i32, count: i32) -> Result<Next, Fault> {
    call.get(hooks, 1)?;
    call.push_copies(2..=count)?;
    Ok(Next::call(count - 1, then(results), 0))
}

/// Returns all results of a call.
pub(super) fn results(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}

/// Calls a hook with the arguments of this call, and returns its results.
pub(super) fn call_named(call: &mut Call<'_>, name: &'static str) -> Result<Next, Fault> {
    let count = call.count();
    push(call, name)?;
    call.push_copies(1..=count)?;
    Ok(Next::call(count + 1, then(results), 0))
}
