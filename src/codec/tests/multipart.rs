//! Forms with files: framing, part headers and refusals, with the input split at every possible position.

use proptest::prelude::*;

use super::super::http1::reject::Reject;
use super::super::multipart::disposition::{boundary, disposition};
use super::super::multipart::{Event, Limits, Multipart};

const TYPE: &[u8] = b"multipart/form-data; boundary=B";

const LIMITS: Limits = Limits { parts: 1000, headers: 8192 };

/// One parsed part: name, file name, data.
type Part = (Vec<u8>, Option<Vec<u8>>, Vec<u8>);

/// Parses `wire`, which is fed in pieces that end at `cuts`.
fn parse_in(kind: &[u8], limits: Limits, wire: &[u8], cuts: &[usize]) -> Result<Vec<Part>, Reject> {
    let mut parser = Multipart::new(kind, limits)?;
    let mut parts: Vec<Part> = Vec::new();
    let mut ended = 0;
    let mut start = 0;
    let mut cuts = cuts.iter().copied().chain([wire.len()]);
    loop {
        match parser.next()? {
            Event::More => match cuts.next() {
                Some(end) => {
                    parser.feed(&wire[start..end]);
                    start = end;
                }
                None => {
                    parser.end()?;
                    assert_eq!(parser.next()?, Event::Done);
                    break;
                }
            },
            Event::Part => {
                assert_eq!(ended, parts.len(), "a part begins only after the previous part has ended");
                let read = &parser.part().disposition;
                parts.push((read.name.clone(), read.filename.clone(), Vec::new()));
            }
            Event::Data(range) => {
                assert!(!range.is_empty(), "data is never empty");
                let part = parts.last_mut().expect("data belongs to a part");
                part.2.extend_from_slice(&parser.bytes()[range]);
            }
            Event::PartEnd => ended += 1,
            Event::Done => break,
        }
    }
    assert_eq!(ended, parts.len());
    Ok(parts)
}

fn parse(wire: impl AsRef<[u8]>) -> Result<Vec<Part>, Reject> {
    parse_in(TYPE, LIMITS, wire.as_ref(), &[])
}

fn refuse(wire: impl AsRef<[u8]>) -> u16 {
    let wire = wire.as_ref();
    let status = parse(wire).expect_err("refused").status;
    let each: Vec<usize> = (1..wire.len()).collect();
    let split = parse_in(TYPE, LIMITS, wire, &each).expect_err("refused");
    assert_eq!(split.status, status, "the status does not depend on the split");
    status
}

fn text(parts: &[Part]) -> Vec<(String, Option<String>, String)> {
    let read = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).expect("text");
    parts.iter().map(|(name, filename, data)| (read(name), filename.as_ref().map(read), read(data))).collect()
}

/// Writes a body with these parts, in the form that browsers send.
fn write(parts: &[Part], boundary: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, filename, data) in parts {
        out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        out.extend_from_slice(b"Content-Disposition: form-data; name=\"");
        out.extend_from_slice(name);
        out.push(b'"');
        if let Some(filename) = filename {
            out.extend_from_slice(b"; filename=\"");
            out.extend_from_slice(filename);
            out.extend_from_slice(b"\"\r\nContent-Type: application/octet-stream");
        }
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

const SAMPLE: &str = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B\r\n\
    content-type: text/plain\r\ncontent-disposition:form-data;name=f;filename=\"x.txt\"\r\n\r\n\
    two\r\n--b\r\n-\r\n\r\n--B--\r\n";

#[test]
fn a_form_gives_the_same_parts_wherever_it_is_split() {
    let whole = parse(SAMPLE).expect("well-formed");
    let want = [("a".into(), None, "one".into()), ("f".into(), Some("x.txt".into()), "two\r\n--b\r\n-\r\n".into())];
    assert_eq!(text(&whole), want);
    for cut in 0..=SAMPLE.len() {
        let split = parse_in(TYPE, LIMITS, SAMPLE.as_bytes(), &[cut]);
        assert_eq!(split.as_ref(), Ok(&whole), "cut at {cut}");
    }
    let each: Vec<usize> = (1..SAMPLE.len()).collect();
    assert_eq!(parse_in(TYPE, LIMITS, SAMPLE.as_bytes(), &each), Ok(whole), "byte by byte");
}

#[test]
fn a_part_has_its_headers_in_order() {
    let mut parser = Multipart::new(TYPE, LIMITS).expect("well-formed");
    parser.feed(b"--B\r\nX-One: 1\r\nContent-Disposition: form-data; name=x\r\nx-two:  2 \r\n\r\n");
    assert_eq!(parser.next(), Ok(Event::Part));
    let fields: Vec<_> = parser.part().fields().collect();
    assert_eq!(fields[0], (&b"X-One"[..], &b"1"[..]));
    assert_eq!(fields[2], (&b"x-two"[..], &b"2"[..]));
}

#[test]
fn parts_may_be_empty_and_a_form_may_have_none() {
    let head = "Content-Disposition: form-data; name=x\r\n";
    let none: &[(String, Option<String>, String)] = &[];
    assert_eq!(text(&parse("--B--\r\n").expect("well-formed")), none);
    assert_eq!(text(&parse("--B--").expect("without a line's end")), none);
    let empty = [("x".into(), None, String::new())];
    let usual = format!("--B\r\n{head}\r\n\r\n--B--\r\n");
    assert_eq!(text(&parse(usual).expect("well-formed")), empty);
    // RFC 2046: a part may end with its headers. Their last CRLF then belongs to the boundary.
    let bare = format!("--B\r\n{head}\r\n--B--\r\n");
    assert_eq!(text(&parse(&bare).expect("well-formed")), empty);
    let each: Vec<usize> = (1..bare.len()).collect();
    let split = parse_in(TYPE, LIMITS, bare.as_bytes(), &each);
    assert_eq!(text(&split.expect("well-formed")), empty);
}

#[test]
fn text_before_and_after_the_parts_is_ignored() {
    let around = format!("hello --B\r\nthere\r\n{SAMPLE}good\r\n--B\r\nbye");
    assert_eq!(parse(around), parse(SAMPLE));
    assert_eq!(parse(format!("\r\n{SAMPLE}")), parse(SAMPLE));
}

#[test]
fn white_space_may_follow_a_boundary() {
    let padded = SAMPLE.replace("--B\r\n", "--B \t\r\n").replace("--B--", "--B--  ");
    assert_eq!(parse(padded), parse(SAMPLE));
    assert_eq!(refuse(format!("--B{}\r\n", " ".repeat(65))), 400);
}

#[test]
fn malformed_framing_is_400() {
    let head = "Content-Disposition: form-data; name=x\r\n\r\n";
    for wire in [
        "",
        "nothing",
        "--B",
        "--B\r\n",
        "--B-",
        "--B--\r",
        "--B--x",
        "--B-x\r\n",
        "--Bx\r\n",
        "--B\n",
        "--B \rx",
        "--C\r\n",
    ] {
        assert_eq!(refuse(wire), 400, "{wire:?}");
    }
    for rest in ["", "data", "data\r\n", "data\r\n--B", "data\r\n--B\r\n"] {
        assert_eq!(refuse(format!("--B\r\n{head}{rest}")), 400, "{rest:?}");
    }
    // Lines that end with LF alone are refused.
    assert_eq!(refuse(SAMPLE.replace("\r\n", "\n")), 400);
    assert_eq!(refuse(format!("--B\r\n{head}data\n--B--\n")), 400);
    // A line that begins with the boundary counts as a boundary, regardless of the rest of the line (RFC 2046 section
    // 5.1.1).
    assert_eq!(refuse(format!("--B\r\n{head}data\r\n--BC\r\n--B--")), 400);
}

#[test]
fn malformed_part_headers_are_400() {
    for head in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Disposition: form-data\r\n",
        "Content-Disposition: form-data; name\r\n",
        "Content-Disposition: form-data; name=\r\n",
        "Content-Disposition: form-data; name=\"x\r\n",
        "Content-Disposition: form-data; name=\"x\\\"\r\n",
        "Content-Disposition: form-data; name=x name=y\r\n",
        "Content-Disposition: form-data; name=x; name=y\r\n",
        "Content-Disposition: form-data; name=x; filename=a; filename=b\r\n",
        "Content-Disposition: attachment; name=x\r\n",
        "Content-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=y\r\n",
        "Content-Disposition: form-data;\r\n name=x\r\n",
        "Content-Disposition: form-data; name=x\n",
        "Content-Disposition : form-data; name=x\r\n",
        "Content-Disposition: form-data; name=x; filename*=\"utf-8''a\"\r\n",
        "Content-Disposition: form-data; name=x; filename*=utf-8''%zz\r\n",
        "Content-Disposition: form-data; name=x; filename*=utf-8''%ff\r\n",
        "Content-Disposition: form-data; name=x; filename*=koi8-r''a\r\n",
        "Content-Disposition: form-data; name=x; filename*=a\r\n",
        "Content-Disposition: form-data; name=\"a\0b\"\r\n",
    ] {
        assert_eq!(refuse(format!("--B\r\n{head}\r\nx\r\n--B--\r\n")), 400, "{head:?}");
    }
}

/// Regression, found by a fuzzer: a line of headers that began with the boundary and had a colon was taken for a header,
/// while readers that split a form at its boundaries begin another part there.
#[test]
fn a_boundary_within_part_headers_is_400() {
    let name = "Content-Disposition: form-data; name=x\r\n";
    for headers in [format!("{name}--B: y\r\n"), format!("--B: y\r\n{name}"), format!("{name}--B--: y\r\n")] {
        assert_eq!(refuse(format!("--B\r\n{headers}\r\ndata\r\n--B--")), 400, "{headers}");
    }
    let parts = parse(format!("--B\r\n{name}A: --B\r\n\r\ndata\r\n--B--")).expect("no line begins with a boundary");
    assert_eq!(text(&parts), [("x".into(), None, "data".into())]);
}

#[test]
fn exceeded_limits_are_413() {
    let two = Limits { parts: 1, ..LIMITS };
    let status = |limits, wire: &str| {
        let refused = parse_in(TYPE, limits, wire.as_bytes(), &[]).expect_err("refused");
        refused.status
    };
    assert_eq!(status(two, SAMPLE), 413);
    let small = Limits { headers: 60, ..LIMITS };
    assert_eq!(status(small, SAMPLE), 413);
    assert_eq!(status(small, &format!("--B\r\nX: {}", "x".repeat(100))), 413);
    let many = "X: y\r\n".repeat(17);
    assert_eq!(refuse(format!("--B\r\n{many}\r\n")), 413);
}

#[test]
fn names_are_decoded_as_browsers_and_curl_encode_them() {
    let read = |value: &str| {
        let read = disposition(value.as_bytes()).expect("well-formed");
        let filename = read.filename.expect("a file name");
        String::from_utf8(filename).expect("UTF-8")
    };
    let file = |value: &str| read(&format!("form-data; name=f; filename=\"{value}\""));
    assert_eq!(file("plain.txt"), "plain.txt");
    assert_eq!(file(""), "");
    assert_eq!(file("a\\\"b.txt"), "a\"b.txt");
    assert_eq!(file("a\\\\b.txt"), "a\\b.txt");
    assert_eq!(file("C:\\dir\\a.txt"), "C:\\dir\\a.txt");
    assert_eq!(file("a%22b%0D%0a.txt"), "a\"b\r\n.txt");
    assert_eq!(file("100%25 %41.txt"), "100%25 %41.txt");
    assert_eq!(file("a;b=c, d.txt"), "a;b=c, d.txt");
    assert_eq!(file("Größe 日本.txt"), "Größe 日本.txt");
    let extended = "form-data; name=f; filename=\"plain\"; filename*=UTF-8'de'Gr%C3%B6%C3%9fe";
    assert_eq!(read(extended), "Größe");
    assert_eq!(read("form-data; name=f; FileName*=iso-8859-1''%e9t%E9"), "été");
    assert_eq!(read("FORM-DATA ;NAME=f ;other=\"x;\\\"y\"; filename=bare;"), "bare");
    let named = disposition(b"form-data; name=\"a\\\"%22;b\"").expect("well-formed");
    assert_eq!((&named.name[..], named.filename), (&b"a\"\";b"[..], None));
}

#[test]
fn valid_boundaries_are_accepted_and_others_refused() {
    let read = |kind: &str| boundary(kind.as_bytes()).map(|found| found.into_owned());
    assert_eq!(read("multipart/form-data; boundary=----WebKitFormBoundary7"), Ok(b"----WebKitFormBoundary7".to_vec()));
    assert_eq!(read("Multipart/Form-Data; charset=utf-8; Boundary=\"a b:c\""), Ok(b"a b:c".to_vec()));
    let longest = "b".repeat(70);
    assert!(read(&format!("multipart/form-data; boundary={longest}")).is_ok());
    for kind in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"a\\\r\"",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data boundary=a",
        &format!("multipart/form-data; boundary={longest}b"),
    ] {
        assert_eq!(read(kind).expect_err("refused").status, 400, "{kind:?}");
    }
    let mixed = read("multipart/mixed; boundary=a").expect_err("refused");
    assert_eq!(mixed.status, 415);
}

#[test]
fn the_buffer_does_not_grow_with_a_part() {
    let mut parser = Multipart::new(TYPE, LIMITS).expect("well-formed");
    parser.feed(b"--B\r\nContent-Disposition: form-data; name=x\r\n\r\n");
    assert_eq!(parser.next(), Ok(Event::Part));
    for _ in 0..10_000 {
        assert_eq!(parser.next(), Ok(Event::More));
        parser.feed(b"12345678\r\n--12345678");
        while let Ok(Event::Data(_)) = parser.next() {}
        assert!(parser.bytes().len() < 100);
    }
}

#[test]
fn the_work_is_linear_in_the_bytes_fed() {
    let nearly = "\r\n--".to_owned() + &"b".repeat(69);
    let kind = format!("multipart/form-data; boundary={}", "b".repeat(70));
    // A call examines at most the buffered bytes.
    let work = |count: usize| {
        let mut parser = Multipart::new(kind.as_bytes(), LIMITS).expect("well-formed");
        let mut examined = 0;
        for byte in nearly.repeat(count).as_bytes() {
            loop {
                examined += parser.bytes().len();
                if parser.next() == Ok(Event::More) {
                    break;
                }
            }
            parser.feed(std::slice::from_ref(byte));
        }
        examined
    };
    let one = work(2) - work(1);
    assert_eq!(work(800) - work(1), one * 799);
    assert!(one < 73 * 200, "{one} for 73 bytes");
}

/// Generates data with text that is similar to boundaries.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let bits = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n--B".to_vec()),
        Just(b"\r\n--".to_vec()),
        Just(b"\r\n-".to_vec()),
        Just(b"--B".to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(bits, 0..12).prop_map(|bits| bits.concat())
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

proptest! {
    #[test]
    fn a_written_form_is_parsed_to_the_same_parts(
        parts in prop::collection::vec(
            ("[a-z ;=]{0,8}", prop::option::of("[a-z.]{0,8}"), data()), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let parts: Vec<Part> = parts
            .into_iter()
            .map(|(name, filename, data)| {
                (name.into_bytes(), filename.map(String::into_bytes), data)
            })
            .filter(|(_, _, data)| !contains(&[b"\r\n", &data[..]].concat(), b"\r\n--B"))
            .collect();
        let wire = write(&parts, "B");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(parse_in(TYPE, LIMITS, &wire, &cuts), Ok(parts));
    }

    #[test]
    fn any_bytes_give_the_same_result_however_they_are_split(
        noise in data(),
        at in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut wire = SAMPLE.as_bytes().to_vec();
        let at = at.index(wire.len() + 1);
        wire.splice(at..at, noise);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = parse(&wire);
        let split = parse_in(TYPE, LIMITS, &wire, &cuts);
        prop_assert_eq!(split.map_err(|r| r.status), whole.map_err(|r| r.status));
    }
}
