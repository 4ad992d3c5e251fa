//! Properties for all inputs: no panic, the same result for any split of the bytes, linear work.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::fields::NO_FIELDS;
use super::super::head::{Head, Limits, Parser, Progress};
use super::parse_with_new;

/// Small limits, so that random text reaches them.
const LIMITS: Limits = Limits { request_line: 60, headers: 90, fields: 4 };

/// The result: a head with its fields, `None` if the head is incomplete, or the status of the refusal.
type Outcome = Result<Option<(Head, Vec<(u32, u32, u32, u32)>)>, u16>;

/// Feeds growing prefixes of `buf` that end at `cuts`, then all of `buf`.
fn feed(buf: &[u8], cuts: impl IntoIterator<Item = usize>) -> Outcome {
    let mut progress = Progress::default();
    let mut fields = NO_FIELDS;
    for cut in cuts.into_iter().chain([buf.len()]) {
        let found = parse_with_new(&buf[..cut], &LIMITS, &mut progress, &mut fields);
        let Some(head) = found.map_err(|r| r.status)? else {
            continue;
        };
        let spans = fields[..head.field_count].iter().map(|f| (f.name.start, f.name.end, f.value.start, f.value.end));
        return Ok(Some((head, spans.collect())));
    }
    Ok(None)
}

/// Generates requests from random pieces, which contain every fault that the rules cover.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "GET ",
        "POST ",
        "OPTIONS ",
        "/",
        "/a?b ",
        "* ",
        "http://h/ ",
        "HTTP/1.1\r\n",
        "HTTP/1.0\r\n",
        "HTTP/2.0\r\n",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "Host: a\r\n",
        "Host: b b\r\n",
        "X: y\r\n",
        "X:\r\n",
        "X: y\n",
        " folded\r\n",
        "X : y\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 6\r\n",
        "Content-Length: x\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Expect: x\r\n",
        "Connection: close\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "\0",
        "\u{e9}",
        "body",
        "0123456789012345678901234567890123456789",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_do_not_panic(buf in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = feed(&buf, []);
        let _ = feed(&buf, 0..buf.len());
    }

    #[test]
    fn byte_by_byte_gives_the_same_result(mut buf in request()) {
        buf.extend_from_slice(b"\r\n\r\n");
        prop_assert_eq!(feed(&buf, 0..buf.len()), feed(&buf, []));
    }

    #[test]
    fn any_split_gives_the_same_result(mut buf in request(), cut in any::<prop::sample::Index>()) {
        buf.extend_from_slice(b"\r\n\r\n");
        let cut = cut.index(buf.len() + 1);
        prop_assert_eq!(feed(&buf, [cut]), feed(&buf, []));
    }

    #[test]
    fn no_prefix_of_an_accepted_head_is_refused(buf in request()) {
        if let Ok(Some((head, _))) = feed(&buf, []) {
            for length in 0..head.head_len {
                prop_assert_eq!(feed(&buf[..length], []), Ok(None));
            }
        }
    }

    #[test]
    fn spans_lie_within_the_head(buf in request()) {
        if let Ok(Some((head, spans))) = feed(&buf, []) {
            prop_assert!(head.head_len <= buf.len());
            prop_assert!(head.path.end <= head.target.end && head.path.start >= head.target.start);
            for (a, b, c, d) in spans {
                prop_assert!(a < b && b < c && c <= d && (d as usize) < head.head_len);
            }
        }
    }
}

#[test]
fn every_split_of_a_browser_request_gives_the_same() {
    let text = b"\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nCookie: c\r\n\r\nGET / HTTP/1.1\r\n";
    let whole = feed(text, []);
    assert!(matches!(whole, Ok(Some(_))));
    for first in 0..text.len() {
        for second in first..text.len() {
            assert_eq!(feed(text, [first, second]), whole);
        }
    }
}

#[test]
fn a_head_that_arrives_byte_by_byte_costs_linear_time() {
    let limits = Limits { headers: 1 << 20, ..Limits::default() };
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    text.resize(limits.headers, b'x');
    let mut progress = Progress::default();
    let mut fields = NO_FIELDS;
    let begun = Instant::now();
    for length in 0..text.len() {
        let found = parse_with_new(&text[..length], &limits, &mut progress, &mut fields);
        assert_eq!(found, Ok(None));
    }
    // Examining the whole buffer for each new byte would examine 5e11 bytes, which takes minutes at least.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_malformed_request_line_is_refused_before_the_fields_arrive() {
    for (line, status) in [("GET /\r\n", 400), ("GET / HTTP/3.0\r\n", 505), ("GET * HTTP/1.1\r\n", 400)] {
        assert_eq!(feed(line.as_bytes(), 0..line.len()), Err(status));
    }
}

#[test]
fn a_slow_head_is_refused_at_the_first_byte_over_a_limit() {
    let line = "GET / HTTP/1.1\r\n";
    for (text, limit, status) in [
        (format!("GET /{}", "a".repeat(200)), LIMITS.request_line, 414),
        (format!("{line}Host: {}", "a".repeat(200)), line.len() + LIMITS.headers, 431),
    ] {
        assert_eq!(feed(&text.as_bytes()[..limit], 0..limit), Ok(None));
        assert_eq!(feed(&text.as_bytes()[..limit + 1], 0..limit), Err(status));
    }
}

#[test]
fn a_bare_line_feed_is_refused_as_soon_as_it_arrives() {
    let text = b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n";
    let mut progress = Progress::default();
    let mut fields = NO_FIELDS;
    let fault = text.windows(2).position(|w| w == b"a\n").unwrap() + 2;
    for length in 0..fault {
        let found = parse_with_new(&text[..length], &LIMITS, &mut progress, &mut fields);
        assert_eq!(found, Ok(None));
    }
    let found = parse_with_new(&text[..fault], &LIMITS, &mut progress, &mut fields);
    assert_eq!(found.unwrap_err().status, 400);
}

proptest! {
    /// Generates requests. The fields often equal the fields of the previous request, but the request line can have a
    /// different length.
    #[test]
    fn a_used_parser_gives_the_same_result_as_a_new_one(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec!["GET /", "GET /a/b?c", "POST /x", "GET http://h/", "OPTIONS *"]),
                prop::sample::select(vec![" HTTP/1.1\r\n", " HTTP/1.0\r\n"]),
                prop::sample::select(vec![
                    "Host: a\r\n\r\n",
                    "Host: a\r\nX: y\r\n\r\n",
                    "Host: a\r\nContent-Length: 5\r\n\r\n",
                    "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "Connection: close\r\n\r\n",
                    "Host: a\r\nX: y\r\n",
                    "Host: a\r\nX y\r\n\r\n",
                    "\r\n",
                ]),
            ),
            1..12,
        ),
        small in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut parser = Parser::new();
        for ((line, version, section), small) in requests.into_iter().zip(small) {
            let limits = Limits {
                fields: if small { 1 } else { 100 },
                ..Limits::default()
            };
            let text = format!("{line}{version}{section}GET /behind");
            let bytes = text.as_bytes();
            let mut fields = NO_FIELDS;
            let plain = parse_with_new(bytes, &limits, &mut Progress::default(), &mut fields);
            let remembered = parser.parse(bytes, &limits, &mut Progress::default()).map(Option::<&_>::copied);
            prop_assert_eq!(&plain, &remembered, "{}", text);
            if let Ok(Some(head)) = plain {
                prop_assert_eq!(&fields[..head.field_count], parser.fields());
            }
        }
    }
}
