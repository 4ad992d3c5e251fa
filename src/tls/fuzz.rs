//! The target `tls_handshake` of the fuzzers: bytes without TLS, and connections in memory whose records an attacker
//! changes on their way.

use super::client::{ClientOptions, TlsClient};
use super::server::TlsServer;
use super::session::{Handshake, Session, TlsLink};
use super::testing::{End, any_certificate, authority, client_options, ends, identity, request, server_options};
use crate::codec::fuzz_input::Input;
use crate::socket::Attempt;
use rustls::client::Resumption;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, SupportedProtocolVersion};
use std::io::IoSlice;
use std::sync::Arc;

/// The maximum number of bytes that a side keeps, encrypted or not yet decrypted.
const MAX_KEPT: usize = 80 * 1024;
/// The maximum number of bytes that a side sends in addition to its data.
const MAX_OVERHEAD: usize = 32 * 1024;
/// The maximum number of rounds in which both sides and the attacker act.
const MAX_ROUNDS: usize = 100_000;

/// The end of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The side has received all data, and then the proper end.
    Ended,
    /// The handshake has failed.
    Refused,
    /// The connection has failed after the handshake.
    Failed,
    /// The side waited for bytes until its connection was cut.
    Waited,
}

/// The clients and servers of all runs.
struct Configured {
    tls13: Arc<ClientConfig>,
    tls12: Arc<ClientConfig>,
    resuming: TlsClient,
    mutual: TlsClient,
    server: TlsServer,
    mutual_server: TlsServer,
}

thread_local! {
    static CONFIGURED: Configured = Configured::new();
}

/// Returns the options of a client that accepts any certificate, and resumes no session.
fn forgetful(version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
    let builder = builder.with_protocol_versions(&[version]).expect("ring supports it");
    let builder = builder.dangerous().with_custom_certificate_verifier(any_certificate(&[]));
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

impl Configured {
    fn new() -> Configured {
        let (authority, trusted) = authority();
        let issued = ["localhost", "client"].map(|name| identity(&authority.issue(&request(&[name])).expect("issued")));
        let [site, member] = issued;
        let mut options = server_options(vec![site]);
        let server = TlsServer::new(options.clone()).expect("valid options");
        options.client_ca = vec![trusted.clone()];
        let mutual_server = TlsServer::new(options).expect("valid options");
        let resuming = TlsClient::new(&client_options(&trusted)).expect("valid options");
        let mutual = ClientOptions { identity: Some(member), ..client_options(&trusted) };
        let mutual = TlsClient::new(&mutual).expect("valid options");
        let [tls13, tls12] = [forgetful(&TLS13), forgetful(&TLS12)];
        Configured { tls13, tls12, resuming, mutual, server, mutual_server }
    }

    /// Returns the sessions of a client and of a server: TLS 1.3, TLS 1.2, perhaps a resumed session, or a client with a
    /// certificate.
    fn sessions(&self, kind: u8) -> (Session, Session) {
        let name = "localhost".try_into().expect("a name");
        let client = match kind {
            0 => Session::new(ClientConnection::new(self.tls13.clone(), name).expect("a session").into()),
            1 => Session::new(ClientConnection::new(self.tls12.clone(), name).expect("a session").into()),
            2 => self.resuming.session(Some("localhost")).expect("a session"),
            _ => self.mutual.session(Some("localhost")).expect("a session"),
        };
        let server = if kind > 2 { &self.mutual_server } else { &self.server };
        (client, server.session().expect("a session"))
    }
}

/// Runs a connection. The input: flags, then what [`alone`] or [`attacked`] needs. Returns the outcome of the client and
/// that of the server; the same outcome twice for one side alone.
pub(crate) fn handshake(data: &[u8]) -> [Outcome; 2] {
    let mut input = Input(data);
    let flags = input.byte();
    let (client, server) = CONFIGURED.with(|configured| configured.sessions(flags >> 2 & 3));
    match flags & 3 {
        0 => [alone(server, input); 2],
        1 => [alone(client, input); 2],
        _ => attacked(client, server, input),
    }
}

/// Passes the rest of the input to a side, in pieces. The handshake must fail.
fn alone(session: Session, mut input: Input<'_>) -> Outcome {
    let (mut end, far) = ends();
    end.set_limits(&input.sizes());
    far.outgoing.borrow_mut().bytes.extend(input.0);
    let mut side = Side::new(TlsLink::new(end, session), 1000, 100);
    for _ in 0..MAX_ROUNDS {
        side.act();
        assert!(!side.is_connected, "the handshake is complete");
        let is_read = far.outgoing.borrow().bytes.is_empty();
        far.outgoing.borrow_mut().has_ended = is_read;
        if let Some(outcome) = side.outcome {
            assert_eq!(outcome, Outcome::Refused);
            return outcome;
        }
    }
    panic!("the handshake does not end")
}

/// One side of a connection.
struct Side {
    link: TlsLink<End>,
    /// The data that the side sends, and the number of its bytes that were sent.
    data: Vec<u8>,
    sent: usize,
    /// The data that the side has received, and the number of its bytes that are known to be right.
    got: Vec<u8>,
    checked: usize,
    room: Vec<u8>,
    is_connected: bool,
    outcome: Option<Outcome>,
}

impl Side {
    /// `length`: the number of bytes that the side sends; `room`: the number that it receives at a time.
    fn new(link: TlsLink<End>, length: usize, room: usize) -> Side {
        let data = (0..length).map(|n| (n * 7 % 251) as u8).collect();
        let room = vec![0; room.max(1)];
        Side { link, data, sent: 0, got: Vec::new(), checked: 0, room, is_connected: false, outcome: None }
    }

    /// Continues the handshake, or sends and receives.
    fn act(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        if !self.is_connected {
            match self.link.handshake() {
                Ok(Handshake::Done) => self.is_connected = true,
                Ok(_) => return self.check_memory(),
                Err(_) => return self.end(Outcome::Refused),
            }
        }
        if self.send().is_err() || self.receive().is_err() {
            self.end(Outcome::Failed);
        }
        self.check_memory();
    }

    fn send(&mut self) -> std::io::Result<()> {
        while self.sent < self.data.len() {
            match self.link.send_pieces(&[IoSlice::new(&self.data[self.sent..])])? {
                Attempt::Done(count) => self.sent += count,
                Attempt::WouldBlock => return Ok(()),
            }
        }
        self.link.end_sending()
    }

    fn receive(&mut self) -> std::io::Result<()> {
        loop {
            let left = self.link.unread_on_wire();
            match self.link.receive_into(&mut self.room)? {
                Attempt::Done(0) => return Ok(self.outcome = Some(Outcome::Ended)),
                Attempt::Done(count) => self.got.extend_from_slice(&self.room[..count]),
                Attempt::WouldBlock if left == self.link.unread_on_wire() => return Ok(()),
                // The transport was read, and has returned a part of a record.
                Attempt::WouldBlock => {}
            }
        }
    }

    /// Checks that a side that has failed delivers and accepts nothing more, and closes it.
    fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        assert!(self.link.handshake().is_err() || outcome == Outcome::Failed);
        if outcome == Outcome::Refused {
            // The first data may arrive together with the end of the handshake and with an invalid record.
            while let Ok(received) = self.link.receive_into(&mut self.room) {
                assert!(matches!(received, Attempt::Done(1..)) && !self.link.is_handshaking(), "{received:?}");
                let Attempt::Done(count) = received else { break };
                self.got.extend_from_slice(&self.room[..count]);
            }
            assert!(self.link.send_pieces(&[IoSlice::new(b"x")]).is_err());
        }
        self.link.close();
    }

    fn check_memory(&self) {
        let kept = self.link.held() + self.link.unread_length();
        assert!(kept <= MAX_KEPT, "{kept} bytes are kept");
        let total = self.link.lower().outgoing.borrow().total;
        assert!(total <= MAX_OVERHEAD + self.sent * 2, "{total} bytes are sent for {} bytes of data", self.sent);
    }
}

/// The attacker's view of one direction.
#[derive(Default)]
struct Direction {
    /// The bytes that the attacker has received, and not yet divided into records.
    received: Vec<u8>,
    /// A record that follows the next one, and one that is joined with the next one.
    late: Option<Vec<u8>>,
    joined: Option<Vec<u8>>,
    is_cut: bool,
}

impl Direction {
    /// Takes the next record; the rest of the bytes if the stream has ended within a record.
    fn record(&mut self, has_ended: bool) -> Option<Vec<u8>> {
        let length = match self.received[..] {
            [_, _, _, high, low, ..] => 5 + usize::from(u16::from_be_bytes([high, low])),
            _ => usize::MAX,
        };
        let length = if has_ended { length.min(self.received.len()) } else { length };
        (length > 0 && length <= self.received.len()).then(|| self.received.drain(..length).collect())
    }

    /// Changes a record as the input says. Returns the bytes for the receiver, and bytes for the sender.
    fn change(&mut self, mut record: Vec<u8>, to: &mut End, input: &mut Input<'_>) -> (Vec<u8>, Vec<u8>) {
        let mut out = Vec::new();
        if let Some(mut joined) = self.joined.take() {
            joined.extend_from_slice(record.get(5..).unwrap_or_default());
            let length = (joined.len().saturating_sub(5) as u16).to_be_bytes();
            joined.get_mut(3..5).map(|to| to.copy_from_slice(&length)).unwrap_or(());
            record = joined;
        }
        match input.byte() {
            1 => {
                let at = input.short() % record.len();
                record[at] ^= input.byte();
            }
            2 => record.truncate(input.short() % record.len()),
            3 => {
                record.truncate(input.short() % record.len());
                self.is_cut = true;
            }
            4 => record.clear(),
            5 => out.extend_from_slice(&record),
            6 => {
                let held = std::mem::take(&mut record);
                out.extend(self.late.replace(held).unwrap_or_default());
            }
            7 => {
                let count = input.byte().into();
                out.extend_from_slice(input.bytes(count));
            }
            8 => to.set_limits(&input.sizes()),
            9 if record.len() > 5 => record = divided(&record, 1 + input.short() % (record.len() - 5)),
            10 => self.joined = Some(std::mem::take(&mut record)),
            11 => return (out, record),
            _ => {}
        }
        let is_passed = !record.is_empty();
        out.extend(record);
        if is_passed {
            out.extend(self.late.take().unwrap_or_default());
        }
        (out, Vec::new())
    }
}

/// Divides the content of a record into two records. The first gets `count` bytes.
fn divided(record: &[u8], count: usize) -> Vec<u8> {
    let (first, second) = record[5..].split_at(count);
    let part = |content: &[u8]| [&record[..3], &(content.len() as u16).to_be_bytes(), content].concat();
    [part(first), part(second)].concat()
}

/// Connects a client and a server through an attacker. The input: the lengths of the data and the sizes of reads, then what
/// the attacker does with each record.
fn attacked(client: Session, server: Session, mut input: Input<'_>) -> [Outcome; 2] {
    let ((client_end, client_far), (server_end, server_far)) = (ends(), ends());
    let mut side = |end, session| {
        let (length, room) = (input.short() / 2, input.short());
        Side::new(TlsLink::new(end, session), length, room)
    };
    let mut sides = [side(client_end, client), side(server_end, server)];
    let far = [client_far, server_far];
    let mut directions = [Direction::default(), Direction::default()];
    let mut idle = 0;
    for _ in 0..MAX_ROUNDS {
        sides.iter_mut().for_each(Side::act);
        let [client, server] = &mut sides;
        check(client, server);
        check(server, client);
        let mut has_moved = false;
        for from in 0..2 {
            has_moved |= pass(from, &far, &mut directions[from], &mut sides[1 - from].link, &mut input);
        }
        // A side may read only a part of the bytes in each round.
        let mut all = sides.iter().zip(&far);
        let is_unread = all.any(|(side, far)| side.outcome.is_none() && !far.outgoing.borrow().bytes.is_empty());
        idle = if has_moved || is_unread { 0 } else { idle + 1 };
        if idle > 2 {
            break;
        }
    }
    assert!(idle > 2, "the connection does not end");
    sides.each_mut().map(|side| conclude(side, &far))
}

/// Passes the bytes in one direction. Returns whether bytes or the end have been passed.
fn pass(from: usize, far: &[End; 2], direction: &mut Direction, to: &mut TlsLink<End>, input: &mut Input<'_>) -> bool {
    let mut source = far[from].incoming.borrow_mut();
    let has_moved = !source.bytes.is_empty();
    direction.received.extend(source.bytes.drain(..));
    while let Some(record) = direction.record(source.has_ended) {
        if direction.is_cut {
            continue;
        }
        let (forward, back) = direction.change(record, to.lower_mut(), input);
        far[1 - from].outgoing.borrow_mut().bytes.extend(forward);
        far[from].outgoing.borrow_mut().bytes.extend(back);
    }
    let ends = source.has_ended || direction.is_cut;
    has_moved | (ends && !std::mem::replace(&mut far[1 - from].outgoing.borrow_mut().has_ended, true))
}

/// Checks that a side has received only what the other has sent, and all of it before a proper end.
fn check(one: &mut Side, other: &Side) {
    let new = &one.got[one.checked..];
    assert!(other.data[one.checked..other.sent].starts_with(new), "the data differs");
    one.checked = one.got.len();
    assert!(one.outcome != Some(Outcome::Ended) || one.got.len() == other.data.len(), "data is missing");
}

/// Cuts the connection of a side that waits. Then it must fail.
fn conclude(side: &mut Side, far: &[End; 2]) -> Outcome {
    if let Some(outcome) = side.outcome {
        return outcome;
    }
    far.iter().for_each(|end| end.outgoing.borrow_mut().has_ended = true);
    let got = side.got.len();
    for _ in 0..3 {
        side.act();
    }
    assert!(matches!(side.outcome, Some(Outcome::Refused | Outcome::Failed)), "a cut is an error: {:?}", side.outcome);
    assert_eq!(side.got.len(), got);
    Outcome::Waited
}

/// Returns seeds of [`handshake`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let attack = |kind: u8, actions: &[u8]| {
        let lengths = [0x01, 0x00, 0x00, 0x40, 0x50, 0x00, 0x10, 0x00];
        [&[2 | kind << 2][..], &lengths, actions].concat()
    };
    vec![
        b"\x00\x00GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"\x00\x01\x03\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03".to_vec(),
        b"\x01\x00\x15\x03\x03\x00\x02\x02\x28".to_vec(),
        b"\x05\x01\x04\x16\x03\x03\x00\x04\x02\x00\x00\x00".to_vec(),
        attack(0, &[]),
        attack(1, &[]),
        attack(2, &[]),
        attack(3, &[]),
        // The attacker changes a byte of the ServerHello, cuts the first record, drops or repeats a record.
        attack(0, &[0, 1, 0, 20, 1]),
        attack(1, &[3, 0, 9]),
        attack(1, &[0, 4]),
        attack(0, &[0, 0, 0, 0, 5]),
        // Single bytes, a divided ClientHello, records in another order, joined, reflected, and inserted bytes.
        attack(0, &[8, 1, 1, 8, 2, 3, 5]),
        attack(1, &[9, 0, 40]),
        attack(1, &[0, 6]),
        attack(1, &[0, 10]),
        attack(0, &[11]),
        attack(3, &[0, 0, 0, 0, 7, 3, 23, 3, 3]),
        // Data that arrives together with the end of the handshake and with an invalid record.
        vec![6, 1, 0, 0, 164, 80, 233, 0, 16, 0, 249, 116, 52, 52, 0, 16, 0, 9, 0, 40],
        // The attacker cuts the data.
        attack(0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]),
    ]
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Ended, Failed, Refused, Waited};
    use super::*;

    #[test]
    fn the_seeds_reach_each_outcome() {
        let found: Vec<_> = seeds().iter().map(|seed| handshake(seed)).collect();
        let expected = [
            [Refused; 2],
            [Refused; 2],
            [Refused; 2],
            [Refused; 2],
            [Ended; 2],
            [Ended; 2],
            [Ended; 2],
            [Ended; 2],
            [Refused; 2],
        ];
        assert_eq!(&found[..expected.len()], expected);
        for outcome in [Ended, Refused, Failed, Waited] {
            assert!(found.iter().flatten().any(|one| *one == outcome), "{outcome:?}: {found:?}");
        }
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..30 {
            for first in [0, 1, 2, 0xff, 0x55] {
                handshake(&[&[first][..], &vec![first; length]].concat());
            }
        }
    }
}
