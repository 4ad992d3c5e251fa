//! Requests that a server must refuse, each with the correct statuses. Most of them contain a second request, at the
//! position where a server that misreads the first request would find it. A response to the second request is a failure
//! (request smuggling). The server can refuse each request at once, without waiting for more bytes.

use crate::prng::Prng;
use Closing::{May, Must};

/// Whether the server must close the connection after it has refused a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Closing {
    /// The server must close, because the framing is uncertain: it must not parse the following bytes as a request.
    Must,
    May,
}

/// A request that a server finds only if it misreads the framing of the previous request.
const SMUGGLED: &[u8] = b"GET /users/smuggled HTTP/1.1\r\nHost: t\r\n\r\n";
const BAD: &[u16] = &[400];
const BAD_CODING: &[u16] = &[400, 501];
const TOO_LONG: &[u16] = &[400, 413];

pub(crate) struct Malformed {
    pub(crate) name: &'static str,
    /// The correct statuses. A close without a response is always correct.
    pub(crate) allowed: &'static [u16],
    pub(crate) closing: Closing,
    /// Appends the bytes of the request.
    pub(crate) write: fn(&mut Vec<u8>, &mut Prng),
}

type Write = fn(&mut Vec<u8>, &mut Prng);

const fn entry(name: &'static str, allowed: &'static [u16], closing: Closing, write: Write) -> Malformed {
    Malformed { name, allowed, closing, write }
}

#[rustfmt::skip]
pub(crate) const MALFORMED: [Malformed; 51] = [
    entry("Content-Length: +5", BAD, Must, |out, _| post(out, "Content-Length: +5\r\n", b"hello")),
    entry("Content-Length: 0x5", BAD, Must, |out, _| post(out, "Content-Length: 0x5\r\n", b"hello")),
    entry("Content-Length: -1", BAD, Must, |out, _| post(out, "Content-Length: -1\r\n", b"hello")),
    entry("Content-Length overlong", TOO_LONG, Must, |out, _| post(out, "Content-Length: 18446744073709551621\r\n", b"hello")),
    entry("Content-Length: five", BAD, Must, |out, _| post(out, "Content-Length: five\r\n", b"hello")),
    entry("Content-Length empty", BAD, Must, |out, _| post(out, "Content-Length:\r\n", b"hello")),
    entry("Content-Length: 5 5", BAD, Must, |out, _| post(out, "Content-Length: 5 5\r\n", b"hello")),
    entry("Content-Length: 5, 6", BAD, Must, |out, _| post(out, "Content-Length: 5, 6\r\n", b"hello")),
    entry("Content-Length: 5.0", BAD, Must, |out, _| post(out, "Content-Length: 5.0\r\n", b"hello")),
    entry("two Content-Lengths", BAD, Must, |out, _| post(out, "Content-Length: 5\r\nContent-Length: 0\r\n", b"hello")),
    entry("length over the limit", &[413], Must, |out, _| post(out, "Content-Length: 9437184\r\n", b"hello")),
    entry("length and chunked", BAD, Must, |out, _| post(out, "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")),
    entry("chunked and length", BAD, Must, |out, _| post(out, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n")),
    entry("chunked not last", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n")),
    entry("chunked twice", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n")),
    entry("two lines: chunked, identity", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n")),
    entry("coding gzip", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: gzip\r\n", b"0\r\n\r\n")),
    entry("coding xchunked", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n")),
    entry("coding gzip, chunked", BAD_CODING, Must, |out, _| post(out, "Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n")),
    entry("chunk size zz", BAD, Must, |out, _| chunked(out, b"zz\r\nhello\r\n0\r\n\r\n")),
    entry("chunk size -5", BAD, Must, |out, _| chunked(out, b"-5\r\nhello\r\n0\r\n\r\n")),
    entry("chunk size 0x5", BAD, Must, |out, _| chunked(out, b"0x5\r\nhello\r\n0\r\n\r\n")),
    entry("chunk size empty", BAD, Must, |out, _| chunked(out, b"\r\nhello\r\n0\r\n\r\n")),
    entry("chunk size overlong", TOO_LONG, Must, |out, _| chunked(out, b"10000000000000005\r\nhello\r\n0\r\n\r\n")),
    entry("chunk longer than its size", BAD, Must, |out, _| chunked(out, b"3\r\nhello\r\n0\r\n\r\n")),
    entry("chunk line ends in LF", BAD, Must, |out, _| chunked(out, b"5\nhello\r\n0\r\n\r\n")),
    entry("obs-fold", BAD, Must, |out, _| post(out, "X-A: b\r\n c\r\nContent-Length: 5\r\n", b"hello")),
    entry("fold before the first header", BAD, Must, |out, _| raw(out, b"GET / HTTP/1.1\r\n Host: t\r\nHost: t\r\n\r\n")),
    entry("LF everywhere", BAD, Must, |out, _| raw(out, b"GET / HTTP/1.1\nHost: t\n\n")),
    entry("LF after one header", BAD, Must, |out, _| post(out, "X-A: b\nContent-Length: 5\r\n", b"hello")),
    entry("CR inside a header", BAD, Must, |out, _| post(out, "X-A: b\rContent-Length: 0\r\nContent-Length: 5\r\n", b"hello")),
    entry("NUL in a header", BAD, Must, |out, _| post(out, "X-A: b\0c\r\nContent-Length: 5\r\n", b"hello")),
    entry("control byte in a header", BAD, Must, |out, _| post(out, "X-A: b\x01c\r\nContent-Length: 5\r\n", b"hello")),
    entry("space before the colon", BAD, Must, |out, _| post(out, "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", b"hello")),
    entry("space in a header name", BAD, Must, |out, _| post(out, "X A: b\r\nContent-Length: 5\r\n", b"hello")),
    entry("header without a name", BAD, Must, |out, _| post(out, ": b\r\nContent-Length: 5\r\n", b"hello")),
    entry("header without a colon", BAD, Must, |out, _| post(out, "Nonsense\r\nContent-Length: 5\r\n", b"hello")),
    entry("no Host", BAD, May, |out, _| out.extend_from_slice(b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n")),
    entry("two Hosts", BAD, May, |out, _| out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n")),
    entry("HTTP/2.0", &[400, 505], Must, |out, _| raw(out, b"GET / HTTP/2.0\r\nHost: t\r\n\r\n")),
    entry("HTTX/1.1", &[400, 505], Must, |out, _| raw(out, b"GET / HTTX/1.1\r\nHost: t\r\n\r\n")),
    entry("no version", &[400, 505], Must, |out, _| raw(out, b"GET /\r\nHost: t\r\n\r\n")),
    entry("space in the target", &[400, 505], Must, |out, _| raw(out, b"GET /users/1 2 HTTP/1.1\r\nHost: t\r\n\r\n")),
    entry("bytes in the method", BAD_CODING, Must, |out, _| raw(out, b"G(T / HTTP/1.1\r\nHost: t\r\n\r\n")),
    entry("target without a slash", &[400, 404], May, |out, _| out.extend_from_slice(b"GET users/1 HTTP/1.1\r\nHost: t\r\n\r\n")),
    entry("bad percent", BAD, May, bad_percent),
    entry("target over the limit", &[414], Must, long_target),
    entry("too many headers", &[431], Must, many_headers),
    entry("headers over the limit", &[431], Must, long_header),
    entry("garbage", &[400, 505], Must, garbage),
    entry("TLS hello", &[400, 505], Must, tls_hello),
];

/// Adds a POST with these field lines and this body, and then the smuggled request.
fn post(out: &mut Vec<u8>, headers: &str, body: &[u8]) {
    out.extend_from_slice(b"POST /echo HTTP/1.1\r\nHost: t\r\n");
    out.extend_from_slice(headers.as_bytes());
    out.extend_from_slice(b"\r\n");
    raw(out, body);
}

fn chunked(out: &mut Vec<u8>, body: &[u8]) {
    post(out, "Transfer-Encoding: chunked\r\n", body);
}

fn raw(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(SMUGGLED);
}

fn bad_percent(out: &mut Vec<u8>, random: &mut Prng) {
    let escape = random.pick(&["%zz", "%", "%4", "%4g", "%-1", "%%41"]);
    out.extend_from_slice(b"GET /users/");
    out.extend_from_slice(escape.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: t\r\n\r\n");
}

fn long_target(out: &mut Vec<u8>, random: &mut Prng) {
    out.extend_from_slice(b"GET /users/");
    out.resize(out.len() + random.between(8 * 1024, 20 * 1024), b'a');
    raw(out, b" HTTP/1.1\r\nHost: t\r\n\r\n");
}

fn many_headers(out: &mut Vec<u8>, random: &mut Prng) {
    out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: t\r\n");
    for index in 0..random.between(100, 300) {
        out.extend_from_slice(format!("X-{index}: a\r\n").as_bytes());
    }
    raw(out, b"\r\n");
}

fn long_header(out: &mut Vec<u8>, random: &mut Prng) {
    out.extend_from_slice(b"GET / HTTP/1.1\r\nHost: t\r\nX-Long: ");
    out.resize(out.len() + random.between(32 * 1024, 80 * 1024), b'a');
    raw(out, b"\r\n\r\n");
}

/// Adds random bytes. The first byte is not valid in a method, so the server need not wait for the rest of the line.
fn garbage(out: &mut Vec<u8>, random: &mut Prng) {
    out.push(*random.pick(b"\x00\x01\x7f\x80\xff(/:;<=>?@[\\]{}\""));
    for _ in 0..random.length(2048) {
        out.push(random.next() as u8);
    }
    raw(out, b"\r\n\r\n");
}

/// Adds the first bytes of a TLS 1.2 ClientHello record.
fn tls_hello(out: &mut Vec<u8>, random: &mut Prng) {
    out.extend_from_slice(b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03");
    for _ in 0..194 {
        out.push(random.next() as u8);
    }
}
