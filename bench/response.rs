//! A strict parser of HTTP/1.1 responses for the load programs of this folder. It finds the end and the body of a
//! response, and refuses anything that RFC 9112 does not allow a server to send. It shares no code with the server's
//! codec, because shared code could contain the same error in both.

use std::borrow::Cow;

/// The maximum length of a head in bytes. The heads of the tested servers are shorter.
const HEAD_LIMIT: usize = 64 * 1024;

/// The method of the request. The framing of the response depends only on whether the method is HEAD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    /// The response has no body, regardless of its fields.
    Head,
    /// Any other method.
    Other,
}

/// The state of the input: more bytes may arrive, or the peer has closed the connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Input {
    Open,
    Ended,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// The status code, 100 to 599.
    pub(crate) status: u16,
    /// The body without its framing.
    pub(crate) body: Cow<'a, [u8]>,
    /// The number of bytes of the input that belong to the response.
    pub(crate) consumed: usize,
    /// True if the server will close the connection after this response.
    pub(crate) close: bool,
    fields: &'a [u8],
}

impl<'a> Response<'a> {
    /// Returns the value of the first field `name`, without surrounding white space, or `None`. The case of `name` does
    /// not matter.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        fields(self.fields).find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }
}

#[derive(Default)]
struct Framing {
    length: Option<usize>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

/// Parses the response at the start of `bytes` (RFC 9112, sections 4, 5, 6 and 7). Returns `None` if more input is
/// needed, and an error if `bytes` cannot be the start of a valid response.
pub(crate) fn parse(bytes: &[u8], method: Method, input: Input) -> Result<Option<Response<'_>>, &'static str> {
    let Some(head_end) = find(bytes, b"\r\n\r\n") else {
        return match bytes.len() > HEAD_LIMIT {
            true => Err("the head does not end"),
            false => Ok(None),
        };
    };
    let head = &bytes[..head_end + 2];
    let line_end = find(head, b"\r\n").unwrap_or(head_end);
    let (status, minor) = status_line(&head[..line_end])?;
    let fields = &head[line_end + 2..];
    let framing = framing(fields)?;
    let start = head_end + 4;
    let close = framing.close || (minor == 0 && !framing.keep_alive);
    let complete = |body, consumed| Ok(Some(Response { status, body, consumed, close, fields }));

    let bodiless_status = status < 200 || status == 204;
    if bodiless_status && (framing.chunked || framing.length.is_some()) {
        return Err("a 1xx or 204 response with a length or chunks");
    }
    if bodiless_status || status == 304 || method == Method::Head {
        return complete(Cow::Borrowed(&[]), start);
    }
    if framing.chunked {
        return match chunks(&bytes[start..])? {
            Some((body, taken)) => complete(Cow::Owned(body), start + taken),
            None => Ok(None),
        };
    }
    if let Some(length) = framing.length {
        return match bytes.len() - start >= length {
            true => complete(Cow::Borrowed(&bytes[start..start + length]), start + length),
            false => Ok(None),
        };
    }
    match (close, input) {
        (false, _) => Err("neither Content-Length nor chunked nor close"),
        (true, Input::Open) => Ok(None),
        (true, Input::Ended) => complete(Cow::Borrowed(&bytes[start..]), bytes.len()),
    }
}

/// Returns the status and the minor version of `HTTP/1.x NNN reason`.
fn status_line(line: &[u8]) -> Result<(u16, u8), &'static str> {
    let Some(rest) = line.strip_prefix(b"HTTP/1.") else {
        return Err("no status line");
    };
    let [minor @ b'0'..=b'1', b' ', digits @ .., b' '] = rest.get(..6).unwrap_or_default() else {
        return Err("bad status line");
    };
    if !digits.iter().all(u8::is_ascii_digit) || !rest.iter().all(|&byte| is_text(byte)) {
        return Err("bad status line");
    }
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match status {
        100..=599 => Ok((status, minor - b'0')),
        _ => Err("status out of range"),
    }
}

fn framing(block: &[u8]) -> Result<Framing, &'static str> {
    let mut framing = Framing::default();
    for line in lines(block) {
        let Some((name, value)) = field(line) else {
            return Err("a field line without a colon");
        };
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) || !value.iter().all(|&byte| is_text(byte)) {
            return Err("a field with invalid bytes");
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            if framing.length.is_some() {
                return Err("Content-Length twice");
            }
            framing.length = Some(decimal(value)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if framing.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("a transfer coding other than chunked");
            }
            framing.chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            framing.close |= has_word(value, b"close");
            framing.keep_alive |= has_word(value, b"keep-alive");
        }
    }
    match framing.chunked && framing.length.is_some() {
        true => Err("Content-Length and Transfer-Encoding"),
        false => Ok(framing),
    }
}

/// Decodes the chunked body at the start of `bytes`, including its trailers. Returns the body and the number of decoded
/// bytes of input, or `None` if more input is needed.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, &'static str> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let line = &bytes[at..at + end];
        let size = hexadecimal(line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end())?;
        at += end + 2;
        if size == 0 {
            return trailers(&bytes[at..]).map(|taken| taken.map(|taken| (body, at + taken)));
        }
        let Some(piece) = bytes.get(at..at + size + 2) else {
            return Ok(None);
        };
        if &piece[size..] != b"\r\n" {
            return Err("a chunk longer than its size");
        }
        body.extend_from_slice(&piece[..size]);
        at += size + 2;
    }
}

/// Returns the length of the trailers at the start of `bytes`, including the blank line after them, or `None` if more
/// input is needed.
fn trailers(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        if end == 0 {
            return Ok(Some(at + 2));
        }
        if field(&bytes[at..at + end]).is_none() {
            return Err("a trailer without a colon");
        }
        at += end + 2;
    }
}

fn fields(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(block).filter_map(field)
}

/// Returns the lines of `block`, which end in CRLF. A bare LF does not end a line; it is refused later as a control
/// character.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let end = find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        Some(line)
    })
}

fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn decimal(value: &[u8]) -> Result<usize, &'static str> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    number.ok_or("Content-Length is not a number")
}

fn hexadecimal(value: &[u8]) -> Result<usize, &'static str> {
    if value.is_empty() || value.len() > 8 || !value.iter().all(u8::is_ascii_hexdigit) {
        return Err("bad chunk size");
    }
    let text = std::str::from_utf8(value).map_err(|_| "bad chunk size")?;
    usize::from_str_radix(text, 16).map_err(|_| "bad chunk size")
}

fn has_word(list: &[u8], word: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
