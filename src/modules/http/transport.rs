//! The transports of a server's connections: sockets, plain or with TLS, and connections in memory.

use crate::event::{CLOSED, READ, WRITE};
use crate::http::memory::ServerEnd;
use crate::http::server::{Interest, Transport};
use crate::socket::address::Side;
use crate::stream::queue::{Attempt, Sink};
use crate::tls::{Handshake, Link, Tls, TlsServer};
use socket2::SockAddr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// The transport of a connection.
pub(crate) enum AnyTransport {
    Network(Network),
    /// The server's end of a connection in memory, and the address that the connection reports for its peer.
    Memory(ServerEnd, SockAddr),
}

/// A stream socket, or TLS on top of it.
pub(crate) struct Network {
    link: Link,
    /// Whether no read has been tried yet, so that it is unknown whether data is available.
    untried: bool,
    /// TLS to put on the connection before the first request.
    tls: Option<Rc<TlsServer>>,
}

impl Network {
    /// Creates the transport of a connection. If `tls` is given, the connection begins with a handshake.
    pub(crate) fn of(link: Link, tls: Option<Rc<TlsServer>>) -> AnyTransport {
        AnyTransport::Network(Network { link, untried: true, tls })
    }
}

impl Sink for Network {
    type File = Rc<OwnedFd>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.link.send(data)
    }

    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.link.send_more(data)
    }

    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        self.link.send_pieces(pieces)
    }

    fn send_file(&mut self, file: &Rc<OwnedFd>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        self.link.send_file(file.as_fd(), offset, count)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<bool> {
        self.link.flush()
    }
}

impl Transport for Network {
    fn is_encrypted(&self) -> bool {
        self.link.tls().is_some()
    }

    fn needs_handshake(&self) -> bool {
        self.tls.is_some() || self.link.tls().is_some_and(|tls| tls.is_handshaking())
    }

    fn handshake(&mut self, received: &[u8]) -> io::Result<Handshake> {
        if let Some(server) = self.tls.take() {
            self.link.start_tls(server.session()?, received.to_vec());
        }
        self.link.tls_mut().map_or(Ok(Handshake::Done), |tls| tls.handshake())
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        self.untried = false;
        self.link.receive_into(room)
    }

    fn may_receive(&self) -> bool {
        self.untried || self.link.may_read()
    }

    #[inline]
    fn has_plaintext(&self) -> bool {
        self.link.has_plaintext()
    }

    fn has_unread(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let socket = self.link.socket().raw();
        self.has_plaintext() || socket.is_ok_and(|raw| raw.peek(&mut byte).is_ok_and(|count| count > 0))
    }

    #[inline]
    fn arm(&mut self, interest: Interest) -> io::Result<()> {
        self.link.arm(match interest {
            Interest::Read => READ,
            Interest::Write => WRITE,
            Interest::End => CLOSED,
        })
    }

    fn peer_ip(&self) -> io::Result<Option<IpAddr>> {
        let address = self.link.socket().address(Side::Peer)?;
        Ok(address.as_socket().map(|address| address.ip()))
    }

    fn is_registered(&self) -> bool {
        self.link.socket().source().is_some_and(|source| source.is_linked())
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.link.end_sending()
    }

    fn close(&mut self) {
        self.link.close();
    }
}

impl AnyTransport {
    /// Returns the address of the peer.
    pub(crate) fn peer(&self) -> io::Result<SockAddr> {
        match self {
            AnyTransport::Network(network) => network.link.socket().address(Side::Peer),
            AnyTransport::Memory(_, address) => Ok(address.clone()),
        }
    }

    /// Returns TLS of the connection; `None` if it is not encrypted.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        match self {
            AnyTransport::Network(network) => network.link.tls(),
            AnyTransport::Memory(..) => None,
        }
    }

    /// Whether the connection is in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self, AnyTransport::Memory(..))
    }

    /// Returns the link; `None` if the connection is in memory.
    pub(crate) fn into_link(self) -> Option<Link> {
        match self {
            AnyTransport::Network(network) => Some(network.link),
            AnyTransport::Memory(..) => None,
        }
    }
}

/// Calls a method of the transport.
macro_rules! forward {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        match $self {
            AnyTransport::Network(network) => network.$method($($argument),*),
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

    #[inline]
    fn flush(&mut self) -> io::Result<bool> {
        forward!(self.flush())
    }
}

impl Transport for AnyTransport {
    fn is_encrypted(&self) -> bool {
        forward!(self.is_encrypted())
    }

    fn needs_handshake(&self) -> bool {
        forward!(self.needs_handshake())
    }

    fn handshake(&mut self, received: &[u8]) -> io::Result<Handshake> {
        forward!(self.handshake(received))
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        forward!(self.receive(room))
    }

    #[inline]
    fn may_receive(&self) -> bool {
        forward!(self.may_receive())
    }

    #[inline]
    fn has_plaintext(&self) -> bool {
        forward!(self.has_plaintext())
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
