//! Files as responses: the file that a path names, the compressed copy that a client prefers, and the part that is
//! sent.
//!
//! | file | topic |
//! |---|---|
//! | `site` | a served folder |
//! | `validators` | entity tag and date; conditions and ranges of a request |
//! | `compressed_copies` | compressed copies beside a file, `.br` and `.gz` |
//! | `cache` | the content of small files |
//! | `fuzz` | the target of a fuzzer |
//!
//! These functions block only on the disk. They use no connection and read no clock.

#![forbid(unsafe_code)]

mod cache;
mod compressed_copies;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod site;
#[cfg(test)]
mod tests;
mod validators;

pub(crate) use compressed_copies::{accepted, find_copy};
pub(crate) use site::{Options, Representation, Site};
pub(crate) use validators::{Choice, Validators};
