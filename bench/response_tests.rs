//! Tests of `response.rs` with valid, incomplete and refused responses.

use super::*;

fn complete(text: &str) -> Response<'_> {
    let response = parse(text.as_bytes(), Method::Other, Input::Open);
    response.expect("valid").expect("complete")
}

fn refused(text: &str) -> bool {
    parse(text.as_bytes(), Method::Other, Input::Open).is_err()
}

#[test]
fn parses_a_body_by_length_and_leaves_the_next_response() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhelloHTTP/1.1 404";
    let response = complete(text);
    assert_eq!((response.status, &*response.body, response.close), (200, &b"hello"[..], false));
    assert_eq!(&text[response.consumed..], "HTTP/1.1 404");
    assert_eq!(response.header("x-a"), Some(&b"b"[..]));
    assert_eq!(response.header("x-b"), None);
}

#[test]
fn parses_chunks_with_extensions_and_trailers() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n00A\r\n, World!\r\n\r\n0\r\nX-T: 1\r\n\r\nrest";
    let response = complete(text);
    assert_eq!(&*response.body, b"hello, World!\r\n");
    assert_eq!(&text[response.consumed..], "rest");
}

#[test]
fn needs_more_input_at_every_cut_of_a_response() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
    ] {
        for cut in 0..text.len() {
            let part = parse(&text.as_bytes()[..cut], Method::Other, Input::Open);
            assert!(matches!(part, Ok(None)), "cut at {cut}: {part:?}");
        }
        assert_eq!(complete(text).consumed, text.len());
    }
}

#[test]
fn parses_responses_without_a_body() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n";
    let response = parse(head.as_bytes(), Method::Head, Input::Open).expect("valid").expect("complete");
    assert_eq!((response.consumed, response.body.len()), (head.len(), 0));
    for status in ["100 Continue", "204 No Content", "304 Not Modified"] {
        let text = format!("HTTP/1.1 {status}\r\n\r\nHTTP/1.1 200 OK");
        assert_eq!(complete(&text).body.len(), 0);
    }
    assert!(refused("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"));
}

#[test]
fn parses_a_body_that_ends_with_the_connection() {
    let text = b"HTTP/1.0 200 OK\r\n\r\nhello";
    assert!(matches!(parse(text, Method::Other, Input::Open), Ok(None)));
    let response = parse(text, Method::Other, Input::Ended).expect("valid").expect("complete");
    assert_eq!((&*response.body, response.close), (&b"hello"[..], true));
}

#[test]
fn reports_whether_the_connection_closes() {
    assert!(complete("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n").close);
    assert!(complete("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").close);
    assert!(!complete("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").close);
    assert!(!complete("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").close);
}

#[test]
fn refuses_responses_that_a_server_may_not_send() {
    for text in [
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200OK \r\n\r\n",
        "HTTP/1.1 777 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    ] {
        assert!(refused(text), "{text:?}");
    }
}
