//! The handlers of a service, which the main loop calls.

use super::answers::without_limit;
use super::arguments::service;
use crate::lua::library::compiled;
use crate::lua::{Argument, Call, Chunk, Fault, Functions, Keep, Kept, Kind, List, Next, Nil, Outcome, then};

/// The handlers of requests.
pub(super) static REQUESTS: Kept = Kept::new();
/// The handler for when there is nothing to do.
pub(super) static IDLE: Kept = Kept::new();
/// What looks for I/O when messages come without end.
pub(super) static POLL: Kept = Kept::new();

/// A table without anything in it.
pub(super) fn new_table() -> List<i64> {
    List { items: Vec::new(), named: Vec::new() }
}

/// Whether what is kept is nil or an empty table.
pub(super) fn is_unused(call: &mut Call<'_>, name: &'static Kept) -> Result<bool, Fault> {
    let index = call.kept(name)?;
    Ok(match call.kind(index) {
        Kind::Nil => true,
        Kind::Table => is_empty(call, index),
        _ => false,
    })
}

/// Whether the table at `index` is empty.
fn is_empty(call: &mut Call<'_>, index: i32) -> bool {
    call.walk(|values| {
        let pairs = values.pairs(index);
        pairs.is_some_and(|mut pairs| !pairs.next())
    })
}

/// `ltask.dispatch([handlers])` → the table of request handlers, with those added.
pub(super) fn dispatch_table(call: &mut Call<'_>) -> Result<Argument, Fault> {
    match call.kind(1) {
        Kind::None | Kind::Nil => Ok(Argument(call.kept(&REQUESTS)?)),
        Kind::Table => Ok(Argument(add_handlers(call, 1)?)),
        _ => Err(Fault::expected(1, "table")),
    }
}

/// Adds the handlers in the table at `index` to those of requests. → the index of their table
pub(super) fn add_handlers(call: &mut Call<'_>, index: i32) -> Result<i32, Fault> {
    service(call)?.library.serves = true;
    let handlers = call.kept(&REQUESTS)?;
    match call.kind(handlers) == Kind::Table && is_empty(call, handlers) {
        // The table itself, so that handlers added to it later are seen.
        true => call.create(Keep(&REQUESTS, Argument(index))),
        false => call.create(Functions { list: &[], upvalue: index, table: Some(handlers), copied: Some(index) }),
    }
}

/// `ltask.quit()`: runs the handler `quit`, if there is one, then ends the service. Requests that it has not
/// answered get an error.
pub(super) fn quit(call: &mut Call<'_>) -> Result<Next, Fault> {
    let handlers = call.kept(&REQUESTS)?;
    let handler = call.raw_field(handlers, "quit")?;
    if call.kind(handler) != Kind::Function {
        service(call)?.library.ended = true;
        return Ok(Next::returns(()));
    }
    // A service that has used up its memory must still be able to end.
    let code = compiled("ltask.quit_handler").unwrap_or_default();
    without_limit(call, |call| call.create(Chunk::Text(code, c"=lio")))?;
    Ok(Next::call(0, then(|_: &mut Call<'_>, _: Outcome| Ok(())), 0))
}

/// `ltask.idle_handler(f)`: `f` runs when there is nothing to do, in a service with an event descriptor
/// (G2). It usually blocks.
pub(super) fn idle_handler(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.kind(1) {
        Kind::None => drop(call.push(Nil)?),
        Kind::Nil | Kind::Function => {}
        _ => return Err(Fault::expected(1, "function")),
    }
    call.create(Keep(&IDLE, Argument(1)))?;
    Ok(())
}

/// `core.poll_handler(f)`: `f` runs after a batch of messages when more are there, so that they do not keep
/// I/O away.
pub(super) fn poll_handler(call: &mut Call<'_>) -> Result<(), Fault> {
    call.create(Keep(&POLL, Argument(1)))?;
    service(call)?.library.polls = true;
    Ok(())
}
