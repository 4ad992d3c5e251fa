//! Packed values: what Lua values are on their way from one VM to another, in one process.
//!
//! [`Writer`] takes values and the content of tables one by one, [`Reader`] gives them back as items. Tables that come twice
//! are written once, and nesting of any depth needs no deep stack at either end: see `format`.

mod format;
mod read;
mod seen;
#[cfg(test)]
mod tests;
mod write;

#[cfg(test)]
use read::Corrupt;
pub(crate) use read::{Item, Origin, Reader, Shape};
pub(crate) use write::{Exhausted, Found, Value, Writer};
