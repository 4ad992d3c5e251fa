//! Addresses: parsing, resolving, formatting.

use rustix::net::{SocketAddrAny, SocketAddrUnix};
use socket2::{Domain, SockAddr};
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;

/// The maximum number of bytes in the path of a unix socket.
const MAX_UNIX_PATH: usize = 107;

/// Why parsing or resolving an address failed.
pub(crate) enum Refusal {
    /// The failed call, a message, and a short code for programs.
    Word(&'static str, &'static str, &'static str),
    /// The failed call, and the system error.
    System(&'static str, io::Error),
}

/// Parses a numeric address. IPv6 addresses can have a scope (`fe80::1%eth0`, `fe80::1%2`).
pub(crate) fn parse_ip(text: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, port));
    }
    let (address, scope) = text.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    let scope = match scope.parse::<u32>() {
        Ok(number) => number,
        Err(_) => interface_index(scope)?,
    };
    Some(SocketAddrV6::new(address, port, 0, scope).into())
}

/// Parses the numeric address `text`, which must belong to the family `domain`.
pub(crate) fn numeric(text: &str, port: u16, domain: Domain) -> Result<SockAddr, Refusal> {
    match parse_ip(text, port) {
        Some(address) if Domain::for_address(address) == domain => Ok(address.into()),
        _ => Err(Refusal::Word("endpoint", "not an address of that family", "EINVAL")),
    }
}

/// Resolves a name with getaddrinfo(3), which blocks. Returns the first address; if `domain` is given, the first
/// address of this family.
pub(crate) fn look_up(host: &str, port: u16, domain: Option<Domain>) -> Result<SockAddr, Refusal> {
    let wanted = |address: &SocketAddr| match domain {
        Some(Domain::IPV4) => address.is_ipv4(),
        Some(Domain::IPV6) => address.is_ipv6(),
        _ => true,
    };
    let found = (host, port).to_socket_addrs();
    let mut addresses = found.map_err(|error| match error.raw_os_error() {
        Some(_) => Refusal::System("resolve", error),
        None => Refusal::Word("resolve", "no address is known for that name", "unresolved"),
    })?;
    let found = addresses.find(wanted).map(SockAddr::from);
    found.ok_or(Refusal::Word("resolve", "the name has no address of that family", "unresolved"))
}

/// Returns the address of a unix socket. A path that begins with NUL is an abstract name.
pub(crate) fn unix(path: &[u8]) -> Result<SockAddr, Refusal> {
    let (message, code) = match path {
        [] => ("the unix path is empty", "EINVAL"),
        _ if path.len() > MAX_UNIX_PATH => ("the unix path is longer than 107 bytes", "too long"),
        [first, ..] if *first != 0 && path.contains(&0) => ("the unix path contains a NUL", "EINVAL"),
        _ => return SockAddr::unix(OsStr::from_bytes(path)).map_err(|error| Refusal::System("endpoint", error)),
    };
    Err(Refusal::Word("endpoint", message, code))
}

/// Converts a rustix address; `None` for a family that lio does not support.
pub(super) fn from_rustix(address: SocketAddrAny) -> Option<SockAddr> {
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Some(address.into());
    }
    let address = SocketAddrUnix::try_from(address).ok()?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = address.abstract_name() {
        let name = [b"\0", name].concat();
        return SockAddr::unix(OsStr::from_bytes(&name)).ok();
    }
    let path = address.path().unwrap_or_default();
    SockAddr::unix(OsStr::from_bytes(path.to_bytes())).ok()
}

/// The side of a connection whose address is requested.
pub(crate) enum Side {
    /// The socket's own side.
    Local,
    /// The peer's side.
    Peer,
}

/// The parts of an address, as Lua programs get them.
pub(crate) struct Parts {
    /// An IP address with its scope, or the name of a unix address.
    pub(crate) name: Vec<u8>,
    /// The port of an IP address.
    pub(crate) port: Option<u16>,
    /// For a unix address: `"path"`, `"abstract"` (the name begins with NUL) or `"unnamed"`; otherwise empty.
    pub(crate) kind: &'static str,
    pub(crate) family: &'static str,
}

/// Splits an address into its parts.
pub(crate) fn parts(address: &SockAddr) -> Parts {
    if let Some(ip) = address.as_socket() {
        return Parts { name: ip_text(&ip).into_bytes(), port: Some(ip.port()), kind: "", family: family(&ip) };
    }
    let (name, kind) = match (address.as_pathname(), address.as_abstract_namespace()) {
        (Some(path), _) => (path.as_os_str().as_bytes().to_vec(), "path"),
        (_, Some(name)) => ([b"\0", name].concat(), "abstract"),
        _ => (Vec::new(), "unnamed"),
    };
    Parts { name, port: None, kind, family: "unix" }
}

/// Returns the family of an IP address: `"inet"` or `"inet6"`.
pub(crate) fn family(address: &SocketAddr) -> &'static str {
    match address {
        SocketAddr::V4(_) => "inet",
        SocketAddr::V6(_) => "inet6",
    }
}

/// Formats an IP address with its scope, without its port.
pub(crate) fn ip_text(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => address.ip().to_string(),
    }
}

/// Formats an address: `1.2.3.4:80`, `[::1]:80`; a unix address as its path, byte for byte, or as `@name` if it is
/// abstract.
pub(crate) fn text(address: &SockAddr) -> Vec<u8> {
    match address.as_socket() {
        Some(v4 @ SocketAddr::V4(_)) => v4.to_string().into_bytes(),
        Some(v6) => format!("[{}]:{}", ip_text(&v6), v6.port()).into_bytes(),
        None => {
            let mut name = parts(address).name;
            if let Some(first @ 0) = name.first_mut() {
                *first = b'@';
            }
            name
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn interface_index(name: &str) -> Option<u32> {
    let any = socket2::Socket::new(Domain::UNIX, socket2::Type::DGRAM, None).ok()?;
    rustix::net::netdevice::name_to_index(any, name).ok()
}

/// On other systems, the scope of an address must be a number.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn interface_index(_: &str) -> Option<u32> {
    None
}
