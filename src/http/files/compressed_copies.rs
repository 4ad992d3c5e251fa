//! Compressed copies beside a file (`.br` and `.gz`), and the choice of the copy for a client.
//!
//! Invariant: a copy older than its file is outdated, and is not sent.

use crate::codec::accept_encoding;
use crate::codec::http1::request::RequestHead;
use crate::file::{Kind, Metadata, OpenFile, Refusal};
use std::collections::HashMap;

/// How long the absence of a copy is cached, in nanoseconds, and the maximum number of paths for which it is cached.
const ABSENT_FOR: u64 = 2_000_000_000;
const MAX_ABSENT: usize = 1000;

/// The codings that a client accepts, in order of preference.
pub(crate) type Accepted = [Option<&'static str>; 2];

/// Returns the codings that the client of a request accepts.
pub(crate) fn accepted(request: RequestHead<'_>) -> Accepted {
    request.joined(b"accept-encoding").map_or([None; 2], |field| accept_encoding::accepted(&field))
}

/// Returns the path of a file's compressed copy.
pub(super) fn path_of(path: &[u8], coding: &str) -> Vec<u8> {
    let ending: &[u8] = if coding == "br" { b".br" } else { b".gz" };
    [path, ending].concat()
}

/// Whether a file is an up-to-date copy of another file.
pub(super) fn is_copy(metadata: &Metadata, original: &Metadata) -> bool {
    metadata.kind == Kind::File && metadata.seconds >= original.seconds
}

/// Returns the copy that the client prefers, and its coding.
pub(crate) fn find_copy(
    mut open: impl FnMut(&[u8]) -> Result<OpenFile, Refusal>, path: &[u8], original: &Metadata, accepted: Accepted,
) -> Option<(OpenFile, &'static str)> {
    accepted.into_iter().flatten().find_map(|coding| {
        let copy = open(&path_of(path, coding)).ok()?;
        is_copy(copy.metadata(), original).then_some((copy, coding))
    })
}

/// The paths that have no compressed copy, and when each entry expires, in nanoseconds.
#[derive(Default)]
pub(crate) struct MissingCopies(HashMap<Box<[u8]>, u64>);

impl MissingCopies {
    pub(crate) fn contains(&self, path: &[u8], now: u64) -> bool {
        self.0.get(path).is_some_and(|until| now < *until)
    }

    pub(crate) fn insert(&mut self, path: &[u8], now: u64) {
        if self.0.len() >= MAX_ABSENT && !self.0.contains_key(path) {
            self.0.clear();
        }
        self.0.insert(path.into(), now + ABSENT_FOR);
    }
}
