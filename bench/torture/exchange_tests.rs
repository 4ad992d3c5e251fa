//! Tests the verdicts of `exchange.rs` on the correct and incorrect behaviour of a server.

use super::*;
use crate::case::{Body, Expected, Kind};

const USER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"7\"}";
const BAD: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

fn exchange(users: usize, finish: Finish) -> Exchange {
    let mut exchange = Exchange::new();
    let expected = Expected { kind: Kind::Get, status: &[200], body: Body::User(7), allow: &[] };
    exchange.case.responses = vec![expected; users];
    exchange.case.finish = finish;
    exchange
}

fn refuse(closing: Closing) -> Finish {
    Finish::Refuse { kind: Kind::Malformed(0), allowed: &[400], closing }
}

fn wrong(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Wrong(_))
}

#[test]
fn matches_pipelined_responses_across_reads() {
    let mut exchange = exchange(2, Finish::Keep);
    assert_eq!(exchange.received(&USER[..20], &[]), Verdict::Wait);
    assert_eq!(exchange.received(&USER[20..], &[]), Verdict::Wait);
    assert_eq!(exchange.answered, 1);
    assert_eq!(exchange.received(USER, &[]), Verdict::Reuse);
}

#[test]
fn detects_the_response_of_another_request_and_surplus_bytes() {
    let other = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"8\"}";
    assert!(wrong(exchange(1, Finish::Keep).received(other, &[])));
    assert!(wrong(exchange(1, Finish::Keep).received(&[USER, b"x"].concat(), &[])));
    assert!(wrong(exchange(1, Finish::Keep).received(BAD, &[])));
}

#[test]
fn detects_a_close_before_a_valid_request_is_answered() {
    let mut exchange = exchange(2, Finish::Keep);
    exchange.received(USER, &[]);
    assert!(wrong(exchange.ended(&[])));
}

#[test]
fn accepts_a_refusal_or_a_close_after_the_valid_requests() {
    let mut answered = exchange(1, refuse(Closing::Must));
    assert_eq!(answered.received(&[USER, BAD].concat(), &[]), Verdict::Wait);
    assert_eq!((answered.ended(&[]), answered.ending()), (Verdict::Drop, Ending::Refused));
    let mut closed = exchange(0, refuse(Closing::Must));
    assert_eq!((closed.ended(&[]), closed.ending()), (Verdict::Drop, Ending::Closed));
    let mut half = exchange(0, refuse(Closing::Must));
    half.received(&BAD[..9], &[]);
    assert!(wrong(half.ended(&[])));
}

#[test]
fn reuses_the_connection_after_a_refusal_only_if_the_framing_is_certain() {
    let open = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(exchange(0, refuse(Closing::May)).received(open, &[]), Verdict::Reuse);
    assert_eq!(exchange(0, refuse(Closing::Must)).received(open, &[]), Verdict::Wait);
}

#[test]
fn detects_smuggled_requests_and_accepted_malformed_ones() {
    assert!(wrong(exchange(0, refuse(Closing::Must)).received(USER, &[])));
    assert!(wrong(exchange(0, refuse(Closing::Must)).received(&[BAD, USER].concat(), &[])));
    let mut late = exchange(0, refuse(Closing::Must));
    assert_eq!(late.received(BAD, &[]), Verdict::Wait);
    assert!(wrong(late.received(USER, &[])));
    let mut again = exchange(0, refuse(Closing::Must));
    assert_eq!(again.received(BAD, &[]), Verdict::Wait);
    assert!(wrong(again.received(BAD, &[])));
}

#[test]
fn proceeds_with_the_body_after_a_100_continue() {
    let mut exchange = exchange(1, Finish::Keep);
    assert_eq!(exchange.received(b"HTTP/1.1 100 Continue\r\n\r\n", &[]), Verdict::Proceed);
    assert_eq!(exchange.received(USER, &[]), Verdict::Reuse);
}
