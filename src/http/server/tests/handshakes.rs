//! The handshake of TLS before the first request.

use super::*;
use crate::http::server::proxied::ProxyPolicy;

/// Opens a connection that begins with a handshake of `count` bytes from the client. Returns its number.
fn connect(pair: &mut Pair, count: usize) -> usize {
    let (wire, pipe) = wire::pair();
    wire.begin_with_handshake(count);
    let id = pair.server.accept(pipe).expect("an identifier is free");
    pair.wires.push((id, wire));
    pair.run();
    pair.wires.len() - 1
}

fn is_closed(pair: &Pair, number: usize) -> bool {
    pair.wires[number].1.is_closed()
}

#[test]
fn requests_follow_the_handshake() {
    let mut pair = Pair::new();
    let number = connect(&mut pair, 5);
    pair.send(number, &[&b"hello"[..], &get("/a"), &get("/b")].concat());
    assert_eq!(pair.log, ["GET /a", "GET /b"]);
    assert_eq!(answers(pair.got(number).as_bytes(), &[]).len(), 2);
    pair.send(number, &get("/c"));
    assert_eq!(pair.log.last().map(String::as_str), Some("GET /c"));
}

#[test]
fn a_handshake_and_a_request_may_arrive_in_any_pieces() {
    let mut pair = Pair::new();
    let number = connect(&mut pair, 5);
    for byte in [&b"hello"[..], &get("/")].concat() {
        assert!(pair.log.is_empty());
        pair.send(number, &[byte]);
    }
    assert_eq!(pair.log, ["GET /"]);
}

#[test]
fn a_handshake_has_a_time_limit_which_bytes_do_not_extend() {
    let mut pair = Pair::with(Settings { handshake_time: 10 * SECOND, ..Settings::default() });
    let [slow, silent] = [5; 2].map(|count| connect(&mut pair, count));
    for _ in 0..3 {
        pair.advance(3 * SECOND);
        pair.send(slow, b"x");
    }
    pair.advance(SECOND - 1);
    assert!(!is_closed(&pair, slow) && !is_closed(&pair, silent));
    pair.advance(1);
    assert!(is_closed(&pair, slow) && is_closed(&pair, silent));
    assert_eq!([pair.got(slow), pair.got(silent)], ["", ""]);
    assert!(pair.log.is_empty());
}

#[test]
fn after_the_handshake_other_time_limits_apply() {
    let settings = Settings { handshake_time: 10 * SECOND, keep_alive_time: 100 * SECOND, ..Settings::default() };
    let mut pair = Pair::with(settings);
    let number = connect(&mut pair, 5);
    pair.advance(9 * SECOND);
    pair.send(number, b"hello");
    pair.advance(99 * SECOND);
    assert!(!is_closed(&pair, number));
    pair.advance(SECOND);
    assert!(is_closed(&pair, number));
}

#[test]
fn a_handshake_that_fails_closes_the_connection_without_a_response() {
    let mut pair = Pair::new();
    let number = connect(&mut pair, 5);
    pair.send(number, &[&b"he!lo"[..], &get("/")].concat());
    assert!(is_closed(&pair, number));
    assert!(pair.got(number).is_empty() && pair.log.is_empty());
    let number = connect(&mut pair, 5);
    pair.send(number, b"he");
    pair.end(number);
    assert!(is_closed(&pair, number));
}

// Regression: web servers ignored the limit.
#[test]
fn beyond_the_limit_the_oldest_handshake_ends() {
    let mut pair = Pair::with(Settings { handshakes: 3, ..Settings::default() });
    let [first, done, third, fourth] = [5; 4].map(|count| {
        let number = connect(&mut pair, count);
        if number == 1 {
            pair.send(number, b"hello");
        }
        number
    });
    let closed = |pair: &Pair| [first, done, third, fourth].map(|number| is_closed(pair, number));
    assert_eq!(closed(&pair), [false; 4]);
    let fifth = connect(&mut pair, 5);
    assert_eq!(closed(&pair), [true, false, false, false]);
    connect(&mut pair, 5);
    assert_eq!(closed(&pair), [true, false, true, false]);
    pair.send(fifth, &[&b"hello"[..], &get("/")].concat());
    assert_eq!(pair.log, ["GET /"]);
}

#[test]
fn a_handshake_that_waits_to_write_continues_when_the_client_receives() {
    let mut pair = Pair::new();
    let (wire, pipe) = wire::pair();
    wire.begin_with_handshake(5);
    wire.block_handshake();
    let id = pair.server.accept(pipe).expect("an identifier is free");
    pair.wires.push((id, wire));
    pair.run();
    pair.send(0, &[&b"hello"[..], &get("/")].concat());
    assert!(pair.log.is_empty());
    pair.take(0, 10_000);
    assert_eq!(pair.log, ["GET /"]);
}

#[test]
fn a_stop_closes_connections_during_their_handshake() {
    let mut pair = Pair::new();
    let [one, done] = [5; 2].map(|count| connect(&mut pair, count));
    pair.send(one, b"he");
    pair.send(done, &[&b"hello"[..], &get("/wait")].concat());
    pair.server.drain();
    pair.run();
    assert!(is_closed(&pair, one) && !is_closed(&pair, done));
    // A connection that is accepted later is closed too.
    let late = connect(&mut pair, 5);
    assert!(is_closed(&pair, late));
    pair.answer_first(b"complete");
    assert!(pair.got(done).ends_with("complete"));
}

#[test]
fn a_header_of_the_proxy_protocol_comes_before_the_handshake() {
    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\n";
    for pieces in [1, 7, 1000] {
        let mut pair = Pair::new();
        pair.server.expect_proxy_header(ProxyPolicy { required: true, proxies: None });
        let number = connect(&mut pair, 5);
        for piece in [HEADER, b"hello", &get("/wait")].concat().chunks(pieces) {
            pair.send(number, piece);
        }
        let client = pair.server.proxied(pair.waiting[0]).map(|proxied| proxied.client.to_string());
        assert_eq!(client.as_deref(), Some("192.0.2.1:4711"));
    }
    let mut pair = Pair::new();
    pair.server.expect_proxy_header(ProxyPolicy { required: true, proxies: None });
    let number = connect(&mut pair, 5);
    pair.send(number, &[&b"hello"[..], &get("/")].concat());
    assert!(is_closed(&pair, number));
    assert!(pair.log.is_empty());
}
