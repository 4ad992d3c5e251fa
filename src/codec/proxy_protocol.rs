//! The PROXY protocol, versions 1 and 2: a header before the first byte of a connection, in which a proxy reports
//! the address of the client. See <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.
//!
//! Invariant: the decision depends only on the bytes, not on how they are split, and a header has a bounded length.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The maximum length of a header of version 1, including CRLF.
pub(crate) const MAX_V1: usize = 107;

/// The maximum length of a header of version 2: real headers are shorter than 1 KiB.
pub(crate) const MAX_V2: usize = 4096;

const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The number of bytes of a header of version 2 before its addresses.
const V2_FIXED: usize = 16;

/// The type of the value that describes the client's TLS connection, and the bit that the client used TLS.
const TLS_TYPE: u8 = 0x20;
const CLIENT_USED_TLS: u8 = 1;

/// The content of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The number of bytes of the header.
    pub(crate) length: usize,
    /// The address of the client; `None` if the proxy itself has opened the connection, for example to check the
    /// server, or if it does not know an IP address.
    pub(crate) client: Option<SocketAddr>,
    /// Whether the client has used TLS.
    pub(crate) is_tls: bool,
}

/// The result of reading the first bytes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    Header(Header),
    /// More bytes are needed.
    More,
    /// The connection does not begin with a header.
    Absent,
    /// The header is malformed, too long, or of another version.
    Malformed,
}

/// Reads the header at the start of a connection's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut parsed = match bytes {
        _ if begins(bytes, V1_START) => v1(bytes),
        _ if begins(bytes, V2_START) => v2(bytes),
        _ => Parsed::Absent,
    };
    // An IPv4 address that is mapped into IPv6 is the IPv4 address.
    if let Parsed::Header(Header { client: Some(client), .. }) = &mut parsed {
        client.set_ip(client.ip().to_canonical());
    }
    parsed
}

/// Whether `bytes` begins with `start`, or is a shorter part of its beginning.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let length = bytes.len().min(start.len());
    bytes[..length] == start[..length]
}

/// Reads a header of version 1, a line of text.
fn v1(bytes: &[u8]) -> Parsed {
    let window = &bytes[..bytes.len().min(MAX_V1)];
    let Some(line_feed) = memchr::memchr(b'\n', window) else {
        return if window.len() == MAX_V1 { Parsed::Malformed } else { Parsed::More };
    };
    let Some(line) = window[..line_feed].strip_suffix(b"\r").and_then(|line| line.strip_prefix(V1_START)) else {
        return Parsed::Malformed;
    };
    let length = line_feed + 1;
    if line == b"UNKNOWN" || line.starts_with(b"UNKNOWN ") {
        return Parsed::Header(Header { length, client: None, is_tls: false });
    }
    match v1_client(line) {
        Some(client) => Parsed::Header(Header { length, client: Some(client), is_tls: false }),
        None => Parsed::Malformed,
    }
}

/// Reads `TCP4 source destination port port`, with single spaces.
fn v1_client(line: &[u8]) -> Option<SocketAddr> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let family = words.next()?;
    let (source, destination) = (words.next()?, words.next()?);
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    let is_of_family = |address: &IpAddr| match family {
        "TCP4" => address.is_ipv4(),
        "TCP6" => address.is_ipv6(),
        _ => false,
    };
    let address = |text: &str| text.parse::<IpAddr>().ok().filter(is_of_family);
    let _ = (address(destination)?, destination_port);
    Some(SocketAddr::new(address(source)?, source_port))
}

/// Reads a port: up to five digits without a leading zero.
fn port(text: &str) -> Option<u16> {
    let is_number = matches!(text.len(), 1..=5) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// Reads a header of version 2, which is binary.
fn v2(bytes: &[u8]) -> Parsed {
    if bytes.get(12).is_some_and(|byte| !matches!(byte, 0x20 | 0x21)) {
        return Parsed::Malformed;
    }
    let Some(fixed) = bytes.get(..V2_FIXED) else { return Parsed::More };
    let length = V2_FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > MAX_V2 {
        return Parsed::Malformed;
    }
    let Some(content) = bytes.get(V2_FIXED..length) else { return Parsed::More };
    if fixed[12] == 0x20 {
        // LOCAL: the proxy's own connection. The content is ignored.
        return Parsed::Header(Header { length, client: None, is_tls: false });
    }
    let addresses = match fixed[13] >> 4 {
        _ if fixed[13] & 0x0f > 2 => return Parsed::Malformed,
        0 => 0,
        1 => 12,
        2 => 36,
        3 => 216,
        _ => return Parsed::Malformed,
    };
    let Some((addresses, values)) = content.split_at_checked(addresses) else { return Parsed::Malformed };
    let Some(is_tls) = used_tls(values) else { return Parsed::Malformed };
    // Only for a stream over IP the source is the address of a client.
    let client = match fixed[13] {
        0x11 => Some(v2_address(&addresses[..4], &addresses[8..10])),
        0x21 => Some(v2_address(&addresses[..16], &addresses[32..34])),
        _ => None,
    };
    Parsed::Header(Header { length, client, is_tls })
}

fn v2_address(address: &[u8], port: &[u8]) -> SocketAddr {
    let ip = match <[u8; 4]>::try_from(address) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).unwrap_or_default())),
    };
    SocketAddr::new(ip, u16::from_be_bytes([port[0], port[1]]))
}

/// Returns whether the values say that the client has used TLS; `None` if they are malformed.
fn used_tls(values: &[u8]) -> Option<bool> {
    let mut rest = values;
    let mut found = false;
    while !rest.is_empty() {
        let (head, behind) = rest.split_at_checked(3)?;
        let (value, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes([head[1], head[2]])))?;
        if head[0] == TLS_TYPE {
            found = value.first()? & CLIENT_USED_TLS != 0;
        }
        rest = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests;
