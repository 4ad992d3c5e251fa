//! The transports of a server's connections: plain sockets, and connections in memory.

use crate::event::{CLOSED, READ, WRITE};
use crate::http::memory::ServerEnd;
use crate::http::server::{Interest, Transport};
use crate::socket::Socket;
use crate::socket::address::Side;
use crate::stream::queue::{Attempt, Sink};
use socket2::SockAddr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// The transport of a connection.
pub(crate) enum AnyTransport {
    Plain(Plain),
    /// The server's end of a connection in memory, and the address that the connection reports for its peer.
    Memory(ServerEnd, SockAddr),
}

/// A stream socket without TLS.
pub(crate) struct Plain {
    socket: Socket,
    /// Whether no read has been tried yet, so that it is unknown whether data is available.
    untried: bool,
}

impl Plain {
    pub(crate) fn of(socket: Socket) -> AnyTransport {
        AnyTransport::Plain(Plain { socket, untried: true })
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

impl AnyTransport {
    /// Returns the address of the peer.
    pub(crate) fn peer(&self) -> io::Result<SockAddr> {
        match self {
            AnyTransport::Plain(plain) => plain.socket.address(Side::Peer),
            AnyTransport::Memory(_, address) => Ok(address.clone()),
        }
    }

    /// Whether the connection is in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self, AnyTransport::Memory(..))
    }

    /// Returns the socket; `None` if the connection is in memory.
    pub(crate) fn into_socket(self) -> Option<Socket> {
        match self {
            AnyTransport::Plain(plain) => Some(plain.socket),
            AnyTransport::Memory(..) => None,
        }
    }
}

/// Calls a method of the transport.
macro_rules! forward {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        match $self {
            AnyTransport::Plain(plain) => plain.$method($($argument),*),
            AnyTransport::Memory(end, _) => end.$method($($argument),*),
        }
    };
}

impl Sink for AnyTransport {
    type File = Rc<OwnedFd>;

    #[inline]
    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        forward!(self.send(data))
    }

    #[inline]
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        forward!(self.send_more(data))
    }

    #[inline]
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        forward!(self.send_pieces(pieces))
    }

    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        forward!(self.send_file(file, offset, count))
    }
}

impl Transport for AnyTransport {
    #[inline]
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        forward!(self.receive(room))
    }

    #[inline]
    fn may_receive(&self) -> bool {
        forward!(self.may_receive())
    }

    fn has_unread(&self) -> bool {
        forward!(self.has_unread())
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        forward!(self.arm(interest))
    }

    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        Ok(self.peer()?.as_socket().map(|address| address.ip()))
    }

    #[inline]
    fn is_registered(&self) -> bool {
        forward!(self.is_registered())
    }

    fn end_sending(&mut self) -> io::Result<()> {
        forward!(self.end_sending())
    }

    fn close(&mut self) {
        forward!(self.close())
    }
}
