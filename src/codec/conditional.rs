//! Conditional requests (RFC 9110 section 13): whether a GET or HEAD request is answered with the representation, 304
//! or 412, and whether a range of the representation may be sent.
//!
//! Malformed dates are ignored. A malformed list of entity tags matches nothing.

use std::time::SystemTime;

/// The validators of a representation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// A strong entity tag with its quotes.
    pub(crate) tag: &'a [u8],
    /// The time of the last modification, in seconds since the Unix epoch.
    pub(crate) modified: u64,
    /// The time of the response, in seconds since the Unix epoch.
    pub(crate) now: u64,
}

/// The conditional fields of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions<'a> {
    pub(crate) if_match: Option<&'a [u8]>,
    pub(crate) if_none_match: Option<&'a [u8]>,
    pub(crate) if_modified_since: Option<&'a [u8]>,
    pub(crate) if_unmodified_since: Option<&'a [u8]>,
    pub(crate) if_range: Option<&'a [u8]>,
}

/// The result of evaluating the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send the representation, or the requested ranges of it.
    Send,
    /// Respond with 304 (Not Modified).
    NotModified,
    /// Respond with 412 (Precondition Failed).
    Failed,
}

/// How entity tags are compared (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Evaluates the conditions in the order of RFC 9110 section 13.2.2.
pub(crate) fn evaluate(conditions: &Conditions<'_>, known: &Validators<'_>) -> Verdict {
    let strong = |field| lists(field, known.tag, Comparison::Strong);
    let weak = |field| lists(field, known.tag, Comparison::Weak);
    let has_failed = match conditions.if_match {
        // A malformed list does not match, because `If-Match` requires certainty.
        Some(field) => strong(field) != Some(true),
        None => conditions.if_unmodified_since.and_then(date).is_some_and(|since| known.modified > since),
    };
    if has_failed {
        return Verdict::Failed;
    }
    let is_known = match conditions.if_none_match {
        Some(field) => weak(field) == Some(true),
        None => conditions.if_modified_since.and_then(date).is_some_and(|since| known.modified <= since),
    };
    if is_known { Verdict::NotModified } else { Verdict::Send }
}

/// Returns whether `Range` applies: either there is no `If-Range`, or it matches the representation exactly (RFC 9110
/// section 13.1.5).
pub(crate) fn allows_range(conditions: &Conditions<'_>, known: &Validators<'_>) -> bool {
    let Some(field) = conditions.if_range.map(<[u8]>::trim_ascii) else { return true };
    if let Some((weak, tag, rest)) = take_tag(field) {
        return !weak && rest.is_empty() && tag == known.tag;
    }
    // Within the second of its last modification, the representation can change again without a new date.
    date(field) == Some(known.modified) && known.modified < known.now
}

/// Splits the entity tag off the start of `text`. Returns whether the tag is weak, the tag with its quotes, and the
/// rest; `None` if `text` does not start with a tag.
fn take_tag(text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let (weak, rest) = match text.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let inner = rest.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inner)? + 2;
    Some((weak, &rest[..end], &rest[end..]))
}

/// Returns whether a list of entity tags contains `tag` or is `*`; `None` if the list is empty or malformed.
fn lists(field: &[u8], tag: &[u8], comparison: Comparison) -> Option<bool> {
    if field.trim_ascii() == b"*" {
        return Some(true);
    }
    let mut rest = field;
    let (mut found, mut any) = (false, false);
    loop {
        rest = rest.trim_ascii_start();
        while let [b',', behind @ ..] = rest {
            rest = behind.trim_ascii_start();
        }
        if rest.is_empty() {
            return any.then_some(found);
        }
        let (weak, other, behind) = take_tag(rest)?;
        any = true;
        found |= other == tag && !(weak && comparison == Comparison::Strong);
        rest = behind.trim_ascii();
        if !rest.is_empty() && rest[0] != b',' {
            return None;
        }
    }
}

/// Parses an HTTP date into seconds since the Unix epoch. Dates before the epoch become 0.
fn date(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field.trim_ascii()).ok()?;
    let when = httpdate::parse_http_date(text).ok()?;
    let since = when.duration_since(SystemTime::UNIX_EPOCH);
    Some(since.map_or(0, |since| since.as_secs()))
}
