//! What the service library does in rare cases: functions of `ltask.more`, which is loaded when the first one is
//! called.

use crate::lua::{
    Argument, Call, Continuation, Fault, Function, INDEX, Kind, Next, Outcome, Register, RegistryName, then,
};

/// Lua's own `require`.
pub(super) static REQUIRE: RegistryName = RegistryName::new();
/// The table `hooks` of `ltask.more`.
static HOOKS: RegistryName = RegistryName::new();

/// Pushes the beginning of a call of the hook `name`, whose first argument is the name: others may follow. → the index
/// of what it will return
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

/// `(name, …)` → what the function of that name returns.
fn hook(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    let hooks = call.registered(&HOOKS)?;
    if call.kind(hooks) == Kind::Table {
        return run(call, hooks, count);
    }
    call.drop_to(count);
    require(call, "ltask.more", then(loaded), count as u32)
}

fn loaded(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    call.push(INDEX)?;
    call.push(Argument(outcome.first))?;
    call.create("hooks")?;
    Ok(Next::call(2, then(found), outcome.kept))
}

fn found(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let hooks = call.create(Register(&HOOKS, Argument(outcome.first)))?;
    run(call, hooks, outcome.kept as i32)
}

/// Calls the function of the table at `hooks` that the first of `count` values names, with the others.
fn run(call: &mut Call<'_>, hooks: i32, count: i32) -> Result<Next, Fault> {
    call.get(hooks, 1)?;
    call.push_copies(2..=count)?;
    Ok(Next::call(count - 1, then(results), 0))
}

/// All that was returned.
pub(super) fn results(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}

/// Calls a hook with the values of the call, as the last act.
pub(super) fn call_named(call: &mut Call<'_>, name: &'static str) -> Result<Next, Fault> {
    let count = call.count();
    push(call, name)?;
    call.push_copies(1..=count)?;
    Ok(Next::call(count + 1, then(results), 0))
}
