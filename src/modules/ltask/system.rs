//! System messages, which `ltask.syscall` sends to the service library itself.

use super::handlers::{empty_table, quit};
use super::{callbacks, start};
use crate::lua::{Argument, Call, Fault, Function, Kind, Register, RegistryName};

/// The handlers of system messages that are not built in, if there are any.
pub(super) static SYSTEM_CALLS: RegistryName = RegistryName::new();

/// `core.system_calls()`: returns the table of handlers of system messages.
pub(super) fn system_calls(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let mut table = call.registered(&SYSTEM_CALLS)?;
    if call.kind(table) != Kind::Table {
        table = call.create(Register(&SYSTEM_CALLS, empty_table()))?;
    }
    Ok(Argument(table))
}

/// Pushes the handler of the system message whose name is at index 1. Returns whether there is a handler.
pub(super) fn push_system_call(call: &mut Call<'_>) -> Result<bool, Fault> {
    let height = call.count();
    let table = call.registered(&SYSTEM_CALLS)?;
    let handler = call.get(table, 1)?;
    if call.kind(handler) == Kind::Function {
        return Ok(true);
    }
    call.drop_to(height);
    let handler = match call.string(1) {
        Some(b"init") => Function::new(start::init),
        Some(b"quit") => Function::new(quit),
        Some(b"inspect") => Function::new(|call: &mut Call<'_>| callbacks::call_named(call, "inspect")),
        Some(b"tasks") => Function::new(|call: &mut Call<'_>| callbacks::call_named(call, "tasks")),
        Some(b"watch") => Function::new(|call: &mut Call<'_>| callbacks::call_named(call, "watch")),
        _ => return Ok(false),
    };
    call.push(handler)?;
    Ok(true)
}
