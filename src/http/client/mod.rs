//! The client's side of HTTP, a state machine without Lua.
//!
//! - `responses.rs`: one response after another on a connection, body by body
//!
//! Heads are `codec::http1::response_head`'s, bodies `codec::http1::body`'s.

pub(crate) mod responses;
#[cfg(test)]
mod tests;

use crate::stream::{Filled, Stream};
use std::io;

/// What responses are read from.
pub(crate) trait Input {
    /// The bytes that were read and not consumed.
    fn buffered(&self) -> &[u8];
    /// Drops the first `count` of them.
    fn consume(&mut self, count: usize);
    /// Reads once, with room for at least `want` bytes.
    fn fill(&mut self, want: usize) -> io::Result<Filled>;
    /// Whether more can come: neither side has closed.
    fn is_open(&self) -> bool;
}

impl Input for Stream {
    fn buffered(&self) -> &[u8] {
        self.buffered()
    }
    fn consume(&mut self, count: usize) {
        self.consume(count);
    }
    fn fill(&mut self, want: usize) -> io::Result<Filled> {
        self.fill(want)
    }
    fn is_open(&self) -> bool {
        !self.has_ended() && !self.is_closed()
    }
}
