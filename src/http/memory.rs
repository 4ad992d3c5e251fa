//! A connection in memory, for tests of an app: the server's end is a [`Transport`], and the client's end is an
//! [`Input`]. There is no socket and no descriptor. Used by `modules::http::memory`.
//!
//! Invariant: at most [`ROOM`] bytes wait for the client, so that a server that sends more has to wait until the client
//! reads, as with a socket. The number of bytes that wait for the server is not limited.

use super::client::Input;
use super::server::{Interest, Readiness, Transport};
use crate::stream::Filled;
use crate::stream::queue::{Attempt, Sink};
use bytes::{Buf, BytesMut};
use rustix::io::{pread, retry_on_intr};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The maximum number of bytes that wait for the client.
const ROOM: usize = 256 * 1024;

/// The data of both ends.
#[derive(Default)]
struct Pair {
    to_server: BytesMut,
    to_client: BytesMut,
    /// The events that the server has requested.
    requested: Readiness,
    client: End,
    server: End,
}

/// The sides that an end has closed.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd)]
enum End {
    #[default]
    Open,
    /// The sending side.
    Ended,
    Closed,
}

/// The client's end. The connection closes when it is dropped.
pub(crate) struct ClientEnd {
    pair: Rc<RefCell<Pair>>,
    /// The bytes that were received and not consumed.
    received: BytesMut,
}

/// The server's end.
pub(crate) struct ServerEnd(Rc<RefCell<Pair>>);

/// Creates a connection.
pub(crate) fn pair() -> (ClientEnd, ServerEnd) {
    let pair = Rc::new(RefCell::new(Pair::default()));
    (ClientEnd { pair: pair.clone(), received: BytesMut::new() }, ServerEnd(pair))
}

impl ClientEnd {
    /// Sends bytes. Returns false if the server has closed the connection, or if this end has closed its sending side.
    pub(crate) fn send(&self, data: &[u8]) -> bool {
        let mut pair = self.pair.borrow_mut();
        let is_open = pair.client == End::Open && pair.server != End::Closed;
        if is_open {
            pair.to_server.extend_from_slice(data);
        }
        is_open
    }

    /// Closes the sending side.
    pub(crate) fn end_sending(&self) {
        let mut pair = self.pair.borrow_mut();
        if pair.client == End::Open {
            pair.client = End::Ended;
        }
    }

    /// Closes the connection. Idempotent.
    pub(crate) fn close(&self) {
        self.pair.borrow_mut().client = End::Closed;
    }

    /// Whether a read returns data or the end of the stream.
    pub(crate) fn may_read(&self) -> bool {
        let pair = self.pair.borrow();
        !pair.to_client.is_empty() || pair.server != End::Open
    }

    /// Returns the events that the server has requested and that have occurred. The server has to request each of them
    /// again.
    pub(crate) fn take_events(&self) -> Readiness {
        let mut pair = self.pair.borrow_mut();
        let ended = pair.client != End::Open;
        let asked = pair.requested;
        let events = Readiness {
            read: asked.read && (ended || !pair.to_server.is_empty()),
            write: asked.write && (pair.to_client.len() < ROOM || pair.client == End::Closed),
            closed: ended && (asked.closed || asked.read || asked.write),
        };
        pair.requested = Readiness {
            read: asked.read && !events.read,
            write: asked.write && !events.write,
            closed: asked.closed && !events.closed,
        };
        events
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        self.close();
    }
}

impl Input for ClientEnd {
    fn buffered(&self) -> &[u8] {
        &self.received
    }

    fn consume(&mut self, count: usize) {
        self.received.advance(count.min(self.received.len()));
    }

    fn fill(&mut self, _: usize) -> io::Result<Filled> {
        let mut pair = self.pair.borrow_mut();
        if pair.client == End::Closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !pair.to_client.is_empty() {
            self.received.unsplit(pair.to_client.split());
            return Ok(Filled::Some);
        }
        Ok(if pair.server == End::Open { Filled::WouldBlock } else { Filled::End })
    }

    fn is_open(&self) -> bool {
        let pair = self.pair.borrow();
        pair.client == End::Open && pair.server == End::Open
    }
}

impl ServerEnd {
    /// Calls `put` with the buffer of the client and the number of bytes that it accepts.
    fn put(&self, put: impl FnOnce(&mut BytesMut, usize) -> io::Result<usize>) -> io::Result<Attempt<usize>> {
        let mut pair = self.0.borrow_mut();
        if pair.client == End::Closed || pair.server != End::Open {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match ROOM.saturating_sub(pair.to_client.len()) {
            0 => Ok(Attempt::WouldBlock),
            room => put(&mut pair.to_client, room).map(Attempt::Done),
        }
    }
}

impl Sink for ServerEnd {
    type File = Rc<OwnedFd>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.put(|buffer, room| {
            let count = room.min(data.len());
            buffer.extend_from_slice(&data[..count]);
            Ok(count)
        })
    }

    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.send(data)
    }

    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        self.put(|buffer, room| {
            let mut left = room;
            for piece in pieces {
                let count = left.min(piece.len());
                buffer.extend_from_slice(&piece[..count]);
                left -= count;
            }
            Ok(room - left)
        })
    }

    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        self.put(|buffer, room| {
            let before = buffer.len();
            buffer.resize(before + count.min(room), 0);
            let read = retry_on_intr(|| pread(file, &mut buffer[before..], offset));
            buffer.truncate(before + read.unwrap_or(0));
            Ok(read?)
        })
    }
}

impl Transport for ServerEnd {
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let mut pair = self.0.borrow_mut();
        let count = room.len().min(pair.to_server.len());
        if count == 0 && pair.client == End::Open {
            return Ok(Attempt::WouldBlock);
        }
        room[..count].copy_from_slice(&pair.to_server[..count]);
        pair.to_server.advance(count);
        if pair.to_server.is_empty() {
            // An idle connection owns no memory.
            pair.to_server = BytesMut::new();
        }
        Ok(Attempt::Done(count))
    }

    fn may_receive(&self) -> bool {
        let pair = self.0.borrow();
        !pair.to_server.is_empty() || pair.client != End::Open
    }

    fn has_unread(&self) -> bool {
        !self.0.borrow().to_server.is_empty()
    }

    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        let requested = &mut self.0.borrow_mut().requested;
        match interest {
            Interest::Read => requested.read = true,
            Interest::Write => requested.write = true,
            Interest::End => requested.closed = true,
        }
        Ok(())
    }

    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        Ok(None)
    }

    fn is_registered(&self) -> bool {
        self.0.borrow().server != End::Closed
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.0.borrow_mut().server = End::Ended;
        Ok(())
    }

    fn close(&mut self) {
        self.0.borrow_mut().server = End::Closed;
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Readiness = Readiness { read: false, write: false, closed: false };

    fn room(server: &mut ServerEnd, data: &[u8]) -> Option<usize> {
        match server.send(data).expect("the connection is open") {
            Attempt::Done(count) => Some(count),
            Attempt::WouldBlock => None,
        }
    }

    #[test]
    fn bytes_arrive_in_order_and_a_full_connection_blocks_until_the_client_reads() {
        let (mut client, mut server) = pair();
        assert_eq!(room(&mut server, &vec![1; ROOM - 1]), Some(ROOM - 1));
        assert_eq!(room(&mut server, b"23"), Some(1));
        assert_eq!(room(&mut server, b"3"), None);
        server.arm(Interest::Write).unwrap();
        assert_eq!(client.take_events(), NOTHING);
        assert!(client.may_read());
        assert!(matches!(client.fill(0), Ok(Filled::Some)));
        assert_eq!(client.buffered().last(), Some(&b'2'));
        client.consume(ROOM);
        assert_eq!(client.take_events(), Readiness { write: true, ..NOTHING });
        assert_eq!(client.take_events(), NOTHING);
        assert!(matches!(client.fill(0), Ok(Filled::WouldBlock)));
    }

    #[test]
    fn pieces_are_sent_as_far_as_there_is_room() {
        let (mut client, mut server) = pair();
        room(&mut server, &vec![1; ROOM - 3]);
        let sent = server.send_pieces(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap();
        assert!(matches!(sent, Attempt::Done(3)));
        client.fill(0).unwrap_or_else(|error| panic!("{error}"));
        assert!(client.buffered().ends_with(b"\x01abc"));
    }

    #[test]
    fn the_server_gets_the_events_that_it_has_requested_once() {
        let (client, mut server) = pair();
        client.send(b"ab");
        assert_eq!(client.take_events(), NOTHING);
        server.arm(Interest::Read).unwrap();
        assert_eq!(client.take_events(), Readiness { read: true, ..NOTHING });
        assert_eq!(client.take_events(), NOTHING);
        let mut bytes = [0; 3];
        assert!(server.has_unread());
        assert!(matches!(server.receive(&mut bytes), Ok(Attempt::Done(2))));
        assert_eq!(&bytes, b"ab\0");
        assert!(!server.may_receive());
        assert!(matches!(server.receive(&mut bytes), Ok(Attempt::WouldBlock)));
        server.arm(Interest::End).unwrap();
        client.end_sending();
        assert!(!client.send(b"more"));
        assert_eq!(client.take_events(), Readiness { closed: true, ..NOTHING });
        assert!(server.may_receive());
        assert!(matches!(server.receive(&mut bytes), Ok(Attempt::Done(0))));
    }

    #[test]
    fn the_client_reads_the_end_after_the_data_and_cannot_send_after_a_close() {
        let (mut client, mut server) = pair();
        room(&mut server, b"bye");
        server.end_sending().unwrap();
        assert!(server.send(b"more").is_err());
        assert!(client.send(b"still open"));
        assert!(matches!(client.fill(0), Ok(Filled::Some)));
        assert!(matches!(client.fill(0), Ok(Filled::End)));
        assert!(!client.is_open());
        drop(server);
        assert!(!client.send(b"x"));
    }

    #[test]
    fn a_closed_client_breaks_the_connection() {
        let (client, mut server) = pair();
        server.arm(Interest::Write).unwrap();
        room(&mut server, &vec![1; ROOM]);
        drop(client);
        assert!(server.send(b"x").is_err());
        assert!(server.may_receive());
    }
}
