//! Request heads that are refused: one test per rule.

use super::super::head::Limits;
use super::{accept, get, parse, parse_within, refuse};

/// Asserts that `text` is refused with 400, even if the head is incomplete.
fn malformed(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    let shown = String::from_utf8_lossy(text);
    assert_eq!(refuse(text), 400, "{shown:?}");
}

#[test]
fn bare_line_feed_after_the_request_line() {
    malformed("GET / HTTP/1.1\nHost: a\r\n\r\n");
    malformed("GET / HTTP/1.1\n");
}

#[test]
fn bare_line_feed_after_a_field() {
    malformed("GET / HTTP/1.1\r\nHost: a\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\r\nX: y \n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\r\nX: \n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\nX");
}

#[test]
fn bare_line_feed_as_the_blank_line() {
    malformed("GET / HTTP/1.1\r\nHost: a\r\n\n");
    malformed("GET / HTTP/1.0\r\n\n");
    malformed("GET / HTTP/1.1\nHost: a\n\n");
}

#[test]
fn bare_carriage_return() {
    malformed("GET / HTTP/1.1\rHost: a\r\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n");
    malformed("GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n");
    malformed("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n");
    malformed("\rGET / HTTP/1.0\r\n\r\n");
}

#[test]
fn folded_fields() {
    malformed(get("X: a\r\n b\r\n"));
    malformed(get("X: a\r\n\tb\r\n"));
    malformed(get("X:\r\n b\r\n"));
}

#[test]
fn white_space_before_the_first_field() {
    malformed("GET / HTTP/1.1\r\n Host: a\r\n\r\n");
    malformed("GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n");
}

#[test]
fn white_space_before_the_colon() {
    malformed(get("X : y\r\n"));
    malformed(get("X\t: y\r\n"));
    malformed(get("Content-Length : 5\r\n"));
}

#[test]
fn empty_or_absent_field_names() {
    malformed(get(": y\r\n"));
    malformed(get("name\r\n"));
}

#[test]
fn field_names_with_bytes_that_are_not_token_bytes() {
    for byte in 0..=255u8 {
        let text = [b"GET / HTTP/1.0\r\nX", &[byte][..], b"Y: z\r\n\r\n"].concat();
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        match byte {
            b':' => assert_eq!(accept(text).fields(), [("X", &b"Y: z"[..])]),
            _ if is_token => assert_eq!(accept(text).fields()[0].1, b"z"),
            _ => malformed(text),
        }
    }
}

#[test]
fn control_bytes_in_values() {
    for byte in (0..0x20).chain([0x7f]).filter(|b| *b != b'\t') {
        malformed([b"GET / HTTP/1.0\r\nX: a", &[byte][..], b"b\r\n\r\n"].concat());
        malformed([b"GET / HTTP/1.0\r\nX: ", &[byte][..], b"\r\n\r\n"].concat());
    }
}

#[test]
fn control_bytes_space_and_fragment_in_targets() {
    for byte in (0..=0x20).chain([0x7f, b'#']) {
        malformed([b"GET /a", &[byte][..], b"b HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        malformed([b"GET /?a", &[byte][..], b"b HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    }
}

#[test]
fn methods_that_are_not_tokens() {
    for byte in (0..=0x20).chain(*b"\"(),/:;<=>?@[\\]{}\x7f\x80\xff") {
        malformed([b"G", &[byte][..], b"T / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    }
    malformed(" / HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn more_than_one_space_or_a_tab_in_the_request_line() {
    malformed("GET  / HTTP/1.1\r\nHost: a\r\n\r\n");
    malformed("GET /  HTTP/1.1\r\nHost: a\r\n\r\n");
    malformed("GET / HTTP/1.1 \r\nHost: a\r\n\r\n");
    malformed("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n");
    malformed("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn targets_of_an_unknown_form() {
    for target in ["a", "a/b", "?q", "ftp://b/", "http:/b", "http://", "http:///p", "http://:80/"] {
        malformed(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    malformed("GET http://user@b/ HTTP/1.1\r\nHost: a\r\n\r\n");
    malformed("GET http://u:p@b/ HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn http_0_9_lines() {
    malformed("GET /\r\n");
    malformed("GET\r\n");
}

#[test]
fn malformed_versions() {
    for version in ["http/1.1", "HTTP/1", "HTTP/11", "HTTP/1.10", "HTTP/1,1", "HTTP/x.1", "HTPP/1.1"] {
        malformed(format!("GET / {version}\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn well_formed_versions_that_are_unknown() {
    for version in ["0.9", "1.2", "2.0", "3.0", "9.9"] {
        assert_eq!(refuse(format!("GET / HTTP/{version}\r\n")), 505);
    }
    assert_eq!(refuse("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn absent_host_on_1_1() {
    malformed("GET / HTTP/1.1\r\nX: y\r\n\r\n");
}

#[test]
fn more_than_one_host() {
    malformed(get("Host: a\r\n"));
    malformed(get("HOST: b\r\n"));
    malformed("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n");
}

#[test]
fn implausible_hosts() {
    for host in [
        "a b", "a,b c", "a/b", "u@a", "a:b", "a:65536", "a:80:80", "[::1", "::1", "[]", "[g::]", "[::1]x", "a%zz",
        "a%4", "a?b", "a#b", "a\\b", "\"a\"", "<a>", ":80", "h\u{e9}",
    ] {
        malformed(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
}

#[test]
fn tls_hello_at_its_first_bytes() {
    malformed([0x16, 3, 1]);
    malformed([0x16]);
}

#[test]
fn request_line_over_its_limit_without_waiting_for_its_end() {
    let limits = Limits::default();
    let line = |length: usize| {
        let fixed = "GET / HTTP/1.1".len();
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - fixed))
    };
    accept(line(limits.request_line));
    assert_eq!(refuse(line(limits.request_line + 1)), 414);
    let endless = format!("GET /{}", "a".repeat(limits.request_line));
    assert!(parse(&endless[..limits.request_line]).unwrap().is_none());
    assert_eq!(refuse(&endless[..limits.request_line + 1]), 414);
    assert_eq!(refuse("M".repeat(limits.request_line + 1)), 414);
}

#[test]
fn header_section_over_its_limit_without_waiting_for_its_end() {
    let limits = Limits { headers: 64, ..Limits::default() };
    let line = "GET / HTTP/1.1\r\n";
    let section = |length: usize| {
        let fixed = "Host: a\r\nX: \r\n\r\n".len();
        format!("{line}Host: a\r\nX: {}\r\n\r\n", "x".repeat(length - fixed))
    };
    let try_it = |text: &str| parse_within(text.as_bytes(), &limits);
    assert!(try_it(&section(64)).unwrap().is_some());
    assert_eq!(try_it(&section(65)).unwrap_err().status, 431);
    let endless = section(1000);
    assert!(try_it(&endless[..line.len() + 64]).unwrap().is_none());
    assert_eq!(try_it(&endless[..line.len() + 65]).unwrap_err().status, 431);
}

#[test]
fn more_fields_than_the_limit_without_waiting_for_the_end() {
    let lines = |count: usize| -> String { (0..count).map(|i| format!("N{i}: {i}\r\n")).collect() };
    accept(get(&lines(99)));
    assert_eq!(refuse(get(&lines(100))), 431);
    let incomplete = format!("GET / HTTP/1.1\r\n{}X", lines(101));
    assert_eq!(refuse(incomplete), 431);
    let limits = Limits { fields: 10_000, ..Limits::default() };
    let refused = parse_within(get(&lines(256)).as_bytes(), &limits);
    assert_eq!(refused.unwrap_err().status, 431);
}
