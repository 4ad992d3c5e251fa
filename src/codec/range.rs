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

/// What a `Range` field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All of it: the field is to be ignored.
    Whole,
    /// So many of the spans.
    Parts(usize),
    /// Nothing that is there: 416.
    Nothing,
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

/// Reads a `Range` field for a representation of `size` bytes; the spans go to `out`.
///
/// A unit but bytes, and what is malformed, counts as if it were not there (section 14.2); so do more
/// than [`MOST`] ranges, ranges that overlap, and a suffix of nothing.
pub(crate) fn select(field: &[u8], size: u64, out: &mut [Span; MOST]) -> Selection {
    let Some(equals) = memchr::memchr(b'=', field) else {
        return Selection::Whole;
    };
    if !field[..equals].eq_ignore_ascii_case(b"bytes") {
        return Selection::Whole;
    }
    let (mut asked, mut used) = (0, 0);
    for text in field[equals + 1..].split(|&byte| byte == b',') {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let Some(spec) = spec(text) else {
            return Selection::Whole;
        };
        asked += 1;
        if asked > MOST || matches!(spec, Spec::Last(1..)) && size == 0 {
            return Selection::Whole;
        }
        let Some(span) = span(spec, size) else {
            continue;
        };
        if out[..used].iter().any(|&other| overlap(span, other)) {
            return Selection::Whole;
        }
        out[used] = span;
        used += 1;
    }
    match (asked, used) {
        (0, _) => Selection::Whole,
        (_, 0) => Selection::Nothing,
        _ => Selection::Parts(used),
    }
}

/// Spans for [`select`] to fill.
pub(crate) const fn spans() -> [Span; MOST] {
    [Span { first: 0, length: 0 }; MOST]
}
