//! The target `header_fields` of the fuzzers: cookies, ranges, accepted codings, conditions, dates, forwarded addresses
//! and the PROXY protocol.

use super::fuzz_input::Input;
use super::proxy_protocol::{self, Header, Parsed};
use super::{accept_encoding, conditional, cookie, date, forwarded, range};
use core::net::{IpAddr, SocketAddr};
use std::fmt::Write;

/// Reads a field. The input: the number of the field, numbers, the field. Returns a description of the result.
pub(crate) fn header_fields(data: &[u8]) -> String {
    let mut input = Input(data);
    let mut text = String::new();
    match input.byte() % 8 {
        0 => cookies(input.0, &mut text),
        1 => ranges(input, &mut text),
        2 => codings(input.0, &mut text),
        3 => conditions(input, &mut text),
        4 => dates(input, &mut text),
        5 => elements(input.0, &mut text),
        6 => nodes(input.0, &mut text),
        _ => proxy(input.0, &mut text),
    }
    text
}

/// Writes a part of a description.
fn note(text: &mut String, part: std::fmt::Arguments<'_>) {
    let separator = if text.is_empty() { "" } else { " " };
    write!(text, "{separator}{part}").expect("writing to a string cannot fail");
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n' | 12, rest @ ..] | [rest @ .., b' ' | b'\t' | b'\r' | b'\n' | 12] = text {
        text = rest;
    }
    text
}

fn cookies(field: &[u8], text: &mut String) {
    let pairs: Vec<_> = cookie::pairs(field).collect();
    let mut expected = Vec::new();
    for pair in field.split(|&byte| byte == b';') {
        let mut sides = pair.splitn(2, |&byte| byte == b'=');
        let (Some(name), Some(value)) = (sides.next().map(trimmed), sides.next().map(trimmed)) else { continue };
        let is_quoted = value.len() > 1 && value.starts_with(b"\"") && value.ends_with(b"\"");
        if !name.is_empty() && !name.iter().any(|byte| b" \t\r\n\x0c".contains(byte)) {
            expected.push((name, if is_quoted { &value[1..value.len() - 1] } else { value }));
        }
    }
    assert_eq!(pairs, expected, "readers agree on the cookies");
    let mut again = Vec::new();
    for (name, value) in &pairs {
        again.extend_from_slice(&[name, &b"=\""[..], value, b"\"; "].concat());
    }
    assert!(cookie::pairs(&again).eq(pairs.iter().copied()), "written cookies are read equally");
    note(text, format_args!("{} cookies", pairs.len()));
}

/// Reads a decimal number that may have any number of digits; a large number becomes the largest.
fn decimal(text: &str) -> Option<u128> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u128::MAX))
}

/// Returns the ranges as the first offset and the offset after the last byte; `None` if the field must be ignored.
fn expected_ranges(field: &[u8], size: u128) -> Option<Vec<(u128, u128)>> {
    let field = std::str::from_utf8(field).ok()?;
    let (unit, set) = field.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (mut found, mut count) = (Vec::new(), 0);
    for text in set.split(',') {
        let text = text.trim_matches([' ', '\t', '\r', '\n', '\u{c}']);
        if text.is_empty() {
            continue;
        }
        count += 1;
        let (first, last) = text.split_once('-')?;
        let (begin, end) = match (first, last) {
            ("", last) => {
                let length = decimal(last)?;
                if length > 0 && size == 0 {
                    return None;
                }
                (size - length.min(size), size)
            }
            (first, "") => (decimal(first)?, size),
            (first, last) => {
                let (first, last) = (decimal(first)?, decimal(last)?);
                // Numbers beyond 64 bits are equal.
                if first.min(u64::MAX.into()) > last.min(u64::MAX.into()) {
                    return None;
                }
                (first, last.saturating_add(1).min(size))
            }
        };
        if begin < end {
            found.push((begin, end));
        }
    }
    let overlaps =
        |(index, one): (usize, &(u128, u128))| found[..index].iter().any(|other| one.0 < other.1 && other.0 < one.1);
    (matches!(count, 1..=range::MAX_RANGES) && !found.iter().enumerate().any(overlaps)).then_some(found)
}

fn ranges(mut input: Input<'_>, text: &mut String) {
    let shift = input.byte() % 64;
    let size = ((input.short() as u64) << 47 | input.short() as u64) >> shift;
    let size = if shift == 63 { u64::MAX } else { size };
    let found = range::parse(input.0, size);
    let pairs = |spans: &Vec<range::Span>| {
        let pair = |span: &range::Span| (u128::from(span.first), u128::from(span.first) + u128::from(span.length));
        spans.iter().map(pair).collect::<Vec<_>>()
    };
    let expected = expected_ranges(input.0, size.into());
    assert_eq!(found.as_ref().map(pairs), expected, "readers agree on the ranges of {size} bytes");
    let Some(found) = found else { return note(text, format_args!("ignored")) };
    let total: u128 = found.iter().map(|span| u128::from(span.length)).sum();
    assert!(found.len() <= range::MAX_RANGES && total <= size.into(), "ranges are within the representation");
    if !found.is_empty() {
        let specs: Vec<_> =
            found.iter().map(|span| format!("{}-{}", span.first, span.first + (span.length - 1))).collect();
        let again = range::parse(format!("bytes={}", specs.join(",")).as_bytes(), size);
        assert_eq!(again, Some(found), "written ranges are read equally");
    }
    note(text, format_args!("{total} of {size} bytes"));
}

/// Returns the weight of an element in thousandths, with its name in lower case; `None` if it is malformed.
fn expected_weight(element: &[u8]) -> Option<(String, u32)> {
    let mut parts = element.split(|&byte| byte == b';').map(trimmed);
    let name = String::from_utf8_lossy(parts.next()?).to_ascii_lowercase();
    let Some(weight) = parts.next() else { return Some((name, 1000)) };
    let weight = std::str::from_utf8(weight).ok()?.to_ascii_lowercase();
    let digits = weight.strip_prefix("q=")?;
    let is_number =
        digits.bytes().enumerate().all(|(at, byte)| if at == 1 { byte == b'.' } else { byte.is_ascii_digit() });
    if !is_number || !matches!(digits.len(), 1..=5) {
        return None;
    }
    let thousandths = (digits.parse::<f64>().ok()? * 1000.0).round() as u32;
    (thousandths <= 1000).then_some((name, thousandths))
}

fn codings(field: &[u8], text: &mut String) {
    let elements: Vec<_> = field.split(|&byte| byte == b',').filter_map(expected_weight).collect();
    let last = |name: &str| elements.iter().rev().find(|(other, _)| other == name).map(|(_, weight)| *weight);
    let accepted: Vec<_> = accept_encoding::accepted(field).into_iter().collect();
    assert!(accepted[0].is_some() || accepted[1].is_none(), "the best is first");
    let found: Vec<_> = accepted.into_iter().flatten().collect();
    let any = last("*").unwrap_or(0);
    let least = last("identity").unwrap_or(0).max(1);
    let br = last("br").unwrap_or(any);
    assert_eq!(found.contains(&"br"), br >= least, "readers agree on brotli");
    // `x-gzip` counts only without an earlier `gzip`.
    if last("x-gzip").is_none() {
        let gzip = last("gzip").unwrap_or(any);
        assert_eq!(found.contains(&"gzip"), gzip >= least, "readers agree on gzip");
        assert!(found.len() < 2 || (found[0] == "gzip") == (gzip > br), "readers agree on the order");
    }
    note(text, format_args!("{found:?}"));
}

/// Returns the entity tags of a list, with whether they are weak; `None` if the list is malformed or empty.
fn expected_tags(field: &[u8]) -> Option<Vec<(bool, &[u8])>> {
    let (mut tags, mut rest) = (Vec::new(), field);
    loop {
        rest = trimmed(rest);
        if let [b',', behind @ ..] = rest {
            rest = behind;
            continue;
        }
        if rest.is_empty() {
            return (!tags.is_empty()).then_some(tags);
        }
        let (is_weak, text) = match rest {
            [b'W', b'/', text @ ..] => (true, text),
            text => (false, text),
        };
        let length = text.strip_prefix(b"\"")?.iter().position(|&byte| byte == b'"')? + 2;
        tags.push((is_weak, &text[..length]));
        rest = trimmed(&text[length..]);
        if !matches!(rest, [] | [b',', ..]) {
            return None;
        }
    }
}

fn conditions(mut input: Input<'_>, text: &mut String) {
    let flags = input.byte();
    let now = 784_111_777 + u64::from(input.byte());
    let known = conditional::Validators { tag: b"\"a\"", modified: 784_111_777, now };
    let mut fields = input.0.split(|&byte| byte == b'\n');
    let mut field = |bit: u8| if flags >> bit & 1 != 0 { fields.next() } else { None };
    let conditions = conditional::Conditions {
        if_match: field(0),
        if_none_match: field(1),
        if_modified_since: field(2),
        if_unmodified_since: field(3),
        if_range: field(4),
    };
    let contains = |field: &[u8], weak_too: bool| {
        let tags = expected_tags(field).unwrap_or_default();
        trimmed(field) == b"*" || tags.iter().any(|(is_weak, tag)| *tag == known.tag && (weak_too || !is_weak))
    };
    let time = |field: &[u8]| {
        let time = httpdate::parse_http_date(std::str::from_utf8(trimmed(field)).ok()?).ok()?;
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        Some(since.map_or(0, |since| since.as_secs()))
    };
    let has_failed = match (conditions.if_match, conditions.if_unmodified_since) {
        (Some(field), _) => !contains(field, false),
        (None, Some(field)) => time(field).is_some_and(|time| time < known.modified),
        _ => false,
    };
    let is_unchanged = match (conditions.if_none_match, conditions.if_modified_since) {
        (Some(field), _) => contains(field, true),
        (None, Some(field)) => time(field).is_some_and(|time| time >= known.modified),
        _ => false,
    };
    let expected = match (has_failed, is_unchanged) {
        (true, _) => conditional::Verdict::Failed,
        (_, true) => conditional::Verdict::NotModified,
        _ => conditional::Verdict::Send,
    };
    let verdict = conditional::evaluate(&conditions, &known);
    assert_eq!(verdict, expected, "readers agree on {conditions:?}");
    let allows = conditional::allows_range(&conditions, &known);
    let expected = conditions
        .if_range
        .map(trimmed)
        .is_none_or(|field| field == known.tag || time(field) == Some(known.modified) && now > known.modified);
    assert_eq!(allows, expected, "readers agree on the range of {conditions:?}");
    note(text, format_args!("{verdict:?} {allows}"));
}

/// Returns the date of a second by counting years and months.
fn expected_date(second: u64) -> String {
    let (mut day, time) = (second / 86_400, second % 86_400);
    let week_day = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(day % 7) as usize];
    // 400 years have 146,097 days.
    let mut year = 1970 + day / 146_097 * 400;
    day %= 146_097;
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{week_day}, {:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT", day + 1, names[month])
}

fn dates(mut input: Input<'_>, text: &mut String) {
    let mut cache = date::DateCache::new();
    while !input.0.is_empty() {
        let shift = u32::from(input.byte() % 64);
        let second = input.bytes(8).iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)) >> shift;
        let found = date::format(second);
        let expected = expected_date(second.min(date::LAST_SECOND));
        assert_eq!(String::from_utf8_lossy(&found), expected, "second {second}");
        assert_eq!(cache.get(second), &found);
        note(text, format_args!("{expected}"));
    }
}

fn elements(field: &[u8], text: &mut String) {
    let list = forwarded::list(field);
    let all: Vec<_> = field.split(|&byte| byte == b',').map(trimmed).collect();
    assert_eq!(list, all[all.len().saturating_sub(forwarded::MAX_ELEMENTS)..]);
    let Some(found) = forwarded::elements(field) else { return note(text, format_args!("malformed")) };
    assert!(found.len() <= forwarded::MAX_ELEMENTS);
    let written: Vec<Vec<u8>> = found.iter().map(written).collect();
    assert_eq!(forwarded::elements(&written.join(&b','),), Some(found.clone()), "written elements are read equally");
    note(text, format_args!("{} elements", found.len()));
}

/// Writes an element with quoted values in which each byte is escaped.
fn written(element: &forwarded::Element) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [("for", &element.node), ("Proto", &element.proto), ("HOST", &element.host)] {
        if let Some(value) = value {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            out.extend(value.iter().flat_map(|byte| [b'\\', *byte]));
            out.extend_from_slice(b"\";");
        }
    }
    out
}

fn nodes(field: &[u8], text: &mut String) {
    let is_trusted = |address: IpAddr| matches!(address, IpAddr::V4(address) if address.octets()[0] == 10);
    let nodes: Vec<_> = forwarded::list(field).into_iter().map(forwarded::node).collect();
    for (address, port) in nodes.iter().flatten() {
        assert_eq!(address.to_canonical(), *address);
        let bare = address.to_string();
        assert_eq!(forwarded::node(bare.as_bytes()), Some((*address, None)));
        let port = port.unwrap_or(80);
        let with_port = SocketAddr::new(*address, port).to_string();
        assert_eq!(forwarded::node(with_port.as_bytes()), Some((*address, Some(port))));
    }
    let client = forwarded::client(&nodes, is_trusted);
    if let Some((index, address, port)) = client {
        assert_eq!(nodes[index], Some((address, port)));
        let after = nodes[index + 1..].iter();
        assert!(after.clone().all(|node| node.is_some_and(|(address, _)| is_trusted(address))), "a gap in the trust");
        assert!(!is_trusted(address) || index == 0 || nodes[index - 1].is_none());
    } else {
        assert!(nodes.last().is_none_or(Option::is_none));
    }
    note(text, format_args!("{:?}", client.map(|(index, address, port)| (index, address.to_string(), port))));
}

fn proxy(bytes: &[u8], text: &mut String) {
    let whole = proxy_protocol::parse(bytes);
    for length in 0..bytes.len() {
        let part = proxy_protocol::parse(&bytes[..length]);
        assert!(part == Parsed::More || part == whole, "{part:?} after {length} bytes, {whole:?} after all");
    }
    let Parsed::Header(header) = whole else { return note(text, format_args!("{whole:?}")) };
    let most = if bytes[0] == b'P' { proxy_protocol::MAX_V1 } else { proxy_protocol::MAX_V2 };
    assert!(header.length <= bytes.len() && header.length <= most);
    assert_eq!(proxy_protocol::parse(&bytes[..header.length]), whole, "the rest does not matter");
    if let Some(client) = header.client {
        let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
        let line = format!("PROXY {family} {} {} {} 80\r\n", client.ip(), client.ip(), client.port());
        let expected = Parsed::Header(Header { length: line.len(), client: Some(client), is_tls: false });
        // A zone is no part of the address.
        assert_eq!(proxy_protocol::parse(line.as_bytes()), expected, "{line}");
    }
    note(text, format_args!("{:?} {}", header.client, header.is_tls));
}

/// Returns seeds of [`header_fields`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let input = |field: u8, head: &[u8], text: &str| [&[field], head, text.as_bytes()].concat();
    let tls =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x15\x01\x02\x03\x04\x05\x06\x07\x08\0\x50\x01\xbb\x20\0\x06\x01\0\0\0\0\0";
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let six =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24"[..], &[0; 10], b"\xff\xff\x01\x02\x03\x04", &[1; 20], b"rest"].concat();
    vec![
        input(0, b"", "a=1; b=\"two\";c=x=y ; bad; =none; d e=1; f=\"; g=\"\""),
        input(1, &[47, 0, 0, 0, 0], "bytes=0-"),
        input(1, &[0, 0, 0, 3, 232], "Bytes=0-9, 20-29,-5,990-"),
        input(1, &[0, 0, 0, 3, 232], "bytes=0-9, 20-29,-5,1000-"),
        input(1, &[63, 0, 0, 0, 0], "bytes=18446744073709551614-99999999999999999999,-1"),
        input(1, &[63, 0, 0, 0, 0], "bytes=5-18446744073709551615"),
        input(1, &[0, 0, 0, 3, 232], "bytes=9-5"),
        input(2, b"", "br;q=0.5, gzip;q=0.8, *;q=0.001"),
        input(2, b"", "identity;q=0.5, X-GZIP, br;Q=0.4, gzip;q=2"),
        input(3, &[3, 0], "\"b\", W/\"a\"\n*"),
        input(3, &[3, 0], "\"b\",,\"a\"\nW/\"a\" "),
        input(3, &[4 | 8 | 16, 1], &format!("{date}\n{date}\n{date}")),
        input(3, &[16, 0], "\"a\""),
        input(4, &[0, 0, 0, 0, 0, 0x2e, 0xbc, 0x98, 0xa1], ""),
        input(4, &[0, 255, 255, 255, 255, 255, 255, 255, 255, 8, 1, 1, 1, 1, 1, 1, 1, 1], ""),
        input(5, b"", "for=192.0.2.60;proto=http;by=203.0.113.43, For=\"[2001:db8::1]:4711\" ; HOST=\"a.b:80\",for=_x"),
        input(5, b"", "for=\"a\\\"b\",,for=1"),
        input(5, b"", "for = a"),
        input(6, b"", "1.2.3.4, [::ffff:5.6.7.8]:90, 10.0.0.1:_x,10.0.0.2"),
        input(6, b"", "unknown, 10.0.0.2:80"),
        input(6, b"", "10.0.0.2, _hidden"),
        input(7, b"", "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET / HTTP/1.1\r\n"),
        input(7, b"", "PROXY TCP6 ::ffff:1.2.3.4 ::1 1 65535\r\n"),
        input(7, b"", "PROXY UNKNOWN anything\r\n"),
        input(7, b"", "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n"),
        input(7, tls, ""),
        input(7, &six, ""),
        input(7, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", ""),
        input(7, b"", "GET / HTTP/1.1\r\n"),
        input(7, b"", "PROXY TCP4 1.2"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_every_field() {
        let all: Vec<_> = seeds().iter().map(|seed| header_fields(seed)).collect();
        let expected = [
            "5 cookies",
            "0 of 0 bytes",
            "ignored",
            "25 of 1000 bytes",
            "ignored",
            "18446744073709551610 of 18446744073709551615 bytes",
            "ignored",
            "[\"gzip\", \"br\"]",
            "[\"gzip\"]",
            "Failed true",
            "NotModified true",
            "NotModified true",
            "Send true",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Fri, 31 Dec 9999 23:59:59 GMT Fri, 31 Dec 9999 23:59:59 GMT",
            "3 elements",
            "3 elements",
            "malformed",
            "Some((1, \"5.6.7.8\", Some(90)))",
            "Some((1, \"10.0.0.2\", Some(80)))",
            "None",
            "Some(192.0.2.1:56324) false",
            "Some(1.2.3.4:1) false",
            "None false",
            "Malformed",
            "Some(1.2.3.4:80) true",
            "Some(1.2.3.4:257) false",
            "None false",
            "Absent",
            "More",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in 0..=255 {
                header_fields(&vec![first; length]);
            }
        }
    }
}
