use super::*;
use proptest::prelude::*;

/// Returns a header of version 2.
fn version_2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    [V2_START, &[command, family], &length, content].concat()
}

/// The addresses 192.0.2.1:4711 and 198.51.100.2:80.
const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0, 80];

/// The first `length` bytes of a header need more bytes.
fn check_prefixes(header: &[u8]) {
    for length in 0..header.len() {
        assert_eq!(parse(&header[..length]), Parsed::More, "{length} bytes");
    }
}

/// Reads a header that other bytes follow.
fn read(header: &[u8]) -> Header {
    let whole = [header, b"GET / HTTP/1.1\r\n"].concat();
    match parse(&whole) {
        Parsed::Header(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn version_1_tells_the_address_of_the_client() {
    for (line, client) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\n", "192.0.2.1:4711"),
        ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
        ("PROXY TCP6 2001:db8::1 ::1 0 80\r\n", "[2001:db8::1]:0"),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 4711 80\r\n", "192.0.2.1:4711"),
        (
            "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
        ),
    ] {
        let client = Some(client.parse().expect("an address"));
        assert_eq!(read(line.as_bytes()), Header { length: line.len(), client, is_tls: false });
        check_prefixes(line.as_bytes());
    }
}

#[test]
fn an_unknown_client_has_no_address() {
    for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "PROXY UNKNOWN anything at all\r\n"] {
        assert_eq!(read(line.as_bytes()), Header { length: line.len(), client: None, is_tls: false });
    }
}

#[test]
fn malformed_lines_are_refused() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY TCP5 192.0.2.1 198.51.100.2 4711 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80 \r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 4711 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80 1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 04711 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 65536 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +471 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 \r\n",
        "PROXY TCP4 2001:db8::1 ::1 4711 80\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 4711 80\r\n",
        "PROXY TCP4 192.0.2.1 host 4711 80\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 4711 80\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\r\n",
        "PROXY TCP4 \u{ff} 198.51.100.2 4711 80\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), Parsed::Malformed, "{line:?}");
    }
}

#[test]
fn a_line_has_at_most_107_bytes() {
    let fill = |length: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(length - 16));
    assert_eq!(read(fill(MAX_V1).as_bytes()).length, MAX_V1);
    assert_eq!(parse(fill(MAX_V1 + 1).as_bytes()), Parsed::Malformed);
    assert_eq!(parse(&fill(500).as_bytes()[..MAX_V1]), Parsed::Malformed);
    assert_eq!(parse(&fill(500).as_bytes()[..MAX_V1 - 1]), Parsed::More);
}

#[test]
fn version_2_tells_the_address_of_the_client() {
    let header = version_2(0x21, 0x11, &V4);
    let client = Some("192.0.2.1:4711".parse().expect("an address"));
    assert_eq!(read(&header), Header { length: 28, client, is_tls: false });
    check_prefixes(&header);

    let mut addresses = [0; 36];
    addresses[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    addresses[15] = 1;
    addresses[32..].copy_from_slice(&[0x12, 0x67, 0, 80]);
    let header = version_2(0x21, 0x21, &addresses);
    let client = Some("[2001:db8::1]:4711".parse().expect("an address"));
    assert_eq!(read(&header), Header { length: 52, client, is_tls: false });
}

#[test]
fn version_2_without_a_client_keeps_the_address_of_the_socket() {
    for header in [
        version_2(0x20, 0x00, b""),
        version_2(0x20, 0x11, &V4),
        // LOCAL: even malformed content is skipped.
        version_2(0x20, 0x11, b"x"),
        version_2(0x21, 0x00, b""),
        // Datagrams and unix sockets.
        version_2(0x21, 0x12, &V4),
        version_2(0x21, 0x31, &[7; 216]),
    ] {
        assert_eq!(read(&header), Header { length: header.len(), client: None, is_tls: false });
    }
}

#[test]
fn version_2_tells_whether_the_client_used_tls() {
    let with = |values: &[u8]| version_2(0x21, 0x11, &[&V4, values].concat());
    assert!(read(&with(&[1, 0, 2, b'h', b'2', 0x20, 0, 5, 1, 0, 0, 0, 0])).is_tls);
    assert!(!read(&with(&[0x20, 0, 5, 0, 0, 0, 0, 0])).is_tls);
    for bad in [&[1][..], &[1, 0], &[1, 0, 1], &[0x20, 0, 0]] {
        assert_eq!(parse(&with(bad)), Parsed::Malformed, "{bad:?}");
    }
}

#[test]
fn malformed_headers_of_version_2_are_refused() {
    for header in [
        version_2(0x11, 0x11, &V4),
        version_2(0x31, 0x11, &V4),
        version_2(0x22, 0x11, &V4),
        version_2(0x21, 0x41, &V4),
        version_2(0x21, 0x13, &V4),
        version_2(0x21, 0x11, &V4[..11]),
        version_2(0x21, 0x21, &V4),
        version_2(0x21, 0x00, &vec![0; MAX_V2 - V2_FIXED + 1]),
    ] {
        assert_eq!(parse(&header), Parsed::Malformed, "{:?}", &header[12..16]);
    }
    // An invalid version is refused before the rest has arrived, and so is an excessive length.
    assert_eq!(parse(&version_2(0x31, 0x11, &V4)[..13]), Parsed::Malformed);
    assert_eq!(parse(&version_2(0x21, 0x00, &vec![0; MAX_V2])[..16]), Parsed::Malformed);
    assert_eq!(read(&version_2(0x20, 0x00, &vec![0; MAX_V2 - V2_FIXED])).length, MAX_V2);
}

#[test]
fn other_bytes_are_no_header() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PROXX", b"PRI * HTTP/2.0", b"proxy tcp4", b"\r\n\r\nGET", b"\0"] {
        assert_eq!(parse(bytes), Parsed::Absent, "{bytes:?}");
    }
    assert_eq!(parse(b""), Parsed::More);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        start in prop_oneof![Just(V1_START), Just(V2_START), Just(&b""[..])],
        behind in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [start, &behind].concat();
        let whole = parse(&bytes);
        if let Parsed::Header(header) = whole {
            prop_assert!(header.length <= bytes.len());
        }
        // The decision does not depend on how the bytes are split.
        for length in 0..bytes.len() {
            let part = parse(&bytes[..length]);
            prop_assert!(part == Parsed::More || part == whole, "{} bytes: {:?}", length, part);
        }
    }

    #[test]
    fn addresses_of_both_versions_are_read_back(client: core::net::SocketAddrV4, destination: core::net::SocketAddrV4) {
        let line = format!(
            "PROXY TCP4 {} {} {} {}\r\n", client.ip(), destination.ip(), client.port(), destination.port(),
        );
        prop_assert_eq!(read(line.as_bytes()).client, Some(client.into()));
        let content = [
            &client.ip().octets()[..], &destination.ip().octets(), &client.port().to_be_bytes(),
            &destination.port().to_be_bytes(),
        ].concat();
        prop_assert_eq!(read(&version_2(0x21, 0x11, &content)).client, Some(client.into()));
    }
}
