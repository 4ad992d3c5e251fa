//! Responses: fields, framing, pieces, long bodies, backpressure.

use super::*;
use crate::codec::http1::body::Framing;
use bytes::Bytes;

/// Opens a connection and sends this request, whose handler waits.
fn waits(pair: &mut Pair, bytes: &[u8]) -> (usize, RequestId) {
    let number = pair.connect();
    pair.send(number, bytes);
    (number, *pair.waiting.last().expect("a waiting request"))
}

const HEAD: &[u8] = b"HEAD /wait HTTP/1.1\r\nHost: a\r\n\r\n";
const OLD: &[u8] = b"GET /wait HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";

fn respond(pair: &mut Pair, id: RequestId, status: u16, media_type: MediaType<'_>, body: &[u8]) -> Responded {
    let response = Response { status, media_type, body: Body::Bytes(body) };
    pair.server.respond(id, response, pair.clock)
}

#[test]
fn fields_that_were_set_before_are_sent_with_the_response() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    let draft = pair.server.draft(id).expect("open");
    draft.set(b"X-One", b"1").unwrap();
    draft.set(b"Date", b"today").unwrap();
    pair.server.draft(id).expect("still open").add(b"X-One", b"2").unwrap();
    respond(&mut pair, id, 201, MediaType::Json, b"{}");
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    assert_eq!(
        pair.got(number),
        "HTTP/1.1 201 Created\r\nX-One: 1\r\nDate: today\r\nX-One: 2\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    );
    pair.send(number, &get("/"));
    assert!(!pair.got(number).contains("X-One"), "a field belongs to one response only");
}

#[test]
fn a_field_may_end_the_connection() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.server.draft(id).unwrap().set(b"Connection", b"close").unwrap();
    pair.answer_first(b"x");
    assert_eq!(pair.got(number).matches("Connection: close").count(), 1);
    assert!(pair.lingers(number));
    let _ = id;
}

#[test]
fn responses_that_cannot_have_a_body_have_none() {
    for (request, status, set, says) in [
        (HEAD, 200, None, Some("Content-Length: 3\r\n")),
        (&get("/wait")[..], 204, None, None),
        (&get("/wait"), 304, Some("9"), None),
        (&get("/wait"), 205, None, Some("Content-Length: 0\r\n")),
    ] {
        let mut pair = Pair::new();
        let (number, id) = waits(&mut pair, request);
        if let Some(length) = set {
            let draft = pair.server.draft(id).unwrap();
            draft.set(b"Content-Length", length.as_bytes()).unwrap();
        }
        respond(&mut pair, id, status, MediaType::Text, b"abc");
        pair.server.end(id, RequestEnd::Complete);
        pair.run();
        let text = pair.got(number);
        assert!(text.ends_with("\r\n\r\n"), "{text}");
        assert_eq!(text.contains("Content-Length"), says.is_some(), "{text}");
        assert!(says.is_none_or(|says| text.contains(says)), "{text}");
        pair.send(number, &get("/"));
        assert!(pair.got(number).ends_with('/'));
    }
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, HEAD);
    pair.server.draft(id).unwrap().set(b"Content-Length", b"77").unwrap();
    respond(&mut pair, id, 200, MediaType::Text, b"");
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    assert!(pair.got(number).contains("Content-Length: 77\r\n"));
}

#[test]
fn pieces_are_framed_according_to_the_version() {
    for (request, pieces, expected) in [
        (&get("/wait")[..], Framing::Chunked, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
        (OLD, Framing::UntilClose, "abc"),
        (HEAD, Framing::None, ""),
    ] {
        let mut pair = Pair::new();
        let (number, id) = waits(&mut pair, request);
        let started = pair.server.begin_body(id, 200, MediaType::Given(b"a/b"), pair.clock);
        assert_eq!(started, Some(pieces));
        assert_eq!(pair.server.begin_body(id, 200, MediaType::None, pair.clock), None);
        pair.server.queue_chunk(id, b"ab").expect("a response in pieces");
        pair.run();
        assert!(pair.got(number).contains("Content-Type: a/b\r\n"), "flushed");
        pair.server.queue_chunk(id, b"c").expect("a response in pieces");
        pair.server.queue_chunk(id, b"").expect("an empty piece does not end the body");
        pair.server.end_body(id, b"").expect("a response in pieces");
        assert_eq!(pair.server.queue_chunk(id, b"d"), None);
        pair.server.end(id, RequestEnd::Complete);
        pair.run();
        let rest = pair.got(number);
        assert!(expected.ends_with(&rest), "{rest}");
        let closes = pieces == Framing::UntilClose;
        assert_eq!(pair.lingers(number), closes);
    }
}

#[test]
fn pieces_of_a_body_with_a_length_are_sent_unframed() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, OLD);
    pair.server.draft(id).unwrap().set(b"Content-Length", b"2").unwrap();
    let started = pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    assert_eq!(started, Some(Framing::Length(2)));
    pair.server.queue_chunk(id, b"ab");
    pair.server.end_body(id, b"X: y\r\n");
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    assert!(pair.got(number).ends_with("\r\n\r\nab"));
    assert!(!pair.lingers(number));
}

#[test]
fn trailers_follow_chunks() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    pair.server.queue_chunk(id, b"a");
    pair.server.end_body(id, b"X: y\r\n");
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    assert!(pair.got(number).ends_with("1\r\na\r\n0\r\nX: y\r\n\r\n"));
}

#[test]
fn an_unfinished_response_closes_the_connection() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    pair.server.queue_chunk(id, b"a");
    pair.server.end(id, RequestEnd::Cut);
    pair.run();
    assert!(pair.got(number).ends_with("1\r\na\r\n"), "earlier pieces are sent");
    assert!(pair.is_closed(number));
}

#[test]
fn a_long_body_is_sent_without_a_copy() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.take(number, 50_000);
    let body = pattern(1_000_000);
    let Responded::Rest(mut taken) = respond(&mut pair, id, 200, MediaType::Text, &body) else {
        panic!("the body was copied");
    };
    assert_eq!(pair.server.queued(id).map(|queued| queued.bytes), Some(0));
    let (mut text, mut waits) = (pair.got(number), 0);
    loop {
        match pair.server.send(id, &body, &mut taken) {
            Some(Sent::All) => break,
            Some(Sent::Blocked | Sent::BudgetSpent) => {
                let armed = pair.server.wait(id, Interest::Write, pair.clock);
                assert!(armed);
                pair.take(number, 90_000);
                waits += 1;
            }
            other => panic!("{other:?}"),
        }
        text += &pair.got(number);
    }
    pair.waiting.clear();
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    text += &pair.got(number);
    assert!(answers(text.as_bytes(), &[]) == [(200, body)]);
    assert_eq!(pair.log.iter().filter(|line| *line == "Writable").count(), waits);
}

#[test]
fn the_rest_of_a_shorter_body_is_copied() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.take(number, 20_000);
    pair.send(number, &get("/len/200000"));
    assert!(pair.waiting.is_empty());
    let mut text = pair.got(number);
    for _ in 0..10 {
        pair.take(number, 20_000);
        text += &pair.got(number);
    }
    assert!(answers(text.as_bytes(), &[]) == [(200, pattern(200_000))]);
}

#[test]
fn a_peer_that_receives_nothing_delays_its_further_requests() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.take(number, 1);
    let requests: Vec<u8> = (0..100).flat_map(|_| get("/len/15000")).collect();
    pair.send(number, &requests);
    let begun = pair.log.len();
    assert!(begun < 10, "{begun} requests were begun");
    let slot = pair.wires[number].0.slot();
    let queued = pair.server.connections[slot].queued();
    assert!(queued < settings::MAX_QUEUE_TO_PARSE + 16_000, "{queued}");
    let mut text = pair.got(number);
    while pair.log.len() < 100 {
        pair.take(number, 40_000);
        text += &pair.got(number);
    }
    pair.wires[number].1.take_all();
    pair.events(number);
    text += &pair.got(number);
    assert_eq!(answers(text.as_bytes(), &[]).len(), 100);
}

#[test]
fn a_client_that_pipelines_without_end_yields_to_others() {
    let mut pair = Pair::new();
    let (one, other) = (pair.connect(), pair.connect());
    let requests: Vec<u8> = (0..200).flat_map(|_| get("/")).collect();
    pair.wires[one].1.deliver(&requests);
    pair.wires[other].1.deliver(&get("/len/1"));
    for number in [one, other] {
        let (id, events) = (pair.wires[number].0, pair.wires[number].1.events());
        pair.server.ready(id, events, pair.clock);
    }
    pair.run();
    assert_eq!(pair.log.iter().position(|line| line == "GET /len/1"), Some(64));
    while pair.log.len() < 201 {
        pair.events(one);
    }
    assert_eq!(answers(pair.got(one).as_bytes(), &[]).len(), 200);
}

#[test]
fn many_queues_share_one_body() {
    let mut pair = Pair::new();
    let body = Bytes::from(pattern(50_000));
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let (number, id) = waits(&mut pair, &get("/wait"));
        pair.take(number, 100);
        let response = Response { status: 200, media_type: MediaType::Given(b"a/b"), body: Body::Shared(body.clone()) };
        assert_eq!(pair.server.respond(id, response, pair.clock), Responded::Done);
        pair.server.end(id, RequestEnd::Complete);
        numbers.push(number);
    }
    pair.run();
    for number in numbers {
        let mut text = pair.got(number);
        pair.take(number, 100_000);
        text += &pair.got(number);
        assert!(answers(text.as_bytes(), &[]) == [(200, body.to_vec())]);
    }
}

#[test]
fn ranges_of_files_are_sent_after_their_heads() {
    let mut pair = Pair::new();
    let file = Rc::new(pattern(700_000));
    let (number, id) = waits(&mut pair, &get("/wait"));
    let draft = pair.server.draft(id).unwrap();
    draft.set(b"Content-Length", b"650000").unwrap();
    let media_type = MediaType::Given(b"a/b");
    pair.server.begin_body(id, 206, media_type, pair.clock);
    assert!(pair.server.queue_file(id, file.clone(), 1000, 650_000));
    pair.server.end_body(id, &[]);
    pair.server.end(id, RequestEnd::Complete);
    pair.waiting.clear();
    pair.run();
    let text = pair.got(number);
    let first = text.len();
    assert!((524_288..530_000).contains(&first), "a turn: {first}");
    pair.events(number);
    let text = text + &pair.got(number);
    assert!(answers(text.as_bytes(), &[]) == [(206, file[1000..651_000].to_vec())]);

    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.server.draft(id).unwrap().set(b"Content-Length", b"10").unwrap();
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    assert!(pair.server.queue_file(id, file, 699_995, 10));
    let mut taken = 0;
    let mut sent = pair.server.send(id, b"", &mut taken);
    if matches!(sent, Some(Sent::Blocked | Sent::BudgetSpent)) {
        sent = pair.server.send(id, b"", &mut taken);
    }
    assert_eq!(sent, Some(Sent::FileTooShort), "the file is shorter than announced");
    pair.server.end(id, RequestEnd::Cut);
    assert!(pair.is_closed(number));
}

#[test]
fn the_server_sends_what_a_task_has_queued_that_no_longer_waits() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.take(number, 0);
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    pair.server.queue_chunk(id, b"queued");
    assert_eq!(pair.server.send(id, b"", &mut 0), Some(Sent::Blocked));
    assert!(pair.server.wait(id, Interest::Write, pair.clock));
    pair.server.end_wait(id, Interest::Write, pair.clock);
    pair.wires[number].1.take_all();
    pair.events(number);
    assert!(pair.got(number).ends_with("6\r\nqueued\r\n"));
    assert_eq!(pair.log, ["GET /wait"], "no task is resumed");
}

#[test]
fn a_request_is_handled_after_the_file_of_the_last_response_is_sent() {
    let mut pair = Pair::new();
    let file = Rc::new(pattern(1000));
    let (number, id) = waits(&mut pair, &[get("/wait"), get("/wait")].concat());
    pair.take(number, 0);
    pair.server.draft(id).unwrap().set(b"Content-Length", b"1000").unwrap();
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    assert!(pair.server.queue_file(id, file.clone(), 0, 1000));
    pair.server.end_body(id, &[]);
    pair.server.end(id, RequestEnd::Complete);
    pair.waiting.clear();
    pair.run();
    assert_eq!(pair.waiting.len(), 0, "the second request would follow a file");
    pair.wires[number].1.take_all();
    pair.events(number);
    let detached = pair.server.detach(pair.waiting[0]).expect("a connection");
    assert_eq!(detached.output, b"", "all bytes of the response were sent");
    assert!(answers(pair.got(number).as_bytes(), &[]) == [(200, file.to_vec())]);
}

#[test]
fn sent_bytes_are_counted_after_the_head() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.take(number, 1000);
    assert_eq!(pair.server.sent(id, true), 0);
    respond(&mut pair, id, 200, MediaType::Text, &pattern(5000));
    assert_eq!(pair.server.sent(id, true), 5000);
    assert_eq!(pair.server.sent(id, false), 0);
    pair.waiting.clear();
    pair.server.end(id, RequestEnd::Complete);
    pair.run();
    assert!((800..1000).contains(&pair.server.sent(id, false)));
    pair.take(number, 10_000);
    assert_eq!(pair.server.sent(id, false), 5000);
    pair.send(number, &get("/"));
    assert_eq!(pair.server.sent(id, false), 0, "the count belongs to another request");
}

#[test]
fn a_failed_send_is_reported_by_the_next_piece() {
    let mut pair = Pair::new();
    let (number, id) = waits(&mut pair, &get("/wait"));
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    pair.server.queue_chunk(id, b"a");
    pair.wires[number].1.break_off();
    pair.run();
    let queued = pair.server.queue_chunk(id, b"b").expect("a response in pieces");
    assert!(queued.failed && queued.bytes == 0);
    assert_eq!(pair.server.send(id, b"c", &mut 0), None);
    pair.server.end(id, RequestEnd::Cut);
    assert!(pair.is_closed(number));
    assert_eq!(pair.server.count(), 0);
}

#[test]
fn the_intent_of_a_handler_never_decreases() {
    let mut pair = Pair::new();
    let (_, id) = waits(&mut pair, &get("/wait"));
    assert_eq!(pair.server.effect(id), Some(HandlerEffect::None));
    assert!(pair.server.record_effect(id, HandlerEffect::NeedsLua));
    assert!(pair.server.record_effect(id, HandlerEffect::Fields));
    assert_eq!(pair.server.effect(id), Some(HandlerEffect::NeedsLua));
    respond(&mut pair, id, 200, MediaType::Text, b"");
    assert!(!pair.server.record_effect(id, HandlerEffect::Fields));
    assert!(pair.server.is_answered(id));
    assert_eq!(respond(&mut pair, id, 200, MediaType::Text, b""), Responded::Late);
}
