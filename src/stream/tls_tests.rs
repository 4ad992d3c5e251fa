//! Tests of streams with TLS on both ends of a socket pair.

use super::broadcast::Delivery;
use super::queue::Sent;
use super::receive::{Received, RecvForm};
use super::{Pool, Stream};
use crate::event::{Mode, Selector};
use crate::socket::{Socket, Table};
use crate::tls::Handshake;
use crate::tls::testing::configured;
use proptest::prelude::*;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// Two connected streams, and the selector with which both are registered.
struct Pair {
    client: Stream,
    server: Stream,
    core: Rc<Selector>,
}

fn register(stream: &Stream, core: &Rc<Selector>) {
    stream.socket().source().unwrap().join(core, 0, Mode::Once).unwrap();
}

/// Handles the events that have occurred, so that the streams know what is available.
fn turn(core: &Selector) {
    core.wait(Some(Duration::ZERO), || false).unwrap();
    while core.next().is_some() {}
}

impl Pair {
    fn plain() -> Pair {
        let (near, far) = Socket::pair(&Rc::new(Table::default())).unwrap();
        let core = Selector::new(16).unwrap();
        let [client, server] = [near, far].map(|socket| Stream::new(socket, &Rc::new(Pool::default())));
        register(&client, &core);
        register(&server, &core);
        Pair { client, server, core }
    }

    fn new() -> Pair {
        let mut pair = Pair::plain();
        pair.start_tls();
        pair
    }

    /// Puts TLS on both streams.
    fn start_tls(&mut self) {
        let (client, server) = configured();
        self.client.start_tls(client.session(Some("localhost")).unwrap());
        self.server.start_tls(server.session().unwrap());
        for _ in 0..100 {
            turn(&self.core);
            let progress = [self.client.handshake().unwrap(), self.server.handshake().unwrap()];
            if progress == [Handshake::Done; 2] {
                return;
            }
        }
        panic!("the handshake does not end");
    }

    /// Sends `pieces` from the client. Returns what the server has received.
    fn pump(&mut self, pieces: &[&[u8]]) -> Vec<u8> {
        let (mut sent, mut got) = (0, Vec::new());
        for _ in 0..1_000_000 {
            turn(&self.core);
            let is_sent = self.client.send(pieces, &mut sent).unwrap();
            receive(&mut self.server, &mut got);
            if is_sent {
                turn(&self.core);
                receive(&mut self.server, &mut got);
                return got;
            }
        }
        panic!("{sent} bytes were sent, {} have arrived", got.len());
    }
}

/// Receives what is available.
fn receive(stream: &mut Stream, got: &mut Vec<u8>) {
    while let Received::Ready { length, consume } = stream.receive(RecvForm::Any).unwrap() {
        got.extend_from_slice(&stream.buffered()[..length]);
        stream.consume(consume);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn messages_of_any_sizes_arrive(sizes in prop::collection::vec(0..400_000usize, 1..6)) {
        let mut pair = Pair::new();
        let messages: Vec<Vec<u8>> = sizes.iter().map(|&size| pattern(size)).collect();
        let pieces: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        prop_assert!(pair.pump(&pieces) == pieces.concat());
        for message in &messages {
            prop_assert!(pair.pump(&[message]) == *message);
        }
    }
}

#[test]
fn a_stream_is_sent_to_another_vm_in_the_middle_of_its_data() {
    let mut pair = Pair::new();
    let data = pattern(40_000);
    assert!(pair.client.send(&[&data], &mut 0).unwrap());
    turn(&pair.core);
    assert_eq!(pair.server.receive(RecvForm::Exactly(100)).unwrap(), Received::Ready { length: 100, consume: 100 });
    pair.server.consume(100);
    let number = pair.server.make_parcel(0).expect("open");
    let (pool, table, core) = (Rc::new(Pool::default()), Rc::new(Table::default()), Selector::new(16).unwrap());
    let mut moved = Stream::from_parcel(number, &pool, &table).expect("a parcel");
    register(&moved, &core);
    let mut got = Vec::new();
    receive(&mut moved, &mut got);
    assert!(got == data[100..]);
    // The connection works in both directions.
    assert!(moved.send(&[b"answer"], &mut 0).unwrap());
    turn(&pair.core);
    let mut answer = Vec::new();
    receive(&mut pair.client, &mut answer);
    assert_eq!(answer, b"answer");
}

#[test]
fn bytes_that_tls_holds_back_are_sent_by_the_next_owner() {
    let mut pair = Pair::new();
    let data = pattern(3_000_000);
    let mut sent = 0;
    assert!(!pair.client.send(&[&data], &mut sent).unwrap());
    assert!(pair.client.queued() > 0, "TLS holds bytes back");
    let number = pair.client.make_parcel(0).expect("open");
    let (pool, table, core) = (Rc::new(Pool::default()), Rc::new(Table::default()), Selector::new(16).unwrap());
    pair.client = Stream::from_parcel(number, &pool, &table).expect("a parcel");
    register(&pair.client, &core);
    assert!(pair.client.queued() > 0);
    let (mut got, mut nothing) = (Vec::new(), 0);
    while !pair.client.send(&[], &mut nothing).unwrap() {
        turn(&core);
        turn(&pair.core);
        receive(&mut pair.server, &mut got);
    }
    turn(&pair.core);
    receive(&mut pair.server, &mut got);
    assert!(got == data[..sent], "{} of {sent}", got.len());
    assert!(pair.pump(&[&data[sent..]]) == data[sent..]);
}

#[test]
fn a_parcel_that_is_taken_back_keeps_the_connection() {
    let mut pair = Pair::new();
    pair.client.send(&[b"before"], &mut 0).unwrap();
    pair.client.make_parcel(0).expect("open");
    assert!(pair.client.is_closed());
    assert!(pair.client.take_back());
    register(&pair.client, &pair.core);
    assert_eq!(pair.pump(&[b" after"]), b"before after");
}

#[test]
fn broadcast_messages_arrive_once_and_in_order_although_the_peer_reads_slowly() {
    let mut pair = Pair::new();
    let big = pattern(3_000_000);
    let mut want = Vec::new();
    for text in [&b"first"[..], &big, b"third", &big] {
        let delivery = pair.client.broadcast(text, &mut None, usize::MAX);
        assert_eq!(delivery, if want.is_empty() { Delivery::Sent } else { Delivery::Queued });
        want.extend_from_slice(text);
    }
    assert_eq!(pair.client.broadcast(b"x", &mut None, 0), Delivery::Full);
    want.extend_from_slice(b"last");
    assert!(pair.pump(&[b"last"]) == want);
    assert_eq!((pair.client.queued(), pair.client.broadcast(b"x", &mut None, 0)), (0, Delivery::Sent));
}

#[test]
fn a_message_that_only_tls_holds_back_is_queued() {
    let mut pair = Pair::new();
    let big = pattern(100_000);
    let (mut want, mut sent) = (Vec::new(), 0);
    // The buffers of the system are nearly full.
    while pair.client.send(&[&big], &mut sent).unwrap() {
        want.extend_from_slice(&big);
        sent = 0;
    }
    want.extend_from_slice(&big[..sent]);
    let mut got = Vec::new();
    while pair.client.queued() > 0 {
        turn(&pair.core);
        receive(&mut pair.server, &mut got);
        let _ = pair.client.send(&[], &mut 0).unwrap();
    }
    let delivery = pair.client.broadcast(&big[..50_000], &mut None, 0);
    want.extend_from_slice(&big[..50_000]);
    assert!(matches!(delivery, Delivery::Sent | Delivery::Queued));
    got.extend(pair.pump(&[]));
    assert!(got == want);
}

#[test]
fn files_arrive_between_messages() {
    let mut pair = Pair::new();
    let path = std::env::temp_dir().join(format!("lio-tls-stream-{}", std::process::id()));
    let data = pattern(2_000_000);
    std::fs::write(&path, &data).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(pair.client.send(&[b"head"], &mut 0).unwrap());
    let (mut sent, mut got) = (0, Vec::new());
    loop {
        match pair.client.send_file(file.as_fd(), 500, 1_900_000, &mut sent).unwrap() {
            Sent::All => break,
            _ => {
                turn(&pair.core);
                receive(&mut pair.server, &mut got);
            }
        }
    }
    got.extend(pair.pump(&[b"tail"]));
    assert!(got == [&b"head"[..], &data[500..1_900_500], b"tail"].concat());
    let result = pair.client.send_file(file.as_fd(), 1_999_990, 11, &mut 0).unwrap();
    assert!(matches!(result, Sent::FileTooShort) || pair.client.send_file(file.as_fd(), 0, 0, &mut 0).is_ok());
}

#[test]
fn tls_inside_tls_carries_data_in_both_directions() {
    let mut pair = Pair::new();
    pair.start_tls();
    let data = pattern(1_000_000);
    assert!(pair.pump(&[&data]) == data);
    std::mem::swap(&mut pair.client, &mut pair.server);
    assert!(pair.pump(&[&data, b"end"]) == [&data[..], b"end"].concat());
    let number = pair.server.make_parcel(0).expect("open");
    let pool = Rc::new(Pool::default());
    pair.server = Stream::from_parcel(number, &pool, &Rc::new(Table::default())).expect("a parcel");
    register(&pair.server, &pair.core);
    assert!(pair.pump(&[&data]) == data);
}

#[test]
fn a_direction_that_is_shut_down_ends_with_close_notify() {
    let mut pair = Pair::new();
    assert!(pair.client.send(&[b"last"], &mut 0).unwrap());
    pair.client.shut_down(Shutdown::Write).unwrap();
    turn(&pair.core);
    let all = RecvForm::All { limit: 100 };
    assert_eq!(pair.server.receive(all).unwrap(), Received::Ready { length: 4, consume: 4 });
    assert!(pair.server.has_ended());
    assert!(pair.server.send(&[b"answer"], &mut 0).unwrap());
    turn(&pair.core);
    let mut got = Vec::new();
    receive(&mut pair.client, &mut got);
    assert_eq!(got, b"answer");
    let mut pair = Pair::new();
    pair.client.shut_down(Shutdown::Read).unwrap();
    assert!(pair.client.send(&[b"still"], &mut 0).unwrap());
    assert_eq!(pair.client.receive(RecvForm::Any).unwrap(), Received::Ended);
}

#[test]
fn a_shutdown_with_full_buffers_sends_its_last_bytes_later() {
    let mut pair = Pair::new();
    let data = pattern(3_000_000);
    let mut sent = 0;
    assert!(!pair.client.send(&[&data], &mut sent).unwrap());
    pair.client.shut_down(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    for _ in 0..10_000 {
        turn(&pair.core);
        receive(&mut pair.server, &mut got);
        if pair.client.send(&[], &mut 0).unwrap() {
            break;
        }
    }
    turn(&pair.core);
    receive(&mut pair.server, &mut got);
    assert!(got == data[..sent]);
    assert!(pair.server.has_ended());
}
