//! The target `multipart` of the fuzzers.

use super::{Event, Limits, MAX_PART_FIELDS, Multipart, disposition};
use crate::codec::fuzz_input::{Input, pieces};
use crate::codec::http1::fuzz::{Refusal, model};

/// A part with its headers and its data. The fields are: name, file name, header fields, data.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: Vec<u8>,
    pub(crate) filename: Option<Vec<u8>>,
    fields: Fields,
    pub(crate) data: Vec<u8>,
}

/// The header fields of a part, as sent.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The result of a parser.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Form {
    /// The last part may be incomplete.
    pub(crate) parts: Vec<Part>,
    pub(crate) refusal: Option<Refusal>,
    /// Whether the last boundary has arrived.
    pub(crate) is_whole: bool,
}

/// Reads a body that arrives in these pieces. Returns `None` if the content type is refused.
fn received(content_type: &[u8], limits: Limits, pieces: &[&[u8]]) -> Option<Form> {
    let (mut parser, mut form) = (Multipart::new(content_type, limits).ok()?, Form::default());
    let boundary = parser.delimiter.needle().len();
    let (mut coming, mut steps, mut fed) = (pieces.iter(), 0, 0);
    let mut in_part = false;
    loop {
        steps += 1;
        match parser.next() {
            Err(reject) => {
                form.refusal = Some(reject.into());
                return Some(form);
            }
            Ok(Event::More) => {
                let Some(piece) = coming.next() else { break };
                parser.feed(piece);
                fed += piece.len();
                let kept = parser.bytes().len() - piece.len();
                assert!(kept <= boundary + 2 || kept <= limits.headers, "{kept} bytes are kept");
            }
            Ok(Event::Part) => {
                let part = parser.part();
                let fields = part.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                let (name, filename) = (part.disposition.name.clone(), part.disposition.filename.clone());
                form.parts.push(Part { name, filename, fields, data: Vec::new() });
                assert!(!in_part, "a part begins after the end of the last");
                in_part = true;
            }
            Ok(Event::Data(range)) => {
                assert!(in_part && !range.is_empty());
                form.parts.last_mut()?.data.extend_from_slice(&parser.bytes()[range]);
            }
            Ok(Event::PartEnd) => {
                assert!(in_part);
                in_part = false;
            }
            Ok(Event::Done) => {
                form.is_whole = true;
                break;
            }
        }
    }
    // Each step takes a piece or at least a byte, or it ends a part.
    assert!(steps <= 3 + pieces.len() + 2 * fed, "{steps} steps for {fed} bytes");
    assert!(form.parts.len() as u64 <= limits.parts, "the limit of parts");
    form.is_whole |= parser.end().is_ok();
    assert!(!form.is_whole || !in_part);
    Some(form)
}

/// Reads a whole body with a second reader: splits it at the boundaries, and each part at its blank line. Returns the
/// fields and the data of the parts.
fn model(boundary: &[u8], body: &[u8]) -> Option<Vec<(Fields, Vec<u8>)>> {
    let (body, delimiter) = ([b"\r\n", body].concat(), [b"\r\n--", boundary].concat());
    let mut segments = split(&body, &delimiter).into_iter().skip(1);
    let mut parts = Vec::new();
    loop {
        let segment = segments.next()?;
        if segment.starts_with(b"--") {
            return Some(parts);
        }
        let padding = segment.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        // The line end before a boundary also ends the blank line of a part without data.
        let segment = [&segment[padding..], b"\r\n"].concat();
        let text = segment.strip_prefix(b"\r\n")?;
        let end = text.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let data = &text[end..];
        parts.push((model::section(&text[..end])?, data.strip_suffix(b"\r\n").unwrap_or(data).to_vec()));
    }
}

/// Splits a text at each occurrence of `delimiter`.
fn split<'t>(text: &'t [u8], delimiter: &[u8]) -> Vec<&'t [u8]> {
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        if text[at..].starts_with(delimiter) {
            found.push(&text[begin..at]);
            at += delimiter.len();
            begin = at;
        } else {
            at += 1;
        }
    }
    found.push(&text[begin..]);
    found
}

/// Writes the parts of a form with another boundary; `None` if the data contains it.
fn written(parts: &[Part]) -> Option<Vec<u8>> {
    let boundary = b"--another-boundary";
    let mut text = Vec::new();
    for part in parts {
        let has_boundary = |text: &[u8]| text.windows(boundary.len()).any(|window| window == boundary);
        let fields = part.fields.iter().any(|(name, value)| has_boundary(name) || has_boundary(value));
        if fields || has_boundary(&part.data) {
            return None;
        }
        text.extend_from_slice(&[&boundary[..], b"\r\n"].concat());
        for (name, value) in &part.fields {
            text.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        text.extend_from_slice(&[b"\r\n", &part.data[..], b"\r\n"].concat());
    }
    text.extend_from_slice(&[&boundary[..], b"--"].concat());
    Some(text)
}

/// Reads a form. The input: flags, sizes of pieces, the length of the content type, the content type after
/// `multipart/form-data;`, the body. The result must not depend on the pieces.
pub(crate) fn multipart(data: &[u8]) -> Option<Form> {
    let mut input = Input(data);
    let flags = input.byte();
    let limits = match flags & 1 {
        0 => Limits { parts: 3, headers: 100 },
        _ => Limits { parts: 1000, headers: 4000 },
    };
    let sizes = input.sizes();
    let length = input.byte().into();
    let content_type = [b"multipart/form-data;", input.bytes(length)].concat();
    // A fault in incomplete headers may be found late, so they are completed.
    let body = [input.0, b"\r\n\r\n"].concat();
    let whole = received(&content_type, limits, &[&body])?;
    let is_same = |pieces: &[&[u8]]| received(&content_type, limits, pieces).as_ref() == Some(&whole);
    assert!(is_same(&pieces(&body, &sizes)), "in pieces of {sizes:?}: {whole:?}");
    assert!(is_same(&pieces(&body, &[1])), "in single bytes: {whole:?}");
    if let Some(Refusal(status, reason)) = whole.refusal {
        assert!(matches!(status, 400 | 413) && !reason.is_empty(), "{status} {reason}");
    }
    for part in &whole.parts {
        let size: usize = part.fields.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        assert!(part.fields.len() <= MAX_PART_FIELDS && size + 2 <= limits.headers, "the limits of headers");
    }
    if whole.is_whole && whole.refusal.is_none() {
        let boundary = disposition::boundary(&content_type).expect("accepted before");
        let found = model(&boundary, &body).expect("readers agree that the form is complete");
        let parts: Vec<_> = whole.parts.iter().map(|part| (part.fields.clone(), part.data.clone())).collect();
        assert_eq!(found, parts, "readers agree on the parts");
        if let Some(text) = written(&whole.parts) {
            let limits = Limits { headers: 2 * limits.headers, ..limits };
            let again = received(b"multipart/form-data; boundary=another-boundary", limits, &[&text]);
            assert_eq!(again.as_ref(), Some(&whole), "a written form is read equally");
        }
    }
    Some(whole)
}

/// Returns seeds of [`multipart`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let input = |flags: u8, sizes: &[u8], content_type: &str, body: &str| {
        let head = [&[flags, sizes.len() as u8], sizes, &[content_type.len() as u8]].concat();
        [&head, content_type.as_bytes(), body.as_bytes()].concat()
    };
    let file = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\\\"%22.txt\"\r\nContent-Type: text/plain\r\n\r\n";
    let field = "--b \t\r\ncontent-disposition:form-data;name=x\r\n\r\n";
    let extended = "--b\r\nContent-Disposition: form-data; name=\"y\"; filename*=utf-8''%e2%82%ac\r\n\r\n";
    let fields = "A: b\r\n".repeat(17);
    vec![
        input(1, &[7], " boundary=b", &format!("preamble\r\n{file}one\r\n--\r\n{field}two\r\n--b--\r\nepilogue")),
        input(1, &[], " boundary=\"b\"; charset=utf-8", &format!("{extended}\r\n--a\r\n{field}--b--")),
        // A part without data, whose blank line is the line end of a boundary.
        input(1, &[1], "boundary=b", "--b\r\nContent-Disposition: form-data; name=x\r\n\r\n--b--"),
        input(0, &[20], "boundary=b", &format!("{field}1\r\n{field}2\r\n{field}3\r\n{field}4\r\n--b--")),
        input(0, &[], "boundary=b", &format!("--b\r\nX: {}\r\n\r\n", "y".repeat(100))),
        input(1, &[], "boundary=b", &format!("--b\r\n{fields}\r\n")),
        input(1, &[], "boundary=b", &format!("{field}incomplete")),
        input(1, &[], "boundary=b", "--b\r\n\r\nno name\r\n--b--"),
        input(1, &[], "boundary=b", "--b?\r\n"),
        // A boundary within headers.
        input(1, &[], "boundary=b", "--b\r\nContent-Disposition: form-data; name=x\r\n--b: y\r\n\r\n--b--"),
        input(1, &[], "boundary=", "--b\r\n"),
        input(1, &[3], "boundary=\"'()+_,-./:=? b\"", "--'()+_,-./:=? b--"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_parts_and_limits() {
        let shown = |form: Option<Form>| match form {
            None => "no boundary".to_string(),
            Some(Form { refusal: Some(Refusal(status, reason)), .. }) => format!("{status} {reason}"),
            Some(Form { parts, is_whole, .. }) => {
                let text = |part: &Part| format!("{} {}", String::from_utf8_lossy(&part.name), part.data.len());
                let parts: Vec<_> = parts.iter().map(text).collect();
                format!("{}{}", parts.join(", "), if is_whole { "." } else { "" })
            }
        };
        let all: Vec<_> = seeds().iter().map(|seed| shown(multipart(seed))).collect();
        let expected = [
            "f 7, x 3.",
            "y 5, x 0.",
            "x 0.",
            "413 the form has too many parts",
            "413 a part of the form has too many headers",
            "413 a part of the form has too many headers",
            "x 12",
            "400 a part of the form has no Content-Disposition",
            "400 malformed boundary line",
            "400 a boundary within the headers of a part",
            "no boundary",
            ".",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, b'-', b'\n'] {
                multipart(&vec![first; length]);
            }
        }
    }
}
