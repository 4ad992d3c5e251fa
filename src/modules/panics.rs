//! `lio.panics`, only in builds with the feature `panics`: `make panics` makes each function that the library binds
//! panic, in the executable and in stock Lua.

use crate::lua::library::Library;
use crate::lua::{Call, Fault, Function, Many, Module, panics};
use std::ffi::CStr;

/// `panics.after(n)`: makes the n-th function that is entered from now on panic. 0 switches this off.
fn after(call: &mut Call<'_>) -> Result<(), Fault> {
    panics::after(call.integer(1)?);
    Ok(())
}

/// `panics.modules()`: returns the names of the native modules.
fn modules<L: Library>(_: &mut Call<'_>) -> Result<Many<&'static str>, Fault> {
    let names = L::NATIVES.iter().map(|(name, _)| *name);
    Ok(Many(names.collect()))
}

/// Opens `lio.panics`.
pub(crate) const fn open<L: Library>() -> Function {
    Function::new(|_: &mut Call<'_>| {
        Ok(Module(
            const { &[(c"after" as &CStr, Function::new(after)), (c"modules" as &CStr, Function::new(modules::<L>))] },
        ))
    })
}
