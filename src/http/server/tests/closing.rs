//! How connections end: closed gently, detached, abandoned, or closed because the server stops.

use super::*;

#[test]
fn a_client_that_announced_the_end_is_closed_immediately() {
    let mut pair = Pair::new();
    pair.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(pair.is_closed(0) && pair.server.count() == 0);
}

#[test]
fn a_client_that_may_still_send_is_read_for_a_short_time() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, b"x\r\n\r\n");
    assert!(pair.lingers(number));
    pair.send(number, &pattern(10_000));
    pair.advance(2 * SECOND - 1);
    assert!(pair.lingers(number));
    pair.advance(1);
    assert!(pair.is_closed(number));
    assert_eq!(pair.got(number).matches("HTTP/1.1").count(), 1);
}

#[test]
fn the_queue_is_sent_before_a_connection_lingers() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.take(number, 10);
    pair.send(number, b"x\r\n\r\n");
    assert!(!pair.lingers(number));
    pair.take(number, 1000);
    assert!(pair.lingers(number));
}

#[test]
fn a_connection_is_detached_with_its_unread_and_unsent_bytes() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.take(number, 0);
    pair.send(number, &[get("/"), get("/wait"), b"raw".to_vec()].concat());
    let id = pair.waiting[0];
    let detached = pair.server.detach(id).expect("a connection");
    assert_eq!(detached.input, b"raw");
    assert!(detached.output.ends_with(b"\r\n\r\n/"));
    assert!(!pair.is_closed(number));
    assert_eq!(pair.server.count(), 0);
    assert!(pair.server.detach(id).is_none());
    pair.run();
    assert_eq!(pair.log.len(), 2);
    let adopted = pair.server.adopt(detached.transport, b"GET /len/2", b"before|").expect("an identifier");
    pair.wires[number].0 = adopted;
    pair.run();
    pair.wires[number].1.take_all();
    pair.send(number, b" HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = pair.got(number);
    assert!(text.starts_with("before|HTTP/1.1 200") && text.ends_with("ab"), "{text}");
}

#[test]
fn the_connection_of_a_killed_task_is_closed() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    let id = pair.waiting[0];
    pair.server.abandon(id);
    pair.run();
    assert!(pair.is_closed(number));
    assert_eq!(pair.log.len(), 1);
    pair.server.abandon(id);
}

#[test]
fn a_task_that_waits_for_the_end_of_the_peer_is_resumed() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    let id = pair.waiting[0];
    assert!(pair.server.wait(id, Interest::End, pair.clock));
    pair.end(number);
    assert_eq!(pair.log[1..], ["PeerEnded"]);
}

#[test]
fn during_a_stop_only_the_last_response_announces_the_end() {
    let mut pair = Pair::new();
    let (busy, idle) = (pair.connect(), pair.connect());
    pair.send(busy, &[get("/wait"), get("/"), get("/")].concat());
    pair.server.stop();
    pair.answer_first(b"x");
    let text = pair.got(busy);
    assert_eq!(answers(text.as_bytes(), &[]).len(), 3);
    assert_eq!(text.matches("Connection: close").count(), 1);
    assert!(text.rfind("Connection: close") > text.rfind("HTTP/1.1"));
    assert!(!pair.is_closed(idle));
    pair.send(idle, &get("/"));
    assert!(pair.got(idle).contains("Connection: close"));
}

#[test]
fn after_a_stop_connections_close_when_they_become_idle() {
    let mut pair = Pair::new();
    let (busy, idle, uploading) = (pair.connect(), pair.connect(), pair.connect());
    pair.send(busy, &post("/wait", b"unread"));
    let upload = post("/skip", &pattern(100));
    pair.send(uploading, &upload[..upload.len() - 50]);
    pair.server.stop();
    pair.server.drain();
    assert!(pair.is_closed(idle));
    assert!(!pair.is_closed(busy) && !pair.is_closed(uploading));
    pair.send(uploading, &upload[upload.len() - 50..]);
    assert!(pair.is_closed(uploading));
    pair.answer_first(b"x");
    assert!(pair.got(busy).ends_with('x') && pair.is_closed(busy));
}

#[test]
fn at_the_end_of_a_stop_all_connections_close_and_waiting_tasks_are_resumed() {
    let mut pair = Pair::new();
    let (busy, partial) = (pair.connect(), pair.connect());
    pair.send(busy, &get("/wait"));
    pair.send(partial, b"GET");
    let id = pair.waiting[0];
    pair.server.wait(id, Interest::Write, pair.clock);
    pair.server.close_all();
    pair.run();
    assert!(pair.is_closed(busy) && pair.is_closed(partial));
    assert_eq!(pair.log[1..], ["Closed"]);
    assert_eq!(pair.server.count(), 1, "the connection remains until its handler ends");
    pair.answer_first(b"x");
    assert_eq!(pair.server.count(), 0);
}

#[test]
fn an_outdated_identifier_changes_nothing() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    let old = pair.waiting[0];
    pair.answer_first(b"x");
    pair.got(number);
    pair.send(number, &post("/wait", b"body"));
    let current = pair.waiting[0];
    assert_ne!(old, current);
    let server = &mut pair.server;
    let mut out = Vec::new();
    assert_eq!(server.respond(old, text_response(b"y"), pair.clock), Responded::Late);
    assert_eq!(server.begin_body(old, 200, MediaType::Text, pair.clock), None);
    assert_eq!(server.queue_chunk(old, b"y"), None);
    assert_eq!(server.end_body(old, b""), None);
    assert!(server.draft(old).is_none() && server.head(old).is_none());
    assert_eq!(server.read_body(old, 100, ReadMode::Whole, &mut out), BodyRead::Late);
    assert_eq!(server.send(old, b"y", &mut 0), None);
    assert!(!server.wait(old, Interest::Read, pair.clock));
    assert!(!server.record_effect(old, HandlerEffect::NeedsLua) && server.is_answered(old));
    assert!(server.detach(old).is_none());
    assert!(!server.queue_file(old, Rc::new(Vec::new()), 0, 1));
    server.close_after(old);
    server.end(old, RequestEnd::Cut);
    server.abandon(old);
    assert_eq!(server.sent(old, true), 0);
    assert_eq!(server.effect(current), Some(HandlerEffect::None));
    assert!(server.queued(current).is_some());
    pair.run();
    assert_eq!(pair.got(number), "");
    pair.echo(current);
    pair.run();
    let text = pair.got(number);
    assert_eq!(answers(text.as_bytes(), &[]), [(200, b"body".to_vec())]);
    assert!(!text.contains("close"));
}

#[test]
fn events_of_a_closed_connection_are_ignored() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let old = pair.wires[number].0;
    pair.end(number);
    let other = pair.connect();
    assert_eq!(old.slot(), pair.wires[other].0.slot(), "the slot is reused");
    let events = Readiness { read: true, ..Readiness::default() };
    pair.server.ready(old, events, pair.clock);
    assert_eq!(pair.server.work_count(), 0);
    assert_eq!(ConnectionId::from_number(old.number()), Some(old));
    assert_eq!(RequestId::from_number(5), None);
}
