//! `Range` fields (RFC 9110 section 14).
//!
//! Invariant: the selected ranges are within the representation, in the order of the request, do not overlap, and are
//! few, so that a request for ranges is never more expensive than a request for the whole file.

/// The maximum number of ranges in one response.
pub(crate) const MAX_RANGES: usize = 32;

/// A range of bytes of the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    /// The length in bytes, at least 1.
    pub(crate) length: u64,
}

/// One element of a range set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    From(u64, u64),
    Last(u64),
}

/// Parses a `Range` field for a representation of `size` bytes. Returns the requested ranges, without those outside the
/// representation; the list is empty if all are outside. Returns `None` if the field must be ignored.
///
/// A field must be ignored if its unit is not bytes, if it is malformed (RFC 9110 section 14.2), or if it has more than
/// [`MAX_RANGES`] ranges, overlapping ranges, or a suffix range of an empty representation.
pub(crate) fn parse(field: &[u8], size: u64) -> Option<Vec<Span>> {
    let equals = memchr::memchr(b'=', field)?;
    if !field[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let (mut count, mut found) = (0, Vec::new());
    for text in field[equals + 1..].split(|&byte| byte == b',') {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let spec = spec(text)?;
        count += 1;
        if count > MAX_RANGES || matches!(spec, Spec::Last(1..)) && size == 0 {
            return None;
        }
        let Some(span) = span(spec, size) else { continue };
        if found.iter().any(|&other| overlap(span, other)) {
            return None;
        }
        found.push(span);
    }
    (count > 0).then_some(found)
}

/// Parses a decimal number. Numbers beyond 64 bits become the largest `u64`.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = text.iter().map(|digit| u64::from(digit - b'0'));
    Some(digits.fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(digit)))
}

/// Parses `first-`, `first-last` or `-length`.
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

/// Returns the part of a range that is within a representation of `size` bytes; `None` if this part is empty.
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
