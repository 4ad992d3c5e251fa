//! Request heads that are accepted, and their parts.

use super::super::head::{Limits, Method, TargetForm};
use super::{accept, get, parse, parse_within, refuse};

#[test]
fn a_request_is_split_into_its_parts() {
    let text = "POST /a/b?x=1&y HTTP/1.1\r\nHost: example.org:8080\r\nX-Empty:\r\nAccept:  */* \t\r\n\r\nbody";
    let parsed = accept(text);
    assert_eq!(parsed.method(), "POST");
    assert_eq!(parsed.head.method_id, Method::Post);
    assert_eq!(parsed.path(), "/a/b");
    assert_eq!(parsed.query(), Some("x=1&y"));
    assert_eq!(parsed.host(), Some("example.org:8080"));
    assert_eq!(parsed.head.version, 11);
    assert_eq!(parsed.head.head_len, text.len() - "body".len());
    assert_eq!(parsed.head.target_form, TargetForm::Origin);
    assert_eq!(parsed.fields(), [("Host", &b"example.org:8080"[..]), ("X-Empty", b""), ("Accept", b"*/*")]);
}

#[test]
fn standard_methods_are_case_sensitive_and_others_are_accepted() {
    for (name, id) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("OPTIONS", Method::Options),
        ("TRACE", Method::Trace),
        ("PATCH", Method::Patch),
        ("get", Method::Other),
        ("PROPFIND", Method::Other),
        ("M-SEARCH", Method::Other),
        ("!#$%&'*+.^_`|~", Method::Other),
    ] {
        let parsed = accept(format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(parsed.head.method_id, id);
        assert_eq!(parsed.method(), name);
    }
}

#[test]
fn an_empty_query_differs_from_none() {
    assert_eq!(accept("GET /? HTTP/1.0\r\n\r\n").query(), Some(""));
    assert_eq!(accept("GET / HTTP/1.0\r\n\r\n").query(), None);
    assert_eq!(accept("GET /?a?b HTTP/1.0\r\n\r\n").query(), Some("a?b"));
}

#[test]
fn absolute_form_overrides_host() {
    let parsed = accept("GET HTTP://b.example:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(parsed.head.target_form, TargetForm::Absolute);
    assert_eq!(parsed.host(), Some("b.example:81"));
    assert_eq!(parsed.path(), "/p");
    assert_eq!(parsed.query(), Some("q"));
}

#[test]
fn absolute_form_without_path_means_the_root() {
    let parsed = accept("GET https://b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((parsed.path(), parsed.query()), ("/", None));
    let parsed = accept("GET http://b?q/r HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((parsed.path(), parsed.query()), ("/", Some("q/r")));
    assert_eq!(parsed.host(), Some("b"));
}

#[test]
fn absolute_form_still_needs_a_host_field() {
    assert_eq!(refuse("GET http://b/ HTTP/1.1\r\n\r\n"), 400);
}

#[test]
fn asterisk_form_is_for_options_only() {
    let parsed = accept("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(parsed.head.target_form, TargetForm::Asterisk);
    assert_eq!(parsed.path(), "*");
    let parsed = accept("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(parsed.head.target_form, TargetForm::Asterisk);
    assert_eq!(parsed.path(), "*");
    assert_eq!(refuse("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refuse("OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

#[test]
fn authority_form_is_for_connect_only() {
    let parsed = accept("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n");
    assert_eq!(parsed.head.target_form, TargetForm::Authority);
    assert_eq!(parsed.host(), Some("b:443"));
    assert_eq!(parsed.path(), "");
    accept("CONNECT [::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refuse("GET b:443 HTTP/1.1\r\nHost: b\r\n\r\n"), 400);
    for target in ["/", "b", "b:", "b:0x1", "http://b/", "*", "u@b:1", ":443", "[::1]", "b:1/"] {
        let text = format!("CONNECT {target} HTTP/1.1\r\nHost: b\r\n\r\n");
        assert_eq!(refuse(&text), 400, "{target}");
    }
}

#[test]
fn target_bytes_beyond_ascii_are_accepted_even_if_not_utf8() {
    let parsed = accept(b"GET /caf\xe9?\xff HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(parsed.head.path(&parsed.buf), b"/caf\xe9");
}

#[test]
fn value_bytes_beyond_ascii_and_tabs_are_accepted() {
    let parsed = accept(b"GET / HTTP/1.0\r\nA: x\ty \xff\r\n\r\n");
    assert_eq!(parsed.fields(), [("A", &b"x\ty \xff"[..])]);
}

#[test]
fn one_or_two_empty_lines_before_the_request_are_skipped() {
    for skipped in ["\r\n", "\r\n\r\n"] {
        let text = format!("{skipped}{}", get(""));
        let parsed = accept(&text);
        assert_eq!(parsed.method(), "GET");
        assert_eq!(parsed.head.head_len, text.len());
    }
    assert_eq!(refuse("\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n"), 400);
    assert_eq!(refuse("\nGET / HTTP/1.0\r\n\r\n"), 400);
}

#[test]
fn host_is_optional_on_1_0_and_may_be_empty() {
    assert_eq!(accept("GET / HTTP/1.0\r\n\r\n").host(), None);
    assert_eq!(accept("GET / HTTP/1.1\r\nHost:\r\n\r\n").host(), Some(""));
}

#[test]
fn plausible_hosts_are_accepted() {
    for host in ["a", "A.b-c_d~", "127.0.0.1:80", "[::1]", "[::ffff:1.2.3.4]:65535", "a:", "a%20b"] {
        let parsed = accept(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(parsed.host(), Some(host));
    }
}

#[test]
fn a_host_of_escapes_needs_no_deep_stack() {
    let host = "%41".repeat(10_000);
    let parsed = accept(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(parsed.host(), Some(&*host));
}

#[test]
fn many_fields_are_parsed_up_to_the_limit() {
    for (count, limit) in [(31, 100), (32, 100), (99, 100), (255, 256), (255, 999), (3, 4)] {
        let lines: String = (0..count).map(|i| format!("N{i}: {i}\r\n")).collect();
        let limits = Limits { fields: limit, ..Limits::default() };
        let parsed = parse_within(get(&lines).as_bytes(), &limits).unwrap().unwrap();
        assert_eq!(parsed.fields().len(), count + 1);
        let last = (format!("N{}", count - 1), (count - 1).to_string());
        assert_eq!(parsed.fields()[count], (&*last.0, last.1.as_bytes()));
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    for (version, lines, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: CLOSE\r\n", false),
        ("1.1", "Connection: keep-alive, Close\r\n", false),
        ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "Connection: x,\ty , , close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: x\r\nConnection: y, keep-alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let parsed = accept(format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(parsed.head.keep_alive, expected, "{version} {lines}");
    }
}

#[test]
fn an_upgrade_needs_both_fields_and_1_1() {
    let both = "Connection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n";
    assert!(accept(get(both)).head.upgrade);
    assert!(!accept(get("Upgrade: websocket\r\n")).head.upgrade);
    assert!(!accept(get("Connection: upgrade\r\n")).head.upgrade);
    assert!(!accept(format!("GET / HTTP/1.0\r\n{both}\r\n")).head.upgrade);
}

#[test]
fn a_client_waits_only_if_its_version_allows_it_and_it_has_a_body() {
    let lines = "Expect: 100-Continue\r\nContent-Length: 5\r\n";
    assert!(accept(get(lines)).head.expect_continue);
    assert!(!accept(format!("PUT / HTTP/1.0\r\n{lines}\r\n")).head.expect_continue);
    // A client that sends no body does not wait.
    assert!(!accept(get("Expect: 100-continue\r\n")).head.expect_continue);
    assert_eq!(refuse(get("Expect: 200-ok\r\n")), 417);
}

#[test]
fn a_prefix_of_a_request_is_incomplete() {
    let text = get("Accept: */*\r\n");
    for length in 0..text.len() {
        assert!(parse(&text[..length]).unwrap().is_none(), "{length}");
    }
}

#[test]
fn bytes_after_the_head_are_not_examined() {
    let mut text = get("").into_bytes();
    let length = text.len();
    text.extend_from_slice(b"\x00\n\r garbage");
    assert_eq!(accept(text).head.head_len, length);
}
