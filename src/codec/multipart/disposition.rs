//! Parser of the parameters of `Content-Type` and of a part's `Content-Disposition` (RFC 7578 section 4.2).
//!
//! Invariant: ambiguous values are refused. A repeated parameter is refused with 400, and so is text that is not a
//! parameter, because other readers might interpret them differently.

use crate::codec::http1::fields::is_token_byte;
use crate::codec::http1::reject::Reject;
use crate::codec::uri;
use std::borrow::Cow;

/// The maximum length of a boundary in bytes (RFC 2046 section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The content of a part's `Content-Disposition`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Disposition {
    /// The form field's name, decoded; may be empty.
    pub(crate) name: Vec<u8>,
    /// The file's name as sent by the client, decoded. It must never be used as a path.
    pub(crate) filename: Option<Vec<u8>>,
}

/// One parameter, `name=value`. `value` does not include its quotes, but is still escaped.
struct Parameter<'a> {
    name: &'a [u8],
    value: &'a [u8],
    quoted: bool,
}

const MALFORMED: Reject = Reject::bad("malformed header parameter");

/// Returns the boundary in the value of `Content-Type`.
///
/// # Errors
/// 415 if the type is not `multipart/form-data`; 400 if it has no valid boundary.
pub(crate) fn boundary(content_type: &[u8]) -> Result<Cow<'_, [u8]>, Reject> {
    let end = content_type.iter().position(|b| matches!(b, b';' | b' ' | b'\t')).unwrap_or(content_type.len());
    let (kind, rest) = content_type.split_at(end);
    if !kind.eq_ignore_ascii_case(b"multipart/form-data") {
        return Err(Reject::new(415, "expected a multipart form"));
    }
    let [Some(Parameter { value, quoted, .. })] = parameters(rest, [b"boundary"])? else {
        return Err(Reject::bad("the form's boundary is missing"));
    };
    let value = if quoted && value.contains(&b'\\') { Cow::Owned(unquote(value)) } else { Cow::Borrowed(value) };
    if is_boundary(&value) { Ok(value) } else { Err(Reject::bad("malformed boundary")) }
}

/// Parses the value of a part's `Content-Disposition`. `filename*` has precedence over `filename`; unknown parameters
/// are skipped.
///
/// # Errors
/// 400 if the value is malformed, is not `form-data`, or has no name.
pub(crate) fn disposition(value: &[u8]) -> Result<Disposition, Reject> {
    let (kind, rest) = take_token(value);
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err(Reject::bad("a part of the form is not form-data"));
    }
    let [name, plain, extended] = parameters(rest, [b"name", b"filename", b"filename*"])?;
    let text = |parameter: Parameter<'_>| match parameter.quoted {
        true => form_text(parameter.value),
        false => parameter.value.to_vec(),
    };
    let Some(name) = name.map(text) else {
        return Err(Reject::bad("a part of the form has no name"));
    };
    let filename = match extended {
        Some(Parameter { quoted: true, .. }) => return Err(Reject::bad("malformed filename*")),
        Some(parameter) => Some(extended_text(parameter.value)?),
        None => plain.map(text),
    };
    Ok(Disposition { name, filename })
}

fn skip_space(text: &[u8]) -> &[u8] {
    let from = text.iter().position(|b| !matches!(b, b' ' | b'\t'));
    &text[from.unwrap_or(text.len())..]
}

fn take_token(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&b| !is_token_byte(b));
    text.split_at(end.unwrap_or(text.len()))
}

/// Splits `text`, which follows an opening quote, into the content of the quoted string and the text after the closing
/// quote.
fn take_quoted(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok((&text[..at], &text[at + 1..])),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(MALFORMED),
        }
    }
}

/// Splits `text` into its first parameter and the rest; `None` if there is no parameter. `text` starts after the first
/// word of the value, or after another parameter.
fn take_parameter(text: &[u8]) -> Result<Option<(Parameter<'_>, &[u8])>, Reject> {
    let text = match skip_space(text) {
        [] => return Ok(None),
        [b';', behind @ ..] => skip_space(behind),
        _ => return Err(MALFORMED),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let (name, behind) = take_token(text);
    let [b'=', behind @ ..] = behind else { return Err(MALFORMED) };
    let quoted = behind.first() == Some(&b'"');
    let (value, rest) = if quoted { take_quoted(&behind[1..])? } else { take_token(behind) };
    if name.is_empty() || value.is_empty() && !quoted {
        return Err(MALFORMED);
    }
    Ok(Some((Parameter { name, value, quoted }, rest)))
}

/// Finds the parameters with these names in `text`, which starts after the first word of the value. Refuses a name that
/// occurs twice.
fn parameters<'a, const N: usize>(mut text: &'a [u8], names: [&[u8]; N]) -> Result<[Option<Parameter<'a>>; N], Reject> {
    let mut found = [const { None }; N];
    while let Some((parameter, rest)) = take_parameter(text)? {
        text = rest;
        let place = names.iter().position(|name| parameter.name.eq_ignore_ascii_case(name));
        if place.is_some_and(|place| found[place].replace(parameter).is_some()) {
            return Err(Reject::bad("duplicate header parameter"));
        }
    }
    Ok(found)
}

/// Whether `boundary` is valid (RFC 2046 section 5.1.1).
fn is_boundary(boundary: &[u8]) -> bool {
    let is_allowed = |b: &u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(b);
    (1..=MAX_BOUNDARY).contains(&boundary.len()) && boundary.iter().all(is_allowed) && !boundary.ends_with(b" ")
}

/// Decodes `rest` byte by byte: `take` gets a byte and the bytes after it, and returns the decoded byte and the bytes
/// that remain.
fn decoded(mut rest: &[u8], take: impl Fn(u8, &[u8]) -> (u8, &[u8])) -> Vec<u8> {
    let mut out = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        let (byte, behind) = take(*first, behind);
        out.push(byte);
        rest = behind;
    }
    out
}

/// Decodes the text of a quoted string (RFC 9110 section 5.6.4).
fn unquote(value: &[u8]) -> Vec<u8> {
    decoded(value, |first, behind| match (first, behind) {
        (b'\\', [escaped, behind @ ..]) => (*escaped, behind),
        _ => (first, behind),
    })
}

/// Decodes a name or file name as browsers and curl write it. A backslash escapes a quote or a backslash; otherwise it
/// is part of the name, as in the paths that old browsers send. Browsers write `%22`, `%0D` and `%0A` for a quote and
/// for line ends; any other `%` is an ordinary character.
fn form_text(value: &[u8]) -> Vec<u8> {
    decoded(value, |first, behind| match (first, behind) {
        (b'\\', [escaped @ (b'"' | b'\\'), behind @ ..]) => (*escaped, behind),
        (b'%', [b'2', b'2', behind @ ..]) => (b'"', behind),
        (b'%', [b'0', b'D' | b'd', behind @ ..]) => (b'\r', behind),
        (b'%', [b'0', b'A' | b'a', behind @ ..]) => (b'\n', behind),
        _ => (first, behind),
    })
}

/// Decodes the value of `filename*`: `charset'language'percent-encoded` (RFC 5987 section 3.2). Returns UTF-8.
fn extended_text(value: &[u8]) -> Result<Vec<u8>, Reject> {
    const BAD: Reject = Reject::bad("malformed filename*");
    let mut parts = value.splitn(3, |&b| b == b'\'');
    let (Some(charset), Some(_), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(BAD);
    };
    let mut bytes = Vec::new();
    uri::percent_decode(text, false, &mut bytes).map_err(|_| BAD)?;
    if charset.eq_ignore_ascii_case(b"utf-8") {
        return String::from_utf8(bytes).map(String::into_bytes).map_err(|_| BAD);
    }
    if charset.eq_ignore_ascii_case(b"iso-8859-1") {
        let text: String = bytes.into_iter().map(char::from).collect();
        return Ok(text.into_bytes());
    }
    Err(BAD)
}
