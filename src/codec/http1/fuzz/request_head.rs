//! The target `request_head`: requests that arrive one after another, with their bodies.

use super::super::body::{BodyEvent, Framing, IncomingBody};
use super::super::head::{Limits, Parser, Progress, TargetForm};
use super::super::request::RequestHead;
use super::super::stored_section;
use super::Refusal;
use super::model::{Announced, Message, is_token};
use crate::codec::fuzz_input::{Input, pieces};

/// A request with its parts copied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Request {
    pub(crate) head: Vec<u8>,
    method: Vec<u8>,
    target: Vec<u8>,
    form: TargetForm,
    path: Vec<u8>,
    query: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    version: u8,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    Request(Box<Request>),
    /// The data of a body, and its trailer section.
    Body(Vec<u8>, Vec<u8>),
    Refused(Refusal),
    /// The bytes end within a head, or within a body after this number of bytes of data.
    Partial(usize),
}

/// Whether one parser reads all heads, or each head has a new parser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parsers {
    One,
    Many,
}

/// Reads the requests in bytes that arrive in these pieces.
fn received(pieces: &[&[u8]], limits: &Limits, parsers: Parsers) -> Vec<Received> {
    let (mut parser, mut progress) = (Parser::new(), Progress::default());
    let (mut events, mut buffer, mut coming) = (Vec::new(), Vec::new(), pieces.iter());
    let (mut body, mut data) = (IncomingBody::NONE, Vec::new());
    loop {
        let is_more_needed = if body.is_done() {
            match parser.parse(&buffer, limits, &mut progress).map(|head| head.copied()) {
                Err(reject) => {
                    events.push(Received::Refused(reject.into()));
                    return events;
                }
                Ok(None) => true,
                Ok(Some(head)) => {
                    events.push(Received::Request(Box::new(request(&parser, &buffer))));
                    body = IncomingBody::new(head.framing);
                    buffer.drain(..head.head_len);
                    progress = Progress::default();
                    if parsers == Parsers::Many {
                        parser = Parser::new();
                    }
                    false
                }
            }
        } else {
            match body.next(&buffer, u64::MAX) {
                Err(reject) => {
                    events.push(Received::Refused(reject.into()));
                    return events;
                }
                Ok(BodyEvent::More { consume }) => {
                    buffer.drain(..consume);
                    true
                }
                Ok(BodyEvent::Data { data: run, consume }) => {
                    data.extend_from_slice(&buffer[run]);
                    buffer.drain(..consume);
                    if body.is_done() {
                        events.push(Received::Body(std::mem::take(&mut data), Vec::new()));
                    }
                    false
                }
                Ok(BodyEvent::End { consume, trailers }) => {
                    events.push(Received::Body(std::mem::take(&mut data), buffer[trailers].to_vec()));
                    buffer.drain(..consume);
                    false
                }
            }
        };
        if is_more_needed {
            let Some(piece) = coming.next() else { break };
            buffer.extend_from_slice(piece);
        }
    }
    if !buffer.is_empty() || !body.is_done() {
        events.push(Received::Partial(data.len()));
    }
    events
}

/// Copies the request whose head begins `buffer`. Checks that the ways to read its fields give the same result.
fn request(parser: &Parser, buffer: &[u8]) -> Request {
    let head = parser.head();
    let with_bytes = RequestHead { head, bytes: buffer };
    let fields: Vec<_> = parser.fields().iter().map(|field| (field.name.of(buffer), field.value.of(buffer))).collect();
    let stored: Vec<_> = stored_section::fields(with_bytes.section()).collect();
    assert_eq!(stored, fields, "the fields of the section differ from those of the parser");
    Request {
        head: buffer[..head.head_len].to_vec(),
        method: head.method.of(buffer).to_vec(),
        target: head.target.of(buffer).to_vec(),
        form: head.target_form,
        path: head.path(buffer).to_vec(),
        query: with_bytes.query().map(<[u8]>::to_vec),
        host: head.host.map(|host| host.of(buffer).to_vec()),
        version: head.version,
        fields: fields.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        framing: head.framing,
        keep_alive: head.keep_alive,
        expect_continue: head.expect_continue,
        upgrade: head.upgrade,
    }
}

/// Checks a request against the limits and against the second reader.
fn check(request: &Request, limits: &Limits) {
    let model = Message::read(&request.head).expect("readers agree on the lines");
    let parts: Vec<&[u8]> = model.first.split(|&byte| byte == b' ').collect();
    let version: &[u8] = if request.version == 11 { b"HTTP/1.1" } else { b"HTTP/1.0" };
    assert_eq!(parts, [&request.method[..], &request.target, version], "readers agree on the request line");
    assert!(is_token(&request.method) && request.target.iter().all(|&byte| byte > b' ' && byte != 0x7f));
    let fields: Vec<_> = request.fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(model.fields, fields, "readers agree on the fields");
    let announced = match request.framing {
        Framing::None => Announced::Nothing,
        Framing::Length(length) => Announced::Length(length),
        Framing::Chunked => Announced::Chunked,
        Framing::UntilClose => panic!("a request never ends with the connection"),
    };
    assert_eq!(model.announced(), Some(announced), "readers agree on the framing");
    assert!(model.members("content-length").len() < 2, "a repeated length");
    assert!(request.version == 11 || announced != Announced::Chunked, "HTTP/1.0 has no chunks");
    let named = |name: &[u8]| request.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count();
    assert!(named(b"host") == 1 || named(b"host") == 0 && request.version == 10);
    let (options, expects) = (model.members("connection"), model.members("expect"));
    let has = |option: &str| options.iter().any(|other| other == option);
    assert_eq!(request.keep_alive, !has("close") && (request.version == 11 || has("keep-alive")));
    assert_eq!(request.upgrade, has("upgrade") && named(b"upgrade") > 0 && request.version == 11);
    let has_body = announced != Announced::Nothing;
    assert_eq!(request.expect_continue, !expects.is_empty() && has_body && request.version == 11);
    assert!(expects.iter().all(|other| other == "100-continue"));
    check_target(request);
    assert!(model.first.len() <= limits.request_line && fields.len() <= limits.fields, "{limits:?}");
    // Up to two empty lines may precede the request line.
    assert!(request.head.len() <= model.first.len() + limits.headers + 6);
}

/// Checks that the parts of a target make the target.
fn check_target(request: &Request) {
    let query = request.query.as_deref().map_or(Vec::new(), |query| [b"?", query].concat());
    let host = request.host.as_deref().unwrap_or_default();
    assert!(host.iter().all(|&byte| byte.is_ascii_graphic() && !b"/@?#\\".contains(&byte)), "a host is a host");
    let is_connect = request.method == b"CONNECT";
    let target = request.target.to_ascii_lowercase();
    assert_eq!(request.form == TargetForm::Authority, is_connect);
    match request.form {
        TargetForm::Origin => assert_eq!(request.target, [&request.path[..], &query].concat()),
        TargetForm::Authority => assert!(request.target == host && request.path.is_empty()),
        TargetForm::Asterisk => assert!(request.method == b"OPTIONS" && request.path == b"*"),
        TargetForm::Absolute => {
            assert!(target.starts_with(b"http://") || target.starts_with(b"https://"));
            let whole = [host, &request.path, &query].concat();
            let without_slash = [host, &query].concat();
            let is_whole =
                request.target.ends_with(&whole) || request.path == b"/" && request.target.ends_with(&without_slash);
            assert!(is_whole && !host.is_empty());
        }
    }
    let is_path = request.path.starts_with(b"/") || request.form == TargetForm::Asterisk;
    assert!(is_path || is_connect, "a path begins with a slash");
}

/// Checks that a request that is written again is read equally.
fn check_again(request: &Request) {
    let version: &[u8] = if request.version == 11 { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" };
    let mut text = [&request.method[..], b" ", &request.target, version].concat();
    for (name, value) in &request.fields {
        text.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let limits = Limits { request_line: 1 << 20, headers: 1 << 20, fields: 256 };
    let read = received(&[&text], &limits, Parsers::Many);
    let expected = Request { head: text, ..request.clone() };
    assert_eq!(read.first(), Some(&Received::Request(Box::new(expected))));
}

/// Whether bytes begin with a head that every server must accept: usual bytes, one host, a clear framing.
fn is_plain(bytes: &[u8], limits: &Limits) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let Some(read) = Message::read(&bytes[..end + 4]) else { return false };
    let parts: Vec<&[u8]> = read.first.split(|&byte| byte == b' ').collect();
    let [method, target, b"HTTP/1.1"] = parts[..] else { return false };
    let hosts = read.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let hosts: Vec<&[u8]> = hosts.map(|(_, value)| *value).collect();
    let [host] = hosts[..] else { return false };
    let is_in = |text: &[u8], more: &[u8]| text.iter().all(|byte| byte.is_ascii_alphanumeric() || more.contains(byte));
    let is_usual = !method.is_empty() && is_in(method, b"") && method != b"CONNECT";
    let lengths = read.members("content-length");
    let length_is_usual = lengths.len() < 2 && lengths.iter().all(|length| length.len() < 19);
    let is_within = read.first.len() <= limits.request_line
        && read.fields.len() <= limits.fields
        && end + 4 <= limits.headers
        && !bytes.starts_with(b"\r\n");
    is_usual
        && is_within
        && target.starts_with(b"/")
        && is_in(target, b"/?=&%.-_")
        && is_in(host, b".-")
        && !host.is_empty()
        && read.members("expect").is_empty()
        && length_is_usual
        && read.announced().is_some()
}

/// Reads requests. The input: limits, sizes of pieces, the bytes of the client. The result must not depend on the pieces.
pub(crate) fn request_head(data: &[u8]) -> Vec<Received> {
    let mut input = Input(data);
    let limits = match input.byte() % 4 {
        0 => Limits { request_line: 40, headers: 80, fields: 3 },
        1 => Limits { request_line: 4000, headers: 300, fields: 256 },
        _ => Limits::default(),
    };
    let sizes = input.sizes();
    // A fault in an incomplete head may be found late, so the last head is completed.
    let bytes = [input.0, b"\r\n\r\n"].concat();
    let whole = received(&[&bytes], &limits, Parsers::One);
    assert_eq!(received(&pieces(&bytes, &sizes), &limits, Parsers::One), whole, "in pieces of {sizes:?}");
    assert_eq!(received(&pieces(&bytes, &[1]), &limits, Parsers::Many), whole, "in single bytes");
    assert!(whole.len() <= bytes.len(), "an event needs bytes");
    for event in &whole {
        match event {
            Received::Request(request) => {
                check(request, &limits);
                check_again(request);
            }
            Received::Body(_, trailers) => {
                let fields = super::model::section(trailers);
                assert!(trailers.is_empty() || fields.is_some(), "readers agree on the trailers");
            }
            Received::Refused(Refusal(status, reason)) => {
                assert!(matches!(status, 400 | 414 | 417 | 431 | 501 | 505) && !reason.is_empty(), "{status} {reason}");
            }
            Received::Partial(_) => {}
        }
    }
    let is_accepted = matches!(whole.first(), Some(Received::Request(_)));
    assert!(is_accepted || !is_plain(&bytes, &limits), "a usual request was refused: {whole:?}");
    whole
}

/// Returns an input of [`request_head`].
fn input(limits: u8, sizes: &[u8], text: &str) -> Vec<u8> {
    [&[limits, sizes.len() as u8][..], sizes, text.as_bytes()].concat()
}

/// Returns seeds of [`request_head`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let many = "A: b\r\n".repeat(40);
    vec![
        input(2, &[3], "GET /a?b=%20 HTTP/1.1\r\nHost: a.example:80\r\nAccept:\t*/* \r\n\r\n"),
        input(
            2,
            &[1, 40],
            "\r\nPOST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET * HT",
        ),
        input(
            2,
            &[],
            "PUT http://h/x HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\nT: u\r\n\r\n\
             OPTIONS * HTTP/1.1\r\nHost:\r\nConnection: close, upgrade\r\nUpgrade: websocket\r\n\r\n",
        ),
        input(
            2,
            &[9],
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nHEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        ),
        // The same section twice, at two offsets.
        input(2, &[], "GET / HTTP/1.1\r\nHost: a\r\n\r\nDELETE /b HTTP/1.1\r\nHost: a\r\n\r\n"),
        input(1, &[], &format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")),
        input(2, &[], "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello"),
        // Faults.
        input(2, &[], "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        input(2, &[], "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        input(2, &[], "GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n"),
        input(2, &[], "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        input(0, &[2], "GET /0123456789012345678901234567890123456789 HTTP/1.1\r\n"),
        input(0, &[2], "GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n\r\n"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(events: &[Received]) -> String {
        let text = |event: &Received| match event {
            Received::Request(request) => format!("{:?} {:?}", request.form, request.framing),
            Received::Body(data, trailers) => format!("body {} {}", data.len(), trailers.len()),
            Received::Refused(Refusal(status, reason)) => format!("{status} {reason}"),
            Received::Partial(count) => format!("partial {count}"),
        };
        events.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_seeds_reach_every_form_and_the_limits() {
        let all: Vec<_> = seeds().iter().map(|seed| shown(&request_head(seed))).collect();
        let expected = [
            "Origin None, partial 0",
            "Origin Length(5), body 5 0, 400 malformed HTTP version",
            "Absolute Chunked, body 3 8, Asterisk None, partial 0",
            "Authority None, Origin None, partial 0",
            "Origin None, Origin None, partial 0",
            "Origin None, partial 0",
            "400 malformed Content-Length",
            "400 Content-Length with Transfer-Encoding",
            "501 unknown transfer coding",
            "400 malformed header name",
            "400 malformed end of the request line",
            "414 request line too long",
            "431 too many header fields",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, b'\r', b'\n'] {
                request_head(&vec![first; length]);
            }
        }
    }
}
