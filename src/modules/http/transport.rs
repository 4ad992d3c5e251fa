//! Plain sockets as the transport of a server's connections.

use crate::event::{CLOSED, READ, WRITE};
use crate::http::server::{Interest, Transport};
use crate::socket::Socket;
use crate::socket::address::Side;
use crate::stream::queue::{Attempt, Sink};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// A stream socket without TLS.
pub(crate) struct Plain {
    socket: Socket,
    /// Whether no read has been tried yet, so that it is unknown whether data is available.
    untried: bool,
}

impl Plain {
    pub(crate) fn new(socket: Socket) -> Self {
        Plain { socket, untried: true }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the socket.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }
}

impl Sink for Plain {
    type File = Rc<OwnedFd>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.socket.send(data)
    }

    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.socket.send_more(data)
    }

    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        self.socket.send_pieces(pieces)
    }

    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        self.socket.send_file(file.as_fd(), offset, count)
    }
}

impl Transport for Plain {
    #[inline]
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        self.untried = false;
        self.socket.receive_into(room)
    }

    fn may_receive(&self) -> bool {
        self.untried || self.socket.may_read()
    }

    fn has_unread(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let socket = self.socket.raw();
        socket.is_ok_and(|raw| raw.peek(&mut byte).is_ok_and(|count| count > 0))
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        self.socket.arm(match interest {
            Interest::Read => READ,
            Interest::Write => WRITE,
            Interest::End => CLOSED,
        })
    }

    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        let address = self.socket.address(Side::Peer)?;
        Ok(address.as_socket().map(|address| address.ip()))
    }

    fn is_registered(&self) -> bool {
        self.socket.source().is_some_and(|source| source.is_linked())
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.socket.raw()?.shutdown(Shutdown::Write)
    }

    fn close(&mut self) {
        self.socket.close();
    }
}
