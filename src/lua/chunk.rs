//! Chunks of Lua code, as functions.

use super::returns::{Push, Pusher};
use std::ffi::CStr;

/// Lua code, pushed as the function that runs it. A syntax error is raised with Lua's own message.
#[derive(Clone, Copy)]
pub(crate) enum Chunk<'a> {
    /// Lua text or a precompiled chunk, and the chunk name for error messages.
    Text(&'a [u8], &'a CStr),
    /// The path of a file with Lua text or a precompiled chunk; `None` is standard input.
    File(Option<&'a CStr>),
}

impl Push for Chunk<'_> {
    fn push(&mut self, mut to: Pusher<'_>) {
        match self {
            Chunk::Text(text, name) => to.push_code(text, name, None),
            Chunk::File(path) => to.push_file(*path),
        }
    }
}
