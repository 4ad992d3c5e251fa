//! Response heads: which are accepted, which are refused, and heads split at every possible position.

use super::super::body::Framing;
use super::super::fields::NO_FIELDS;
use super::super::head::Progress;
use super::super::reject::Reject;
use super::super::response_head::{Head, RequestKind, parse};

fn read(text: &[u8], request: RequestKind) -> Result<Option<Head>, Reject> {
    let mut table = NO_FIELDS;
    parse(text, request, (4096, 50), &mut Progress::default(), &mut table)
}

fn head(text: &str) -> Head {
    read(text.as_bytes(), RequestKind::Other).expect("not refused").expect("complete")
}

fn fault(text: &str) -> &'static str {
    read(text.as_bytes(), RequestKind::Other).expect_err("refused").reason
}

#[test]
fn the_status_line_is_read() {
    let found = head("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!((found.status, found.version, found.framing), (200, 11, Framing::UntilClose));
    assert_eq!(head("HTTP/1.1 204\r\n\r\n").status, 204);
    let reason = head("HTTP/1.1 404 \r\n\r\n").reason;
    assert_eq!(reason.start, reason.end);
    assert_eq!(head("HTTP/1.0 999 Grü\u{df}e\r\n\r\n").version, 10);
}

#[test]
fn a_malformed_status_line_is_refused() {
    for text in [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.x 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "<html>",
    ] {
        assert_eq!(fault(text), "malformed status line", "{text:?}");
    }
    assert_eq!(fault("HTTP/2.0 200 OK\r\n\r\n"), "unknown HTTP version");
    let bare = "line feed without carriage return";
    assert_eq!(fault("HTTP/1.1 200 OK\n\n"), bare);
    assert_eq!(fault("HTTP/1.1 200 OK\r\nA: b\n\r\n"), bare);
    assert_eq!(fault("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"), "malformed header name");
}

#[test]
fn the_framing_follows_the_fields() {
    let ends = |fields: &str| head(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).framing;
    assert_eq!(ends("Content-Length: 5\r\n"), Framing::Length(5));
    assert_eq!(ends("Content-Length: 5, 5\r\n"), Framing::Length(5));
    assert_eq!(ends("Content-Length: 0\r\n"), Framing::None);
    assert_eq!(ends("Transfer-Encoding: Chunked\r\n"), Framing::Chunked);
    assert_eq!(ends(""), Framing::UntilClose);
    for status in ["204 No Content", "304 Not Modified", "100 Continue"] {
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n");
        assert_eq!(head(&text).framing, Framing::None);
    }
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(read(text, RequestKind::Head).unwrap().unwrap().framing, Framing::None);
}

#[test]
fn ambiguous_framing_is_refused() {
    let reason = |fields: &str| fault(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    for length in ["+5", "0x5", "-1", "", "5 5", "99999999999999999999"] {
        let field = format!("Content-Length: {length}\r\n");
        assert_eq!(reason(&field), "malformed Content-Length", "{length:?}");
    }
    assert_eq!(reason("Content-Length: 5\r\nContent-Length: 6\r\n"), "differing Content-Length values");
    assert_eq!(reason("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "Content-Length with Transfer-Encoding");
    assert_eq!(reason("Transfer-Encoding: gzip, chunked\r\n"), "unknown transfer coding");
    assert_eq!(reason("Transfer-Encoding: identity\r\n"), "unknown transfer coding");
    assert_eq!(reason("Transfer-Encoding: chunked, chunked\r\n"), "chunked is not the last transfer coding");
    assert_eq!(
        fault("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        "Transfer-Encoding in an HTTP/1.0 response"
    );
}

#[test]
fn keep_alive_follows_the_version_and_the_fields() {
    let keeps = |text: &str| head(text).keep_alive;
    assert!(keeps("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"));
    assert!(!keeps("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n"));
    assert!(!keeps("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"));
    assert!(keeps("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"));
    assert!(!keeps("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n"));
}

#[test]
fn limits_apply_before_the_head_is_complete() {
    let long = format!("HTTP/1.1 200 {}", "x".repeat(9000));
    assert_eq!(read(long.as_bytes(), RequestKind::Other).unwrap_err().status, 431);
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(5000));
    assert_eq!(read(long.as_bytes(), RequestKind::Other).unwrap_err().status, 431);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(51));
    assert_eq!(read(many.as_bytes(), RequestKind::Other).unwrap_err().status, 431);
}

#[test]
fn any_split_gives_the_same_result() {
    let texts: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    for text in texts {
        let whole = read(text, RequestKind::Other);
        let mut progress = Progress::default();
        let mut table = NO_FIELDS;
        let mut found = Ok(None);
        for end in 1..=text.len() {
            found = parse(&text[..end], RequestKind::Other, (4096, 50), &mut progress, &mut table);
            if found != Ok(None) {
                break;
            }
        }
        assert_eq!(found, whole, "{:?}", String::from_utf8_lossy(text));
    }
}
