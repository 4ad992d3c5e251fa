//! The fields with which proxies forward the client's address: `Forwarded` (RFC 7239), and the lists of
//! `X-Forwarded-For` and its relatives. Which elements are trusted is decided by the caller.

use super::http1::head::is_host;
use core::net::IpAddr;

/// The maximum number of elements of one field that are read, from the right. A client can send longer lists.
pub(crate) const MAX_ELEMENTS: usize = 64;

/// One element of `Forwarded`: what one proxy has added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Element {
    pub(crate) node: Option<Vec<u8>>,
    pub(crate) proto: Option<Vec<u8>>,
    pub(crate) host: Option<Vec<u8>>,
}

/// Parses a `Forwarded` field. Returns its last elements, in order; `None` if the field is malformed.
pub(crate) fn elements(field: &[u8]) -> Option<Vec<Element>> {
    let mut rest = field;
    let mut found = Vec::new();
    loop {
        let (element, behind) = element(rest)?;
        found.push(element);
        match behind {
            [] => break,
            behind => rest = &behind[1..],
        }
    }
    let first = found.len().saturating_sub(MAX_ELEMENTS);
    Some(found.split_off(first))
}

/// Parses the element at the start of `text`. Returns it, and the text from the comma on.
fn element(text: &[u8]) -> Option<(Element, &[u8])> {
    let mut rest = text.trim_ascii_start();
    let mut element = Element::default();
    loop {
        let name_end = rest.iter().position(|&byte| !is_token(byte)).unwrap_or(rest.len());
        if name_end > 0 {
            let (name, behind) = rest.split_at(name_end);
            let (value, behind) = value(behind.strip_prefix(b"=")?)?;
            let place = match name.to_ascii_lowercase().as_slice() {
                b"for" => Some(&mut element.node),
                b"proto" => Some(&mut element.proto),
                b"host" => Some(&mut element.host),
                _ => None,
            };
            if let Some(place) = place {
                // A name occurs at most once in an element (RFC 7239 section 4).
                if place.is_some() {
                    return None;
                }
                *place = Some(value);
            }
            rest = behind;
        }
        rest = rest.trim_ascii_start();
        match rest.first() {
            None | Some(b',') => return Some((element, rest)),
            Some(b';') => rest = rest[1..].trim_ascii_start(),
            _ => return None,
        }
    }
}

/// Parses the value at the start of `text`: a token or a quoted string.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|&byte| !is_token(byte)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    loop {
        match rest {
            [b'"', behind @ ..] => return Some((value, behind)),
            [b'\\', byte, behind @ ..] | [byte, behind @ ..] => {
                value.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

/// Whether the byte may be part of a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns the last elements of a list such as `X-Forwarded-For`, in order. Empty elements are kept, because each
/// element has a position.
pub(crate) fn list(field: &[u8]) -> Vec<&[u8]> {
    let mut found: Vec<&[u8]> = field.rsplit(|&byte| byte == b',').take(MAX_ELEMENTS).map(<[u8]>::trim_ascii).collect();
    found.reverse();
    found
}

/// Parses a node: an address, with or without a port. An IPv6 address may be in brackets. Returns `None` for `unknown`,
/// for an obfuscated name, and for anything else.
pub(crate) fn node(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(inside) => {
            let (address, behind) = inside.split_once(']')?;
            let IpAddr::V6(address) = address.parse().ok()? else { return None };
            (IpAddr::V6(address), behind)
        }
        None => {
            let colon = text.find(':')?;
            let IpAddr::V4(address) = text[..colon].parse().ok()? else { return None };
            (IpAddr::V4(address), &text[colon..])
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        // An obfuscated port is not known.
        Some(name) if name.starts_with('_') => None,
        Some(digits) => Some(parse_port(digits)?),
    };
    Some((address.to_canonical(), port))
}

fn parse_port(digits: &str) -> Option<u16> {
    let is_number = matches!(digits.len(), 1..=5) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Returns the position of the client in the nodes of a field, which proxies have added from left to right: the last
/// node that is not a trusted proxy, or the first node if all are trusted. An unreadable node (`None`) ends the search.
/// Returns `None` if the last node is unreadable or missing.
pub(crate) fn client(
    nodes: &[Option<(IpAddr, Option<u16>)>], is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<(usize, IpAddr, Option<u16>)> {
    let mut found = None;
    for (index, node) in nodes.iter().enumerate().rev() {
        let Some((address, port)) = *node else { break };
        found = Some((index, address, port));
        if !is_trusted(address) {
            break;
        }
    }
    found
}

/// Returns whether the scheme is `https`; `None` if it is neither `http` nor `https`.
pub(crate) fn is_secure(proto: &[u8]) -> Option<bool> {
    match proto {
        proto if proto.eq_ignore_ascii_case(b"https") => Some(true),
        proto if proto.eq_ignore_ascii_case(b"http") => Some(false),
        _ => None,
    }
}

/// Returns the host if it has the syntax of `Host`.
pub(crate) fn host(text: &[u8]) -> Option<&[u8]> {
    is_host(text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(field: &str) -> Option<Vec<String>> {
        let text = |value: &Option<Vec<u8>>| String::from_utf8_lossy(value.as_deref().unwrap_or(b"-")).into_owned();
        let found = elements(field.as_bytes())?;
        Some(found.iter().map(|one| format!("{} {} {}", text(&one.node), text(&one.proto), text(&one.host))).collect())
    }

    #[test]
    fn elements_have_a_node_a_scheme_and_a_host() {
        let field =
            r#"for=192.0.2.60;proto=http;by=203.0.113.43, For="[2001:db8::1]:4711" ; HOST="a.b:80",for=_hidden"#;
        let expected = ["192.0.2.60 http -", "[2001:db8::1]:4711 - a.b:80", "_hidden - -"];
        assert_eq!(shown(field).expect("well-formed"), expected);
        assert_eq!(shown(r#"for="a\"b\\c""#).expect("well-formed"), [r#"a"b\c - -"#]);
        assert_eq!(shown("for=1.1.1.1,,for=2.2.2.2").expect("well-formed").len(), 3);
        assert_eq!(shown("").expect("well-formed"), ["- - -"]);
    }

    #[test]
    fn malformed_elements_make_the_field_malformed() {
        for bad in ["for", "for=", "for=\"1.1.1.1", "for=1.1.1.1:80", "for=a;for=b", "=a", "for = a", "for=a b"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_last_elements_of_a_long_field_are_read() {
        let all: Vec<String> = (0..1000).map(|number| format!("for=n{number}")).collect();
        let found = elements(all.join(",").as_bytes()).expect("well-formed");
        assert_eq!(found.len(), MAX_ELEMENTS);
        assert_eq!(found[MAX_ELEMENTS - 1].node.as_deref(), Some(&b"n999"[..]));
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let text = names.join(", ");
        let found = list(text.as_bytes());
        assert_eq!((found.len(), found[0], found[MAX_ELEMENTS - 1]), (MAX_ELEMENTS, &b"936"[..], &b"999"[..]));
    }

    #[test]
    fn nodes_are_addresses_with_or_without_a_port() {
        let read = |text: &str| node(text.as_bytes()).map(|(address, port)| format!("{address} {port:?}"));
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1 None"),
            ("192.0.2.1:80", "192.0.2.1 Some(80)"),
            ("192.0.2.1:_x", "192.0.2.1 None"),
            ("2001:db8::1", "2001:db8::1 None"),
            ("[2001:DB8::1]", "2001:db8::1 None"),
            ("[2001:db8::1]:65535", "2001:db8::1 Some(65535)"),
            ("::ffff:192.0.2.1", "192.0.2.1 None"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for bad in [
            "",
            "unknown",
            "_hidden",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "192.0.2.1:+80",
            "192.0.2.01",
            "[192.0.2.1]",
            "[::1",
            "[::1]x",
            "[::1]:",
            "::1%eth0",
            "1.2.3",
            "example.org",
            "192.0.2.1 ",
            "\u{ff11}.2.3.4",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(node(b"\xff"), None);
    }

    #[test]
    fn the_client_is_the_last_node_that_is_not_trusted() {
        let found = |text: &str| {
            let nodes: Vec<_> = list(text.as_bytes()).into_iter().map(node).collect();
            let is_trusted = |address: IpAddr| address.to_string().starts_with("10.");
            client(&nodes, is_trusted).map(|(index, address, _)| format!("{index} {address}"))
        };
        assert_eq!(found("1.1.1.1, 2.2.2.2").as_deref(), Some("1 2.2.2.2"));
        assert_eq!(found("1.1.1.1, 2.2.2.2, 10.0.0.1,10.0.0.2").as_deref(), Some("1 2.2.2.2"));
        assert_eq!(found("10.0.0.3, 10.0.0.4").as_deref(), Some("0 10.0.0.3"));
        assert_eq!(found("1.1.1.1, unknown, 10.0.0.4").as_deref(), Some("2 10.0.0.4"));
        assert_eq!(found("1.1.1.1, unknown"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn schemes_and_hosts_are_checked() {
        assert_eq!([is_secure(b"HTTPS"), is_secure(b"http"), is_secure(b"ftp")], [Some(true), Some(false), None]);
        assert_eq!(host(b"a.example:8080"), Some(&b"a.example:8080"[..]));
        for bad in ["", "a b", "a/b", "a@b", "a\r\nb", "[::1"] {
            assert_eq!(host(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_a_panic(field in proptest::collection::vec(any::<u8>(), 0..200)) {
            let found = elements(&field);
            prop_assert!(found.is_none_or(|found| found.len() <= MAX_ELEMENTS));
            prop_assert!(list(&field).len() <= MAX_ELEMENTS);
            let _ = node(&field);
        }

        #[test]
        fn quoted_values_are_read_back(value in "[ -~]{0,30}") {
            let quoted: String = value.chars().flat_map(|c| ['\\', c]).collect();
            let found = elements(format!("for=\"{quoted}\"").as_bytes()).expect("well-formed");
            prop_assert_eq!(found[0].node.as_deref(), Some(value.as_bytes()));
        }
    }
}
