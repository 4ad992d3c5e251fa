//! The HTTP/1 codec: bytes in, plain data out, and back again.
//!
//! The codec knows no socket and no Lua state; the glue (`exchange`, and what Lua sees) calls it with
//! slices of a connection's read buffer and with its write queue. The invariant of the whole folder: whatever a peer sends, the answer is a value or a [`status::Reject`],
//! never a panic, and the work done is linear in the bytes received, however they are split.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`head`] | request line, header section, framing decision | 9112 sections 2, 3, 6, 9 |
//! | [`fields`] | strict field lines, shared by heads and trailers | 9112 section 5 |
//! | [`body`] | chunked transfer coding, decoding | 9112 section 7.1 |
//! | [`multipart`] | forms with files, decoding | 2046 section 5.1, 7578 |
//! | [`disposition`] | the parameters of their headers | 7578 section 4.2 |
//! | [`spool`] | temporary files for uploads | |
//! | [`response`] | response heads and chunks, encoding | 9112 sections 4, 6, 7.1 |
//! | [`status`] | reason phrases, and why a request is refused | 9110 section 15 |
//! | [`date`] | the `Date` value, formatted once a second | 9110 section 5.6.7 |
//! | [`conditional`] | conditional requests | 9110 section 13 |
//! | [`range`] | `Range` fields | 9110 section 14 |
//! | [`coding`] | `Accept-Encoding` | 9110 section 12.5.3 |
//! | [`media`] | media types by file names | |
//! | [`uri`] | percent-encoding, query strings, path normalisation | 3986 sections 2, 6.2.2 |
//! | [`router`] | patterns to routes | |
//! | `exchange` | one connection's requests and answers on its stream | 9112 section 9 |
//! | `client` | the other side: answers as a client reads them | 9112 sections 4, 6 |
//! | `json` | Lua values to JSON text and back: `lio.json` | 8259 |
//! | `connection`, `state`, `intake`, `step` | an exchange as Lua holds it, and its methods | |
//! | `keeper`, `gate`, `life` | a server's connections: how they come, wait and go | |
//! | `due`, `serve`, `finish`, `tools` | from request to request, calling handlers | |
//! | `site`, `precompressed` | small files of a folder, answered at once | |
//! | `request`, `routes`, `select`, `form`, `list`, `lua` | the rest of what Lua sees: `lio.http` | |

pub(crate) mod answer;
pub(crate) mod body;
mod client;
pub(crate) mod coding;
pub(crate) mod conditional;
pub(crate) mod connection;
pub(crate) mod date;
pub(crate) mod disposition;
pub(crate) mod due;
pub(crate) mod exchange;
pub(crate) mod fields;
mod finish;
pub(crate) mod form;
mod gate;
pub(crate) mod head;
mod intake;
pub(crate) mod json;
mod keeper;
mod life;
mod list;
pub(crate) mod lua;
pub(crate) mod media;
pub(crate) mod multipart;
mod precompressed;
pub(crate) mod range;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod router;
pub(crate) mod routes;
pub(crate) mod select;
mod serve;
mod site;
pub(crate) mod spool;
mod state;
pub(crate) mod status;
mod step;
mod tools;
pub(crate) mod uri;

#[cfg(test)]
mod tests;
