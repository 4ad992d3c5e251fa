//! What is built in, for raw code. // bridge

use crate::lua::library;
use crate::modules::Builtin;

pub(crate) use library::{compiled, push_compiled};

/// What prepares the VM of a service.
pub(crate) const SERVICE: &[crate::Function] = crate::modules::SERVICE;

/// An embedded Lua file: its text and its chunk's name.
pub(crate) fn text(module: &[u8]) -> Option<(&'static [u8], &'static str)> {
    let file = library::embedded(module)?;
    Some((file.text, file.chunk.to_str().unwrap_or("=lio")))
}

/// Whether a service finds this module without a look at files.
pub(crate) fn is_for_services(name: &[u8]) -> bool {
    library::is_for_services::<Builtin>(name)
}
