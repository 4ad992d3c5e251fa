//! Percent-encoding, query strings and path normalisation, RFC 3986 sections 2 and 6.2.2.
//!
//! Called by the HTTP glue, by the router for the literal parts of patterns, and by the Lua
//! library. Invariant: decoding is exact: an escape is `%` and two hexadecimal digits, anything
//! else is an error and never passed through, and `+` is a space only where the caller says so.

/// A `%` without two hexadecimal digits behind it; answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEscape;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The byte that the escape at the start of `bytes` stands for.
#[inline]
fn escaped(bytes: &[u8]) -> Result<u8, BadEscape> {
    let [b'%', high, low, ..] = bytes else {
        return Err(BadEscape);
    };
    match (digit(*high), digit(*low)) {
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err(BadEscape),
    }
}

/// The first place of `byte`. Most of what requests consist of is shorter than a look with vectors is worth.
pub(crate) fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() < 24 { bytes.iter().position(|other| *other == byte) } else { memchr::memchr(byte, bytes) }
}

/// Unreserved characters mean the same escaped or not (RFC 3986 section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[inline]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    out.extend_from_slice(&[b'%', digits[0], digits[1]]);
}

/// Whether [`percent_decode`] would give anything but a copy.
pub(crate) fn needs_decode(bytes: &[u8], plus_is_space: bool) -> bool {
    if plus_is_space { memchr::memchr2(b'%', b'+', bytes).is_some() } else { memchr::memchr(b'%', bytes).is_some() }
}

/// Appends `bytes` to `out` with each `%xx` replaced by the byte it stands for; and each `+` by a
/// space when `plus_is_space`, which is right in queries and form bodies only.
///
/// # Errors
/// [`BadEscape`]; `out` then holds what came before it.
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

/// Appends `bytes` to `out` with all but unreserved characters escaped, in upper-case hexadecimal.
pub(crate) fn percent_encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    for &byte in bytes {
        if is_unreserved(byte) { out.push(byte) } else { push_escape(byte, out) }
    }
}

/// The pairs of a query string or form body in order, both sides still encoded: `&` separates
/// pairs, the first `=` key from value. A key without `=` has no value; empty pairs are skipped.
pub(crate) fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| match memchr::memchr(b'=', pair) {
        Some(equals) => (&pair[..equals], Some(&pair[equals + 1..])),
        None => (pair, None),
    })
}

/// Whether [`normalize_path`] would give a copy of a raw path that the head parser let through:
/// it has no escapes and no bytes beyond ASCII.
pub(crate) fn path_is_plain(raw: &[u8]) -> bool {
    raw.is_ascii() && find_byte(b'%', raw).is_none()
}

/// A raw path in its normal form: itself, or what is written to `scratch`. `None` for a bad escape.
#[inline]
pub(crate) fn normal_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if path_is_plain(raw) {
        return Some(raw);
    }
    scratch.clear();
    normalize_path(raw, scratch).ok()?;
    Some(scratch)
}

/// Appends the normal form of a raw path to `out`: escaped unreserved characters are decoded,
/// other escapes kept in upper case (`%2f` is not a separator), and bytes that no path may have,
/// those beyond ASCII among them, are escaped. The result is ASCII. Dot segments stay.
///
/// # Errors
/// [`BadEscape`]; `out` then holds what came before it.
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
