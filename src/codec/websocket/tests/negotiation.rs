//! The negotiation of permessage-deflate (RFC 7692 section 7.1).

use super::*;
use crate::codec::websocket::extensions::Malformed;
use crate::codec::websocket::negotiation::{confirm, offer, respond};
use proptest::prelude::*;

fn direction(keeps_context: bool, window_bits: u8) -> Direction {
    Direction { keeps_context, window_bits }
}

/// Returns the response of a server that wants to use everything; `-` if it declines.
fn response(values: &[&str]) -> String {
    let chosen = respond(values.iter().map(|value| value.as_bytes()), &deflate(KEEPS, KEEPS));
    chosen.unwrap().map_or("-".into(), |(_, value)| value)
}

#[test]
fn a_server_accepts_each_parameter_that_it_can_keep() {
    let name = "permessage-deflate";
    for (offered, expected) in [
        ("", ""),
        ("; client_max_window_bits", ""),
        ("; client_max_window_bits=15", ""),
        ("; client_max_window_bits=10", "; client_max_window_bits=10"),
        ("; server_max_window_bits=15", "; server_max_window_bits=15"),
        ("; server_max_window_bits=\"8\"", "; server_max_window_bits=8"),
        ("; server_no_context_takeover", "; server_no_context_takeover"),
        ("; client_no_context_takeover", "; client_no_context_takeover"),
        (
            "; client_max_window_bits=9; server_max_window_bits=10; client_no_context_takeover; server_no_context_takeover",
            "; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10; client_max_window_bits=9",
        ),
    ] {
        assert_eq!(response(&[&format!("{name}{offered}")]), format!("{name}{expected}"));
    }
}

#[test]
fn offers_with_invalid_parameters_are_declined() {
    for parameters in [
        "unknown",
        "server_max_window_bits",
        "server_max_window_bits=7",
        "server_max_window_bits=16",
        "server_max_window_bits=08",
        "server_max_window_bits=+9",
        "client_max_window_bits=7",
        "client_max_window_bits=x",
        "server_no_context_takeover=1",
        "client_no_context_takeover=true",
        "client_max_window_bits; client_max_window_bits=10",
        "server_max_window_bits=10; server_max_window_bits=10",
        "server_no_context_takeover; server_no_context_takeover",
    ] {
        assert_eq!(response(&[&format!("permessage-deflate; {parameters}")]), "-", "{parameters}");
    }
    assert_eq!(response(&["x-webkit-deflate-frame, bbf"]), "-");
    assert_eq!(response(&[]), "-");
}

#[test]
fn the_first_valid_offer_is_accepted() {
    let offers = ["permessage-deflate; x, foo, permessage-deflate; server_max_window_bits=12", "permessage-deflate"];
    assert_eq!(response(&offers), "permessage-deflate; server_max_window_bits=12");
    let malformed = respond([&b"permessage-deflate"[..], b"a b"], &Deflate::default());
    assert_eq!(malformed, Err(Malformed));
}

#[test]
fn a_server_requires_what_it_wants() {
    let wanted = deflate(direction(false, 9), direction(false, 10));
    let respond = |value: &[u8]| respond([value], &wanted).unwrap().unwrap();
    let (agreed, value) = respond(b"permessage-deflate; client_max_window_bits");
    let contexts = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    assert_eq!(value, format!("{contexts}; server_max_window_bits=10; client_max_window_bits=9"));
    assert_eq!(agreed, wanted);
    // A client that does not offer client_max_window_bits uses the largest window.
    let (agreed, value) = respond(b"permessage-deflate");
    assert_eq!(value, format!("{contexts}; server_max_window_bits=10"));
    assert_eq!(agreed, deflate(direction(false, 15), direction(false, 10)));
}

#[test]
fn responses_that_do_not_match_the_offer() {
    let offered = deflate(direction(true, 12), direction(false, 11));
    for (parameters, text) in [
        ("", "the server has ignored server_no_context_takeover"),
        ("; server_no_context_takeover", "the server has ignored server_max_window_bits"),
        ("; server_no_context_takeover; server_max_window_bits=12", "the server has ignored server_max_window_bits"),
        (
            "; server_no_context_takeover; server_max_window_bits=11; client_max_window_bits",
            "the server's client_max_window_bits has no value",
        ),
        (
            "; server_no_context_takeover; server_max_window_bits=11; client_max_window_bits=13",
            "the server's client_max_window_bits is larger than offered",
        ),
        ("; x", "the server's parameters of permessage-deflate are invalid"),
        (";", "the server's Sec-WebSocket-Extensions is malformed"),
    ] {
        let value = format!("permessage-deflate{parameters}");
        assert_eq!(confirm([value.as_bytes()], Some(&offered)), Err(text), "{parameters}");
    }
    let twice = confirm([&b"permessage-deflate"[..]; 2], Some(&deflate(KEEPS, KEEPS)));
    assert_eq!(twice, Err("the server has accepted permessage-deflate twice"));
    let agreed = confirm(
        [&b"permessage-deflate; server_max_window_bits=9; client_no_context_takeover"[..]],
        Some(&deflate(KEEPS, KEEPS)),
    );
    assert_eq!(agreed, Ok(Some(deflate(FORGETS, direction(true, 9)))));
    assert_eq!(confirm([], Some(&offered)), Ok(None));
}

prop_compose! {
    fn any_direction()(keeps_context: bool, window_bits in 8u8..=15) -> Direction {
        Direction { keeps_context, window_bits }
    }
}

proptest! {
    #[test]
    fn both_endpoints_agree_on_the_same_parameters(
        offered in (any_direction(), any_direction()), wanted in (any_direction(), any_direction()),
    ) {
        let (offered, wanted) = (deflate(offered.0, offered.1), deflate(wanted.0, wanted.1));
        let (server, value) = respond([offer(&offered).as_bytes()], &wanted).unwrap().unwrap();
        let client = confirm([value.as_bytes()], Some(&offered));
        prop_assert_eq!(client, Ok(Some(server)));
        for (agreed, limits) in [(server.client, [offered.client, wanted.client]), (server.server, [offered.server, wanted.server])] {
            prop_assert_eq!(agreed.keeps_context, limits.iter().all(|limit| limit.keeps_context));
            prop_assert_eq!(Some(agreed.window_bits), limits.iter().map(|limit| limit.window_bits).min());
        }
    }
}
