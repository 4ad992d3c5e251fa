//! Sockets: non-blocking, close-on-exec, never SIGPIPE; each call tells the selector what it learnt.
//!
//! - `mod.rs`: the socket: made, connected, accepted, closed, given away; `transfer.rs`: what it sends and receives
//! - `table.rs`: the sockets of one VM by their numbers
//! - `address.rs`: addresses; `option.rs`: options by name
//! - `inherit.rs`: the sockets that the process was started with; `twin.rs`: a second descriptor of a listener
//! - `sendfile.rs`: files sent by the kernel
//! - `outlet.rs`: connections that other VMs write to; `resolve.rs`: names looked up off-thread

pub(crate) mod address;
pub(crate) mod inherit;
pub(crate) mod option;
pub(crate) mod outlet;
pub(crate) mod resolve;
mod sendfile;
mod table;
mod transfer;
pub(crate) mod twin;

pub(crate) use table::Table;

use crate::event::adopt::{self, Held};
use crate::event::{Kind, Source};
use address::Side;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Type};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// What speaks through a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Tcp6,
    Udp,
    Udp6,
    UnixStream,
    UnixDatagram,
    /// The descriptor is no socket.
    None,
}

impl Protocol {
    fn of(domain: Domain, kind: Type) -> Protocol {
        match (domain, kind == Type::STREAM) {
            (Domain::UNIX, true) => Protocol::UnixStream,
            (Domain::UNIX, false) => Protocol::UnixDatagram,
            (Domain::IPV6, true) => Protocol::Tcp6,
            (Domain::IPV6, false) => Protocol::Udp6,
            (_, true) => Protocol::Tcp,
            (_, false) => Protocol::Udp,
        }
    }

    /// The kind of its addresses.
    pub(crate) fn domain(self) -> Domain {
        match self {
            Protocol::Tcp6 | Protocol::Udp6 => Domain::IPV6,
            Protocol::UnixStream | Protocol::UnixDatagram => Domain::UNIX,
            _ => Domain::IPV4,
        }
    }

    /// Whether bytes go through it without borders between messages.
    #[inline]
    pub(crate) fn is_stream(self) -> bool {
        use Protocol::*;
        matches!(self, Tcp | Tcp6 | UnixStream)
    }

    /// As programs know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Tcp6 => "tcp6",
            Protocol::Udp => "udp",
            Protocol::Udp6 => "udp6",
            Protocol::UnixStream | Protocol::UnixDatagram => "unix",
            Protocol::None => "no socket",
        }
    }
}

/// How far a socket has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Listening,
    Connecting,
    Connected,
}

/// What a transfer ended in, when it did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved<T> {
    /// That much was done.
    Done(T),
    /// It would block.
    WouldBlock,
}

impl<T> Moved<T> {
    /// The same, with what was done changed.
    pub(crate) fn map<R>(self, f: impl FnOnce(T) -> R) -> Moved<R> {
        match self {
            Moved::Done(value) => Moved::Done(f(value)),
            Moved::WouldBlock => Moved::WouldBlock,
        }
    }
}

/// One socket. `source` is `None` once it is closed or given away.
pub(crate) struct Socket {
    source: Option<Rc<Source>>,
    protocol: Protocol,
    pub(crate) phase: Phase,
    table: Rc<Table>,
    outlet: Option<Box<outlet::Opened>>,
}

/// A socket without what belongs to a VM: on its way from one to another. Dropped, it is closed.
pub(crate) struct Parts {
    held: Held,
    protocol: Protocol,
    phase: Phase,
}

impl Socket {
    /// A new socket of one's own.
    pub(crate) fn create(protocol: Protocol, table: &Rc<Table>) -> io::Result<Socket> {
        let kind = if protocol.is_stream() { Type::STREAM } else { Type::DGRAM };
        #[cfg(not(target_vendor = "apple"))]
        let inner = socket2::Socket::new(protocol.domain(), kind.nonblocking(), None)?;
        #[cfg(target_vendor = "apple")]
        let inner = socket2::Socket::new(protocol.domain(), kind, None)?;
        #[cfg(target_vendor = "apple")]
        inner.set_nonblocking(true)?;
        Ok(Self::of(Held::Own(inner), protocol, Phase::Open, table))
    }

    /// A socket of the descriptor `number`, made elsewhere, which becomes non-blocking and close-on-exec. With `owns`, it
    /// is closed with the socket.
    pub(crate) fn from_number(number: RawFd, owns: bool, table: &Rc<Table>) -> io::Result<Socket> {
        let (protocol, phase) = adopt::borrowed(number, |fd| examine(&SockRef::from(&fd)))??;
        Self::of_number(number, owns, protocol, phase, table)
    }

    fn of_number(number: RawFd, owns: bool, protocol: Protocol, phase: Phase, table: &Rc<Table>) -> io::Result<Socket> {
        let held = if owns { Held::Own(adopt::owned(number)?.into()) } else { adopt::lent(number)? };
        let mut socket = Self::of(held, protocol, phase, table);
        socket.enter_table();
        Ok(socket)
    }

    /// The same of a descriptor that is the caller's own, which is closed when it is no socket.
    pub(crate) fn from_own(descriptor: OwnedFd, table: &Rc<Table>) -> io::Result<Socket> {
        let inner = socket2::Socket::from(descriptor);
        let (protocol, phase) = examine(&inner)?;
        Ok(Self::of(Held::Own(inner), protocol, phase, table))
    }

    /// An object for a descriptor that is no socket. Its flags stay; a selector treats it as foreign, because its reads
    /// and writes happen elsewhere.
    pub(crate) fn from_other(number: RawFd, owns: bool, table: &Rc<Table>) -> io::Result<Socket> {
        Self::of_number(number, owns, Protocol::None, Phase::Open, table)
    }

    #[inline]
    fn of(held: Held, protocol: Protocol, phase: Phase, table: &Rc<Table>) -> Socket {
        // How a selector treats it.
        let kind = match protocol {
            Protocol::Tcp | Protocol::Tcp6 => Kind::Tcp,
            Protocol::None => Kind::Foreign,
            _ => Kind::Other,
        };
        Socket { source: Some(Source::new(held, kind)), protocol, phase, table: table.clone(), outlet: None }
    }

    /// A closed one of the same protocol.
    pub(crate) fn closed_twin(&self) -> Socket {
        Socket { source: None, protocol: self.protocol, phase: Phase::Open, table: self.table.clone(), outlet: None }
    }

    /// Two connected unix stream sockets (socketpair(2)).
    pub(crate) fn pair(table: &Rc<Table>) -> io::Result<(Socket, Socket)> {
        let (left, right) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        left.set_nonblocking(true)?;
        right.set_nonblocking(true)?;
        let connected = |end| {
            let (held, protocol) = (Held::Own(end), Protocol::UnixStream);
            Self::of(held, protocol, Phase::Connected, table)
        };
        Ok((connected(left), connected(right)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.source.is_none()
    }

    /// The descriptor; -1 once closed.
    pub(crate) fn number(&self) -> RawFd {
        self.source.as_ref().map_or(-1, |source| source.as_raw_fd())
    }

    /// The descriptor for others to name the socket by: from now on the VM's table has it.
    pub(crate) fn handle(&mut self) -> RawFd {
        self.enter_table();
        self.number()
    }

    fn enter_table(&mut self) {
        if let Some(source) = &self.source {
            self.table.insert(source);
        }
    }

    /// What selectors know it by; `None` once it is closed.
    pub(crate) fn source(&self) -> Option<&Rc<Source>> {
        self.source.as_ref()
    }

    fn open(&self) -> io::Result<&Rc<Source>> {
        self.source().ok_or_else(|| Errno::BADF.into())
    }

    /// Whether a read may find something, as far as the selectors know.
    pub(crate) fn may_read(&self) -> bool {
        self.source().is_some_and(|source| source.may_read())
    }

    /// Asks its selectors for `bits`, once. An error means that one of them will not report them.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.source().map_or(Ok(()), |source| source.arm(bits))
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The socket for options and addresses; `EBADF` once closed.
    pub(crate) fn raw(&self) -> io::Result<&socket2::Socket> {
        self.open().map(|source| &***source)
    }

    /// connect(2). `WouldBlock`: in progress, an event for writing will tell.
    pub(crate) fn connect(&mut self, address: &SockAddr) -> io::Result<Moved<()>> {
        let source = self.open()?;
        let phase = loop {
            let Err(error) = source.connect(address) else {
                break Phase::Connected;
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::INPROGRESS | Errno::ALREADY) => break Phase::Connecting,
                _ => return Err(error),
            }
        };
        source.restarted();
        self.phase = phase;
        Ok(match phase {
            Phase::Connected => Moved::Done(()),
            _ => Moved::WouldBlock,
        })
    }

    /// The error that came of the last connect or transfer, once (SO_ERROR).
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
        source.restarted();
        self.phase = Phase::Listening;
        Ok(())
    }

    /// accept(2). Connections that died in the queue are skipped.
    pub(crate) fn accept(&self) -> io::Result<Moved<Socket>> {
        let listener = self.open()?;
        loop {
            match accept_quick(listener) {
                Ok(inner) => {
                    let (held, table) = (Held::Own(inner), &self.table);
                    let socket = Self::of(held, self.protocol, Phase::Connected, table);
                    return Ok(Moved::Done(socket));
                }
                Err(Errno::AGAIN) => {
                    listener.read_blocked();
                    return Ok(Moved::WouldBlock);
                }
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Its address, or its peer's (getsockname(2), getpeername(2)).
    pub(crate) fn address(&self, side: Side) -> io::Result<SockAddr> {
        match side {
            Side::Local => self.raw()?.local_addr(),
            Side::Peer => self.raw()?.peer_addr(),
        }
    }

    /// The number of its outlet, made at first use; `None` for anything but a connection of its own.
    pub(crate) fn outlet(&mut self) -> Option<u64> {
        if self.outlet.is_none() {
            let is_connection = self.protocol.is_stream() && self.phase == Phase::Connected;
            if !is_connection || self.source().is_none_or(|source| source.is_lent()) {
                return None;
            }
            self.outlet = Some(Box::new(outlet::Opened::new(self.number())));
        }
        self.outlet.as_ref().map(|opened| opened.number())
    }

    /// Closes: every selector forgets it, and the descriptor goes unless it was only lent. Idempotent.
    pub(crate) fn close(&mut self) {
        if let Some(source) = self.give_up() {
            source.release(source.is_lent());
        }
    }

    /// Gives the descriptor away; selectors forget it.
    pub(crate) fn detach(&mut self) -> Option<RawFd> {
        Some(match self.give_up()?.into_held()? {
            Held::Own(socket) => socket.into_raw_fd(),
            Held::Lent(socket) => socket.as_raw_fd(),
        })
    }

    /// Moves everything into a new value, registrations included; this one reads as closed.
    pub(crate) fn take(&mut self) -> Socket {
        let closed = self.closed_twin();
        std::mem::replace(self, closed)
    }

    /// Gives everything away but what belongs to this VM; selectors forget the socket, which reads as
    /// closed. `None` when it is.
    pub(crate) fn part(&mut self) -> Option<Parts> {
        Some(Parts { held: self.give_up()?.into_held()?, protocol: self.protocol, phase: self.phase })
    }

    /// A socket of this VM, of what [`part`](Self::part) gave.
    pub(crate) fn from_parts(parts: Parts, table: &Rc<Table>) -> Socket {
        Self::of(parts.held, parts.protocol, parts.phase, table)
    }

    /// Is again what [`part`](Self::part) gave away.
    pub(crate) fn restore(&mut self, parts: Parts) {
        *self = Self::from_parts(parts, &self.table);
    }

    fn give_up(&mut self) -> Option<Rc<Source>> {
        self.outlet = None;
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

/// Makes a socket that somebody else has made one of ours. → what it is
fn examine(socket: &socket2::Socket) -> io::Result<(Protocol, Phase)> {
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

/// One accepted connection, non-blocking and close-on-exec; one system call where accept4(2) exists.
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
