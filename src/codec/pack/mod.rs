//! Packed values: the form in which Lua values are sent between VMs of one process.
//!
//! [`Writer`] takes values and the contents of tables one by one; [`Reader`] returns them as items. Each table is
//! written once, even if it occurs several times, and neither side needs a deep stack for deep nesting: see `format`.
//!
//! | file | topic |
//! |---|---|
//! | `format` | the bytes |
//! | [`mod@write`] | values to bytes; a reference for a table that occurs again |
//! | [`read`] | bytes to values |
//! | `table_offsets` | the tables that were written |
//! | `fuzz` | the target of a fuzzer |

mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod read;
mod table_offsets;
#[cfg(test)]
mod tests;
mod write;

#[cfg(test)]
use read::Corrupt;
pub(crate) use read::{Item, Origin, Reader, Shape};
pub(crate) use write::{Exhausted, TableState, Value, Writer};
