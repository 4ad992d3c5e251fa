//! Tests with responses that arrive in pieces of any size.

use super::{Input, ResponseRead, Responses};
use crate::codec::http1::fields::NO_FIELDS;
use crate::codec::http1::response_head::RequestKind;
use crate::codec::http1::stored_section;
use crate::stream::Filled;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io;

/// A connection whose peer has sent these pieces. If `ends` is true, the peer has closed the connection after the last
/// piece.
struct Pieces {
    buffered: Vec<u8>,
    coming: VecDeque<Vec<u8>>,
    ends: bool,
}

impl Pieces {
    fn new(bytes: &[u8], size: usize, ends: bool) -> Pieces {
        Pieces { buffered: Vec::new(), coming: bytes.chunks(size).map(<[u8]>::to_vec).collect(), ends }
    }
}

impl Input for Pieces {
    fn buffered(&self) -> &[u8] {
        &self.buffered
    }
    fn consume(&mut self, count: usize) {
        self.buffered.drain(..count);
    }
    fn fill(&mut self, _: usize) -> io::Result<Filled> {
        Ok(match self.coming.pop_front() {
            Some(piece) => {
                self.buffered.extend(piece);
                Filled::Some
            }
            None if self.ends => Filled::End,
            None => Filled::WouldBlock,
        })
    }
    fn is_open(&self) -> bool {
        !self.ends
    }
}

const LIMITS: (usize, usize) = (1000, 10);

/// Reads heads up to the final head, and the body as a whole. Returns the statuses, and the body or the reason why it
/// could not be read.
fn read(input: &mut Pieces, limit: u64) -> (Vec<u16>, Result<Vec<u8>, String>, Responses) {
    let mut responses = Responses::new(LIMITS);
    responses.expect(RequestKind::Other);
    let (mut statuses, mut table) = (Vec::new(), NO_FIELDS);
    while statuses.last().is_none_or(|&status| status < 200) {
        match responses.head(input, &mut table).expect("no error") {
            ResponseRead::Ready(head) => statuses.push(head.status),
            other => return (statuses, Err(format!("{other:?}")), responses),
        }
    }
    let body = match responses.whole(input, limit).expect("no error") {
        ResponseRead::Ready(data) => {
            let body = input.buffered()[data.data].to_vec();
            input.consume(data.consume);
            Ok(body)
        }
        ResponseRead::End => Ok(responses.take_collected()),
        other => Err(format!("{other:?}")),
    };
    (statuses, body, responses)
}

const CHUNKED: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n1\r\n \r\n5;a=b\r\nworld\r\n0\r\nA: b\r\nC: d\r\n\r\n";

#[test]
fn a_chunked_body_with_trailers_is_read_from_pieces_of_any_size() {
    for size in 1..CHUNKED.len() {
        let mut input = Pieces::new(CHUNKED, size, false);
        let (statuses, body, responses) = read(&mut input, 100);
        assert_eq!(statuses, [100, 200], "{size}");
        assert_eq!(body.as_deref(), Ok(&b"hello world"[..]), "{size}");
        let trailers = responses.trailers();
        assert_eq!(stored_section::joined(trailers, b"c").as_deref(), Some(&b"d"[..]));
        assert!(responses.is_complete() && responses.is_reusable(&input));
    }
}

#[test]
fn bytes_after_the_announced_length_prevent_further_requests() {
    for size in 1..50 {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloX";
        let mut input = Pieces::new(bytes, size, false);
        let (_, body, responses) = read(&mut input, 5);
        assert_eq!(body.as_deref(), Ok(&b"hello"[..]));
        while matches!(input.fill(0), Ok(Filled::Some)) {}
        assert!(responses.is_complete() && !responses.is_reusable(&input));
    }
}

#[test]
fn the_end_of_the_connection_completes_only_a_body_without_other_framing() {
    let read = |bytes: &[u8]| read(&mut Pieces::new(bytes, 7, true), 100).1;
    assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\nall"), Ok(b"all".to_vec()));
    let cut = Err("Truncated".to_string());
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Le"), cut);
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), cut);
    assert_eq!(read(&CHUNKED[..CHUNKED.len() - 2]), cut);
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_arrives() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello world",
    ] {
        let mut input = Pieces::new(bytes, 9, false);
        let (_, body, responses) = read(&mut input, 10);
        assert!(body.is_err_and(|error| error.contains("413")));
        assert!(!responses.is_reusable(&input));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_cause_no_panic_and_no_endless_loop(
        start in 0..CHUNKED.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        size in 1usize..20,
        ends in any::<bool>(),
    ) {
        let bytes = [&CHUNKED[..start], &bytes].concat();
        let _ = read(&mut Pieces::new(&bytes, size, ends), 100);
    }
}
