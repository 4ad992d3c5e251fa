//! `lio.memory`, for the library: returns memory that is not in use to the system, and measures it.

use crate::lua::{Call, Fault, Function, FunctionTable, Module, functions};
use crate::memory;

const FUNCTIONS: FunctionTable = functions! { release, unused };

/// Opens the module.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));

/// `memory.release()`: returns the free memory of this VM, and of the process's heap, to the system. Collect garbage
/// before.
fn release(call: &mut Call<'_>) -> Result<(), Fault> {
    call.release_memory();
    Ok(())
}

/// `memory.unused()`: returns how many bytes of resident memory belong to no block of the process's heap, or nil if the
/// system does not say.
fn unused(_: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    Ok(memory::unused_heap().and_then(|bytes| i64::try_from(bytes).ok()))
}
