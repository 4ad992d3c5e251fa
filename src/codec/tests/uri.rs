//! Percent-encoding, queries, path normalisation.

use proptest::prelude::*;

use super::super::uri::*;

fn decoded(text: &str, plus_is_space: bool) -> Result<Vec<u8>, BadEscape> {
    let mut out = Vec::new();
    percent_decode(text.as_bytes(), plus_is_space, &mut out).map(|()| out)
}

fn normal(raw: &[u8]) -> Result<String, BadEscape> {
    let mut out = Vec::new();
    normalize_path(raw, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn pairs(query: &str) -> Vec<(&[u8], Option<&[u8]>)> {
    query_pairs(query.as_bytes()).collect()
}

#[test]
fn escapes_are_decoded_exactly() {
    assert_eq!(decoded("a%20b%2Fc%2f%00%ff", false).unwrap(), b"a b/c/\0\xff");
    assert_eq!(decoded("%2525", false).unwrap(), b"%25");
}

#[test]
fn malformed_escapes_are_errors() {
    for text in ["%", "a%", "%4", "%zz", "%4z", "%z4", "%%41", "%+1", "% 1", "%u0041"] {
        assert_eq!(decoded(text, true), Err(BadEscape), "{text}");
        assert_eq!(normal(text.as_bytes()), Err(BadEscape), "{text}");
    }
}

#[test]
fn plus_is_a_space_only_on_request() {
    assert_eq!(decoded("a+b%2B", false).unwrap(), b"a+b+");
    assert_eq!(decoded("a+b%2B", true).unwrap(), b"a b+");
}

#[test]
fn decoding_is_skipped_only_if_it_would_copy() {
    assert!(needs_decode(b"a%41", false) && needs_decode(b"a+b", true));
    assert!(!needs_decode(b"a+b", false) && !needs_decode(b"abc", true));
}

#[test]
fn encoding_escapes_all_but_unreserved_characters() {
    let mut out = Vec::new();
    percent_encode("a-Z_0.~ /+%&=\u{e9}\n".as_bytes(), &mut out);
    assert_eq!(out, b"a-Z_0.~%20%2F%2B%25%26%3D%C3%A9%0A");
}

#[test]
fn pairs_keep_order_and_repeats() {
    assert_eq!(pairs("a=1&b=2&a=3"), [(&b"a"[..], Some(&b"1"[..])), (b"b", Some(b"2")), (b"a", Some(b"3"))]);
}

/// Regression of ant.webserver: a key without `=` consumed the next pair as well.
#[test]
fn a_key_without_equals_does_not_consume_the_next_pair() {
    assert_eq!(pairs("a&b=2"), [(&b"a"[..], None), (b"b", Some(&b"2"[..]))]);
}

#[test]
fn only_the_first_equals_separates() {
    assert_eq!(pairs("a=b=c"), [(&b"a"[..], Some(&b"b=c"[..]))]);
    assert_eq!(pairs("=v"), [(&b""[..], Some(&b"v"[..]))]);
    assert_eq!(pairs("a="), [(&b"a"[..], Some(&b""[..]))]);
}

#[test]
fn empty_pairs_are_skipped() {
    assert_eq!(pairs(""), []);
    assert_eq!(pairs("&&a&"), [(&b"a"[..], None)]);
}

#[test]
fn equivalent_paths_have_one_normal_form() {
    assert_eq!(normal(b"/%61%2d%7E%41").unwrap(), "/a-~A");
    assert_eq!(normal(b"/a%2fb%3f%00").unwrap(), "/a%2Fb%3F%00");
    assert_eq!(normal(b"/caf\xc3\xa9 +\x7f").unwrap(), "/caf%C3%A9%20+%7F");
    assert_eq!(normal(b"/%2525").unwrap(), "/%2525");
}

#[test]
fn dot_segments_become_visible_but_stay() {
    assert_eq!(normal(b"/a/%2e%2E/../b").unwrap(), "/a/../../b");
}

proptest! {
    #[test]
    fn encoded_bytes_decode_to_themselves(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut encoded = Vec::new();
        percent_encode(&bytes, &mut encoded);
        let mut out = Vec::new();
        prop_assert_eq!(percent_decode(&encoded, true, &mut out), Ok(()));
        prop_assert_eq!(out, bytes);
    }

    #[test]
    fn a_normal_path_is_its_own_normal_form(raw in "(/|%[0-9a-fA-F]{2}|\\PC){0,30}") {
        let once = normal(raw.as_bytes()).ok();
        prop_assume!(once.is_some());
        let once = once.unwrap();
        prop_assert_eq!(normal(once.as_bytes()), Ok(once.clone()));
        let mut meant = (Vec::new(), Vec::new());
        percent_decode(raw.as_bytes(), false, &mut meant.0).unwrap();
        percent_decode(once.as_bytes(), false, &mut meant.1).unwrap();
        prop_assert_eq!(meant.0, meant.1);
    }

    #[test]
    fn a_plain_path_is_its_own_normal_form(raw in "[!-~]{0,30}") {
        if path_is_plain(raw.as_bytes()) {
            prop_assert_eq!(normal(raw.as_bytes()), Ok(raw));
        }
    }
}
