//! `Range` fields, RFC 9110 section 14. Called by `select`.
//!
//! Invariant: what comes out lies within the representation, is sorted as it was asked for, does not
//! overlap, and is short: a request costs no more than the whole file would.

/// So many ranges are answered at most.
pub(crate) const MOST: usize = 32;

/// Bytes of the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    /// At least 1.
    pub(crate) length: u64,
}

/// One element of a range set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    From(u64, u64),
    Last(u64),
}

/// A decimal number; one beyond 64 bits counts as the largest.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = text.iter().map(|digit| u64::from(digit - b'0'));
    Some(digits.fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(digit)))
}

/// `first-`, `first-last` or `-length`.
fn spec(text: &[u8]) -> Option<Spec> {
    let dash = memchr::memchr(b'-', text)?;
    let (first, last) = (&text[..dash], &text[dash + 1..]);
    if first.is_empty() {
        return number(last).map(Spec::Last);
    }
    let first = number(first)?;
    if last.is_empty() {
        return Some(Spec::From(first, u64::MAX));
    }
    let last = number(last)?;
    (first <= last).then_some(Spec::From(first, last))
}

/// The part of a representation of `size` bytes, if there is one.
fn span(spec: Spec, size: u64) -> Option<Span> {
    match spec {
        Spec::From(first, _) if first >= size => None,
        Spec::From(first, last) => Some(Span { first, length: last.min(size - 1) - first + 1 }),
        Spec::Last(0) => None,
        Spec::Last(_) if size == 0 => None,
        Spec::Last(length) => Some(Span { first: size - length.min(size), length: length.min(size) }),
    }
}

fn overlap(one: Span, other: Span) -> bool {
    one.first < other.first + other.length && other.first < one.first + one.length
}

/// Reads a `Range` field for a representation of `size` bytes: the parts that it asks for, none when nothing of these is
/// there; `None` when the field is to be ignored.
///
/// A unit but bytes, and what is malformed, counts as if it were not there (section 14.2); so do more
/// than [`MOST`] ranges, ranges that overlap, and a suffix of nothing.
pub(crate) fn select(field: &[u8], size: u64) -> Option<Vec<Span>> {
    let equals = memchr::memchr(b'=', field)?;
    if !field[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let (mut asked, mut found) = (0, Vec::new());
    for text in field[equals + 1..].split(|&byte| byte == b',') {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let spec = spec(text)?;
        asked += 1;
        if asked > MOST || matches!(spec, Spec::Last(1..)) && size == 0 {
            return None;
        }
        let Some(span) = span(spec, size) else {
            continue;
        };
        if found.iter().any(|&other| overlap(span, other)) {
            return None;
        }
        found.push(span);
    }
    (asked > 0).then_some(found)
}
