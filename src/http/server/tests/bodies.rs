//! Request bodies that are read, refused or discarded.

use super::*;
use crate::codec::http1::reject::Reject;

fn chunked(path: &str, chunks: &[&[u8]], end: &str) -> Vec<u8> {
    let mut all = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in chunks {
        crate::codec::http1::write::chunk(&mut all, chunk);
    }
    all.extend_from_slice(end.as_bytes());
    all
}

#[test]
fn a_whole_body_is_returned_once_it_has_arrived() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &[post("/echo", b"hello"), get("/len/1")].concat());
    let text = pair.got(number);
    let found = answers(text.as_bytes(), &[]);
    assert_eq!(found, [(200, b"hello".to_vec()), (200, b"a".to_vec())]);
    let text = pair.exchange(&post("/echo", b""));
    assert_eq!(answers(text.as_bytes(), &[]), [(200, Vec::new())]);
}

#[test]
fn a_read_waits_for_a_body_that_arrives_later() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let body = pattern(200_000);
    let all = post("/echo", &body);
    for piece in all.chunks(30_000) {
        pair.send(number, piece);
        if !pair.waiting.is_empty() {
            pair.echo_on();
        }
    }
    let text = pair.got(number);
    assert!(answers(text.as_bytes(), &[]) == [(200, body)]);
    assert_eq!(pair.log.iter().filter(|line| *line == "Readable").count(), 6);
}

#[test]
fn bytes_that_were_taken_from_the_system_are_read_without_an_event() {
    for size in (30..70).map(|count| count * 33_333) {
        let mut pair = Pair::new();
        let number = pair.connect();
        pair.wires[number].1.encrypt();
        let body = pattern(size);
        pair.send(number, &post("/echo", &body));
        // The body takes more than one turn of reading. Each further turn begins with an event.
        for _ in 0..10 {
            pair.events(number);
            if pair.log.len() > 1 && !pair.waiting.is_empty() {
                pair.echo_on();
            }
        }
        let text = pair.got(number);
        assert_eq!(pair.waiting.len(), 0, "{size} bytes");
        assert!(answers(text.as_bytes(), &[]) == [(200, body)]);
    }
}

#[test]
fn chunks_are_joined_and_their_trailers_kept() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = chunked("/wait", &[b"hel", b"lo"], "0\r\nX-Sum: 5\r\n\r\n");
    pair.send(number, &[all, get("/")].concat());
    let id = pair.waiting[0];
    assert_eq!(pair.server.trailers(id), b"");
    let mut body = Vec::new();
    let read = pair.server.read_body(id, 100, ReadMode::Whole, &mut body);
    assert_eq!((read, &body[..]), (BodyRead::Data, &b"hello"[..]));
    assert_eq!(pair.server.trailers(id), b"X-Sum: 5\r\n\r\n");
    let read = pair.server.read_body(id, 100, ReadMode::Piece, &mut body);
    assert_eq!((read, body.len()), (BodyRead::End, 0));
    pair.answer_first(b"x");
    assert!(pair.got(number).ends_with('/'));
    assert_eq!(pair.server.trailers(id), b"", "the next request has its own trailers");
}

#[test]
fn pieces_are_returned_as_they_arrive() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = post("/wait", b"abcdef");
    pair.send(number, &all[..all.len() - 4]);
    let (id, mut out) = (pair.waiting[0], Vec::new());
    let mut read = |pair: &mut Pair| {
        let read = pair.server.read_body(id, 100, ReadMode::Piece, &mut out);
        (read, String::from_utf8_lossy(&out).into_owned())
    };
    assert_eq!(read(&mut pair), (BodyRead::Data, "ab".to_string()));
    assert_eq!(read(&mut pair), (BodyRead::Pending, String::new()));
    pair.send(number, b"cd");
    assert_eq!(read(&mut pair), (BodyRead::Data, "cd".to_string()));
    pair.end(number);
    assert_eq!(read(&mut pair), (BodyRead::Truncated, String::new()));
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_arrives() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n");
    let (id, mut out) = (pair.waiting[0], Vec::new());
    let BodyRead::Refused(reject) = pair.server.read_body(id, 100, ReadMode::Whole, &mut out) else {
        panic!("not refused");
    };
    assert_eq!(reject.status, 413);
    pair.answer_first(b"too long");
    assert!(pair.got(number).contains("Connection: close\r\n"));
    assert!(pair.lingers(number));

    let number = pair.connect();
    pair.send(number, &chunked("/wait", &[&[b'a'; 60]], "3c\r\n"));
    let id = pair.waiting[0];
    let read = pair.server.read_body(id, 100, ReadMode::Whole, &mut out);
    assert!(matches!(read, BodyRead::Refused(_)), "refused by the size of the chunk");
}

#[test]
fn a_body_over_a_limit_may_be_read_with_a_larger_one() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let (first, second) = (pattern(60), [b'a'; 70]);
    pair.send(number, &chunked("/wait", &[&first, &second], "0\r\n\r\n"));
    let (id, mut out) = (pair.waiting[0], Vec::new());
    let mut read = |limit, mode| (pair.server.read_body(id, limit, mode, &mut out), out.clone());
    for (limit, mode) in [(59, ReadMode::Whole), (59, ReadMode::Piece), (129, ReadMode::Whole), (129, ReadMode::Whole)]
    {
        assert!(matches!(read(limit, mode), (BodyRead::Refused(Reject { status: 413, .. }), _)));
    }
    assert_eq!(read(130, ReadMode::Piece), (BodyRead::Data, first));
    assert_eq!(read(130, ReadMode::Whole), (BodyRead::Data, second.to_vec()));
}

#[test]
fn pieces_begin_with_what_an_incomplete_read_has_collected() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &chunked("/wait", &[b"hel", b"lo"], "2\r\nxy"));
    let (id, mut out) = (pair.waiting[0], Vec::new());
    let mut read = |mode| (pair.server.read_body(id, 100, mode, &mut out), out.clone());
    assert_eq!(read(ReadMode::Whole), (BodyRead::Pending, Vec::new()));
    assert_eq!(read(ReadMode::Piece), (BodyRead::Data, b"helloxy".to_vec()));
    assert_eq!(read(ReadMode::Piece), (BodyRead::Pending, Vec::new()));
}

#[test]
fn broken_chunks_are_refused() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &chunked("/echo", &[b"a"], "x\r\n"));
    assert!(pair.log[1].contains("400"), "{:?}", pair.log);
    assert!(pair.got(number).contains("Connection: close"));
    let number = pair.connect();
    pair.send(number, &chunked("/skip", &[b"a"], "x\r\n"));
    assert_eq!(answers(pair.got(number).as_bytes(), &[]).len(), 1);
    assert!(pair.lingers(number), "a malformed unread body closes the connection");
}

const EXPECTS: &[u8] = b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn continue_is_sent_when_the_body_is_read() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, EXPECTS);
    assert_eq!(pair.got(number), "");
    pair.echo(pair.waiting[0]);
    assert_eq!(pair.got(number), "HTTP/1.1 100 Continue\r\n\r\n");
    pair.send(number, b"hello");
    pair.echo_on();
    let text = pair.got(number);
    assert_eq!(answers(text.as_bytes(), &[]), [(200, b"hello".to_vec())]);
    assert!(!text.contains("Connection: close"));
}

#[test]
fn continue_is_not_sent_for_an_arrived_or_unread_body() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &[EXPECTS, b"hello"].concat());
    pair.echo_on();
    assert!(pair.got(number).starts_with("HTTP/1.1 200"));
    let number = pair.connect();
    pair.send(number, EXPECTS);
    pair.answer_first(b"no");
    let text = pair.got(number);
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("Connection: close"));
}

#[test]
fn an_unread_body_is_discarded_as_it_arrives() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = [post("/skip", &pattern(100_000)), get("/len/1")].concat();
    for piece in all.chunks(7_000) {
        pair.send(number, piece);
    }
    let text = pair.got(number);
    assert_eq!(answers(text.as_bytes(), &[]).len(), 2);
    assert_eq!(pair.log, ["POST /skip", "GET /len/1"]);
}

#[test]
fn a_long_unread_body_closes_the_connection() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, b"POST /skip HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
    assert!(pair.got(number).contains("Connection: close"));
    assert!(pair.lingers(number));
    let number = pair.connect();
    let chunk = pattern(10_000);
    pair.send(number, &chunked("/skip", &[&chunk], ""));
    assert!(!pair.got(number).contains("Connection: close"));
    for _ in 0..30 {
        let mut more = Vec::new();
        crate::codec::http1::write::chunk(&mut more, &chunk);
        pair.send(number, &more);
    }
    assert!(pair.lingers(number));
}

#[test]
fn the_client_of_a_refused_upload_receives_the_response() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, b"POST /skip HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    for _ in 0..20 {
        pair.send(number, &pattern(50_000));
        assert!(pair.lingers(number));
    }
    pair.end(number);
    assert!(pair.is_closed(number));
}
