//! The memory of a VM: what Lua allocates from, with a limit and statistics. Only the allocators of `lua::vm_context`
//! call it. It does not depend on Lua.
//!
//! | file | topic |
//! |---|---|
//! | `arena` | [`Memory`], for VMs of services; [`general`], for the executable's VM (mimalloc and malloc(3)) |
//! | `usage` | statistics and limit of a memory |

#[allow(unsafe_code)]
mod arena;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
mod usage;

pub(crate) use arena::Memory;
#[cfg(feature = "vendored")]
pub(crate) use arena::general;
pub(crate) use usage::KIND_NAMES;
