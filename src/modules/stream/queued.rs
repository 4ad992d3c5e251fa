//! Calls of `recv` and `send` while another task holds the connection: Lua code queues them.

use crate::lua::{Argument, Call, Fault, Next, Outcome, then, upvalue};

/// The Lua function that queues a call: upvalue 2 of `recv` and `send`. Upvalue 1 is the tasks object.
const QUEUED_CALL: i32 = upvalue(2);

/// Calls the Lua function that queues a call with the arguments of this call, and returns its results.
#[cold]
pub(super) fn queue<R>(call: &mut Call<'_>) -> Result<Next<R>, Fault> {
    let count = call.count();
    call.push(Argument(QUEUED_CALL))?;
    for index in 1..=count {
        call.push(Argument(index))?;
    }
    Ok(Next::call(count, then(returned), 0))
}

/// Returns the results of a Lua function.
pub(super) fn returned(_: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    Ok(Next::rest(outcome.first))
}
