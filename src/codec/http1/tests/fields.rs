//! The parser of field lines, tested directly: sections in the middle of a buffer, token bytes.

use super::super::fields::{Field, MAX_FIELDS, NO_FIELDS, Section, is_token, is_worth_parsing, parse_section};

#[test]
fn spans_are_relative_to_the_start_of_the_buffer() {
    let buf = b"garbage\r\nA: b\r\n\r\nrest";
    let mut out = [Field::default(); 4];
    let section = parse_section(buf, 9, 100, 4, &mut out).unwrap();
    assert_eq!(section, Section::Complete { end: 17, count: 1 });
    assert_eq!(out[0].name.of(buf), b"A");
    assert_eq!(out[0].value.of(buf), b"b");
}

#[test]
fn a_table_smaller_than_the_limit_is_the_limit() {
    let mut out = [Field::default(); 1];
    let refused = parse_section(b"A: b\r\nC: d\r\n\r\n", 0, 100, MAX_FIELDS, &mut out);
    assert_eq!(refused.unwrap_err().status, 431);
}

#[test]
fn the_first_fault_decides() {
    let mut out = NO_FIELDS;
    let status = |text: &str, out: &mut [Field]| parse_section(text.as_bytes(), 0, 1000, 2, out).unwrap_err().status;
    assert_eq!(status("A: b\nA: b\r\nA: b\r\n\r\n", &mut out), 400);
    assert_eq!(status("A: b\r\nA: b\r\nA: b\r\nA: b\n\r\n", &mut out), 431);
}

#[test]
fn an_empty_section_is_its_blank_line() {
    let section = parse_section(b"\r\n", 0, 2, 0, &mut []).unwrap();
    assert_eq!(section, Section::Complete { end: 2, count: 0 });
}

#[test]
fn tokens_are_not_empty() {
    assert!(is_token(b"Content-Length"));
    for bad in [&b""[..], b"a b", b"a:", b"\xe9", b"a\r"] {
        assert!(!is_token(bad));
    }
}

#[test]
fn only_blank_lines_and_bare_line_feeds_are_worth_parsing() {
    for (text, from, expected) in [
        (&b"a\r\nb\r\n"[..], 0, false),
        (b"a\r\n\r\n", 0, true),
        (b"a\r\n\r\n", 4, true),
        (b"a\r\n\r\n", 5, false),
        (b"\r\n", 1, true),
        (b"a\n", 0, true),
        (b"\n", 0, true),
        (b"a\n\r\n", 2, false),
    ] {
        assert_eq!(is_worth_parsing(text, from), expected, "{text:?} {from}");
    }
}
