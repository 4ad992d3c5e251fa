//! Properties of the server for any requests, for any split of their bytes, and for slow clients.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum SentRequest {
    Get(usize),
    Head(usize),
    Echo(Vec<u8>),
    Chunked(Vec<Vec<u8>>, bool),
    Skipped(usize),
    Expected(Vec<u8>),
    Wait,
}

fn request() -> impl Strategy<Value = SentRequest> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..3000);
    prop_oneof![
        (0usize..40_000).prop_map(SentRequest::Get),
        (0usize..100).prop_map(SentRequest::Head),
        bytes().prop_map(SentRequest::Echo),
        (prop::collection::vec(prop::collection::vec(any::<u8>(), 1..500), 0..4), any::<bool>())
            .prop_map(|(chunks, trailer)| SentRequest::Chunked(chunks, trailer)),
        (0usize..5000).prop_map(SentRequest::Skipped),
        bytes().prop_map(SentRequest::Expected),
        Just(SentRequest::Wait),
    ]
}

/// Returns the bytes of a request, and the body of its response.
fn written(sent: &SentRequest) -> (Vec<u8>, Vec<u8>) {
    match sent {
        SentRequest::Get(length) => (get(&format!("/len/{length}")), pattern(*length)),
        SentRequest::Head(length) => {
            let text = format!("HEAD /len/{length} HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
            (text.into_bytes(), Vec::new())
        }
        SentRequest::Echo(body) => (post("/echo", body), body.clone()),
        SentRequest::Chunked(chunks, trailer) => {
            let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut all = head.as_bytes().to_vec();
            for chunk in chunks {
                crate::codec::http1::write::chunk(&mut all, chunk);
            }
            all.extend_from_slice(if *trailer { b"0\r\nA: b\r\n\r\n" } else { b"0\r\n\r\n" });
            (all, chunks.concat())
        }
        SentRequest::Skipped(length) => (post("/skip", &pattern(*length)), b"/skip".to_vec()),
        SentRequest::Expected(body) => {
            let length = body.len();
            let mut all =
                format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n")
                    .into_bytes();
            all.extend_from_slice(body);
            (all, body.clone())
        }
        SentRequest::Wait => (get("/wait"), b"late".to_vec()),
    }
}

/// Continues all waiting requests: reads bodies that have arrived, and sends late responses.
fn continue_requests(pair: &mut Pair) {
    for _ in 0..50 {
        let Some(id) = pair.waiting.first().copied() else {
            return;
        };
        if pair.log.last().is_some_and(|line| line == "ReadTimeOut") {
            pair.server.close_after(id);
            pair.answer_first(b"too slow");
            continue;
        }
        match pair.log.iter().rev().find(|line| line.contains('/')) {
            Some(line) if line == "POST /echo" => {
                pair.echo(id);
                pair.run();
                if pair.waiting.first() == Some(&id) {
                    return;
                }
            }
            _ => pair.answer_first(b"late"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn responses_do_not_depend_on_how_the_bytes_are_split(
        requests in prop::collection::vec(request(), 1..6),
        cuts in prop::collection::vec(1usize..3000, 1..10),
        rooms in prop::collection::vec(1usize..60_000, 1..10),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        let heads: Vec<bool> = requests.iter().map(|one| matches!(one, SentRequest::Head(_))).collect();
        for request in &requests {
            let (sent, body) = written(request);
            bytes.extend_from_slice(&sent);
            expected.push((200, body));
        }
        let mut pair = Pair::new();
        let number = pair.connect();
        let (mut at, mut got) = (0, Vec::new());
        let mut rooms = rooms.iter().cycle();
        for cut in cuts.iter().cycle() {
            if at == bytes.len() {
                break;
            }
            let end = bytes.len().min(at + cut);
            pair.send(number, &bytes[at..end]);
            at = end;
            pair.take(number, *rooms.next().unwrap_or(&1));
            continue_requests(&mut pair);
            got.extend(pair.wires[number].1.got());
            prop_assert!(pair.waiting.len() <= 1, "one request at a time");
        }
        for _ in 0..1000 {
            pair.wires[number].1.take_all();
            pair.events(number);
            continue_requests(&mut pair);
        }
        got.extend(pair.wires[number].1.got());
        prop_assert!(answers(&got, &heads) == expected);
        prop_assert!(!pair.is_closed(number));
        let slot = pair.wires[number].0.slot();
        prop_assert!(pair.server.connections[slot].output.is_none());
    }

    #[test]
    fn any_bytes_are_answered_or_refused(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
                Just(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n".to_vec()),
                Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
                Just(b"\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..40),
            ],
            0..8,
        ),
        cut in 1usize..50,
        ends in any::<bool>(),
    ) {
        let mut pair = Pair::new();
        let number = pair.connect();
        for piece in bytes.concat().chunks(cut) {
            pair.send(number, piece);
            continue_requests(&mut pair);
        }
        if ends {
            pair.end(number);
        }
        continue_requests(&mut pair);
        for _ in 0..10 {
            pair.advance(60 * SECOND);
            continue_requests(&mut pair);
        }
        prop_assert!(pair.is_closed(number));
        prop_assert_eq!(pair.server.count(), 0);
    }

    #[test]
    fn a_client_within_the_time_limits_is_never_closed(
        pauses in prop::collection::vec((0u64..9, 1usize..30), 1..40),
    ) {
        let mut pair = Pair::new();
        let number = pair.connect();
        let requests: Vec<u8> = (0..200).flat_map(|_| get("/")).collect();
        let (mut at, mut begun) = (0, pair.clock.now);
        let length = get("/").len();
        for (seconds, count) in pauses {
            // A head is completed within its time limit.
            let inside = at % length != 0;
            let late = inside && pair.clock.now + seconds * SECOND >= begun + 10 * SECOND;
            let count = if late { length - at % length } else { count };
            if !late {
                pair.advance(seconds * SECOND);
            }
            if !inside || count > length - at % length {
                begun = pair.clock.now;
            }
            pair.send(number, &requests[at..at + count]);
            at += count;
            prop_assert!(!pair.is_closed(number));
        }
        let text = pair.got(number);
        prop_assert_eq!(answers(text.as_bytes(), &[]).len(), at / length);
    }
}

#[test]
fn a_request_that_arrives_byte_by_byte_costs_linear_time() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let body = pattern(2000);
    let all = [post("/echo", &body), get("/len/3")].concat();
    let before = pair.wires[number].1.calls();
    for byte in &all {
        pair.send(number, &[*byte]);
        if !pair.waiting.is_empty() {
            pair.echo_on();
        }
    }
    assert!(pair.wires[number].1.calls() - before < 2 * all.len() + 10);
    let text = pair.got(number);
    assert!(answers(text.as_bytes(), &[]) == [(200, body), (200, pattern(3))]);
}
