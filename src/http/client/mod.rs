//! Answers as a client reads them, for `lualib/lio/http/client`.
//!
//! - `head.rs`: status line, header section, and how the body ends (RFC 9112 sections 4, 5, 6.3)
//! - `incoming.rs`: one answer after another on a stream, body by body
//! - `lua.rs`: what Lua sees: `http.answers`
//!
//! As strict as the server's side: what could be read in two ways is a fault and never a guess, since a
//! misread answer on a connection that is used again answers somebody else's request.

mod head;
mod incoming;
mod lua;
#[cfg(test)]
mod tests;

pub(crate) use lua::answers;
