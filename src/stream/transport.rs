//! What a stream stands on. One kind today, plain sockets; TLS will be another: it reads and writes
//! through a socket as well, so arming and closing stay the socket's.

use crate::event::Source;
use crate::socket::{Moved, Socket};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// The bytes below a stream.
pub(crate) enum Transport {
    /// A stream socket as it is.
    Plain(Socket),
}

impl Transport {
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Transport::Plain(socket) => socket,
        }
    }

    /// The number of the socket's outlet; `None` where bytes do not go out as they are.
    pub(crate) fn outlet(&mut self) -> Option<u64> {
        match self {
            Transport::Plain(socket) => socket.outlet(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket().is_closed()
    }

    /// Reads what is there into the spare capacity of `room`; 0 is the peer's end.
    pub(crate) fn receive(&self, room: &mut Vec<u8>) -> io::Result<Moved<usize>> {
        match self {
            Transport::Plain(socket) => socket.receive(room),
        }
    }

    /// Writes one piece, or part of it.
    pub(crate) fn send(&self, data: &[u8]) -> io::Result<Moved<usize>> {
        match self {
            Transport::Plain(socket) => socket.send(data),
        }
    }

    /// Writes one piece, or part of it; more follows at once.
    pub(crate) fn send_more(&self, data: &[u8]) -> io::Result<Moved<usize>> {
        match self {
            Transport::Plain(socket) => socket.send_more(data),
        }
    }

    /// Writes `count` bytes of a file from `offset`, or part of them; 0 when the file has no more.
    pub(crate) fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Moved<usize>> {
        match self {
            Transport::Plain(socket) => socket.send_file(file, offset, count),
        }
    }

    /// Writes several pieces in one go, or part of them.
    pub(crate) fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        match self {
            Transport::Plain(socket) => socket.send_pieces(pieces),
        }
    }

    fn source(&self) -> Option<&Rc<Source>> {
        self.socket().source()
    }

    /// Whether a read may find something.
    pub(crate) fn may_read(&self) -> bool {
        self.source().is_some_and(|source| source.may_read())
    }

    /// Whether the end of the peer's side, or an error, was reported.
    pub(crate) fn peer_is_over(&self) -> bool {
        self.source().is_some_and(|source| source.peer_is_over())
    }

    /// Asks the selector for `bits`, once. An error means that no event will come.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.socket().arm(bits)
    }

    pub(crate) fn close(&mut self) {
        match self {
            Transport::Plain(socket) => socket.close(),
        }
    }
}
