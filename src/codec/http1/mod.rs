//! HTTP/1 messages (RFC 9112): heads, fields and bodies, as servers and clients read and write them.
//!
//! Both sides are equally strict: an ambiguous message is refused. On a reused connection, a misread message could be
//! taken for the response to another client's request.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`head`] | request line, header section, framing decision | 9112 sections 2, 3, 6, 9 |
//! | [`request`] | access to the parts of a request head | 9112 sections 3, 5 |
//! | [`response_head`] | heads of responses, as a client reads them | 9112 sections 4, 6.3 |
//! | [`fields`] | strict field lines and their limits (bytes, number), shared by heads and trailers | 9112 section 5 |
//! | [`stored_section`] | access to the fields of a stored section | 9112 section 5 |
//! | [`body`] | a body that is received, with any framing | 9112 section 6 |
//! | [`chunked`] | chunked transfer coding, decoding | 9112 section 7.1 |
//! | [`mod@write`] | response heads and chunks, encoding | 9112 sections 4, 6, 7.1 |
//! | [`status`] | reason phrases | 9110 section 15 |
//! | [`reject`] | refusals of messages | |
//! | `fuzz` | targets of fuzzers | |

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod fields;
pub(crate) mod head;
pub(crate) mod reject;
pub(crate) mod request;
pub(crate) mod response_head;
pub(crate) mod status;
pub(crate) mod stored_section;
pub(crate) mod write;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
