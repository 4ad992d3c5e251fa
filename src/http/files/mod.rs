//! Files as answers: which file a path names, which of its copies a client gets, and what of it.
//!
//! | file | topic |
//! |---|---|
//! | `site` | a folder that is served |
//! | `validators` | entity tag and date; conditions and ranges of a request |
//! | `copies` | compressed copies beside a file, `.br` and `.gz` |
//! | `cache` | the content of small files |
//!
//! Nothing here waits but on the disk, knows a connection, or reads a clock.

#![forbid(unsafe_code)]

mod cache;
mod copies;
mod site;
#[cfg(test)]
mod tests;
mod validators;

pub(crate) use copies::{accepted, find_copy};
pub(crate) use site::{Options, Representation, Site};
pub(crate) use validators::{Choice, Validators};
