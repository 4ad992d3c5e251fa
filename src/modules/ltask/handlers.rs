//! The handlers of a service, which the main loop calls.

use super::arguments::service;
use crate::lua::library::compiled;
use crate::lua::{
    Argument, BoundFunctions, Call, Chunk, Fault, Kind, List, Next, Nil, Outcome, Register, RegistryName, then,
};

/// The handlers of requests.
pub(super) static REQUESTS: RegistryName = RegistryName::new();
/// The handler that runs when there is nothing to do.
pub(super) static IDLE: RegistryName = RegistryName::new();
/// The handler that polls I/O while messages keep arriving.
pub(super) static POLL: RegistryName = RegistryName::new();
/// The function that runs a round of the loop in a service that owns no loop.
pub(super) static ROUND: RegistryName = RegistryName::new();

/// Returns an empty table.
pub(super) fn empty_table() -> List<i64> {
    List { items: Vec::new(), named: Vec::new() }
}

/// Returns whether a registered value is nil or an empty table.
pub(super) fn is_unused(call: &mut Call<'_>, name: &'static RegistryName) -> Result<bool, Fault> {
    let index = call.registered(name)?;
    Ok(match call.kind(index) {
        Kind::Nil => true,
        Kind::Table => is_empty(call, index),
        _ => false,
    })
}

/// Returns whether the table at `index` is empty.
fn is_empty(call: &mut Call<'_>, index: i32) -> bool {
    call.walk(|values| {
        let pairs = values.pairs(index);
        pairs.is_some_and(|mut pairs| !pairs.next())
    })
}

/// `ltask.dispatch([handlers])`: adds request handlers and returns the table of all request handlers.
pub(super) fn dispatch_table(call: &mut Call<'_>) -> Result<Argument, Fault> {
    match call.kind(1) {
        Kind::None | Kind::Nil => Ok(Argument(call.registered(&REQUESTS)?)),
        Kind::Table => Ok(Argument(add_handlers(call, 1)?)),
        _ => Err(Fault::expected(1, "table")),
    }
}

/// Adds the handlers in the table at `index` to the request handlers. Returns the index of the table of all request
/// handlers.
pub(super) fn add_handlers(call: &mut Call<'_>, index: i32) -> Result<i32, Fault> {
    let service = service(call)?;
    service.library.has_handlers = true;
    service.release_held();
    let handlers = call.registered(&REQUESTS)?;
    match call.kind(handlers) == Kind::Table && is_empty(call, handlers) {
        // The table itself is used, so that handlers which are added to it later are found.
        true => call.create(Register(&REQUESTS, Argument(index))),
        false => call.create(BoundFunctions { list: &[], upvalue: index, table: Some(handlers), copied: Some(index) }),
    }
}

/// `ltask.quit()`: runs the handler `quit`, if there is one, then ends the service. Unanswered requests are answered
/// with an error.
pub(super) fn quit(call: &mut Call<'_>) -> Result<Next, Fault> {
    let handlers = call.registered(&REQUESTS)?;
    let handler = call.raw_field(handlers, "quit")?;
    if call.kind(handler) != Kind::Function {
        service(call)?.library.is_ending = true;
        return Ok(Next::returns(()));
    }
    // A service that has used up its memory must still be able to end.
    let code = compiled("ltask.quit_handler").unwrap_or_default();
    call.without_memory_limit(|call| call.create(Chunk::Text(code, c"=lio")))?;
    Ok(Next::call(0, then(|_: &mut Call<'_>, _: Outcome| Ok(())), 0))
}

/// `ltask.idle_handler(f)`: sets the idle handler of a service with an event descriptor (G2): `f` runs when there is
/// nothing to do, and usually blocks.
pub(super) fn idle_handler(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.kind(1) {
        Kind::None => drop(call.push(Nil)?),
        Kind::Nil | Kind::Function => {}
        _ => return Err(Fault::expected(1, "function")),
    }
    call.create(Register(&IDLE, Argument(1)))?;
    Ok(())
}

/// `core.poll_handler(f)`: sets a handler that runs after each batch if there are more messages, so that messages do
/// not delay I/O.
pub(super) fn poll_handler(call: &mut Call<'_>) -> Result<(), Fault> {
    call.create(Register(&POLL, Argument(1)))?;
    service(call)?.library.polls_io = true;
    Ok(())
}
