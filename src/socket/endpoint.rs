//! Addresses: parsing, printing, and endpoints as Lua objects.

use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, Text, args, functions, push_bytes};
use mlua::ffi::{self, lua_State};
use socket2::{Domain, SockAddr};
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::raw::c_int;

/// An address as Lua holds it.
pub(crate) struct Endpoint(pub(crate) SockAddr);

impl Object for Endpoint {
    const NAME: &'static CStr = c"lio.endpoint";
    const METHODS: &'static [(&'static CStr, Function)] = functions![(c"value", value)];
    const META: &'static [(&'static CStr, Function)] =
        functions![(c"__tostring", to_string), (c"__eq", equal)];
}

/// Parses a numeric address, IPv6 ones with an optional scope (`fe80::1%eth0`, `fe80::1%2`).
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

fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a NUL-terminated string; returns 0 when there is no such interface.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Looks a name up, blocking (getaddrinfo(3)); addresses of `domain` only when that is given.
pub(crate) fn look_up(name: &str, port: u16, domain: Option<Domain>) -> Result<SocketAddr, Fault> {
    let found = (name, port).to_socket_addrs();
    let addresses = found.map_err(|error| match error.raw_os_error() {
        Some(errno) => Fault::os("resolve", errno),
        None => Fault::word("resolve", "no address is known for that name", "unresolved"),
    })?;
    let wanted = |address: &SocketAddr| match domain {
        Some(Domain::IPV4) => address.is_ipv4(),
        Some(Domain::IPV6) => address.is_ipv6(),
        _ => true,
    };
    addresses.into_iter().find(wanted).ok_or(Fault::word(
        "resolve",
        "the name has no address of that family",
        "unresolved",
    ))
}

/// The address of a unix socket; a path that begins with NUL is an abstract name.
pub(crate) fn unix(path: &[u8]) -> Result<SockAddr, Fault> {
    use std::os::unix::ffi::OsStrExt;
    if path.is_empty() {
        return Err(Fault::word("endpoint", "the unix path is empty", "EINVAL"));
    }
    if path.len() >= 108 {
        return Err(Fault::word(
            "endpoint",
            "the unix path is too long, 107 bytes are the most",
            "too long",
        ));
    }
    if path[0] != 0 && path.contains(&0) {
        return Err(Fault::word(
            "endpoint",
            "the unix path contains a NUL",
            "EINVAL",
        ));
    }
    SockAddr::unix(std::ffi::OsStr::from_bytes(path)).map_err(|error| Fault::io("endpoint", &error))
}

/// Reads `endpoint`, `host, port` or `path` from argument `index` on. A host that is no numeric address
/// is looked up (blocking).
///
/// # Safety
/// Nothing that needs `Drop` may be alive; raises for wrong types.
pub(crate) unsafe fn argument(
    state: *mut lua_State,
    index: c_int,
    domain: Domain,
) -> Result<SockAddr, Fault> {
    // SAFETY: the caller's promise; `SockAddr` is plain data.
    unsafe {
        if let Some(endpoint) = object::test::<Endpoint>(state, index) {
            return Ok((*endpoint).0.clone());
        }
        if domain == Domain::UNIX {
            return unix(args::bytes(state, index));
        }
        let host = args::utf8(state, index);
        let port = port(state, index + 1);
        if let Some(address) = parse_ip(host, port) {
            return Ok(address.into());
        }
        look_up(host, port, Some(domain)).map(SockAddr::from)
    }
}

/// A port argument, 0 to 65535.
///
/// # Safety
/// As for [`argument`].
pub(crate) unsafe fn port(state: *mut lua_State, index: c_int) -> u16 {
    // SAFETY: the caller's promise; the range makes the cast exact.
    unsafe { args::integer_in(state, index, 0, 65535, "port") as u16 }
}

/// Pushes a new endpoint.
///
/// # Safety
/// As for [`object::push_new`].
pub(crate) unsafe fn push(state: *mut lua_State, address: SockAddr) {
    // SAFETY: the caller's promise.
    unsafe {
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Endpoint(address))
        });
    }
}

/// `socket.endpoint(kind, …)`: `("inet"|"inet6", ip, port)`, `("hostname", name, port [, family])` or
/// `("unix", path)`. `nil, message, code` when it cannot be formed.
pub(crate) unsafe extern "C-unwind" fn endpoint(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; addresses are plain data.
    unsafe {
        let formed = match args::bytes(state, 1) {
            b"unix" => unix(args::bytes(state, 2)),
            b"inet" => numeric(state, Domain::IPV4),
            b"inet6" => numeric(state, Domain::IPV6),
            b"hostname" => {
                let (name, port) = (args::utf8(state, 2), port(state, 3));
                let family = match args::is_none(state, 4) {
                    true => None,
                    false => Some(family(state, 4)),
                };
                match parse_ip(name, port) {
                    Some(address) if family.is_none_or(|f| f == Domain::for_address(address)) => {
                        Ok(address.into())
                    }
                    _ => look_up(name, port, family).map(SockAddr::from),
                }
            }
            _ => {
                let message = "'inet', 'inet6', 'hostname' or 'unix' expected";
                args::argument_error(state, 1, Text::new(message))
            }
        };
        match formed {
            Ok(address) => {
                push(state, address);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

unsafe fn family(state: *mut lua_State, index: c_int) -> Domain {
    // SAFETY: as for `argument`.
    unsafe {
        match args::bytes(state, index) {
            b"inet" => Domain::IPV4,
            b"inet6" => Domain::IPV6,
            _ => args::argument_error(state, index, Text::new("'inet' or 'inet6' expected")),
        }
    }
}

unsafe fn numeric(state: *mut lua_State, domain: Domain) -> Result<SockAddr, Fault> {
    // SAFETY: as for `argument`.
    unsafe {
        let (text, port) = (args::utf8(state, 2), port(state, 3));
        match parse_ip(text, port) {
            Some(address) if Domain::for_address(address) == domain => Ok(address.into()),
            _ => Err(Fault::word(
                "endpoint",
                "not an address of that family",
                "EINVAL",
            )),
        }
    }
}

/// The name and kind of a unix address.
fn unix_parts(address: &SockAddr) -> (&[u8], &'static str) {
    use std::os::unix::ffi::OsStrExt;
    if let Some(path) = address.as_pathname() {
        return (path.as_os_str().as_bytes(), "path");
    }
    match address.as_abstract_namespace() {
        Some(name) => (name, "abstract"),
        None => (b"", "unnamed"),
    }
}

/// An IP address as text, without its port but with its scope.
pub(crate) fn ip_text(address: &SocketAddr) -> Text {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            Text::format(format_args!("{}%{}", v6.ip(), v6.scope_id()))
        }
        _ => Text::format(format_args!("{}", address.ip())),
    }
}

/// `endpoint:value()` → ip, port, `"inet"` or `"inet6"`; for unix: path, `"path"`, `"abstract"` (the
/// name then begins with NUL) or `"unnamed"`, `"unix"`.
unsafe extern "C-unwind" fn value(state: *mut lua_State) -> c_int {
    // SAFETY: as for `endpoint`.
    unsafe {
        let address = &(*object::check::<Endpoint>(state, 1)).0;
        push_parts(state, address);
        3
    }
}

/// Pushes what `value` returns.
///
/// # Safety
/// As for [`push_bytes`].
pub(crate) unsafe fn push_parts(state: *mut lua_State, address: &SockAddr) {
    // SAFETY: as for `endpoint`.
    unsafe {
        match address.as_socket() {
            Some(ip) => {
                push_bytes(state, ip_text(&ip).as_bytes());
                ffi::lua_pushinteger(state, i64::from(ip.port()));
                let family: &[u8] = if ip.is_ipv4() { b"inet" } else { b"inet6" };
                push_bytes(state, family);
            }
            None => {
                let (name, kind) = unix_parts(address);
                match kind {
                    "abstract" => {
                        push_bytes(state, b"\0");
                        push_bytes(state, name);
                        ffi::lua_concat(state, 2);
                    }
                    _ => push_bytes(state, name),
                }
                push_bytes(state, kind.as_bytes());
                push_bytes(state, b"unix");
            }
        }
    }
}

/// The text of an IP address with its port: `1.2.3.4:80`, `[::1]:80`.
fn with_port(address: &SocketAddr) -> Text {
    match address {
        SocketAddr::V6(v6) => Text::format(format_args!(
            "[{}]:{}",
            std::str::from_utf8(ip_text(address).as_bytes()).unwrap_or_default(),
            v6.port()
        )),
        SocketAddr::V4(v4) => Text::format(format_args!("{v4}")),
    }
}

/// Address and port; for unix the path byte by byte, `@name` for an abstract one.
unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `endpoint`.
    unsafe {
        let address = &(*object::check::<Endpoint>(state, 1)).0;
        if let Some(ip) = address.as_socket() {
            push_bytes(state, with_port(&ip).as_bytes());
            return 1;
        }
        let (name, kind) = unix_parts(address);
        push_bytes(state, if kind == "abstract" { b"@" } else { b"" });
        push_bytes(state, name);
        ffi::lua_concat(state, 2);
        1
    }
}

unsafe extern "C-unwind" fn equal(state: *mut lua_State) -> c_int {
    // SAFETY: as for `endpoint`.
    unsafe {
        let left = object::test::<Endpoint>(state, 1);
        let right = object::test::<Endpoint>(state, 2);
        let same = match (left, right) {
            (Some(left), Some(right)) => (*left).0 == (*right).0,
            _ => false,
        };
        ffi::lua_pushboolean(state, same.into());
        1
    }
}

/// The address a socket is bound to, or the peer's.
pub(crate) fn of(socket: &socket2::Socket, peer: bool) -> io::Result<SockAddr> {
    match peer {
        true => socket.peer_addr(),
        false => socket.local_addr(),
    }
}
