//! Percent-encoding, query strings and path normalisation (RFC 3986 sections 2 and 6.2.2).
//!
//! Used by the HTTP server, the router and the Lua library. Invariant: decoding is exact. An escape is `%` and two
//! hexadecimal digits; any other `%` is an error and is never copied. `+` is decoded to a space only if the caller
//! requests this.

/// A `%` without two hexadecimal digits after it. In the path of a request, it is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEscape;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Returns the first offset of `byte`. Most parts of requests are too short for a vectorized search to pay off.
pub(crate) fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() < 24 { bytes.iter().position(|other| *other == byte) } else { memchr::memchr(byte, bytes) }
}

/// Whether [`percent_decode`] would change `bytes` or fail.
pub(crate) fn needs_decode(bytes: &[u8], plus_is_space: bool) -> bool {
    if plus_is_space { memchr::memchr2(b'%', b'+', bytes).is_some() } else { memchr::memchr(b'%', bytes).is_some() }
}

/// Appends `bytes` to `out` with each `%xx` replaced by its byte. If `plus_is_space`, each `+` becomes a space, which
/// is correct in queries and form bodies only.
///
/// # Errors
/// [`BadEscape`] if an escape is invalid; `out` then contains the decoded bytes before it.
pub(crate) fn percent_decode(bytes: &[u8], plus_is_space: bool, out: &mut Vec<u8>) -> Result<(), BadEscape> {
    out.reserve(bytes.len());
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match first {
            b'%' => (escaped(rest)?, &rest[3..]),
            b'+' if plus_is_space => (b' ', behind),
            other => (*other, behind),
        };
        out.push(byte);
        rest = behind;
    }
    Ok(())
}

/// Appends `bytes` to `out` with all bytes escaped except unreserved characters, in upper-case hexadecimal.
pub(crate) fn percent_encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    for &byte in bytes {
        if is_unreserved(byte) { out.push(byte) } else { push_escape(byte, out) }
    }
}

/// Returns the pairs of a query string or form body in order, both sides still encoded: `&` separates pairs, the first
/// `=` separates key and value. A key without `=` has no value; empty pairs are skipped.
pub(crate) fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| match memchr::memchr(b'=', pair) {
        Some(equals) => (&pair[..equals], Some(&pair[equals + 1..])),
        None => (pair, None),
    })
}

/// Whether a raw path that the head parser has accepted is its own normal form: it has no escapes and no bytes beyond
/// ASCII.
pub(crate) fn path_is_plain(raw: &[u8]) -> bool {
    raw.is_ascii() && find_byte(b'%', raw).is_none()
}

/// Returns the normal form of a raw path: the path itself, or the bytes written to `scratch`. Returns `None` if an
/// escape is invalid.
#[inline]
pub(crate) fn normal_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if path_is_plain(raw) {
        return Some(raw);
    }
    scratch.clear();
    normalize_path(raw, scratch).ok()?;
    Some(scratch)
}

/// Appends the normal form of a raw path to `out`. Escaped unreserved characters are decoded, and other escapes are
/// kept in upper case (`%2f` is not a separator). Bytes that a path cannot contain, such as those beyond ASCII, are
/// escaped. The result is ASCII. Dot segments are kept.
///
/// # Errors
/// [`BadEscape`] if an escape is invalid; `out` then contains the normal form of the bytes before it.
pub(crate) fn normalize_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), BadEscape> {
    out.reserve(raw.len());
    let mut rest = raw;
    while let [first, behind @ ..] = rest {
        let (byte, stays, behind) = match first {
            b'%' => {
                let byte = escaped(rest)?;
                (byte, is_unreserved(byte), &rest[3..])
            }
            byte => (*byte, byte.is_ascii_graphic(), behind),
        };
        if stays {
            out.push(byte)
        } else {
            push_escape(byte, out)
        }
        rest = behind;
    }
    Ok(())
}

/// Returns the value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Decodes the escape at the start of `bytes`.
#[inline]
fn escaped(bytes: &[u8]) -> Result<u8, BadEscape> {
    let [b'%', high, low, ..] = bytes else { return Err(BadEscape) };
    match (digit(*high), digit(*low)) {
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err(BadEscape),
    }
}

#[inline]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    out.extend_from_slice(&[b'%', digits[0], digits[1]]);
}

/// Whether `byte` is an unreserved character, which means the same with and without escaping (RFC 3986 section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
