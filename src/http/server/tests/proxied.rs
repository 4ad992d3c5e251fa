//! The header of the PROXY protocol before the first request.

use super::*;
use crate::codec::networks::Networks;
use crate::http::server::proxied::ProxyPolicy;
use std::net::IpAddr;

const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\n";

fn pair(required: bool, proxies: &[&str]) -> Pair {
    let mut pair = Pair::new();
    let mut list = Networks::default();
    assert!(proxies.iter().all(|one| list.add(one)));
    let proxies = (!proxies.is_empty()).then_some(list);
    pair.server.expect_proxy_header(ProxyPolicy { required, proxies });
    pair
}

/// Opens a connection from `peer`. Returns its number.
fn connect_from(pair: &mut Pair, peer: Option<&str>) -> usize {
    let (wire, pipe) = wire::pair();
    wire.set_peer(peer.map(|peer| peer.parse::<IpAddr>().expect("an address")));
    let id = pair.server.accept(pipe).expect("an identifier is free");
    pair.wires.push((id, wire));
    pair.run();
    pair.wires.len() - 1
}

/// Returns the client of the request that waits.
fn client_of_first(pair: &Pair) -> Option<String> {
    pair.server.proxied(pair.waiting[0]).map(|proxied| format!("{} {}", proxied.client, proxied.is_tls))
}

#[test]
fn a_header_before_the_requests_tells_their_client() {
    let mut pair = pair(true, &[]);
    let number = pair.connect();
    pair.send(number, &[HEADER, &get("/"), &get("/wait")].concat());
    assert_eq!(pair.log, ["GET /", "GET /wait"]);
    assert_eq!(client_of_first(&pair).as_deref(), Some("192.0.2.1:4711 false"));
    pair.answer_first(b"later");
    assert_eq!(answers(pair.got(number).as_bytes(), &[]).len(), 2);
    // A second header is a malformed request.
    pair.send(number, HEADER);
    assert!(pair.got(number).starts_with("HTTP/1.1 400 "));
}

#[test]
fn a_header_may_arrive_in_any_pieces() {
    let mut pair = pair(true, &[]);
    let number = pair.connect();
    for byte in [HEADER, &get("/wait")].concat() {
        pair.send(number, &[byte]);
    }
    assert_eq!(client_of_first(&pair).as_deref(), Some("192.0.2.1:4711 false"));
}

#[test]
fn connections_without_a_client_address_keep_that_of_the_socket() {
    let mut pair = pair(true, &[]);
    let number = pair.connect();
    pair.send(number, &[b"PROXY UNKNOWN\r\n", &get("/wait")[..]].concat());
    assert_eq!(client_of_first(&pair), None);
}

#[test]
fn a_malformed_or_missing_header_closes_without_a_response() {
    for bytes in [&b"PROXY TCP4 x\r\n"[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"PROXX"] {
        let mut pair = pair(true, &[]);
        let number = pair.connect();
        pair.send(number, bytes);
        assert!(pair.is_closed(number));
        assert_eq!((pair.got(number).as_str(), pair.log.len()), ("", 0));
    }
    let mut pair = pair(true, &[]);
    let number = pair.connect();
    pair.send(number, &HEADER[..10]);
    pair.end(number);
    assert!(pair.is_closed(number));
}

#[test]
fn an_optional_header_may_be_missing_but_not_malformed() {
    let mut optional = pair(false, &[]);
    let number = optional.connect();
    optional.send(number, &get("/wait"));
    assert_eq!(client_of_first(&optional), None);
    let number = optional.connect();
    optional.send(number, b"PROXY TCP4 x\r\n");
    assert!(optional.is_closed(number));
}

#[test]
fn only_proxies_of_the_list_may_send_a_header() {
    for (peer, is_proxy) in [(Some("10.1.2.3"), true), (Some("192.0.2.9"), false), (None, false)] {
        for required in [true, false] {
            let mut pair = pair(required, &["10.0.0.0/8"]);
            let number = connect_from(&mut pair, peer);
            pair.send(number, &[HEADER, &get("/")].concat());
            match (is_proxy, required) {
                (true, _) => assert_eq!(pair.log, ["GET /"]),
                (false, true) => assert!(pair.is_closed(number) && pair.got(number).is_empty()),
                (false, false) => assert!(pair.got(number).starts_with("HTTP/1.1 400 ")),
            }
        }
    }
}

#[test]
fn a_header_must_arrive_within_the_header_time_of_the_connection() {
    let mut pair = pair(true, &[]);
    let (slow, silent) = (pair.connect(), pair.connect());
    pair.advance(9 * SECOND);
    pair.send(slow, &HEADER[..20]);
    assert!(!pair.is_closed(slow) && !pair.is_closed(silent));
    pair.advance(SECOND);
    assert!(pair.is_closed(slow) && pair.is_closed(silent));
    assert_eq!(pair.got(slow), "");
}

#[test]
fn a_stop_closes_connections_that_wait_for_their_header() {
    let mut pair = pair(true, &[]);
    let before = pair.connect();
    pair.server.stop();
    pair.server.drain();
    assert!(pair.is_closed(before));
    let after = pair.connect();
    assert!(pair.is_closed(after));
}
