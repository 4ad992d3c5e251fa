//! `Range` fields (RFC 9110 section 14), and a model that counts each requested byte.

use super::super::range::{MAX_RANGES, parse};
use proptest::prelude::*;

/// Returns the ranges that a field selects from `size` bytes, each as first byte and length; `None` for the whole
/// representation.
fn parts(field: &str, size: u64) -> Option<Vec<(u64, u64)>> {
    let list = parse(field.as_bytes(), size)?;
    Some(list.iter().map(|span| (span.first, span.length)).collect())
}

fn check(field: &str, expected: &[(u64, u64)]) {
    assert_eq!(parts(field, 10).as_deref(), Some(expected), "{field}");
}

#[test]
fn the_three_forms() {
    check("bytes=0-4", &[(0, 5)]);
    check("bytes=5-", &[(5, 5)]);
    check("bytes=-3", &[(7, 3)]);
    check("bytes=9-9", &[(9, 1)]);
    check("BYTES= 0-0 ", &[(0, 1)]);
}

#[test]
fn ranges_are_cut_at_the_size() {
    check("bytes=8-100", &[(8, 2)]);
    check("bytes=-100", &[(0, 10)]);
    check("bytes=0-99999999999999999999999999", &[(0, 10)]);
    check("bytes=-99999999999999999999999999", &[(0, 10)]);
}

#[test]
fn ranges_keep_the_requested_order_and_those_outside_are_left_out() {
    check("bytes=5-6,0-1", &[(5, 2), (0, 2)]);
    check("bytes=0-1,20-30, -1", &[(0, 2), (9, 1)]);
    check("bytes=,0-1,,", &[(0, 2)]);
}

#[test]
fn only_ranges_outside_give_an_empty_list() {
    for field in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-11,30-", "bytes=99999999999999999999-"] {
        check(field, &[]);
    }
    assert_eq!(parts("bytes=0-", 0), Some(Vec::new()));
}

#[test]
fn malformed_fields_are_ignored() {
    let fields = [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "0-1",
        "items=0-1",
        "bytes =0-1",
        "bytes=-",
        "bytes=1",
        "bytes=2-1",
        "bytes=a-b",
        "bytes=0x1-2",
        "bytes=+1-2",
        "bytes=1-2-3",
        "bytes=0-1;2-3",
        "bytes=--1",
        "bytes=1 - 2",
        "bytes=0-1,x",
        "bytes=1.0-2",
    ];
    for field in fields {
        assert_eq!(parts(field, 10), None, "{field}");
    }
}

#[test]
fn overlapping_ranges_are_ignored() {
    for field in ["bytes=0-5,5-6", "bytes=0-,0-", "bytes=-5,0-5", "bytes=0-0,1-1,0-1"] {
        assert_eq!(parts(field, 10), None, "{field}");
    }
    check("bytes=0-4,5-9", &[(0, 5), (5, 5)]);
}

#[test]
fn too_many_ranges_are_ignored() {
    let list = |count: usize| {
        let each: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
        format!("bytes={}", each.join(","))
    };
    assert_eq!(parts(&list(MAX_RANGES), 1000).map(|list| list.len()), Some(MAX_RANGES));
    assert_eq!(parts(&list(MAX_RANGES + 1), 1000), None);
    assert_eq!(parts(&list(MAX_RANGES + 1), 1), None, "too many, even if most are outside");
}

#[test]
fn a_suffix_range_of_an_empty_file_is_ignored() {
    assert_eq!(parts("bytes=-5", 0), None);
}

/// Returns, for each byte, the number of ranges of a well-formed set that contain it.
fn asked(list: &[(Option<u64>, Option<u64>)], size: u64) -> Vec<u32> {
    let mut counts = vec![0; size as usize];
    for (first, last) in list {
        for (at, count) in (0..size).zip(&mut counts) {
            let inside = match (first, last) {
                (Some(first), Some(last)) => (*first..=*last).contains(&at),
                (Some(first), None) => at >= *first,
                (None, Some(last)) => at + last >= size && *last > 0,
                (None, None) => false,
            };
            *count += u32::from(inside);
        }
    }
    counts
}

proptest! {
    #[test]
    fn any_bytes_give_ranges_within_the_file(
        field in prop::collection::vec(any::<u8>(), 0..60),
        size in any::<u64>(),
    ) {
        let mut text = b"bytes=".to_vec();
        text.extend(field);
        for span in parse(&text, size).unwrap_or_default() {
            prop_assert!(span.length > 0 && span.first < size && span.length <= size - span.first);
        }
    }

    #[test]
    fn well_formed_sets_select_the_requested_bytes(
        list in prop::collection::vec((0u64..25, 0u64..8, 0u8..3), 1..6),
        size in 0u64..30,
    ) {
        let list: Vec<(Option<u64>, Option<u64>)> = list
            .into_iter()
            .map(|(first, more, form)| match form {
                0 => (Some(first), Some(first + more)),
                1 => (Some(first), None),
                _ => (None, Some(more)),
            })
            .collect();
        let shown = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let each: Vec<String> = list
            .iter()
            .map(|(first, last)| format!("{}-{}", shown(*first), shown(*last)))
            .collect();
        let counts = asked(&list, size);
        match parts(&format!("bytes={}", each.join(",")), size) {
            None => {
                let overlaps = counts.iter().any(|&count| count > 1);
                prop_assert!(overlaps || size == 0);
            }
            Some(parts) => {
                let mut got = vec![0; size as usize];
                for (first, length) in parts {
                    for count in &mut got[first as usize..(first + length) as usize] {
                        *count += 1;
                    }
                }
                prop_assert_eq!(got, counts);
            }
        }
    }
}
