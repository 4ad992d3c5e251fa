//! JSON (RFC 8259): writing strings and numbers, and parsing texts into nodes.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod read;
mod write;

pub(crate) use read::{Node, Nodes, parse};
pub(crate) use write::{NotUtf8, put_float, put_integer, put_string};

/// The maximum depth of nested arrays and objects. The limit is the same for parsing and for writing, so that every
/// written text can be parsed.
pub(crate) const MAX_DEPTH: u32 = 127;
