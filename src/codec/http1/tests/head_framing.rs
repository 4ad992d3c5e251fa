//! How the end of a request body is determined. Ambiguous framing is refused.

use super::super::body::Framing;
use super::{accept, get, refuse};

fn framing(lines: &str) -> Framing {
    accept(get(lines)).head.framing
}

#[test]
fn without_either_field_there_is_no_body() {
    assert_eq!(framing(""), Framing::None);
}

#[test]
fn a_length_is_digits() {
    for (value, length) in [("0", 0), ("5", 5), ("007", 7), ("9223372036854775807", i64::MAX as u64)] {
        let lines = format!("content-LENGTH: {value}\r\n");
        assert_eq!(framing(&lines), Framing::Length(length));
    }
}

#[test]
fn a_length_contains_only_digits() {
    for value in ["", "+5", "-1", "0x5", "5 5", "5a", "5.0", "1e3", "\t5 6", "five", "5;a", "\"5\"", "\u{665}"] {
        assert_eq!(refuse(get(&format!("Content-Length: {value}\r\n"))), 400, "{value}");
    }
}

#[test]
fn an_overlong_length_is_refused() {
    for value in [
        "9223372036854775808",
        "9999999999999999999",
        "18446744073709551616",
        "00000000000000000005",
        "99999999999999999999999999999999",
    ] {
        assert_eq!(refuse(get(&format!("Content-Length: {value}\r\n"))), 400, "{value}");
    }
}

#[test]
fn a_repeated_length_is_refused() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5,5\r\n",
        "Content-Length: 5\t,05\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5,\r\n",
        "Content-Length: ,5\r\n",
        "Content-Length: 5\r\nContent-Length:\r\n",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5, 6\r\n",
    ] {
        assert_eq!(refuse(get(lines)), 400, "{lines}");
    }
}

#[test]
fn chunked_is_case_insensitive() {
    assert_eq!(framing("Transfer-Encoding: chunked\r\n"), Framing::Chunked);
    assert_eq!(framing("transfer-encoding: \tCHUNKed \r\n"), Framing::Chunked);
}

#[test]
fn chunked_with_a_length_is_refused() {
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: gzip\r\nContent-Length: 0\r\n",
    ] {
        assert_eq!(refuse(get(lines)), 400, "{lines}");
    }
}

#[test]
fn chunked_must_be_last_and_once() {
    for lines in [
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip, chunked, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked,\r\n",
    ] {
        assert_eq!(refuse(get(lines)), 400, "{lines}");
    }
}

#[test]
fn malformed_codings_are_refused() {
    for value in
        ["", ",", ", chunked", "chunked;q=1", "chunked ;", "\"chunked\"", "chun ked", "chunked gzip", "ch\u{fc}nked"]
    {
        assert_eq!(refuse(get(&format!("Transfer-Encoding: {value}\r\n"))), 400, "{value}");
    }
}

#[test]
fn unknown_codings_are_not_implemented() {
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip;level=9, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunkedx\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert_eq!(refuse(get(lines)), 501, "{lines}");
    }
}

#[test]
fn transfer_codings_do_not_exist_in_1_0() {
    let text = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refuse(text), 400);
}

#[test]
fn fields_with_similar_names_do_not_affect_the_framing() {
    let lines = "Content_Length: 5\r\nContent-Length2: 6\r\nTransfer-Encodin: chunked\r\n";
    assert_eq!(framing(lines), Framing::None);
}
