//! Compressed copies beside a file, `.br` and `.gz`: which of them a client gets.
//!
//! Invariant: a copy that is older than its file is not what the file is now, and is not sent.

use crate::codec::accept_encoding;
use crate::codec::http1::request::RequestHead;
use crate::file::{Facts, Kind, OpenFile, Refusal};
use std::collections::HashMap;

/// Nanoseconds that a copy which is not there is not looked for again, and of how many paths.
const ABSENT_FOR: u64 = 2_000_000_000;
const ABSENT_MOST: usize = 1000;

/// The codings that a client takes, the one that it likes best first.
pub(crate) type Accepted = [Option<&'static str>; 2];

/// Those of the client of a request.
pub(crate) fn accepted(request: RequestHead<'_>) -> Accepted {
    request.joined(b"accept-encoding").map_or([None; 2], |field| accept_encoding::accepted(&field))
}

/// The path of a copy.
pub(super) fn path_of(path: &[u8], coding: &str) -> Vec<u8> {
    let ending: &[u8] = if coding == "br" { b".br" } else { b".gz" };
    [path, ending].concat()
}

/// Whether a file is a copy of another as that is now.
pub(super) fn is_copy(facts: &Facts, original: &Facts) -> bool {
    facts.kind == Kind::File && facts.seconds >= original.seconds
}

/// The copy that the client likes best, and its coding.
pub(crate) fn find_copy(
    mut open: impl FnMut(&[u8]) -> Result<OpenFile, Refusal>, path: &[u8], original: &Facts, accepted: Accepted,
) -> Option<(OpenFile, &'static str)> {
    accepted.into_iter().flatten().find_map(|coding| {
        let copy = open(&path_of(path, coding)).ok()?;
        is_copy(copy.facts(), original).then_some((copy, coding))
    })
}

/// The paths of which no copy was found lately, and until when (nanoseconds) that is believed.
#[derive(Default)]
pub(crate) struct Absent(HashMap<Box<[u8]>, u64>);

impl Absent {
    pub(crate) fn has(&self, path: &[u8], now: u64) -> bool {
        self.0.get(path).is_some_and(|until| now < *until)
    }

    pub(crate) fn note(&mut self, path: &[u8], now: u64) {
        if self.0.len() >= ABSENT_MOST && !self.0.contains_key(path) {
            self.0.clear();
        }
        self.0.insert(path.into(), now + ABSENT_FOR);
    }
}
