//! Tests of TLS connections over transports in memory, which move any number of bytes at a time.

use super::*;
use crate::socket::Socket;
use crate::tls::client::TlsClient;
use crate::tls::link::Link;
use crate::tls::server::MinVersion;
use crate::tls::testing::{ALL, End, authority, client_options, configured, drain, identity, joined, request};
use crate::tls::testing::{server_options, shake};
use crate::tls::{TlsServer, testing};
use proptest::prelude::*;
use std::os::fd::AsFd;

type Ends = (TlsLink<End>, TlsLink<End>);

fn connected() -> Ends {
    connected_to(configured())
}

fn connected_to((client, server): (TlsClient, TlsServer)) -> Ends {
    let (mut client, mut server) = joined(client.session(Some("localhost")).unwrap(), server.session().unwrap());
    shake(&mut client, &mut server).unwrap();
    (client, server)
}

/// Returns a client and a server that use TLS 1.2.
fn of_tls12() -> Ends {
    let (client, server) = configured();
    let mut config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(testing::any_certificate(&[]))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    let name = "localhost".try_into().unwrap();
    drop(client);
    let session = Session::new(rustls::ClientConnection::new(config.into(), name).unwrap().into());
    joined(session, server.session().unwrap())
}

fn of_tls13() -> Ends {
    let (client, server) = configured();
    joined(client.session(Some("localhost")).unwrap(), server.session().unwrap())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 % 251) as u8).collect()
}

fn send(link: &mut TlsLink<End>, data: &[u8]) -> usize {
    match link.send_pieces(&[IoSlice::new(data)]).unwrap() {
        Attempt::Done(count) => count,
        Attempt::WouldBlock => 0,
    }
}

fn text(error: io::Error) -> String {
    TlsError::of(&error).expect("an error of TLS").to_string()
}

/// Sends all of `data` from one end while the other receives. Returns what has arrived.
fn pump(from: &mut TlsLink<End>, to: &mut TlsLink<End>, data: &[u8], piece: usize, room: usize) -> Vec<u8> {
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..2_000_000 {
        if sent < data.len() {
            let rest = &data[sent..];
            sent += send(from, &rest[..piece.min(rest.len())]);
        } else if from.flush().unwrap() && got.len() == data.len() {
            return got;
        }
        got.extend(drain(to, room).unwrap().0);
    }
    panic!("{} of {} bytes have arrived", got.len(), data.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_data_arrives_over_any_transport(
        up in 0..120_000usize, down in 0..120_000usize, piece in 1..70_000usize, room in 1..40_000usize,
        one in prop::collection::vec(prop_oneof![0..3usize, 1..20_000usize], 1..8),
        other in prop::collection::vec(prop_oneof![0..3usize, 1..20_000usize], 1..8),
    ) {
        let (mut client, mut server) = of_tls13();
        // Some operations move many bytes, so that the test ends.
        client.lower_mut().set_limits(&[&one[..], &[5000, 5000]].concat());
        server.lower_mut().set_limits(&[&other[..], &[5000, 5000]].concat());
        shake(&mut client, &mut server).unwrap();
        let (up, down) = (pattern(up), pattern(down));
        prop_assert!(pump(&mut client, &mut server, &up, piece, room) == up);
        prop_assert!(pump(&mut server, &mut client, &down, piece, room) == down);
        client.end_sending().unwrap();
        let has_ended = (0..100).any(|_| {
            client.flush().unwrap();
            let (got, has_ended) = drain(&mut server, room).unwrap();
            assert!(got.is_empty());
            has_ended
        });
        prop_assert!(has_ended);
    }
}

#[test]
fn the_bytes_of_a_handshake_may_be_split_anywhere() {
    for make in [of_tls12, of_tls13] {
        let (mut client, mut server) = make();
        shake(&mut client, &mut server).unwrap();
        let totals = [&client, &server].map(|end| end.lower().outgoing.borrow().total);
        for split in 1..totals[0].max(totals[1]) {
            let (mut client, mut server) = make();
            client.lower_mut().set_limits(&[split, 0, usize::MAX]);
            server.lower_mut().set_limits(&[split, 0, usize::MAX]);
            shake(&mut client, &mut server).unwrap();
            assert_eq!(pump(&mut client, &mut server, b"hello", 5, 5), b"hello");
        }
    }
}

#[test]
fn a_handshake_works_one_byte_at_a_time() {
    for make in [of_tls12, of_tls13] {
        let (mut client, mut server) = make();
        client.lower_mut().set_limits(&[1, 0, 1]);
        server.lower_mut().set_limits(&[0, 1]);
        shake(&mut client, &mut server).unwrap();
        assert_eq!(pump(&mut server, &mut client, b"hello", 2, 1), b"hello");
    }
}

#[test]
fn the_end_of_the_transport_during_a_handshake_is_an_error_everywhere() {
    for make in [of_tls12, of_tls13] {
        let (mut client, mut server) = make();
        shake(&mut client, &mut server).unwrap();
        let total = client.lower().outgoing.borrow().total;
        for count in 0..total {
            let (mut client, mut server) = make();
            for _ in 0..4 {
                client.handshake().unwrap();
                let wire = client.lower().outgoing.clone();
                if wire.borrow().total > count {
                    let excess = wire.borrow().total - count;
                    let left = wire.borrow().bytes.len() - excess;
                    wire.borrow_mut().bytes.truncate(left);
                    wire.borrow_mut().has_ended = true;
                    break;
                }
                server.handshake().unwrap();
            }
            let error = server.handshake().expect_err("the client has closed the connection");
            assert_eq!(text(error), "the peer has closed the connection during the handshake", "after {count} bytes");
            assert_eq!(
                text(server.handshake().unwrap_err()),
                "the peer has closed the connection during the handshake"
            );
        }
    }
}

#[test]
fn bytes_that_the_transport_does_not_accept_are_held_back_and_sent_by_a_flush() {
    let (mut client, mut server) = connected();
    drain(&mut client, 10).unwrap();
    server.lower_mut().set_limits(&[0]);
    let data = pattern(200_000);
    let sent = send(&mut server, &data);
    assert!(sent > 0 && sent <= 64 * 1024, "{sent}");
    assert!(server.held() >= sent);
    assert_eq!(send(&mut server, b"more"), 0, "nothing more is encrypted");
    assert!(!server.flush().unwrap());
    assert_eq!(drain(&mut client, 100).unwrap(), (Vec::new(), false));
    server.lower_mut().set_limits(&[1000, 0]);
    let before = server.held();
    assert!(!server.flush().unwrap());
    assert_eq!(server.held(), before - 1000);
    server.lower_mut().set_limits(ALL);
    assert!(server.flush().unwrap());
    assert_eq!(server.held(), 0);
    assert!(drain(&mut client, 70_000).unwrap() == (data[..sent].to_vec(), false));
}

#[test]
fn the_end_is_close_notify_and_an_end_without_it_is_an_error() {
    for has_data in [false, true] {
        let (mut client, mut server) = connected();
        let want = if has_data { pattern(50_000) } else { Vec::new() };
        assert_eq!(send(&mut client, &want), want.len());
        client.end_sending().unwrap();
        assert_eq!(drain(&mut server, 1000).unwrap(), (want.clone(), true));
        assert!(client.lower().outgoing.borrow().has_ended);

        let (mut client, mut server) = connected();
        assert_eq!(send(&mut client, &want), want.len());
        client.lower_mut().end_sending().unwrap();
        let (mut got, mut room) = (Vec::new(), [0; 1000]);
        let error = loop {
            match server.receive_into(&mut room) {
                Ok(Attempt::Done(count)) => got.extend_from_slice(&room[..count]),
                Ok(Attempt::WouldBlock) => panic!("no end"),
                Err(error) => break error,
            }
        };
        assert_eq!(got, want);
        let truncated = "the peer has closed the connection without close_notify: data may be missing";
        assert_eq!(text(error), truncated);
        assert_eq!(text(server.receive_into(&mut room).unwrap_err()), truncated);
    }
}

#[test]
fn a_connection_that_is_cut_anywhere_in_its_data_is_an_error() {
    let (mut client, mut server) = connected();
    let before = client.lower().outgoing.borrow().total;
    send(&mut client, b"hello");
    client.end_sending().unwrap();
    let total = client.lower().outgoing.borrow().total - before;
    drain(&mut server, 100).unwrap();
    for count in 0..total {
        let (mut client, mut server) = connected();
        send(&mut client, b"hello");
        client.end_sending().unwrap();
        client.lower().outgoing.borrow_mut().bytes.truncate(count);
        let mut room = [0; 100];
        let mut got = 0;
        let error = loop {
            match server.receive_into(&mut room) {
                Ok(Attempt::WouldBlock) if server.may_read() => {}
                Ok(Attempt::Done(0) | Attempt::WouldBlock) => panic!("the cut after {count} bytes was not noticed"),
                Ok(Attempt::Done(count)) => got += count,
                Err(error) => break error,
            }
        };
        assert_eq!(got, if count >= total - 24 { 5 } else { 0 }, "after {count} of {total} bytes");
        assert!(text(error).contains("without close_notify"));
    }
}

#[test]
fn an_end_whose_sending_side_is_closed_still_receives() {
    let (mut client, mut server) = connected();
    client.end_sending().unwrap();
    client.end_sending().unwrap();
    assert_eq!(drain(&mut server, 10).unwrap(), (Vec::new(), true));
    let want = pattern(100_000);
    assert!(pump(&mut server, &mut client, &want, 30_000, 1000) == want);
    let error = client.send_pieces(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    server.end_sending().unwrap();
    assert_eq!(drain(&mut client, 10).unwrap(), (Vec::new(), true));
}

#[test]
fn close_notify_follows_the_bytes_that_are_held_back() {
    let (mut client, mut server) = connected();
    drain(&mut client, 10).unwrap();
    server.lower_mut().set_limits(&[0]);
    let sent = send(&mut server, &pattern(30_000));
    server.end_sending().unwrap();
    assert!(!server.lower().outgoing.borrow().has_ended);
    assert!(server.held() > sent);
    server.lower_mut().set_limits(&[7001]);
    // The transport is full after a part of the bytes was sent.
    assert!(!server.flush().unwrap());
    assert!(!server.lower().outgoing.borrow().has_ended);
    while !server.flush().unwrap() {}
    assert!(server.lower().outgoing.borrow().has_ended);
    assert!(drain(&mut client, 999).unwrap() == (pattern(30_000)[..sent].to_vec(), true));
}

#[test]
fn a_record_that_is_changed_anywhere_ends_the_connection_after_the_earlier_data() {
    let (mut client, _) = connected();
    let start = client.lower().outgoing.borrow().total;
    send(&mut client, b"first");
    let first = client.lower().outgoing.borrow().total - start;
    // The minor number of the version is ignored (RFC 8446 section 5.1).
    for at in (first..first + 27).filter(|at| *at != first + 2) {
        let (mut client, mut server) = connected();
        drain(&mut client, 10).unwrap();
        send(&mut client, b"first");
        send(&mut client, b"second");
        client.lower().outgoing.borrow_mut().bytes[at] ^= 0x81;
        client.lower().outgoing.borrow_mut().has_ended = true;
        let mut room = [0; 3];
        let mut got = Vec::new();
        let error = loop {
            match server.receive_into(&mut room) {
                Ok(Attempt::Done(0) | Attempt::WouldBlock) => panic!("the change of byte {at} was not noticed"),
                Ok(Attempt::Done(count)) => got.extend_from_slice(&room[..count]),
                Err(error) => break error,
            }
        };
        assert_eq!(got, b"first", "byte {at}");
        if at >= first + 5 {
            assert_eq!(text(error), "a record was corrupted", "byte {at}");
            let alert = drain(&mut client, 10).unwrap_err();
            assert_eq!(text(alert), "the peer refused the connection: it could not decrypt a message");
        }
        server.receive_into(&mut room).expect_err("the session has failed");
        server.send_pieces(&[IoSlice::new(b"x")]).expect_err("the session has failed");
    }
}

// Regression: a debug assertion of rustls failed, so that a peer could make a program that was built for debugging panic.
#[test]
fn an_invalid_record_after_the_own_end_is_an_error() {
    for make in [of_tls12, of_tls13] {
        let (mut client, mut server) = make();
        shake(&mut client, &mut server).unwrap();
        drain(&mut client, 10).unwrap();
        server.end_sending().unwrap();
        send(&mut client, b"first");
        send(&mut client, b"second");
        client.lower().outgoing.borrow_mut().bytes.back_mut().map(|byte| *byte ^= 1).unwrap();
        let mut room = [0; 100];
        assert!(matches!(server.receive_into(&mut room), Ok(Attempt::Done(5))));
        assert_eq!(text(server.receive_into(&mut room).unwrap_err()), "a record was corrupted");
    }
}

#[test]
fn a_peer_that_does_not_speak_tls_is_refused() {
    let (client, server) = configured();
    drop(client);
    let (mut other, mut server) = joined(server.session().unwrap(), server.session().unwrap());
    other.lower_mut().send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(text(server.handshake().unwrap_err()), "the peer does not speak TLS");
    // The peer gets an alert: a record of the type 21.
    assert_eq!(other.lower().incoming.borrow().bytes.front(), Some(&21));
}

#[test]
fn short_pieces_share_a_record() {
    let (mut client, mut server) = connected();
    let before = client.lower().outgoing.borrow().total;
    let pieces: Vec<&[u8]> = vec![b"some ", b"", b"short ", b"pieces"];
    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    assert!(matches!(client.send_pieces(&slices).unwrap(), Attempt::Done(17)));
    // A record of TLS 1.3 has 22 bytes besides its content.
    assert_eq!(client.lower().outgoing.borrow().total - before, 17 + 22);
    assert_eq!(drain(&mut server, 100).unwrap(), (b"some short pieces".to_vec(), false));
}

#[test]
fn many_pieces_arrive_completely_if_the_transport_blocks() {
    let (mut client, mut server) = connected();
    client.lower_mut().set_limits(&[3000, 0, 1, 40_000]);
    let data = pattern(300_000);
    let mut sent = 0;
    let mut got = Vec::new();
    while got.len() < data.len() {
        let slices: Vec<IoSlice<'_>> = data[sent..].chunks(777).map(IoSlice::new).collect();
        if let Attempt::Done(count) = client.send_pieces(&slices).unwrap() {
            sent += count;
        }
        got.extend(drain(&mut server, 5000).unwrap().0);
    }
    assert!(got == data);
}

#[test]
fn a_file_arrives_completely_if_the_transport_blocks() {
    let (mut client, mut server) = connected();
    let path = std::env::temp_dir().join(format!("lio-tls-file-{}", std::process::id()));
    let data = pattern(300_000);
    std::fs::write(&path, &data).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    server.lower_mut().set_limits(&[0, 3000, 1, 40_000]);
    let (mut offset, mut got) = (1000, Vec::new());
    while got.len() < 298_000 {
        let left = (299_000 - offset) as usize;
        if let Attempt::Done(count) = server.send_file(file.as_fd(), offset, left).unwrap() {
            offset += count as u64;
        }
        got.extend(drain(&mut client, 5000).unwrap().0);
    }
    assert!(got == data[1000..299_000]);
    server.lower_mut().set_limits(ALL);
    assert!(matches!(server.send_file(file.as_fd(), 300_000, 5).unwrap(), Attempt::Done(0)));
}

#[test]
fn one_read_of_the_transport_may_contain_more_than_the_caller_has_room_for() {
    let (mut client, mut server) = connected();
    let data = pattern(60_000);
    for piece in data.chunks(100) {
        send(&mut client, piece);
    }
    client.end_sending().unwrap();
    let mut room = [0; 7];
    assert!(matches!(server.receive_into(&mut room).unwrap(), Attempt::Done(7)));
    assert!(server.lower().incoming.borrow().bytes.is_empty() || server.lower().may_read());
    assert!(server.has_plaintext() && server.may_read());
    let (rest, has_ended) = drain(&mut server, 7).unwrap();
    assert!(has_ended && rest == data[7..]);
}

#[test]
fn a_call_reads_its_transport_once() {
    let (mut client, mut server) = connected();
    send(&mut client, &pattern(1000));
    server.lower_mut().set_limits(&[400]);
    let mut room = [0; 2000];
    for left in [622, 222] {
        assert_eq!(server.receive_into(&mut room).unwrap(), Attempt::WouldBlock);
        assert_eq!(server.unread_on_wire(), left);
        assert!(!server.has_plaintext() && server.may_read());
    }
    assert_eq!(server.receive_into(&mut room).unwrap(), Attempt::Done(1000));
}

#[test]
fn an_error_after_data_needs_no_event() {
    let (mut client, mut server) = connected();
    send(&mut client, b"data");
    client.lower_mut().send(&[0; 100]).unwrap();
    let mut room = [0; 100];
    assert!(matches!(server.receive_into(&mut room).unwrap(), Attempt::Done(4)));
    assert!(!server.lower().may_read());
    assert!(server.has_plaintext() && server.may_read());
    assert!(server.receive_into(&mut room).is_err());
}

/// Moves a connection as between VMs. The socket may be readable afterwards, although no selector has reported it.
fn move_socket(link: &mut Link) {
    let parts = link.take_parts().unwrap();
    link.restore(parts);
}

#[test]
fn an_error_of_tls_inside_tls_needs_no_event() {
    let table = std::rc::Rc::default();
    let (one, other) = Socket::pair(&table).unwrap();
    let (mut client, mut server) = (Link::from(one), Link::from(other));
    let (tls_client, tls_server) = configured();
    for _ in 0..2 {
        client.start_tls(tls_client.session(Some("localhost")).unwrap(), Vec::new());
        server.start_tls(tls_server.session().unwrap(), Vec::new());
        let mut handshake = || {
            [&mut client, &mut server].map(|link| {
                move_socket(link);
                link.tls_mut().unwrap().handshake().unwrap()
            })
        };
        assert!((0..10).any(|_| handshake() == [Handshake::Done, Handshake::Done]));
    }
    client.send(b"data").unwrap();
    client.socket().send(&[0; 100]).unwrap();
    let mut room = [0; 100];
    move_socket(&mut server);
    assert_eq!(server.receive_into(&mut room).unwrap(), Attempt::Done(4));
    assert!(server.has_plaintext() && server.may_read());
    assert!(server.receive_into(&mut room).is_err());
}

#[test]
fn a_session_that_moves_to_another_transport_keeps_its_unread_data() {
    let (mut client, mut server) = connected();
    let data = pattern(40_000);
    send(&mut client, &data);
    let mut room = [0; 100];
    assert!(matches!(server.receive_into(&mut room).unwrap(), Attempt::Done(100)));
    let (lower, session) = server.into_inner();
    let mut moved = TlsLink::new(lower, session);
    assert!(drain(&mut moved, 5000).unwrap() == (data[100..].to_vec(), false));
    assert_eq!(pump(&mut moved, &mut client, b"answer", 3, 100), b"answer");
}

#[test]
fn bytes_that_were_read_before_tls_starts_belong_to_the_handshake() {
    let (client, server) = configured();
    let (mut client, mut server) = joined(client.session(Some("localhost")).unwrap(), server.session().unwrap());
    assert_eq!(client.handshake().unwrap(), Handshake::Read);
    let received: Vec<u8> = server.lower().incoming.borrow_mut().bytes.drain(..100).collect();
    server.session.unread(received);
    shake(&mut client, &mut server).unwrap();
    assert_eq!(pump(&mut client, &mut server, b"hello", 5, 5), b"hello");
}

#[test]
fn a_close_sends_close_notify_and_is_idempotent() {
    let (mut client, mut server) = connected();
    server.close();
    server.close();
    assert_eq!(drain(&mut client, 10).unwrap(), (Vec::new(), true));
    assert!(server.lower().is_closed());
}

// Regression: closing the socket with unread tickets made the system reset the connection and discard sent data.
#[test]
fn a_client_that_closes_has_read_its_tickets() {
    let (mut client, _server) = connected();
    assert!(!client.lower().incoming.borrow().bytes.is_empty(), "tickets");
    send(&mut client, b"data");
    client.close();
    assert!(client.lower().incoming.borrow().bytes.is_empty());
}

#[test]
fn a_connection_that_is_not_ready_sends_no_data() {
    let (mut client, _server) = of_tls13();
    let error = client.send_pieces(&[IoSlice::new(b"early")]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
}

#[test]
fn a_resumed_session_is_described_as_such() {
    let (client, server) = configured();
    for is_resumed in [false, true, true] {
        let (mut one, mut other) = joined(client.session(Some("localhost")).unwrap(), server.session().unwrap());
        shake(&mut one, &mut other).unwrap();
        // The client gets the ticket with the first data.
        assert_eq!(pump(&mut other, &mut one, b"data", 4, 4), b"data");
        assert_eq!(one.describe().unwrap().resumed, is_resumed);
        assert_eq!(other.describe().unwrap().resumed, is_resumed);
    }
}

#[test]
fn a_server_for_tls13_only_refuses_clients_of_tls12() {
    let (authority, _) = authority();
    let issued = authority.issue(&request(&["localhost"])).unwrap();
    let mut options = server_options(vec![identity(&issued)]);
    options.version = MinVersion::Tls13;
    let server = TlsServer::new(options).unwrap();
    let (client, _) = of_tls12();
    let (_, session) = client.into_inner();
    let (mut client, mut server) = joined(session, server.session().unwrap());
    let [on_client, on_server] = shake(&mut client, &mut server).unwrap_err();
    assert_eq!(on_server.unwrap().to_string(), "the peer supports no common version of TLS");
    let text = on_client.unwrap().to_string();
    assert_eq!(text, "the peer refused the connection: it supports no common version of TLS");
}

#[test]
fn the_description_names_version_and_cipher() {
    for (make, version, cipher) in [
        (of_tls12 as fn() -> Ends, "1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        (of_tls13, "1.3", "TLS_AES_256_GCM_SHA384"),
    ] {
        let (mut client, mut server) = make();
        assert!(client.describe().is_none());
        shake(&mut client, &mut server).unwrap();
        let (client, server) = (client.describe().unwrap(), server.describe().unwrap());
        assert_eq!((client.version, server.version), (version, version));
        assert_eq!((client.cipher.as_str(), server.cipher.as_str()), (cipher, cipher));
        assert_eq!((client.server_name, server.server_name.as_deref()), (None, Some("localhost")));
        assert_eq!(client.peer.unwrap().names, ["localhost"]);
        assert!(server.peer.is_none());
    }
}

#[test]
fn a_client_without_a_usable_name_gets_an_error() {
    let (_, trusted) = authority();
    let client = TlsClient::new(&client_options(&trusted)).unwrap();
    let message = |host| client.session(host).err().expect("an error").to_string();
    assert_eq!(message(None), "the name of the server is unknown: set the option server_name");
    assert_eq!(message(Some("a b")), "'a b' is not a valid host name");
    assert!(client.session(Some("a.example.")).is_ok());
    assert!(client.session(Some("fe80::1%eth0")).is_ok());
}
