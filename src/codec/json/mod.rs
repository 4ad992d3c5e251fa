//! JSON (RFC 8259): the text of single values, and texts to the nodes that they are made of.

mod read;
mod write;

pub(crate) use read::{Node, Nodes, parse};
pub(crate) use write::{NotUtf8, put_float, put_integer, put_string};

/// How many arrays and objects may lie inside one another: what is read, so that all that is written can be read back.
pub(crate) const DEPTH: u32 = 127;
