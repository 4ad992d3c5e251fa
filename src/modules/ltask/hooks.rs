//! What the service library does in rare cases: functions of `ltask.hooks`, which is loaded when the first one is called,
//! or of the module that `core.use_hooks` has named.

use crate::lua::{Argument, Call, Fault, Function, Keep, Kept, Kind, Next, Outcome, Then, then};

/// Lua's own `require`.
pub(super) static REQUIRE: Kept = Kept::new();
/// The table of hooks. Before it is loaded: the module's name, or nil for `ltask.hooks`.
static HOOKS: Kept = Kept::new();

/// Pushes the beginning of a call of the hook `name`, whose first argument is the name: others may follow. → the index of
/// what it will return
pub(super) fn push(call: &mut Call<'_>, name: &'static str) -> Result<i32, Fault> {
    let index = call.push(Function::new(hook))?;
    call.create(name)?;
    Ok(index)
}

/// Loads a module by Lua's own `require`.
pub(super) fn require<R>(
    call: &mut Call<'_>, name: &'static str, next: &'static Then, kept: u32,
) -> Result<Next<R>, Fault> {
    call.kept(&REQUIRE)?;
    call.create(name)?;
    Ok(Next::call(1, next, kept))
}

/// `core.use_hooks(module)`: the hooks are those of this module, which is loaded when the first one is called.
pub(super) fn use_hooks(call: &mut Call<'_>) -> Result<(), Fault> {
    call.expect(1, Kind::String, "string")?;
    call.create(Keep(&HOOKS, Argument(1)))?;
    Ok(())
}

/// `(name, …)` → what the function of that name returns.
fn hook(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    let hooks = call.kept(&HOOKS)?;
    match call.kind(hooks) {
        Kind::Table => run(call, hooks, count),
        Kind::String => {
            call.kept(&REQUIRE)?;
            call.push(Argument(hooks))?;
            Ok(Next::call(1, then(loaded), count as u32))
        }
        _ => require(call, "ltask.hooks", then(loaded), count as u32),
    }
}

fn loaded(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    let hooks = call.create(Keep(&HOOKS, Argument(outcome.first)))?;
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
