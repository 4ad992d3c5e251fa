//! A naive reader of requests and a strict reader of responses. They share no code with the server, so that an error in
//! its codec is not repeated here.

/// A request's head.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Vec<u8>,
    pub(super) version: u8,
    /// The number of bytes up to and including the blank line, with empty lines before the request.
    pub(super) length: usize,
    pub(super) framing: Framing,
    pub(super) expects: bool,
    pub(super) closes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    None,
    Length(usize),
    Chunked,
}

/// The body at the start of some bytes.
#[derive(Default, Debug)]
pub(super) struct Body {
    /// The data that has arrived.
    pub(super) data: Vec<u8>,
    /// The number of bytes of the body, with its framing; `None` if it is incomplete.
    pub(super) length: Option<usize>,
    pub(super) is_valid: bool,
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Splits a head without its last two CRLF into its first line and its fields, whose names are in lower case.
#[allow(clippy::type_complexity)]
fn lines(head: &[u8]) -> Result<(&[u8], Vec<(Vec<u8>, &[u8])>), &'static str> {
    let mut found = Vec::new();
    let mut rest = head;
    while let Some(at) = find(rest, b"\r\n") {
        found.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    found.push(rest);
    if head.contains(&0) || found.iter().any(|line| line.contains(&b'\r') || line.contains(&b'\n')) {
        return Err("a bare CR or LF, or a NUL");
    }
    let mut fields = Vec::new();
    for line in &found[1..] {
        let colon = line.iter().position(|b| *b == b':').ok_or("a line without a colon")?;
        if !is_token(&line[..colon]) {
            return Err("a name that is not a token");
        }
        fields.push((line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii()));
    }
    Ok((found[0], fields))
}

fn values<'f>(fields: &'f [(Vec<u8>, &[u8])], name: &str) -> Vec<&'f [u8]> {
    fields.iter().filter(|(one, _)| one == name.as_bytes()).map(|(_, value)| *value).collect()
}

fn has_option(fields: &[(Vec<u8>, &[u8])], option: &str) -> bool {
    values(fields, "connection")
        .iter()
        .flat_map(|value| value.split(|b| *b == b','))
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

/// Reads the head of a request; `None` if it is incomplete.
pub(super) fn request(bytes: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut start = 0;
    while bytes[start..].starts_with(b"\r\n") {
        start += 2;
    }
    let Some(end) = find(&bytes[start..], b"\r\n\r\n").map(|at| start + at) else { return Ok(None) };
    let (line, fields) = lines(&bytes[start..end])?;
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let [method, target, version] = words[..] else { return Err("not three words") };
    if !is_token(method) || target.is_empty() || target.iter().any(|b| *b < 0x21 || *b == 0x7f) {
        return Err("a malformed method or target");
    }
    let version = match version {
        b"HTTP/1.1" => 11,
        b"HTTP/1.0" => 10,
        _ => return Err("an unknown version"),
    };
    let hosts = values(&fields, "host").len();
    if hosts > 1 || version == 11 && hosts == 0 {
        return Err("not one Host");
    }
    let (lengths, codings) = (values(&fields, "content-length"), values(&fields, "transfer-encoding"));
    let framing = match (&lengths[..], &codings[..]) {
        ([], []) => Framing::None,
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && version == 11 => Framing::Chunked,
        ([], _) => return Err("a coding other than chunked"),
        ([length], []) => Framing::Length(decimal(length).ok_or("not one length")?),
        (_, []) => return Err("several lengths"),
        _ => return Err("both Content-Length and Transfer-Encoding"),
    };
    let expects = version == 11 && values(&fields, "expect").iter().any(|e| e.eq_ignore_ascii_case(b"100-continue"));
    let closes = has_option(&fields, "close") || version == 10 && !has_option(&fields, "keep-alive");
    Ok(Some(Request { method: method.to_vec(), version, length: end + 4, framing, expects, closes }))
}

fn decimal(text: &[u8]) -> Option<usize> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Reads the body at the start of `bytes`.
pub(super) fn body(bytes: &[u8], framing: Framing) -> Body {
    match framing {
        Framing::None => Body { length: Some(0), is_valid: true, ..Body::default() },
        Framing::Length(length) => Body {
            data: bytes[..length.min(bytes.len())].to_vec(),
            length: (length <= bytes.len()).then_some(length),
            is_valid: true,
        },
        Framing::Chunked => chunked(bytes, false),
    }
}

/// Reads a chunked body. `strict`: no extensions, no needless zeros, and small letters.
fn chunked(bytes: &[u8], strict: bool) -> Body {
    let mut body = Body { is_valid: true, ..Body::default() };
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else { return body };
        let line = &bytes[at..at + end];
        let digits = line.split(|b| *b == b';').next().unwrap_or(line).trim_ascii_end();
        let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let size = text.and_then(|text| usize::from_str_radix(text, 16).ok());
        let is_plain = digits == line && (digits == b"0" || digits.first() != Some(&b'0'));
        let Some(size) = size
            .filter(|_| (!strict || is_plain && !line.iter().any(u8::is_ascii_uppercase)) && !line.contains(&b'\n'))
        else {
            body.is_valid = false;
            return body;
        };
        at += end + 2;
        if size == 0 {
            break;
        }
        let rest = &bytes[at..];
        body.data.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() <= size {
            return body;
        }
        let after = &rest[size..rest.len().min(size + 2)];
        if after != b"\r\n" {
            body.is_valid = b"\r\n".starts_with(after);
            return body;
        }
        at += size + 2;
    }
    let rest = &bytes[at..];
    if rest.starts_with(b"\r\n") {
        body.length = Some(at + 2);
    } else if let Some(end) = find(rest, b"\r\n\r\n") {
        // The first line of `lines` is any line, so an empty line takes its place.
        body.is_valid = lines(&[b"\r\n", &rest[..end]].concat()).is_ok();
        body.length = Some(at + end + 4);
    }
    body
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// The number of bytes of the response; `None` if it is incomplete.
    pub(super) length: Option<usize>,
    /// Whether the connection closes after the response.
    pub(super) closes: bool,
}

/// Reads the response at the start of `bytes`; `None` if its head is incomplete. `is_head`: whether the request was
/// HEAD. `version`: 10 or 11, that of the request. `is_all`: whether no bytes follow `bytes`.
pub(super) fn answer(bytes: &[u8], is_head: bool, version: u8, is_all: bool) -> Result<Option<Answer>, &'static str> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let (line, fields) = lines(&bytes[..end])?;
    let status = line.strip_prefix(b"HTTP/1.1 ").ok_or("not HTTP/1.1")?;
    if status.len() < 4 || status[3] != b' ' || status[4..].iter().any(|b| !(b' '..=b'~').contains(b)) {
        return Err("a malformed status line");
    }
    let status = decimal(&status[..3]).filter(|status| (100..600).contains(status)).ok_or("a malformed status")? as u16;
    let rest = &bytes[end + 4..];
    let (lengths, codings) = (values(&fields, "content-length"), values(&fields, "transfer-encoding"));
    let is_interim = status < 200;
    if !is_interim && values(&fields, "date").len() != 1 {
        return Err("not one Date");
    }
    let closes = !is_interim && (has_option(&fields, "close") || version == 10 && !has_option(&fields, "keep-alive"));
    let none = Body { length: Some(0), is_valid: true, ..Body::default() };
    let bodiless = is_interim || status == 204 || status == 304;
    let body = match (&lengths[..], &codings[..]) {
        ([], []) if is_head || bodiless => none,
        _ if bodiless && status != 304 => return Err("a length of a response without a body"),
        ([length], []) => {
            let length = decimal(length).ok_or("a malformed Content-Length")?;
            if is_head || bodiless { none } else { self::body(rest, Framing::Length(length)) }
        }
        ([], [coding]) if *coding == b"chunked" && version == 11 => {
            if is_head || bodiless {
                none
            } else {
                chunked(rest, true)
            }
        }
        ([], []) if closes => Body { data: rest.to_vec(), length: is_all.then_some(rest.len()), is_valid: true },
        _ => return Err("a body without one framing"),
    };
    if !body.is_valid {
        return Err("a malformed body");
    }
    Ok(Some(Answer { status, body: body.data, length: body.length.map(|length| end + 4 + length), closes }))
}
