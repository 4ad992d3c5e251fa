//! Lists of networks in CIDR notation (RFC 4632 section 3.1, RFC 4291 section 2.3), and whether they contain an
//! address. Used for the proxies that a server trusts.
//!
//! An IPv4 address that is mapped into IPv6 counts as the IPv4 address, because a socket for both families reports
//! mapped addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: the bits of its addresses, and the length of its prefix.
#[derive(Clone, Copy, Debug)]
enum Network {
    V4(u32, u32),
    V6(u128, u32),
}

/// A list of networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks {
    list: Vec<Network>,
    /// Whether the list also contains the peers of unix sockets.
    unix: bool,
}

/// The networks of the names that a list may contain.
const LOOPBACK: &[&str] = &["127.0.0.0/8", "::1"];
const PRIVATE: &[&str] = &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

impl Networks {
    /// Adds `text` to the list: an address, a network such as `10.0.0.0/8`, or one of the names `loopback`, `private`
    /// and `unix:`. Returns whether `text` is one of these. An address with bits beyond the prefix is refused, because
    /// it is a mistake.
    pub(crate) fn add(&mut self, text: &str) -> bool {
        match text {
            "loopback" => LOOPBACK.iter().all(|one| self.add(one)),
            "private" => PRIVATE.iter().all(|one| self.add(one)),
            "unix:" => {
                self.unix = true;
                true
            }
            _ => match parse(text) {
                Some(network) => {
                    self.list.push(network);
                    true
                }
                None => false,
            },
        }
    }

    /// Whether the list contains `address`; `None` is the peer of a unix socket.
    pub(crate) fn contains(&self, address: Option<IpAddr>) -> bool {
        match address.map(|address| address.to_canonical()) {
            None => self.unix,
            Some(IpAddr::V4(address)) => self.list.iter().any(|network| match *network {
                Network::V4(bits, length) => is_inside_v4(address.into(), bits, length),
                Network::V6(..) => false,
            }),
            Some(IpAddr::V6(address)) => self.list.iter().any(|network| match *network {
                Network::V6(bits, length) => is_inside_v6(address.into(), bits, length),
                Network::V4(..) => false,
            }),
        }
    }
}

fn is_inside_v4(address: u32, bits: u32, length: u32) -> bool {
    (address ^ bits).checked_shr(32 - length).unwrap_or(0) == 0
}

fn is_inside_v6(address: u128, bits: u128, length: u32) -> bool {
    (address ^ bits).checked_shr(128 - length).unwrap_or(0) == 0
}

/// Parses an address or a network.
fn parse(text: &str) -> Option<Network> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(parse_length(length)?)),
        None => (text, None),
    };
    match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => v4(address, length.unwrap_or(32)),
        IpAddr::V6(address) => match (address.to_ipv4_mapped(), length) {
            (Some(mapped), None) => v4(mapped, 32),
            (Some(mapped), Some(length)) => v4(mapped, length.checked_sub(96)?),
            (None, length) => v6(address, length.unwrap_or(128)),
        },
    }
}

/// Parses the length of a prefix: one to three digits without a leading zero.
fn parse_length(text: &str) -> Option<u32> {
    let is_number = matches!(text.len(), 1..=3) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

fn v4(address: Ipv4Addr, length: u32) -> Option<Network> {
    let bits = u32::from(address);
    let host = if length <= 32 { u32::MAX.checked_shr(length).unwrap_or(0) } else { return None };
    (bits & host == 0).then_some(Network::V4(bits, length))
}

fn v6(address: Ipv6Addr, length: u32) -> Option<Network> {
    let bits = u128::from(address);
    let host = if length <= 128 { u128::MAX.checked_shr(length).unwrap_or(0) } else { return None };
    (bits & host == 0).then_some(Network::V6(bits, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(all: &[&str]) -> Networks {
        let mut networks = Networks::default();
        for one in all {
            assert!(networks.add(one), "{one}");
        }
        networks
    }

    fn contains(networks: &Networks, address: &str) -> bool {
        networks.contains(Some(address.parse().expect("an address")))
    }

    #[test]
    fn a_network_contains_exactly_the_addresses_with_its_prefix() {
        let found = networks(&["10.0.0.0/8", "192.0.2.128/25", "203.0.113.7", "2001:db8::/33"]);
        for inside in ["10.0.0.0", "10.255.255.255", "192.0.2.128", "192.0.2.255", "203.0.113.7", "2001:db8:7fff::1"] {
            assert!(contains(&found, inside), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "192.0.2.127", "203.0.113.6", "2001:db8:8000::", "::1"] {
            assert!(!contains(&found, outside), "{outside}");
        }
        assert!(!found.contains(None));
    }

    #[test]
    fn a_prefix_of_length_0_contains_its_whole_family_only() {
        assert!(contains(&networks(&["0.0.0.0/0"]), "255.1.2.3"));
        assert!(!contains(&networks(&["0.0.0.0/0"]), "2001:db8::1"));
        assert!(contains(&networks(&["::/0"]), "2001:db8::1"));
        assert!(!contains(&networks(&["::/0"]), "1.2.3.4"));
    }

    #[test]
    fn mapped_addresses_count_as_ipv4() {
        assert!(contains(&networks(&["127.0.0.1"]), "::ffff:127.0.0.1"));
        assert!(contains(&networks(&["::ffff:10.0.0.0/104"]), "10.1.2.3"));
        assert!(!contains(&networks(&["::ffff:10.0.0.0/104"]), "11.1.2.3"));
    }

    #[test]
    fn names_stand_for_networks() {
        let found = networks(&["loopback", "private", "unix:"]);
        for inside in ["127.8.8.8", "::1", "10.1.1.1", "172.31.255.255", "192.168.0.1", "fdff::1"] {
            assert!(contains(&found, inside), "{inside}");
        }
        for outside in ["172.32.0.0", "8.8.8.8", "fe80::1", "::2"] {
            assert!(!contains(&found, outside), "{outside}");
        }
        assert!(found.contains(None));
    }

    #[test]
    fn malformed_networks_are_refused() {
        for bad in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "10.0.0/8",
            "::/129",
            "2001:db8::1/32",
            "::ffff:10.0.0.0/95",
            "localhost",
            "10.0.0.0/8 ",
            " 10.0.0.0/8",
            "[::1]",
            "Loopback",
        ] {
            assert!(!Networks::default().add(bad), "{bad}");
        }
    }
}
