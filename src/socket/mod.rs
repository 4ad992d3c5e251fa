//! Sockets: non-blocking, close-on-exec, without SIGPIPE. Each call updates the readiness that selectors have recorded.
//!
//! | file | topic |
//! |---|---|
//! | this file | the socket: creating, connecting, accepting, closing, detaching |
//! | `protocol` | protocols, and the phases of a socket |
//! | `send_receive` | sending and receiving |
//! | `table` | the sockets of one VM by their descriptors |
//! | [`address`] | addresses |
//! | [`option`] | options by name |
//! | [`inherit`] | the sockets that the process was started with |
//! | [`duplicate`] | a second descriptor of a listener |
//! | `sendfile` | files sent by the kernel |
//! | [`shared_writer`] | connections to which other VMs write |
//! | [`numbered`] | sockets that all services know by a number |
//! | [`resolve`] | names resolved on other threads |
//! | [`stale_file`] | files of unix sockets that no socket uses |

pub(crate) mod address;
pub(crate) mod duplicate;
pub(crate) mod inherit;
pub(crate) mod numbered;
pub(crate) mod option;
mod protocol;
pub(crate) mod resolve;
mod send_receive;
mod sendfile;
pub(crate) mod shared_writer;
pub(crate) mod stale_file;
mod table;

pub(crate) use protocol::{Phase, Protocol};
pub(crate) use table::Table;

use crate::event::adopt::{self, Fd};
use crate::event::{Kind, Source};
use address::Side;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Type};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// The result of a call that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt<T> {
    /// The call has succeeded; the value is its result.
    Done(T),
    /// The call would block.
    WouldBlock,
}

impl<T> Attempt<T> {
    /// Applies `f` to the value of `Done`.
    pub(crate) fn map<R>(self, f: impl FnOnce(T) -> R) -> Attempt<R> {
        match self {
            Attempt::Done(value) => Attempt::Done(f(value)),
            Attempt::WouldBlock => Attempt::WouldBlock,
        }
    }
}

/// A socket. `source` is `None` once the socket is closed or detached.
pub(crate) struct Socket {
    source: Option<Rc<Source>>,
    protocol: Protocol,
    pub(crate) phase: Phase,
    table: Rc<Table>,
    shared_writer: Option<Box<shared_writer::OwnedWriter>>,
}

/// A socket without the parts that belong to a VM, while it is sent from one VM to another. Dropping this value closes
/// the socket.
pub(crate) struct Parts {
    fd: Fd,
    protocol: Protocol,
    phase: Phase,
}

impl Socket {
    /// Creates a socket.
    pub(crate) fn create(protocol: Protocol, table: &Rc<Table>) -> io::Result<Socket> {
        let kind = if protocol.is_stream() { Type::STREAM } else { Type::DGRAM };
        #[cfg(not(target_vendor = "apple"))]
        let inner = socket2::Socket::new(protocol.domain(), kind.nonblocking(), None)?;
        #[cfg(target_vendor = "apple")]
        let inner = socket2::Socket::new(protocol.domain(), kind, None)?;
        #[cfg(target_vendor = "apple")]
        inner.set_nonblocking(true)?;
        Ok(Self::of(Fd::Own(inner), protocol, Phase::Open, table))
    }

    /// Creates a socket object for the descriptor `number`, which other code has opened. The descriptor becomes
    /// non-blocking and close-on-exec. The descriptor stays open when the socket is closed, unless [`Socket::own`] is
    /// called.
    pub(crate) fn from_number(number: RawFd, table: &Rc<Table>) -> io::Result<Socket> {
        let (protocol, phase) = adopt::borrowed(number, |fd| prepare_foreign(&SockRef::from(&fd)))??;
        Self::of_number(number, protocol, phase, table)
    }

    /// Makes a new socket of [`Socket::from_number`] or [`Socket::from_other`] the owner of its descriptor, which is
    /// then closed with the socket.
    pub(crate) fn own(&mut self) {
        if let Some(fd) = self.take_source().and_then(Source::into_fd) {
            *self = Self::of(fd.into_own(), self.protocol, self.phase, &self.table);
            self.enter_table();
        }
    }

    /// Creates a socket object that owns `descriptor`. The descriptor is closed if it is not a socket.
    pub(crate) fn from_own(descriptor: OwnedFd, table: &Rc<Table>) -> io::Result<Socket> {
        let inner = socket2::Socket::from(descriptor);
        let (protocol, phase) = prepare_foreign(&inner)?;
        Ok(Self::of(Fd::Own(inner), protocol, phase, table))
    }

    /// Creates an object for a descriptor that is not a socket. The descriptor's flags are unchanged. Selectors treat
    /// it as foreign, because other code reads and writes it.
    pub(crate) fn from_other(number: RawFd, table: &Rc<Table>) -> io::Result<Socket> {
        Self::of_number(number, Protocol::None, Phase::Open, table)
    }

    /// Returns a closed socket of the same protocol.
    pub(crate) fn closed_copy(&self) -> Socket {
        Socket {
            source: None,
            protocol: self.protocol,
            phase: Phase::Open,
            table: self.table.clone(),
            shared_writer: None,
        }
    }

    /// Creates two connected unix stream sockets (socketpair(2)).
    pub(crate) fn pair(table: &Rc<Table>) -> io::Result<(Socket, Socket)> {
        let (left, right) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        left.set_nonblocking(true)?;
        right.set_nonblocking(true)?;
        let connected = |end| Self::of(Fd::Own(end), Protocol::UnixStream, Phase::Connected, table);
        Ok((connected(left), connected(right)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.source.is_none()
    }

    /// Returns the descriptor; -1 once the socket is closed.
    pub(crate) fn number(&self) -> RawFd {
        self.source.as_ref().map_or(-1, |source| source.as_raw_fd())
    }

    /// Returns the descriptor for other libraries. From now on the VM's table finds the socket by this number.
    pub(crate) fn handle(&mut self) -> RawFd {
        self.enter_table();
        self.number()
    }

    /// Returns the sockets of the VM to which this socket belongs.
    pub(crate) fn table(&self) -> &Rc<Table> {
        &self.table
    }

    /// Returns the source that selectors register; `None` once the socket is closed.
    pub(crate) fn source(&self) -> Option<&Rc<Source>> {
        self.source.as_ref()
    }

    /// Returns whether a read may return data, according to the selectors.
    pub(crate) fn may_read(&self) -> bool {
        self.source().is_some_and(|source| source.may_read())
    }

    /// Requests one report of the events `bits` from the socket's selectors.
    ///
    /// # Errors
    /// Returns an error if one of the selectors cannot report the events.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.source().map_or(Ok(()), |source| source.arm(bits))
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the raw socket, for options and addresses; fails with `EBADF` once the socket is closed.
    pub(crate) fn raw(&self) -> io::Result<&socket2::Socket> {
        self.open().map(|source| &***source)
    }

    /// connect(2). If the result is `WouldBlock`, an event for writing reports when the connection is established or
    /// has failed.
    pub(crate) fn connect(&mut self, address: &SockAddr) -> io::Result<Attempt<()>> {
        let source = self.open()?;
        let phase = loop {
            let Err(error) = source.connect(address) else { break Phase::Connected };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::INPROGRESS | Errno::ALREADY) => break Phase::Connecting,
                _ => return Err(error),
            }
        };
        source.clear_readiness();
        self.phase = phase;
        Ok(match phase {
            Phase::Connected => Attempt::Done(()),
            _ => Attempt::WouldBlock,
        })
    }

    /// Returns and clears the error from the last connect or transfer (SO_ERROR). If there is none, a socket whose
    /// connection is established gets the phase `Connected`.
    pub(crate) fn take_error(&mut self) -> io::Result<()> {
        if let Some(error) = self.raw()?.take_error()? {
            return Err(error);
        }
        if self.phase == Phase::Connecting && self.raw()?.peer_addr().is_ok() {
            self.phase = Phase::Connected;
        }
        Ok(())
    }

    /// listen(2).
    pub(crate) fn listen(&mut self, backlog: i32) -> io::Result<()> {
        let source = self.open()?;
        source.listen(backlog)?;
        source.clear_readiness();
        self.phase = Phase::Listening;
        Ok(())
    }

    /// accept(2). Connections that were aborted in the backlog are skipped.
    pub(crate) fn accept(&self) -> io::Result<Attempt<Socket>> {
        let listener = self.open()?;
        loop {
            match accept_quick(listener) {
                Ok(inner) => {
                    let socket = Self::of(Fd::Own(inner), self.protocol, Phase::Connected, &self.table);
                    return Ok(Attempt::Done(socket));
                }
                Err(Errno::AGAIN) => {
                    listener.read_blocked();
                    return Ok(Attempt::WouldBlock);
                }
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the address of the socket, or of its peer (getsockname(2), getpeername(2)).
    pub(crate) fn address(&self, side: Side) -> io::Result<SockAddr> {
        match side {
            Side::Local => self.raw()?.local_addr(),
            Side::Peer => self.raw()?.peer_addr(),
        }
    }

    /// Returns the number of the socket's shared writer, which is created at the first use; `None` if the socket is not
    /// a connection, or if its descriptor is lent.
    pub(crate) fn shared_writer(&mut self) -> Option<u64> {
        if self.shared_writer.is_none() {
            let is_connection = self.protocol.is_stream() && self.phase == Phase::Connected;
            if !is_connection || self.source().is_none_or(|source| source.is_lent()) {
                return None;
            }
            self.shared_writer = Some(Box::new(shared_writer::OwnedWriter::new(self.number())));
        }
        self.shared_writer.as_ref().map(|writer| writer.number())
    }

    /// Closes the socket: its registrations are removed, and its descriptor is closed unless it is lent. Idempotent.
    pub(crate) fn close(&mut self) {
        if let Some(source) = self.take_source() {
            source.release(source.is_lent());
        }
    }

    /// Removes the registrations and returns the descriptor, which this socket no longer closes; `None` if the socket
    /// is closed.
    pub(crate) fn detach(&mut self) -> Option<RawFd> {
        Some(match self.take_source()?.into_fd()? {
            Fd::Own(socket) => socket.into_raw_fd(),
            Fd::Lent(socket) => socket.as_raw_fd(),
        })
    }

    /// Moves the content, including registrations, into a new value. This socket is then closed.
    pub(crate) fn take(&mut self) -> Socket {
        let closed = self.closed_copy();
        std::mem::replace(self, closed)
    }

    /// Removes the registrations, and returns the parts of the socket that do not belong to a VM. This socket is then
    /// closed. Returns `None` if the socket was already closed.
    pub(crate) fn take_parts(&mut self) -> Option<Parts> {
        Some(Parts { fd: self.take_source()?.into_fd()?, protocol: self.protocol, phase: self.phase })
    }

    /// Creates a socket of this VM from the result of [`take_parts`](Self::take_parts).
    pub(crate) fn from_parts(parts: Parts, table: &Rc<Table>) -> Socket {
        Self::of(parts.fd, parts.protocol, parts.phase, table)
    }

    fn of_number(number: RawFd, protocol: Protocol, phase: Phase, table: &Rc<Table>) -> io::Result<Socket> {
        let mut socket = Self::of(adopt::lent(number)?, protocol, phase, table);
        socket.enter_table();
        Ok(socket)
    }

    #[inline]
    fn of(fd: Fd, protocol: Protocol, phase: Phase, table: &Rc<Table>) -> Socket {
        // The kind determines how a selector treats the descriptor.
        let kind = match protocol {
            Protocol::Tcp | Protocol::Tcp6 => Kind::Tcp,
            Protocol::None => Kind::Foreign,
            _ => Kind::Other,
        };
        Socket { source: Some(Source::new(fd, kind)), protocol, phase, table: table.clone(), shared_writer: None }
    }

    fn enter_table(&mut self) {
        if let Some(source) = &self.source {
            self.table.insert(source);
        }
    }

    fn open(&self) -> io::Result<&Rc<Source>> {
        self.source().ok_or_else(|| Errno::BADF.into())
    }

    fn take_source(&mut self) -> Option<Rc<Source>> {
        self.shared_writer = None;
        let source = self.source.take()?;
        self.table.remove(&source);
        Some(source)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sets a socket that was created by other code to non-blocking and close-on-exec. Returns its protocol and phase.
fn prepare_foreign(socket: &socket2::Socket) -> io::Result<(Protocol, Phase)> {
    let kind = socket.r#type()?;
    let protocol = Protocol::of(socket.local_addr()?.domain(), kind);
    socket.set_nonblocking(true)?;
    socket.set_cloexec(true)?;
    #[cfg(target_vendor = "apple")]
    socket.set_nosigpipe(true)?;
    let phase = match socket.is_listener() {
        Ok(true) => Phase::Listening,
        _ if socket.peer_addr().is_ok() => Phase::Connected,
        _ => Phase::Open,
    };
    Ok((protocol, phase))
}

/// Accepts one connection; its socket is non-blocking and close-on-exec. Makes one system call if accept4(2) exists.
fn accept_quick(listener: &socket2::Socket) -> rustix::io::Result<socket2::Socket> {
    use rustix::net::{SocketFlags, accept_with};
    #[cfg(not(target_vendor = "apple"))]
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let flags = SocketFlags::empty();
    let socket = socket2::Socket::from(accept_with(listener, flags)?);
    #[cfg(target_vendor = "apple")]
    {
        rustix::io::ioctl_fionbio(&socket, true)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        let _ = socket.set_nosigpipe(true);
    }
    Ok(socket)
}
