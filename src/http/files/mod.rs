//! Files as responses: the file that a path names, which of its copies a client gets, and which part of it.
//!
//! | file | topic |
//! |---|---|
//! | `site` | a served folder |
//! | `validators` | entity tag and date; conditions and ranges of a request |
//! | `compressed_copies` | compressed copies beside a file, `.br` and `.gz` |
//! | `cache` | the content of small files |
//!
//! This folder waits only for the disk. It uses no connection and reads no clock.

#![forbid(unsafe_code)]

mod cache;
mod compressed_copies;
mod site;
#[cfg(test)]
mod tests;
mod validators;

pub(crate) use compressed_copies::{accepted, find_copy};
pub(crate) use site::{Options, Representation, Site};
pub(crate) use validators::{Choice, Validators};
