//! The time limits and other limits of a connection.

use super::*;

#[test]
fn the_time_of_a_head_begins_with_its_first_byte() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.advance(30 * SECOND);
    for byte in &get("/")[..9] {
        pair.send(number, &[*byte]);
        pair.advance(SECOND);
    }
    assert_eq!(pair.got(number), "");
    pair.advance(SECOND - 1);
    assert_eq!(pair.got(number), "");
    pair.advance(1);
    let text = pair.got(number);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert!(text.contains("Connection: close"));
    assert!(pair.lingers(number));
}

#[test]
fn the_time_of_a_pipelined_head_begins_after_the_previous_request() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &[&get("/wait")[..], b"GET /"].concat());
    pair.advance(100 * SECOND);
    pair.answer_first(b"late");
    pair.advance(10 * SECOND - 1);
    assert!(pair.got(number).ends_with("late"));
    pair.advance(1);
    assert!(pair.got(number).starts_with("HTTP/1.1 408 "));
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.advance(59 * SECOND);
    pair.send(number, &get("/"));
    pair.got(number);
    pair.advance(60 * SECOND - 1);
    assert!(!pair.is_closed(number));
    pair.advance(1);
    assert!(pair.is_closed(number));
    assert_eq!(pair.got(number), "");
    assert_eq!(pair.server.count(), 0);
}

#[test]
fn a_handler_has_no_time_limit() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    for _ in 0..10 {
        pair.advance(1000 * SECOND);
    }
    pair.answer_first(b"late");
    assert!(pair.got(number).ends_with("late"));
    pair.advance(59 * SECOND);
    assert!(!pair.is_closed(number));
    pair.advance(SECOND);
    assert!(pair.is_closed(number));
}

#[test]
fn further_requests_of_a_connection_move_no_timer() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let first = pair.server.next_deadline();
    for _ in 0..100 {
        pair.clock.now += SECOND / 10;
        pair.send(number, &get("/"));
        assert_eq!(pair.server.next_deadline(), first);
    }
    assert_eq!(pair.server.deadlines.len(), 1);
}

#[test]
fn an_unread_body_has_a_time_limit() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = post("/skip", &pattern(1000));
    pair.send(number, &all[..500]);
    for at in 500..509 {
        pair.advance(SECOND);
        pair.send(number, &all[at..=at]);
    }
    assert!(!pair.is_closed(number));
    pair.advance(SECOND);
    assert!(pair.is_closed(number), "single bytes do not extend the limit");
}

#[test]
fn a_body_that_a_handler_reads_must_arrive_at_the_minimum_rate() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = post("/echo", &pattern(100_000));
    let at = all.len() - 100_000 + 2160;
    pair.send(number, &all[..at]);
    pair.advance(9 * SECOND);
    pair.send(number, &all[at..at + 240]);
    pair.echo_on();
    // Ten seconds, and ten more for 2400 bytes at 240 bytes per second. A single byte adds only 4 ms.
    pair.advance(9 * SECOND);
    pair.send(number, &all[at + 240..at + 241]);
    pair.echo_on();
    pair.advance(2 * SECOND + SECOND / 240 - 1);
    assert_eq!(pair.log, ["POST /echo", "Readable", "Readable"]);
    pair.advance(2);
    assert_eq!(pair.log, ["POST /echo", "Readable", "Readable", "ReadTimeOut"]);
}

/// Starts a request whose body arrives much faster than at the minimum rate, except for its last 10,000 bytes. Returns
/// the number of the connection and the rest.
fn begin_fast(pair: &mut Pair) -> (usize, Vec<u8>) {
    let number = pair.connect();
    let mut all = post("/echo", &pattern(60_000));
    let rest = all.split_off(all.len() - 10_000);
    pair.send(number, &all);
    assert_eq!(pair.log, ["POST /echo"]);
    (number, rest)
}

#[test]
fn a_body_must_not_stall_however_fast_its_begin_was() {
    let mut pair = Pair::new();
    begin_fast(&mut pair);
    pair.advance(10 * SECOND - 1);
    assert_eq!(pair.log[1..], [""; 0]);
    pair.advance(1);
    assert_eq!(pair.log[1..], ["ReadTimeOut"]);
}

/// Checks that a stalled body is refused, but that each call of `progress` ends the stall.
fn check_progress(pair: &mut Pair, mut progress: impl FnMut(&mut Pair)) {
    for _ in 0..5 {
        pair.advance(10 * SECOND - 1);
        progress(pair);
        pair.echo_on();
    }
    pair.advance(10 * SECOND - 1);
    assert_eq!(pair.log[1..], ["Readable"; 5]);
    pair.advance(1);
    assert_eq!(pair.log[6..], ["ReadTimeOut"]);
}

/// Reports to the server that a connection is readable, although no byte of its body has arrived.
fn wake(pair: &mut Pair, number: usize) {
    let id = pair.wires[number].0;
    pair.server.ready(id, Readiness { read: true, ..Readiness::default() }, pair.clock);
    pair.run();
}

#[test]
fn each_byte_of_a_body_ends_a_stall() {
    let mut pair = Pair::new();
    let (number, rest) = begin_fast(&mut pair);
    let mut bytes = rest.chunks(1);
    check_progress(&mut pair, |pair| pair.send(number, bytes.next().unwrap()));
}

#[test]
fn an_event_without_a_byte_does_not_end_a_stall() {
    let mut pair = Pair::new();
    let (number, _) = begin_fast(&mut pair);
    pair.advance(6 * SECOND);
    wake(&mut pair, number);
    pair.echo_on();
    pair.advance(4 * SECOND - 1);
    assert_eq!(pair.log[1..], ["Readable"]);
    pair.advance(1);
    assert_eq!(pair.log[1..], ["Readable", "ReadTimeOut"]);
}

#[test]
fn only_the_time_in_which_a_task_waits_counts_for_a_body() {
    let mut pair = Pair::new();
    begin_fast(&mut pair);
    let id = pair.waiting[0];
    pair.advance(6 * SECOND);
    pair.server.end_wait(id, Interest::Read, pair.clock);
    pair.advance(60 * SECOND);
    assert!(pair.server.wait(id, Interest::Read, pair.clock));
    pair.advance(3 * SECOND);
    // Another task also waits, which does not change the time of the first one.
    assert!(pair.server.wait(id, Interest::Read, pair.clock));
    pair.advance(SECOND - 1);
    assert_eq!(pair.log[1..], [""; 0]);
    pair.advance(1);
    assert_eq!(pair.log[1..], ["ReadTimeOut"]);
}

#[test]
fn a_part_of_an_encrypted_record_ends_a_stall() {
    let mut pair = Pair::new();
    let (number, _) = begin_fast(&mut pair);
    pair.wires[number].1.encrypt();
    check_progress(&mut pair, |pair| wake(pair, number));
}

#[test]
fn the_time_in_which_the_handler_does_not_read_is_no_stall() {
    let mut pair = Pair::new();
    let (number, rest) = begin_fast(&mut pair);
    pair.advance(6 * SECOND);
    pair.send(number, &rest[..1]);
    pair.advance(1000 * SECOND);
    pair.echo_on();
    pair.advance(10 * SECOND - 1);
    assert_eq!(pair.log[1..], ["Readable"]);
    pair.send(number, &rest[1..]);
    pair.echo_on();
    assert!(pair.got(number).starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_segments_of_a_body_move_no_timer() {
    let mut pair = Pair::new();
    let (number, rest) = begin_fast(&mut pair);
    let first = pair.server.next_deadline();
    for byte in &rest[..100] {
        pair.clock.now += SECOND / 20;
        pair.send(number, &[*byte]);
        pair.echo_on();
        assert_eq!(pair.server.next_deadline(), first);
    }
}

#[test]
fn the_time_of_the_handler_between_reads_does_not_count() {
    let mut pair = Pair::new();
    let number = pair.connect();
    let all = post("/wait", &pattern(10));
    pair.send(number, &all[..all.len() - 10]);
    let (id, mut out) = (pair.waiting[0], Vec::new());
    pair.server.read_body(id, 100, ReadMode::Piece, &mut out);
    pair.server.wait(id, Interest::Read, pair.clock);
    pair.advance(6 * SECOND);
    pair.send(number, b"a");
    assert_eq!(pair.log[1..], ["Readable"]);
    pair.server.read_body(id, 100, ReadMode::Piece, &mut out);
    pair.advance(1000 * SECOND);
    pair.server.read_body(id, 100, ReadMode::Piece, &mut out);
    pair.server.wait(id, Interest::Read, pair.clock);
    pair.advance(4 * SECOND - 1);
    assert_eq!(pair.log[1..], ["Readable"]);
    pair.advance(SECOND);
    assert_eq!(pair.log[1..], ["Readable", "ReadTimeOut"]);
}

#[test]
fn the_connection_of_a_peer_that_receives_nothing_is_closed() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.take(number, 100);
    pair.send(number, &get("/len/10000"));
    pair.advance(30 * SECOND - 1);
    assert!(!pair.is_closed(number));
    pair.take(number, 100);
    pair.advance(30 * SECOND - 1);
    assert!(!pair.is_closed(number), "the connection of a peer that makes progress stays open");
    pair.advance(1);
    assert!(pair.is_closed(number));
}

#[test]
fn a_handler_is_informed_that_its_peer_receives_nothing() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &get("/wait"));
    let id = pair.waiting[0];
    pair.take(number, 0);
    pair.server.begin_body(id, 200, MediaType::None, pair.clock);
    pair.server.wait(id, Interest::Write, pair.clock);
    pair.advance(30 * SECOND);
    assert_eq!(pair.log[1..], ["WriteTimeOut"]);
}

#[test]
fn the_last_response_of_a_connection_announces_the_end() {
    let mut pair = Pair::with(Settings { requests: Some(2), ..Settings::default() });
    let number = pair.connect();
    pair.send(number, &get("/"));
    assert!(!pair.got(number).contains("Connection"));
    pair.send(number, &[get("/"), get("/")].concat());
    let text = pair.got(number);
    assert!(text.contains("Connection: close"));
    assert_eq!(answers(text.as_bytes(), &[]).len(), 1);
    assert!(pair.lingers(number));
}

#[test]
fn a_server_is_full_until_a_connection_closes() {
    let mut pair = Pair::with(Settings { connections: 2, ..Settings::default() });
    let number = pair.connect();
    assert!(!pair.server.is_full());
    pair.connect();
    assert!(pair.server.is_full());
    pair.end(number);
    assert!(pair.log.is_empty(), "no notification was requested");
    let number = pair.connect();
    pair.server.notify_next_close();
    pair.end(number);
    assert_eq!(pair.log, ["connection closed"]);
    assert!(!pair.server.is_full());
}

#[test]
fn guests_count_for_the_limit_of_connections() {
    let mut pair = Pair::with(Settings { connections: 3, ..Settings::default() });
    pair.connect();
    pair.server.set_guests(1);
    assert!(!pair.server.is_full());
    pair.server.set_guests(2);
    assert!(pair.server.is_full());
    pair.server.set_guests(0);
    assert!(!pair.server.is_full());
}

#[test]
fn idle_connections_are_closed_to_make_room() {
    let mut pair = Pair::new();
    let (fresh, served, busy) = (pair.connect(), pair.connect(), pair.connect());
    pair.send(served, &get("/"));
    pair.send(busy, &get("/wait"));
    assert_eq!(pair.server.close_some_idle(pair.clock), 0);
    pair.advance(2 * SECOND);
    assert_eq!(pair.server.close_some_idle(pair.clock), 1);
    assert!(pair.is_closed(served));
    assert!(!pair.is_closed(fresh) && !pair.is_closed(busy));
    for _ in 0..20 {
        let number = pair.connect();
        pair.send(number, &get("/"));
    }
    pair.advance(2 * SECOND);
    assert_eq!(pair.server.close_some_idle(pair.clock), 16, "a limited number at a time");
}

// Regression: such an event started the keep-alive time again. A TLS client causes one with a record without data.
#[test]
fn events_without_bytes_do_not_extend_the_keep_alive_time() {
    let mut pair = Pair::with(Settings { keep_alive_time: 10 * SECOND, ..Settings::default() });
    let number = pair.connect();
    pair.advance(9 * SECOND);
    pair.send(number, &get("/"));
    for _ in 0..3 {
        pair.advance(3 * SECOND);
        assert!(!pair.is_closed(number), "the time starts again after a response");
        pair.server.ready(pair.wires[number].0, Readiness { read: true, ..Readiness::default() }, pair.clock);
        pair.run();
    }
    pair.advance(SECOND - 1);
    assert!(!pair.is_closed(number));
    pair.advance(1);
    assert!(pair.is_closed(number));
}

#[test]
fn a_connection_without_events_is_closed() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.wires[number].1.unwatch();
    pair.send(number, &get("/"));
    assert!(pair.got(number).ends_with('/'));
    assert!(pair.is_closed(number));
}

#[test]
fn an_idle_connection_owns_no_buffer_and_is_small() {
    let mut pair = Pair::new();
    let number = pair.connect();
    pair.send(number, &post("/echo", &pattern(30_000)));
    let slot = pair.wires[number].0.slot();
    let connection = &pair.server.connections[slot];
    assert!(connection.output.is_none() && connection.input.capacity() == 0);
    let size = size_of::<Connection<Pipe>>();
    assert!(size <= 288, "{size}");
}
