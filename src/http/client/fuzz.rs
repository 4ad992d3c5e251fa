//! The target `client_response` of the fuzzers.

use super::{Data, Input, ResponseHead, ResponseRead, Responses};
use crate::codec::fuzz_input::{self, pieces};
use crate::codec::http1::fields::NO_FIELDS;
use crate::codec::http1::fuzz::Refusal;
use crate::codec::http1::fuzz::model::{self, Announced, LineEnd, Message};
use crate::codec::http1::response_head::RequestKind;
use crate::codec::http1::write;
use crate::stream::Filled;
use std::io;

/// A connection whose peer has sent these pieces and then closed the connection.
struct Pieces<'b> {
    buffered: Vec<u8>,
    coming: std::vec::IntoIter<&'b [u8]>,
    /// The number of calls of `fill`, and of bytes consumed.
    fills: usize,
    consumed: usize,
}

impl Pieces<'_> {
    fn new<'b>(pieces: Vec<&'b [u8]>) -> Pieces<'b> {
        Pieces { buffered: Vec::new(), coming: pieces.into_iter(), fills: 0, consumed: 0 }
    }
}

impl Input for Pieces<'_> {
    fn buffered(&self) -> &[u8] {
        &self.buffered
    }
    fn consume(&mut self, count: usize) {
        self.buffered.drain(..count);
        self.consumed += count;
    }
    fn fill(&mut self, _: usize) -> io::Result<Filled> {
        self.fills += 1;
        let Some(piece) = self.coming.next() else { return Ok(Filled::End) };
        self.buffered.extend_from_slice(piece);
        Ok(Filled::Some)
    }
    fn is_open(&self) -> bool {
        !self.coming.as_slice().is_empty()
    }
}

/// How a body is read.
#[derive(Clone, Copy)]
enum Reading {
    Whole,
    InPieces,
}

/// The response to one request: its heads, its body, and its trailers. The bytes before its body, which `heads` are
/// made of, are kept for the second reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) heads: Vec<ResponseHead>,
    /// The body; otherwise the reason why the response could not be read.
    pub(crate) body: Result<Vec<u8>, Refusal>,
    trailers: Vec<u8>,
    /// Whether another request could be sent if the connection were open and had no further bytes.
    pub(crate) is_reusable: bool,
    /// The offsets in the bytes of the peer: of the response, of its body, and of its end.
    offsets: [usize; 3],
}

const LIMITS: (usize, usize) = (400, 12);
const MAX_BODY: u64 = 5000;

/// Reads the responses to requests of these kinds.
fn received(pieces: Vec<&[u8]>, kinds: &[RequestKind], reading: Reading) -> Vec<Response> {
    let count: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut input = Pieces::new(pieces);
    let (mut responses, mut all) = (Responses::new(LIMITS), Vec::new());
    for kind in kinds {
        responses.expect(*kind);
        let begin = input.consumed;
        let (heads, failure) = heads(&mut responses, &mut input);
        let body_at = input.consumed;
        let body = match failure {
            Some(failure) => Err(failure),
            None => body(&mut responses, &mut input, reading),
        };
        let is_reusable = responses.keep_alive && responses.is_complete();
        assert!(!is_reusable || body.is_ok());
        let trailers = responses.trailers().to_vec();
        all.push(Response { heads, body, trailers, is_reusable, offsets: [begin, body_at, input.consumed] });
        if !is_reusable {
            break;
        }
    }
    assert!(input.fills <= count + kinds.len() * 2 + 2, "{} reads of {count} bytes", input.fills);
    all
}

/// Returns why a response cannot be read. An end that is too early has the status 0.
fn failure<T: std::fmt::Debug>(read: io::Result<ResponseRead<T>>) -> Refusal {
    match read {
        Ok(ResponseRead::Refused(reject)) => reject.into(),
        Ok(ResponseRead::Truncated) => Refusal(0, "truncated"),
        other => panic!("{other:?} although the bytes have ended"),
    }
}

/// Reads heads up to the final head, or up to a failure.
fn heads(responses: &mut Responses, input: &mut Pieces<'_>) -> (Vec<ResponseHead>, Option<Refusal>) {
    let (mut heads, mut table) = (Vec::<ResponseHead>::new(), NO_FIELDS);
    while heads.last().is_none_or(|head| head.status < 200 && head.status != 101) {
        match responses.head(input, &mut table) {
            Ok(ResponseRead::Ready(head)) => heads.push(head),
            other => return (heads, Some(failure(other))),
        }
    }
    (heads, None)
}

fn body(responses: &mut Responses, input: &mut Pieces<'_>, reading: Reading) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    loop {
        let read = match reading {
            Reading::Whole => responses.whole(input, MAX_BODY),
            Reading::InPieces => responses.piece(input, MAX_BODY),
        };
        match read {
            Ok(ResponseRead::Ready(Data { data, consume })) => {
                assert!(!data.is_empty() && data.end <= consume);
                body.extend_from_slice(&input.buffered[data]);
                input.consume(consume);
                assert!(body.len() as u64 <= MAX_BODY, "the limit of a body");
                if matches!(reading, Reading::Whole) {
                    return Ok(body);
                }
            }
            Ok(ResponseRead::End) => {
                body.append(&mut responses.take_collected());
                assert!(body.len() as u64 <= MAX_BODY, "the limit of a body");
                return Ok(body);
            }
            other => return Err(failure(other)),
        }
    }
}

/// Checks a response that was read completely against the second reader.
fn check(response: &Response, bytes: &[u8], kind: RequestKind) {
    let [begin, body_at, end] = response.offsets;
    let (mut head, mut model) = (&bytes[begin..body_at], None);
    for expected in &response.heads {
        let length = head.windows(4).position(|window| window == b"\r\n\r\n").expect("a blank line") + 4;
        let read = Message::read(&head[..length]).expect("readers agree on the lines");
        let line = read.first;
        let version: &[u8] = if line.starts_with(b"HTTP/1.0 ") { b"10" } else { b"11" };
        assert_eq!(version, expected.version.to_string().as_bytes());
        assert_eq!(&line[9..12], expected.status.to_string().as_bytes());
        assert!(head[..length].ends_with(&expected.bytes));
        assert!(read.fields.len() <= LIMITS.1 && length <= line.len() + LIMITS.0 + 2, "the limits of heads");
        model = Some(read);
        head = &head[length..];
    }
    assert!(head.is_empty());
    let (Some(model), Some(last)) = (model, response.heads.last()) else { return };
    let announced = model.announced().expect("readers agree on the framing");
    let Ok(body) = &response.body else { return };
    if kind == RequestKind::Head || matches!(last.status, 101 | 204 | 304) {
        assert!(body.is_empty() && end == body_at, "a body where none can be");
        return;
    }
    match announced {
        Announced::Length(length) => assert!(body.len() as u64 == length && bytes[body_at..end] == body[..]),
        Announced::Nothing => {
            assert!(bytes[body_at..end] == body[..] && end == bytes.len() && !response.is_reusable);
        }
        Announced::Chunked => {
            assert_eq!(last.version, 11, "HTTP/1.0 has no chunks");
            for line_end in [LineEnd::Strict, LineEnd::Lenient] {
                let (data, at) = model::chunks(&bytes[body_at..end], line_end).expect("readers agree on the chunks");
                assert!(data == *body, "readers agree on the data");
                let trailers = &bytes[body_at + at..end];
                assert!(trailers == response.trailers || trailers == b"\r\n" && response.trailers.is_empty());
            }
        }
    }
    check_again(response, body, kind);
}

/// Checks that a response that is written with other framing is read equally.
fn check_again(response: &Response, body: &[u8], kind: RequestKind) {
    let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(100) {
        write::chunk(&mut text, piece);
    }
    let trailers = if response.trailers.is_empty() { b"\r\n" } else { &response.trailers[..] };
    text.extend_from_slice(&[b"0\r\n", trailers].concat());
    let again = received(vec![&text], &[kind], Reading::Whole);
    assert!(again[0].body.as_deref() == Ok(body) && again[0].trailers == response.trailers && again[0].is_reusable);
}

/// Reads responses. The input: which requests have the method HEAD, sizes of pieces, the bytes of the server. The result
/// must not depend on the pieces, nor on how a body is read.
pub(crate) fn client_response(data: &[u8]) -> Vec<Response> {
    let mut input = fuzz_input::Input(data);
    let flags = input.byte();
    let kind = |index: u8| if flags >> index & 1 != 0 { RequestKind::Head } else { RequestKind::Other };
    let kinds: Vec<_> = (0..4).map(kind).collect();
    let sizes = input.sizes();
    // A fault in an incomplete head may be found late, so the last head is completed.
    let bytes = [input.0, b"\r\n\r\n"].concat();
    let whole = received(vec![&bytes], &kinds, Reading::InPieces);
    for (pieces, reading) in [
        (vec![&bytes[..]], Reading::Whole),
        (pieces(&bytes, &sizes), Reading::InPieces),
        (pieces(&bytes, &sizes), Reading::Whole),
        (pieces(&bytes, &[1]), Reading::InPieces),
        (pieces(&bytes, &[1]), Reading::Whole),
    ] {
        let mut found = received(pieces, &kinds, reading);
        // The data before a failure may have been consumed or not.
        for (found, whole) in found.iter_mut().zip(&whole) {
            if found.body.is_err() {
                found.offsets[2] = whole.offsets[2];
            }
            // The line of a chunk that is too large may also be malformed: it is refused for one of both reasons.
            if let (Err(Refusal(413, _)), Err(Refusal(400, _))) | (Err(Refusal(400, _)), Err(Refusal(413, _))) =
                (&found.body, &whole.body)
            {
                found.body.clone_from(&whole.body);
            }
        }
        assert_eq!(found, whole, "in pieces of {sizes:?}");
    }
    for (response, kind) in whole.iter().zip(&kinds) {
        check(response, &bytes, *kind);
    }
    whole
}

/// Returns seeds of [`client_response`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let input =
        |heads: u8, sizes: &[u8], text: &str| [&[heads, sizes.len() as u8][..], sizes, text.as_bytes()].concat();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n \r\n0\r\nA: b\r\n\r\n";
    let length = "HTTP/1.1 404 \r\nContent-Length: 5\r\n\r\nhello";
    let continues = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103\r\nLink: x\r\n\r\n";
    let fields = "A: b\r\n".repeat(13);
    vec![
        input(0, &[3], &format!("{continues}{chunked}{length}{chunked}{length}")),
        input(
            5,
            &[40],
            &format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{length}HTTP/1.1 304 Not Modified\r\n\r\n{length}"),
        ),
        input(0, &[], "HTTP/1.0 200 OK\r\nServer: x\r\n\r\nuntil the end"),
        input(0, &[9], &format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n{chunked}")),
        input(0, &[], "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbytes"),
        input(0, &[], "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
        // Faults and limits.
        input(0, &[], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        input(0, &[], "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        input(0, &[], "HTTP/1.1 200 OK\r\nContent-Length: 5001\r\n\r\n"),
        input(0, &[], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1389\r\n"),
        input(0, &[], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1389\rX"),
        input(0, &[], "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"),
        input(0, &[1], &format!("HTTP/1.1 200 OK\r\n{fields}\r\n")),
        input(0, &[1], &format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(400))),
        input(0, &[1], "HTTP/2 200\r\n\r\n"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_every_framing_and_limit() {
        let shown = |response: &Response| {
            let statuses: Vec<_> = response.heads.iter().map(|head| head.status.to_string()).collect();
            let body = match &response.body {
                Ok(body) => body.len().to_string(),
                Err(Refusal(status, reason)) => format!("{status} {reason}"),
            };
            format!("{} {body}{}", statuses.join(" "), if response.is_reusable { "" } else { " closes" })
        };
        let all = |seed: &Vec<u8>| client_response(seed).iter().map(shown).collect::<Vec<_>>().join(", ");
        let expected = [
            "100 103 200 6, 404 5, 200 6, 404 5",
            "200 0, 404 5, 304 0, 404 5",
            "200 17 closes",
            "200 0, 200 6,  400 malformed status line closes",
            "101 0 closes",
            "204 0 closes",
            " 400 Content-Length with Transfer-Encoding closes",
            " 400 unknown transfer coding closes",
            "200 413 the body is larger than allowed closes",
            "200 413 the body is larger than allowed closes",
            "200 400 malformed chunk line closes",
            "200 0 truncated closes",
            " 431 too many header fields closes",
            " 431 header section too large closes",
            " 400 unknown HTTP version closes",
        ];
        assert_eq!(seeds().iter().map(all).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, b'H', b'\n'] {
                client_response(&vec![first; length]);
            }
        }
    }
}
