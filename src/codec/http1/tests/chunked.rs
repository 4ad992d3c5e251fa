//! The chunked decoder.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::chunked::Chunked;
use super::super::reject::Reject;
use super::super::stored_section;
use super::super::write::chunk;

/// The result of decoding a whole body.
#[derive(Debug, PartialEq)]
struct WholeBody {
    data: Vec<u8>,
    trailers: Vec<u8>,
    /// The number of bytes after the body.
    rest: usize,
}

/// Decodes `wire` in pieces that end at `cuts`; `None` if the body is incomplete.
fn decode_in(wire: &[u8], cuts: &[usize]) -> Result<Option<WholeBody>, Reject> {
    let mut decoder = Chunked::new();
    let mut start = 0;
    let mut data = Vec::new();
    for end in cuts.iter().copied().chain([wire.len()]) {
        loop {
            let buf = &wire[start..end];
            let step = decoder.next(buf)?;
            let run = step.data.clone();
            data.extend_from_slice(run.as_ref().map_or(&[], |run| &buf[run.clone()]));
            start += step.consumed;
            if step.done {
                return Ok(Some(WholeBody {
                    trailers: buf[step.trailers.expect("trailers when done")].to_vec(),
                    data,
                    rest: wire.len() - start,
                }));
            }
            if run.is_none() {
                break;
            }
        }
    }
    Ok(None)
}

fn decode(wire: impl AsRef<[u8]>) -> Result<Option<WholeBody>, Reject> {
    decode_in(wire.as_ref(), &[])
}

fn data(wire: impl AsRef<[u8]>) -> Vec<u8> {
    decode(wire).expect("not refused").expect("complete").data
}

fn refuse(wire: impl AsRef<[u8]>) -> u16 {
    decode(wire).expect_err("refused").status
}

#[test]
fn chunks_are_joined_and_the_next_request_is_left() {
    let decoded = decode("5\r\nhello\r\n1\r\n \r\n6\r\nworld!\r\n0\r\n\r\nGET /").unwrap().unwrap();
    assert_eq!(decoded.data, b"hello world!");
    assert_eq!(decoded.trailers, b"\r\n");
    assert_eq!(decoded.rest, 5);
}

#[test]
fn sizes_are_hexadecimal_in_either_case() {
    let wire = format!("00a\r\n{0}\r\nB\r\n{0}b\r\n0000\r\n\r\n", "0123456789");
    assert_eq!(data(wire), b"01234567890123456789b");
}

#[test]
fn extensions_are_ignored() {
    for extension in
        [";a", ";a=b", " ; a = \"b;c\"", "\t;x", ";\u{e9}", ";a=\"\"", ";a=\"\\\"\\\\\" ;b\t= c;d", ";  a  ;b"]
    {
        assert_eq!(data(format!("1{extension}\r\nx\r\n0{extension}\r\n\r\n")), b"x");
    }
}

#[test]
fn extensions_that_are_empty_or_unbalanced_are_refused() {
    for extension in [
        ";",
        ";;a",
        ";a;",
        "; ",
        ";=b",
        ";a=",
        ";a=;b",
        ";a= ",
        ";a=\"b",
        ";a=\"",
        ";a=\"b\\\"",
        ";a=b\"",
        ";a=\"b\"c",
        ";\"a\"",
        ";a b",
        ";a=b c",
        ";a=b=c",
        ";a ",
        ";a,b",
        ";a=\"b\" ",
    ] {
        for wire in [format!("1{extension}\r\nx\r\n0\r\n\r\n"), format!("1\r\nx\r\n0{extension}\r\n\r\n")] {
            assert_eq!(refuse(wire), 400, "{extension:?}");
        }
    }
}

#[test]
fn sizes_that_are_not_plain_digits_are_refused() {
    for size in ["", "+1", "-1", "0x1", " 1", "\t1", "g", "1g", "1 ", "1 1", ";a", "1\t", "\u{661}"] {
        assert_eq!(refuse(format!("{size}\r\nx\r\n0\r\n\r\n")), 400, "{size:?}");
    }
}

#[test]
fn sizes_of_more_than_16_digits_are_refused() {
    assert_eq!(data("0000000000000001\r\nx\r\n0\r\n\r\n"), b"x");
    assert_eq!(refuse("00000000000000001\r\nx\r\n0\r\n\r\n"), 400);
}

#[test]
fn sizes_beyond_lua_integers_are_refused() {
    assert_eq!(refuse("8000000000000000\r\n"), 400);
    assert_eq!(refuse("ffffffffffffffff\r\n"), 400);
    assert_eq!(decode("7fffffffffffffff\r\n").unwrap(), None);
}

#[test]
fn the_sum_of_sizes_cannot_overflow() {
    assert_eq!(refuse("1\r\nx\r\n7fffffffffffffff\r\n"), 400);
    assert_eq!(decode("1\r\nx\r\n7ffffffffffffffe\r\n").unwrap(), None);
}

#[test]
fn the_announced_size_is_known_before_the_data() {
    let mut decoder = Chunked::new();
    decoder.next(b"10\r\nx").unwrap();
    assert_eq!(decoder.announced(), 16);
}

#[test]
fn chunk_lines_end_with_crlf_only() {
    for wire in ["1\nx\r\n", "1\r\rx", "1\rx", "1;a\nx\r\n", "1;a\r;b\r\n", "1;a\0\r\n", "1;\x7f"] {
        assert_eq!(refuse(wire), 400, "{wire:?}");
    }
}

#[test]
fn chunk_data_ends_with_crlf_only() {
    for wire in ["1\r\nx\n0\r\n\r\n", "1\r\nxy\r\n", "1\r\nx\r1\r\n", "1\r\nx0\r\n\r\n"] {
        assert_eq!(refuse(wire), 400, "{wire:?}");
    }
}

#[test]
fn extensions_of_one_line_are_bounded() {
    let wire = |length: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(length - 1));
    assert_eq!(data(wire(4096)), b"x");
    assert_eq!(refuse(wire(4097)), 400);
    assert_eq!(refuse(format!("1{};a\r\nx\r\n", " ".repeat(4097))), 400);
}

#[test]
fn extensions_cannot_outweigh_the_data_forever() {
    let small = format!("1;{}\r\nx\r\n", "e".repeat(999));
    assert_eq!(decode(small.repeat(16)).unwrap(), None);
    assert_eq!(refuse(small.repeat(18)), 400);
    // A signature on each chunk of an upload is allowed.
    let signed = format!("800;{}\r\n{}\r\n", "s".repeat(999), "x".repeat(0x800));
    assert_eq!(decode(signed.repeat(200)).unwrap(), None);
}

#[test]
fn trailers_are_returned_and_can_be_parsed() {
    let decoded = decode("0\r\nA: b\r\nSum:  1 \r\n\r\nrest").unwrap().unwrap();
    assert_eq!(decoded.rest, 4);
    let found: Vec<_> = stored_section::fields(&decoded.trailers).collect();
    assert_eq!(found, [(&b"A"[..], &b"b"[..]), (b"Sum", b"1")]);
}

#[test]
fn malformed_trailers_are_refused() {
    for section in ["A b\r\n\r\n", "A : b\r\n\r\n", "A: b\n\r\n", "\n", " A: b\r\n\r\n", "A: b\r\n\n"] {
        assert_eq!(refuse(format!("0\r\n{section}")), 400, "{section:?}");
    }
    assert_eq!(decode("0\r\nA: b\r\n").unwrap(), None);
}

#[test]
fn trailers_are_bounded_in_bytes_and_number() {
    let long = |length: usize| format!("0\r\nA: {}\r\n\r\n", "x".repeat(length - 7));
    assert!(decode(long(8192)).unwrap().is_some());
    assert_eq!(refuse(long(8193)), 431);
    assert_eq!(refuse(&long(9000)[..8500]), 431);
    let many = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(decode(many(64)).unwrap().is_some());
    assert_eq!(refuse(many(65)), 431);
}

#[test]
fn a_finished_decoder_consumes_no_bytes() {
    let mut decoder = Chunked::new();
    assert!(decoder.next(b"0\r\n\r\n").unwrap().done);
    let step = decoder.next(b"GET /").unwrap();
    assert!(step.done && step.consumed == 0 && step.trailers.is_none());
}

#[test]
fn one_byte_chunks_cost_linear_time() {
    let wire = [b"1\r\nx\r\n".repeat(1_000_000), b"0\r\n\r\n".to_vec()].concat();
    let begun = Instant::now();
    assert_eq!(data(wire).len(), 1_000_000);
    // A decoder that examines the rest of the body for each chunk would take hours.
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn every_split_of_a_body_gives_the_same_result() {
    let wire = b"3;a=b\r\nabc\r\n1 ;c\r\nd\r\n0;e\r\nT: u\r\n\r\nnext";
    let whole = decode(wire).unwrap();
    for first in 0..wire.len() {
        for second in first..wire.len() {
            assert_eq!(decode_in(wire, &[first, second]).unwrap(), whole);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_chunking_and_any_split_decode_to_the_original(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut wire = Vec::new();
        pieces.iter().for_each(|piece| chunk(&mut wire, piece));
        wire.extend_from_slice(b"0\r\n\r\n");
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.sort_unstable();
        let decoded = decode_in(&wire, &cuts).unwrap().unwrap();
        prop_assert_eq!(decoded.data, pieces.concat());
        prop_assert_eq!(decoded.rest, 0);
    }

    #[test]
    fn garbage_does_not_panic_and_splits_do_not_matter(
        wire in "([0-3af]|[0-9]{17}|;|\r\n|\r|\n|\r\n\r\n|A: b| |x|\\PC){0,40}",
    ) {
        let cuts: Vec<_> = (0..wire.len()).collect();
        let whole = decode(&wire).map_err(|r| r.status);
        prop_assert_eq!(decode_in(wire.as_bytes(), &cuts).map_err(|r| r.status), whole);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(wire in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(wire);
    }
}
