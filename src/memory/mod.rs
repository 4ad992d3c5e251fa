//! The memory of a VM: what Lua allocates from, with a limit and figures. Called by the allocators of `lua::home` alone,
//! and knows nothing of Lua.
//!
//! - `arena`: [`Memory`], for services, of which there are thousands: it is freed as a whole; [`general`], for the
//!   executable's VM: mimalloc and malloc(3)
//! - `usage`: figures and limit of a memory

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
