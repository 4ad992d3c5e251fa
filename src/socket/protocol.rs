//! The protocol of a socket, and the phase that it is in.

use socket2::{Domain, Type};

/// The protocol of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Tcp6,
    Udp,
    Udp6,
    UnixStream,
    UnixDatagram,
    /// The descriptor is not a socket.
    None,
}

impl Protocol {
    /// Returns the protocol of a socket of this domain and type.
    pub(super) fn of(domain: Domain, kind: Type) -> Protocol {
        match (domain, kind == Type::STREAM) {
            (Domain::UNIX, true) => Protocol::UnixStream,
            (Domain::UNIX, false) => Protocol::UnixDatagram,
            (Domain::IPV6, true) => Protocol::Tcp6,
            (Domain::IPV6, false) => Protocol::Udp6,
            (_, true) => Protocol::Tcp,
            (_, false) => Protocol::Udp,
        }
    }

    /// Returns the domain of the protocol's addresses.
    pub(crate) fn domain(self) -> Domain {
        match self {
            Protocol::Tcp6 | Protocol::Udp6 => Domain::IPV6,
            Protocol::UnixStream | Protocol::UnixDatagram => Domain::UNIX,
            _ => Domain::IPV4,
        }
    }

    /// Returns whether the protocol is a byte stream, without message boundaries.
    #[inline]
    pub(crate) fn is_stream(self) -> bool {
        use Protocol::*;
        matches!(self, Tcp | Tcp6 | UnixStream)
    }

    /// Returns the protocol's name for Lua programs.
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

/// The phase of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Listening,
    Connecting,
    Connected,
}
