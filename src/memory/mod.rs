//! The memory that a VM allocates from, with a limit and statistics. Only the allocators of `lua::vm_context` use this
//! folder. It does not depend on Lua.
//!
//! | file | topic |
//! |---|---|
//! | `arena` | [`Memory`], for VMs of services; [`general`], for the executable's VM (mimalloc and malloc(3)) |
//! | `trim` | returns free memory to the system, and measures it |
//! | `usage` | the statistics and the limit of a VM's memory |

#[allow(unsafe_code)]
mod arena;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
#[allow(unsafe_code)]
mod trim;
mod usage;

pub(crate) use arena::Memory;
#[cfg(feature = "vendored")]
pub(crate) use arena::general;
pub(crate) use trim::{trim_heap, unused_heap};
pub(crate) use usage::KIND_NAMES;
