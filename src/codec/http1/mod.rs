//! HTTP/1: heads, fields and bodies, as a server and as a client read and write them (RFC 9112).
//!
//! As strict on one side as on the other: what could be read in two ways is refused and never guessed, since a misread
//! message on a connection that is used again answers another client's request.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`head`] | request line, header section, framing decision | 9112 sections 2, 3, 6, 9 |
//! | [`request`] | a request's head and its bytes, read by name | 9112 sections 3, 5 |
//! | [`response_head`] | heads of responses, as a client reads them | 9112 sections 4, 6.3 |
//! | [`fields`] | strict field lines, shared by heads and trailers | 9112 section 5 |
//! | [`section`] | fields of a section that is kept as its bytes | 9112 section 5 |
//! | [`body`] | a body as it comes in, whatever its framing | 9112 section 6 |
//! | [`chunked`] | chunked transfer coding, decoding | 9112 section 7.1 |
//! | [`write`] | response heads and chunks, encoding | 9112 sections 4, 6, 7.1 |
//! | [`status`] | reason phrases, and why a request is refused | 9110 section 15 |

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod fields;
pub(crate) mod head;
pub(crate) mod request;
pub(crate) mod response_head;
pub(crate) mod section;
pub(crate) mod status;
pub(crate) mod write;

#[cfg(test)]
mod tests;
