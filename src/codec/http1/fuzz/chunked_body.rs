//! The target `chunked_body`: the chunked transfer coding.

use super::super::body::{BodyEvent, Framing, IncomingBody};
use super::super::write;
use super::Refusal;
use super::model::{self, LineEnd};
use crate::codec::fuzz_input::{Input, pieces};

/// The result of a decoder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) data: Vec<u8>,
    /// The trailer section; `None` if the body is incomplete.
    pub(crate) trailers: Option<Vec<u8>>,
    /// The bytes after the body.
    pub(crate) rest: Vec<u8>,
    pub(crate) refusal: Option<Refusal>,
}

/// Decodes a body that arrives in these pieces.
fn decoded(pieces: &[&[u8]]) -> Decoded {
    let (mut found, mut buffer) = (Decoded::default(), Vec::new());
    let mut body = IncomingBody::new(Framing::Chunked);
    let (mut steps, mut fed) = (0, 0);
    let mut coming = pieces.iter();
    loop {
        steps += 1;
        let announced = body.announced();
        match body.next(&buffer, u64::MAX) {
            Err(reject) => {
                found.refusal = Some(reject.into());
                assert_eq!(body.next(b"0\r\n\r\n", u64::MAX), Err(reject), "a refusal is final");
                assert!(!body.is_done() && !body.end());
                break;
            }
            Ok(BodyEvent::Data { data, consume }) => {
                assert!(!data.is_empty() && data.end <= consume && consume <= buffer.len());
                found.data.extend_from_slice(&buffer[data]);
                buffer.drain(..consume);
            }
            Ok(BodyEvent::End { consume, trailers }) => {
                found.trailers = Some(buffer[trailers].to_vec());
                buffer.drain(..consume);
                assert!(body.is_done());
                break;
            }
            Ok(BodyEvent::More { consume }) => {
                buffer.drain(..consume);
                let Some(piece) = coming.next() else { break };
                buffer.extend_from_slice(piece);
                fed += piece.len();
            }
        }
        assert!(body.announced() >= announced && body.announced() >= body.received());
        assert_eq!(body.received(), found.data.len() as u64);
    }
    assert!(body.announced() <= i64::MAX as u64);
    // Each step takes a piece, or at least a byte of data.
    assert!(steps <= 2 + pieces.len() + fed, "{steps} steps for {fed} bytes");
    // After a refusal, the rest depends on the pieces.
    if found.refusal.is_none() {
        coming.for_each(|piece| buffer.extend_from_slice(piece));
        found.rest = buffer;
    }
    found
}

/// Decodes the rest of the input, and encodes what was decoded. The input: sizes of pieces, the bytes of the peer.
pub(crate) fn chunked_body(data: &[u8]) -> Decoded {
    let mut input = Input(data);
    let sizes = input.sizes();
    // A fault in incomplete trailers may be found late, so they are completed.
    let bytes = [input.0, b"\r\n\r\n"].concat();
    let whole = decoded(&[&bytes]);
    assert_eq!(decoded(&pieces(&bytes, &sizes)), whole, "in pieces of {sizes:?}");
    assert_eq!(decoded(&pieces(&bytes, &[1])), whole, "in single bytes");
    let Some(trailers) = &whole.trailers else { return whole };
    for line_end in [LineEnd::Strict, LineEnd::Lenient] {
        let (data, at) = model::chunks(&bytes, line_end).expect("readers agree on the chunks");
        assert!(data == whole.data, "readers agree on the data");
        assert_eq!(bytes[at..], [&trailers[..], &whole.rest].concat(), "readers agree on the end");
    }
    let fields = model::section(trailers).expect("readers agree on the trailers");
    assert!(trailers.len() <= 8192 && fields.len() <= 64, "the limits of trailers");
    let mut again = Vec::new();
    for piece in pieces(&whole.data, &sizes) {
        write::chunk(&mut again, piece);
    }
    again.extend_from_slice(b"0\r\n");
    again.extend_from_slice(trailers);
    again.extend_from_slice(&whole.rest);
    assert_eq!(decoded(&pieces(&again, &sizes)), whole, "the encoded data is decoded again");
    whole
}

/// Returns seeds of [`chunked_body`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let input = |sizes: &[u8], text: &str| [&[sizes.len() as u8], sizes, text.as_bytes()].concat();
    let long = format!("1;{}\r\nx\r\n", "a".repeat(4000));
    vec![
        input(&[3], "5\r\nhello\r\n000\r\n\r\nGET / HTTP"),
        input(&[1, 200], "A ; name=\"va\\\"lue\" ;b=c\r\n0123456789\r\n0;x\r\nA: b\r\nC:\td \r\n\r\n"),
        input(&[], "5\r\nhel"),
        input(&[], "0\r\nA: b\r\nbad\r\n\r\n"),
        input(&[], "5\nhello\r\n0\r\n\r\n"),
        input(&[], "5\r\nhello0\r\n\r\n"),
        input(&[7], "7fffffffffffffff\r\nx"),
        input(&[], "8000000000000000\r\nx"),
        input(&[], &long.repeat(5)),
        input(&[0], &format!("0\r\n{}\r\n", "A: b\r\n".repeat(65))),
        input(&[0], &format!("0\r\nA: {}\r\n\r\n", "b".repeat(8190))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_trailers_and_limits() {
        let shown = |found: Decoded| match found {
            Decoded { refusal: Some(Refusal(status, reason)), .. } => format!("{status} {reason}"),
            Decoded { trailers: None, data, .. } => format!("incomplete {}", data.len()),
            Decoded { trailers: Some(trailers), data, rest, .. } => {
                format!("{} {} {}", data.len(), trailers.len(), rest.len())
            }
        };
        let all: Vec<_> = seeds().iter().map(|seed| shown(chunked_body(seed))).collect();
        let expected = [
            "5 2 14",
            "10 15 4",
            "incomplete 5",
            "400 malformed header name",
            "400 malformed chunk line",
            "400 chunk without its CRLF",
            "incomplete 5",
            "400 chunk size too large",
            "400 chunk extensions too long",
            "431 too many header fields",
            "431 header section too large",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, b'0', b'\n'] {
                chunked_body(&vec![first; length]);
            }
        }
    }
}
