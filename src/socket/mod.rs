//! Sockets: non-blocking, close-on-exec, never SIGPIPE; each call tells the selector what it learnt.
//!
//! - `mod.rs`: the socket and its transfers, used by `lio.socket` and by streams
//! - `endpoint.rs`: addresses, as values and as Lua objects
//! - `option.rs`: socket options by name
//! - `inherit.rs`: the sockets that the process was started with
//! - `resolve.rs`: names looked up off-thread
//! - `sendfile.rs`: files sent by the kernel
//! - `outlet.rs`: connections that other VMs write to
//! - `lua.rs`: `require "lio.socket"`; `methods.rs`, `bytes.rs`: what its objects can do

mod bytes;
pub(crate) mod endpoint;
pub(crate) mod inherit;
pub(crate) mod lua;
pub(crate) mod methods;
mod option;
pub(crate) mod outlet;
pub(crate) mod resolve;
mod sendfile;
mod twin;

use crate::selector::descriptor::Owned;
use crate::selector::{Kind, Watch};
use socket2::{Domain, Protocol, SockAddr, Type};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::rc::Rc;

/// What a transfer ended in, when it did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved<T> {
    /// That much was done.
    Done(T),
    /// It would block.
    WouldBlock,
}

/// How far a socket has come; shown by `tostring`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Listening,
    Connecting,
    Connected,
}

/// One socket. `inner` is `None` once it is closed or given away.
pub(crate) struct Socket {
    inner: Option<ManuallyDrop<socket2::Socket>>,
    /// Whether closing closes the descriptor.
    owns: bool,
    domain: Domain,
    stream: bool,
    pub(crate) phase: Phase,
    watch: Rc<Watch>,
    owned: Rc<Owned>,
    outlet: Option<Box<outlet::Opened>>,
}

/// A socket without what belongs to a VM: on its way from one to another. Dropped, it is closed.
pub(crate) struct Parts {
    /// -1 once taken.
    number: RawFd,
    owns: bool,
    domain: Domain,
    stream: bool,
    phase: Phase,
}

impl Drop for Parts {
    fn drop(&mut self) {
        if self.number >= 0 && self.owns {
            // SAFETY: whoever takes the number sets it to -1.
            drop(unsafe { socket2::Socket::from_raw_fd(self.number) });
        }
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl Socket {
    /// A new socket of the given domain and type.
    pub(crate) fn create(domain: Domain, kind: Type, owned: &Rc<Owned>) -> io::Result<Socket> {
        let protocol = match (domain, kind) {
            (Domain::UNIX, _) => None,
            (_, Type::DGRAM) => Some(Protocol::UDP),
            _ => Some(Protocol::TCP),
        };
        let inner = socket2::Socket::new_raw(domain, quick(kind), protocol)?;
        tame(&inner)?;
        Ok(Self::adopt(
            inner,
            domain,
            kind == Type::STREAM,
            Phase::Open,
            true,
            owned,
        ))
    }

    /// Takes over a descriptor made elsewhere.
    ///
    /// # Safety
    /// With `owns`, nobody else closes `number`.
    pub(crate) unsafe fn from_descriptor(
        number: RawFd,
        owns: bool,
        owned: &Rc<Owned>,
    ) -> io::Result<Socket> {
        // SAFETY: the caller's promise; until it is known to be a socket it must not be closed.
        let inner = ManuallyDrop::new(unsafe { socket2::Socket::from_raw_fd(number) });
        let stream = inner.r#type()? == Type::STREAM;
        let domain = inner.local_addr()?.domain();
        inner.set_nonblocking(true)?;
        inner.set_cloexec(true)?;
        #[cfg(target_vendor = "apple")]
        inner.set_nosigpipe(true)?;
        let phase = match inner.is_listener() {
            Ok(true) => Phase::Listening,
            _ if inner.peer_addr().is_ok() => Phase::Connected,
            _ => Phase::Open,
        };
        let inner = ManuallyDrop::into_inner(inner);
        Ok(Self::adopt(inner, domain, stream, phase, owns, owned))
    }

    /// Takes over a descriptor that is no socket. Its flags stay; a selector treats it as foreign, because its
    /// reads and writes happen elsewhere.
    ///
    /// # Safety
    /// As for [`Socket::from_descriptor`].
    pub(crate) unsafe fn from_other(
        number: RawFd,
        owns: bool,
        owned: &Rc<Owned>,
    ) -> io::Result<Socket> {
        // SAFETY: fcntl(2) reads the flags of a number; one that is not open is an error.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the number is open, and the caller's promise says who closes it.
        let inner = unsafe { socket2::Socket::from_raw_fd(number) };
        let (domain, phase) = (Domain::from(libc::AF_UNSPEC), Phase::Open);
        Ok(Self::adopt(inner, domain, false, phase, owns, owned))
    }

    fn adopt(
        inner: socket2::Socket,
        domain: Domain,
        stream: bool,
        phase: Phase,
        owns: bool,
        owned: &Rc<Owned>,
    ) -> Socket {
        let socket = Socket {
            inner: Some(ManuallyDrop::new(inner)),
            owns,
            domain,
            stream,
            phase,
            watch: Rc::new(Watch::new()),
            owned: owned.clone(),
            outlet: None,
        };
        owned.insert(socket.number(), &socket.watch, socket.kind());
        socket
    }

    /// A closed one of the same kind.
    pub(crate) fn closed_twin(&self) -> Socket {
        Socket {
            inner: None,
            owns: false,
            domain: self.domain,
            stream: self.stream,
            phase: Phase::Open,
            watch: Rc::new(Watch::new()),
            owned: self.owned.clone(),
            outlet: None,
        }
    }

    /// Two connected unix stream sockets (socketpair(2)).
    pub(crate) fn pair(owned: &Rc<Owned>) -> io::Result<(Socket, Socket)> {
        let (left, right) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        left.set_nonblocking(true)?;
        right.set_nonblocking(true)?;
        let adopt = |end| Self::adopt(end, Domain::UNIX, true, Phase::Connected, true, owned);
        Ok((adopt(left), adopt(right)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.is_none()
    }

    /// The descriptor; -1 once closed.
    pub(crate) fn number(&self) -> RawFd {
        self.inner.as_ref().map_or(-1, |inner| inner.as_raw_fd())
    }

    pub(crate) fn watch(&self) -> &Rc<Watch> {
        &self.watch
    }

    pub(crate) fn domain(&self) -> Domain {
        self.domain
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream
    }

    /// How the selector treats it.
    pub(crate) fn kind(&self) -> Kind {
        match self.stream && self.domain != Domain::UNIX {
            true => Kind::Tcp,
            false if self.is_other() => Kind::Foreign,
            false => Kind::Other,
        }
    }

    /// Whether the descriptor is no socket, see [`Socket::from_other`].
    pub(crate) fn is_other(&self) -> bool {
        self.domain == Domain::from(libc::AF_UNSPEC)
    }

    /// The socket for options and addresses; `EBADF` once closed.
    pub(crate) fn raw(&self) -> io::Result<&socket2::Socket> {
        match &self.inner {
            Some(inner) => Ok(inner),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// connect(2). `WouldBlock`: in progress, an event for writing will tell.
    pub(crate) fn connect(&mut self, address: &SockAddr) -> io::Result<Moved<()>> {
        let result = retried(|| self.raw()?.connect(address));
        match result {
            Ok(()) => {
                self.watch.restarted();
                self.phase = Phase::Connected;
                Ok(Moved::Done(()))
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINPROGRESS | libc::EALREADY)
                ) =>
            {
                self.watch.restarted();
                self.phase = Phase::Connecting;
                Ok(Moved::WouldBlock)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn bind(&self, address: &SockAddr) -> io::Result<()> {
        self.raw()?.bind(address)
    }

    pub(crate) fn listen(&mut self, backlog: i32) -> io::Result<()> {
        self.raw()?.listen(backlog)?;
        self.watch.restarted();
        self.phase = Phase::Listening;
        Ok(())
    }

    /// accept(2). Connections that died in the queue are skipped.
    pub(crate) fn accept(&self) -> io::Result<Moved<Socket>> {
        let listener = self.raw()?;
        loop {
            match accept_quick(listener) {
                Ok(inner) => {
                    let socket = Self::adopt(
                        inner,
                        self.domain,
                        self.stream,
                        Phase::Connected,
                        true,
                        &self.owned,
                    );
                    return Ok(Moved::Done(socket));
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.watch.read_blocked();
                        return Ok(Moved::WouldBlock);
                    }
                    Some(libc::EINTR | libc::ECONNABORTED | libc::EPROTO) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// recv(2) into `buffer`, which is not empty. 0 from a stream is its end.
    pub(crate) fn receive(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Moved<usize>> {
        let inner = self.raw()?;
        match retried(|| inner.recv(buffer)) {
            Ok(count) => {
                if self.stream && count != 0 && count < buffer.len() {
                    self.watch.read_short();
                }
                Ok(Moved::Done(count))
            }
            Err(error) => self.read_failed(error),
        }
    }

    /// recvfrom(2).
    pub(crate) fn receive_from(
        &self,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<(usize, SockAddr)>> {
        let inner = self.raw()?;
        match retried(|| inner.recv_from(buffer)) {
            Ok((count, from)) => Ok(Moved::Done((count, from))),
            Err(error) => self.read_failed(error),
        }
    }

    fn read_failed<T>(&self, error: io::Error) -> io::Result<Moved<T>> {
        if error.kind() == io::ErrorKind::WouldBlock {
            self.watch.read_blocked();
            return Ok(Moved::WouldBlock);
        }
        Err(error)
    }

    /// send(2), without SIGPIPE. The count may be less than the length.
    pub(crate) fn send(&self, data: &[u8]) -> io::Result<Moved<usize>> {
        let inner = self.raw()?;
        let result = retried(|| inner.send_with_flags(data, libc::MSG_NOSIGNAL));
        self.written(result, data.len())
    }

    /// send(2) of bytes that more follows at once: the system waits for it before it sends a short packet.
    pub(crate) fn send_more(&self, data: &[u8]) -> io::Result<Moved<usize>> {
        let inner = self.raw()?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = libc::MSG_NOSIGNAL | libc::MSG_MORE;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = libc::MSG_NOSIGNAL;
        let result = retried(|| inner.send_with_flags(data, flags));
        self.written(result, data.len())
    }

    /// sendmsg(2) of several pieces.
    pub(crate) fn send_pieces(&self, pieces: &[io::IoSlice<'_>]) -> io::Result<Moved<usize>> {
        let inner = self.raw()?;
        let total = pieces.iter().map(|piece| piece.len()).sum();
        let result = retried(|| inner.send_vectored_with_flags(pieces, libc::MSG_NOSIGNAL));
        self.written(result, total)
    }

    /// sendto(2).
    pub(crate) fn send_to(&self, data: &[u8], to: &SockAddr) -> io::Result<Moved<usize>> {
        let inner = self.raw()?;
        let result = retried(|| inner.send_to_with_flags(data, to, libc::MSG_NOSIGNAL));
        self.written(result, data.len())
    }

    fn written(&self, result: io::Result<usize>, total: usize) -> io::Result<Moved<usize>> {
        match result {
            Ok(count) => {
                if count < total {
                    self.watch.write_blocked();
                }
                Ok(Moved::Done(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.watch.write_blocked();
                Ok(Moved::WouldBlock)
            }
            Err(error) => Err(error),
        }
    }

    /// Closes: every selector forgets it, and the descriptor goes unless it was only lent. Idempotent.
    pub(crate) fn close(&mut self) {
        let owns = self.owns;
        if let Some(number) = self.give_up(!owns)
            && owns
        {
            // SAFETY: `give_up` made us the last to know the number.
            drop(unsafe { socket2::Socket::from_raw_fd(number) });
        }
    }

    /// Gives the descriptor away; selectors forget it.
    pub(crate) fn detach(&mut self) -> Option<RawFd> {
        self.give_up(true)
    }

    /// Moves everything into a new value, registrations included; this one reads as closed.
    pub(crate) fn take(&mut self) -> Socket {
        Socket {
            inner: self.inner.take(),
            owns: self.owns,
            domain: self.domain,
            stream: self.stream,
            phase: self.phase,
            watch: std::mem::replace(&mut self.watch, Rc::new(Watch::new())),
            owned: self.owned.clone(),
            outlet: self.outlet.take(),
        }
    }

    /// Gives everything away but what belongs to this VM; selectors forget the socket, which reads as
    /// closed. `None` when it is.
    pub(crate) fn part(&mut self) -> Option<Parts> {
        Some(Parts {
            number: self.give_up(true)?,
            owns: self.owns,
            domain: self.domain,
            stream: self.stream,
            phase: self.phase,
        })
    }

    /// A socket of this VM, of what [`part`](Self::part) gave.
    pub(crate) fn from_parts(parts: &mut Parts, owned: &Rc<Owned>) -> Socket {
        let number = std::mem::replace(&mut parts.number, -1);
        // SAFETY: the parts owned the number, and have it no more.
        let inner = unsafe { socket2::Socket::from_raw_fd(number) };
        let (domain, stream) = (parts.domain, parts.stream);
        Self::adopt(inner, domain, stream, parts.phase, parts.owns, owned)
    }

    /// Is again what [`part`](Self::part) gave away.
    pub(crate) fn restore(&mut self, parts: &mut Parts) {
        let owned = self.owned.clone();
        *self = Self::from_parts(parts, &owned);
    }

    fn give_up(&mut self, tell_system: bool) -> Option<RawFd> {
        self.outlet = None;
        let inner = self.inner.take()?;
        self.watch.release(tell_system);
        self.owned.remove(inner.as_raw_fd(), &self.watch);
        Some(ManuallyDrop::into_inner(inner).into_raw_fd())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

/// The type with the flags that make a socket non-blocking and close-on-exec at birth, where there are.
fn quick(kind: Type) -> Type {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    return kind.nonblocking().cloexec();
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    kind
}

/// Sets what [`quick`] could not.
fn tame(socket: &socket2::Socket) -> io::Result<()> {
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
    }
    #[cfg(target_vendor = "apple")]
    socket.set_nosigpipe(true)?;
    let _ = socket;
    Ok(())
}

/// One accepted connection, non-blocking and close-on-exec; one system call where accept4(2) exists.
fn accept_quick(listener: &socket2::Socket) -> io::Result<socket2::Socket> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        // SAFETY: no address is asked for; the new descriptor is owned by the socket made of it.
        unsafe {
            let number = libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            );
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(socket2::Socket::from_raw_fd(number))
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}
