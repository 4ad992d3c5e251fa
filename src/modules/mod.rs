//! The modules that Lua gets from `require`: thin bindings, one file for each.

pub(crate) mod compress;
pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod outlet;
pub(crate) mod resolver;
pub(crate) mod socket;
#[allow(unsafe_code)] // bridge
pub(crate) mod stream;
pub(crate) mod timer;
