//! Answers as a client reads them, for `lualib/lio/http/client`.
//!
//! - `incoming.rs`: one answer after another on a stream, body by body
//! - `lua.rs`: what Lua sees: `http.answers`
//!
//! Heads are `codec::http1::reply`'s.

mod incoming;
mod lua;

pub(crate) use lua::answers;
