//! `lio.memory`, for the library: returns memory that is not in use to the system.

use crate::lua::{Call, Fault, Function, FunctionTable, Module, functions};

const FUNCTIONS: FunctionTable = functions! { release };

/// Opens the module.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));

/// `memory.release()`: returns the free memory of this VM, and of the process's heap, to the system. Collect garbage
/// before.
fn release(call: &mut Call<'_>) -> Result<(), Fault> {
    call.release_memory();
    Ok(())
}
