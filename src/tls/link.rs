//! The transport of a connection: a socket, or TLS on top of another transport.

use super::session::{Lower, Session, TlsLink};
use crate::socket::{Attempt, Parts, Socket, Table};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// The transport of a connection.
pub(crate) enum Link {
    Plain(Socket),
    Tls(Box<Tls>),
}

/// TLS on top of another transport.
pub(crate) type Tls = TlsLink<Link>;

/// A transport without the parts that belong to a VM, while it is sent from one VM to another. Dropping this value
/// closes the socket.
pub(crate) enum LinkParts {
    Plain(Parts),
    Tls(Box<(LinkParts, Session)>),
}

impl From<Socket> for Link {
    fn from(socket: Socket) -> Link {
        Link::Plain(socket)
    }
}

impl Link {
    /// Returns the socket at the bottom.
    #[inline]
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Link::Plain(socket) => socket,
            Link::Tls(tls) => tls.lower().socket(),
        }
    }

    /// Returns the socket at the bottom.
    pub(crate) fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Link::Plain(socket) => socket,
            Link::Tls(tls) => tls.lower_mut().socket_mut(),
        }
    }

    /// Returns TLS, the topmost if it is nested; `None` for a plain socket.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        match self {
            Link::Plain(_) => None,
            Link::Tls(tls) => Some(tls),
        }
    }

    /// Like [`Link::tls`].
    pub(crate) fn tls_mut(&mut self) -> Option<&mut Tls> {
        match self {
            Link::Plain(_) => None,
            Link::Tls(tls) => Some(tls),
        }
    }

    /// Puts TLS on top of this transport. `received` are bytes that were read from the transport, and belong to TLS.
    pub(crate) fn start_tls(&mut self, mut session: Session, received: Vec<u8>) {
        session.unread(received);
        let lower = self.take();
        *self = Link::Tls(Box::new(TlsLink::new(lower, session)));
    }

    /// Reads into the spare capacity of `buffer`, which must be at least one byte. A result of 0 means the end of the
    /// stream.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.receive(buffer),
            Link::Tls(tls) => tls.receive(buffer),
        }
    }

    /// Reads into `room`, which must not be empty. A result of 0 means the end of the stream.
    #[inline]
    pub(crate) fn receive_into(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.receive_into(room),
            Link::Tls(tls) => tls.receive_into(room),
        }
    }

    /// Returns whether a read may return data without an event of the socket.
    #[inline]
    pub(crate) fn may_read(&self) -> bool {
        match self {
            Link::Plain(socket) => socket.may_read(),
            Link::Tls(tls) => tls.may_read(),
        }
    }

    /// Returns whether a read returns data, the end, or an error of TLS, without a further byte of the socket. No event
    /// will report it.
    #[inline]
    pub(crate) fn has_plaintext(&self) -> bool {
        match self {
            Link::Plain(_) => false,
            Link::Tls(tls) => tls.has_plaintext(),
        }
    }

    /// Requests one report of the events `bits` from the socket's selectors.
    #[inline]
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.socket().arm(bits)
    }

    #[inline]
    pub(crate) fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.send(data),
            Link::Tls(tls) => tls.send_pieces(&[IoSlice::new(data)]),
        }
    }

    /// Like [`Link::send`]; more data follows immediately.
    #[inline]
    pub(crate) fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.send_more(data),
            Link::Tls(tls) => tls.send_pieces(&[IoSlice::new(data)]),
        }
    }

    #[inline]
    pub(crate) fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.send_pieces(pieces),
            Link::Tls(tls) => tls.send_pieces(pieces),
        }
    }

    /// Sends up to `count` bytes of a file, starting at `offset`. The result is 0 at the end of the file.
    pub(crate) fn send_file(&mut self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        match self {
            Link::Plain(socket) => socket.send_file(file, offset, count),
            Link::Tls(tls) => tls.send_file(file, offset, count),
        }
    }

    /// Sends accepted bytes that the transport itself holds back. Returns whether the system has accepted all of them.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Link::Plain(_) => Ok(true),
            Link::Tls(tls) => tls.flush(),
        }
    }

    /// Returns the number of accepted bytes that the transport itself holds back.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        match self {
            Link::Plain(_) => 0,
            Link::Tls(tls) => tls.held(),
        }
    }

    /// Closes the sending side: the peer reads the end of the stream after the bytes sent.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        match self {
            Link::Plain(socket) => socket.raw()?.shutdown(Shutdown::Write),
            Link::Tls(tls) => tls.end_sending(),
        }
    }

    /// Closes the transport. Idempotent.
    #[inline]
    pub(crate) fn close(&mut self) {
        match self {
            Link::Plain(socket) => socket.close(),
            Link::Tls(tls) => tls.close(),
        }
    }

    /// Moves the content, including registrations, into a new value. This transport is then closed.
    pub(crate) fn take(&mut self) -> Link {
        let closed = Link::Plain(self.socket().closed_copy());
        std::mem::replace(self, closed)
    }

    /// Removes the registrations, and returns the parts of the transport that do not belong to a VM. This transport is
    /// then closed. Returns `None` if the transport was already closed.
    pub(crate) fn take_parts(&mut self) -> Option<LinkParts> {
        match self {
            Link::Plain(socket) => Some(LinkParts::Plain(socket.take_parts()?)),
            Link::Tls(_) => match self.take() {
                Link::Tls(tls) => {
                    let (mut lower, session) = tls.into_inner();
                    Some(LinkParts::Tls(Box::new((lower.take_parts()?, session))))
                }
                Link::Plain(_) => None,
            },
        }
    }

    /// Creates a transport of this VM from the result of [`take_parts`](Self::take_parts).
    pub(crate) fn from_parts(parts: LinkParts, table: &Rc<Table>) -> Link {
        match parts {
            LinkParts::Plain(parts) => Link::Plain(Socket::from_parts(parts, table)),
            LinkParts::Tls(parts) => {
                let (lower, session) = *parts;
                Link::Tls(Box::new(TlsLink::new(Link::from_parts(lower, table), session)))
            }
        }
    }

    /// Makes this transport own the result of its [`take_parts`](Self::take_parts) again.
    pub(crate) fn restore(&mut self, parts: LinkParts) {
        *self = Link::from_parts(parts, self.socket().table());
    }
}

impl Lower for Link {
    fn receive_into(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        Link::receive_into(self, room)
    }
    fn may_read(&self) -> bool {
        Link::may_read(self)
    }
    fn has_plaintext(&self) -> bool {
        Link::has_plaintext(self)
    }
    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        Link::send(self, data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        Link::send_pieces(self, pieces)
    }
    fn flush(&mut self) -> io::Result<bool> {
        Link::flush(self)
    }
    fn held(&self) -> usize {
        Link::held(self)
    }
    fn end_sending(&mut self) -> io::Result<()> {
        Link::end_sending(self)
    }
    fn is_closed(&self) -> bool {
        self.socket().is_closed()
    }
    fn close(&mut self) {
        Link::close(self);
    }
}
