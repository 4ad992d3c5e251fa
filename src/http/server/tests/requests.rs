//! Requests: order, refusals, keep-alive.

use super::*;

#[test]
fn a_request_is_answered_as_soon_as_it_is_complete() {
    let mut pair = Pair::new();
    let text = pair.exchange(&get("/"));
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n/"
    );
    pair.send(0, &get("/len/2"));
    assert!(pair.got(0).ends_with("\r\n\r\nab"));
    assert!(!pair.is_closed(0));
}

#[test]
fn a_request_costs_two_system_calls() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/"));
    let before = pair.wires[number].1.calls();
    pair.send(number, &get("/"));
    assert_eq!(pair.wires[number].1.calls() - before, 2);
}

#[test]
fn pipelined_requests_are_answered_in_order_with_one_send() {
    let mut pair = Pair::new();
    let all = [get("/len/1"), get("/len/2"), get("/len/3")].concat();
    let number = pair.connect();
    let before = pair.wires[number].1.calls();
    pair.send(number, &all);
    let text = pair.got(number);
    let bodies: Vec<_> = answers(text.as_bytes(), &[]).into_iter().map(|one| one.1).collect();
    assert_eq!(bodies, [pattern(1), pattern(2), pattern(3)]);
    assert_eq!(pair.wires[number].1.calls() - before, 2);
}

#[test]
fn a_request_after_one_that_waits_is_not_begun() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &[get("/"), get("/wait"), get("/len/1")].concat());
    assert_eq!(pair.log, ["GET /", "GET /wait"]);
    assert!(pair.got(number).ends_with("\r\n\r\n/"), "the response is flushed before the wait");
    let other = pair.connect();
    pair.send(other, &get("/"));
    assert!(pair.got(other).ends_with('/'), "another connection continues");
    pair.answer_first(b"late");
    let text = pair.got(number);
    let bodies: Vec<_> = answers(text.as_bytes(), &[]).into_iter().map(|one| one.1).collect();
    assert_eq!(bodies, [b"late".to_vec(), pattern(1)]);
}

#[test]
fn a_malformed_request_is_refused_after_the_earlier_responses() {
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 501),
        (b"\r\n\r\n\r\n", 400),
    ] {
        let mut pair = Pair::new();
        let text = pair.exchange(&[&get("/")[..], bytes].concat());
        let found = answers(text.as_bytes(), &[]);
        let statuses: Vec<_> = found.iter().map(|one| one.0).collect();
        assert_eq!(statuses, [200, status], "{}", String::from_utf8_lossy(bytes));
        assert!(text.contains("Connection: close\r\n"));
        assert!(pair.lingers(0));
        pair.end(0);
        assert!(pair.is_closed(0));
        assert_eq!(pair.server.count(), 0);
    }
}

#[test]
fn a_head_over_a_limit_is_refused_before_it_is_complete() {
    let mut pair = Pair::new();
    let text = pair.exchange(&[b'a'; 9000]);
    assert_eq!(answers(text.as_bytes(), &[])[0].0, 414);
    let text = pair.exchange(&[&b"GET / HTTP/1.1\r\nA: "[..], &[b'a'; 33_000]].concat());
    assert_eq!(answers(text.as_bytes(), &[])[0].0, 431);
}

#[test]
fn a_refusal_has_a_body_unless_the_method_is_head() {
    let mut pair = Pair::new();
    let text = pair.exchange(b"HEAD /%zz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
    let text = pair.exchange(b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(text.ends_with("malformed percent-encoding in the path\n"), "{text}");
    let text = pair.exchange(b"HEAD / HTTP/1.1\r\n\r\n");
    assert!(text.ends_with("Host is missing\n"), "{text}");
}

#[test]
fn keep_alive_follows_the_request() {
    for (head, persists, says) in [
        ("HTTP/1.1\r\nHost: a\r\n", true, None),
        ("HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", false, Some("close")),
        ("HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n", false, Some("close")),
        ("HTTP/1.0\r\n", false, Some("close")),
        ("HTTP/1.0\r\nConnection: keep-alive\r\n", true, Some("keep-alive")),
    ] {
        let mut pair = Pair::new();
        let text = pair.exchange(format!("GET / {head}\r\n").as_bytes());
        let line = says.map(|says| format!("Connection: {says}\r\n"));
        assert_eq!(text.contains("Connection:"), line.is_some(), "{head}");
        assert!(line.is_none_or(|line| text.contains(&line)), "{head}");
        assert_eq!(pair.is_closed(0), !persists, "{head}");
    }
}

#[test]
fn bytes_after_the_last_request_are_ignored() {
    let mut pair = Pair::new();
    let close = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let text = pair.exchange(&[&close[..], &get("/len/1")].concat());
    assert_eq!(answers(text.as_bytes(), &[]).len(), 1);
    assert!(pair.lingers(0), "the client may still be sending");
    let connect = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    let text = pair.exchange(&[&connect[..], &get("/len/1")].concat());
    assert_eq!(answers(text.as_bytes(), &[]).len(), 1);
    assert!(text.contains("Connection: close\r\n"));
}

#[test]
fn a_client_that_has_closed_its_side_receives_the_response() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    pair.end(number);
    assert!(!pair.is_closed(number));
    pair.answer_first(b"late");
    assert!(pair.got(number).ends_with("late"));
    assert!(pair.is_closed(number));
    assert_eq!(pair.server.count(), 0);
}

#[test]
fn a_client_that_closes_within_a_head_is_removed() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, b"GET / HT");
    pair.end(number);
    assert!(pair.is_closed(number) && pair.got(number).is_empty());
    assert_eq!(pair.server.count(), 0);
}

#[test]
fn the_heads_of_several_connections_do_not_mix() {
    let mut pair = Pair::new();
    let (one, other) = (pair.connect(), pair.connect());
    for (at, byte) in get("/len/1").into_iter().enumerate() {
        pair.send(one, &[byte]);
        pair.send(other, &[get("/len/2")[at]]);
    }
    assert!(pair.got(one).ends_with("\r\n\r\na"));
    assert!(pair.got(other).ends_with("\r\n\r\nab"));
}

#[test]
fn a_request_without_a_certain_route_is_left_to_lua() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.wires[number].1.deliver(&get("/nowhere"));
    let (id, events) = (pair.wires[number].0, pair.wires[number].1.events());
    pair.server.ready(id, events, pair.clock);
    let Work::Dispatch { id, plan } = pair.server.next(pair.clock) else {
        panic!("no request");
    };
    assert_eq!(plan, Plan::Choose { route: None });
    assert_eq!(pair.server.route(id), None);
    let routes = pair.server.routes.clone();
    pair.answer(id, b"x");
    pair.run();
    for (wraps, chooses) in [(false, false), (true, true)] {
        if wraps {
            routes.borrow_mut().add_middleware();
        }
        pair.wires[number].1.deliver(&get("/"));
        let (id, events) = (pair.wires[number].0, pair.wires[number].1.events());
        pair.server.ready(id, events, pair.clock);
        let Work::Dispatch { id, plan } = pair.server.next(pair.clock) else {
            panic!("no request");
        };
        assert_eq!(matches!(plan, Plan::Choose { .. }), chooses);
        assert!(pair.server.route(id).is_some());
        pair.answer(id, b"x");
        pair.run();
    }
}

#[test]
fn a_stored_head_is_parsed_again_after_other_heads() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.wires[number].1.deliver(&get("/len/7"));
    let (id, events) = (pair.wires[number].0, pair.wires[number].1.events());
    pair.server.ready(id, events, pair.clock);
    let Work::Dispatch { id, .. } = pair.server.next(pair.clock) else {
        panic!("no request");
    };
    let other = pair.connect();
    pair.send(other, b"GET /len/3 HTTP/1.1\r\nHost: b\r\nX: y\r\n\r\n");
    let view = pair.server.head(id).expect("the head is in the input");
    assert_eq!(view.head.path(view.bytes), b"/len/7");
    assert_eq!(view.section(), b"Host: a\r\n\r\n");
    pair.answer(id, b"x");
    pair.run();
    assert!(pair.got(number).ends_with('x'));
}
