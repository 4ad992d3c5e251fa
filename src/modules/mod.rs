//! The modules that Lua gets from `require`: thin bindings, one file for each.

pub(crate) mod stream;
pub(crate) mod timer;
