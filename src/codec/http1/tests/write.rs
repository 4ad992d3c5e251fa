//! Response heads and chunks, byte for byte.

use super::super::body::Framing;
use super::super::status;
use super::super::write::*;
use crate::codec::date::DateCache;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn persists(keep_alive: bool, version: u8) -> Persistence {
    Persistence { keep_alive, version }
}

#[test]
fn a_head_has_all_its_parts_in_order() {
    let text = written(|out| {
        status_line(out, 200);
        content_type(out, b"text/plain");
        content_length(out, 12);
        date(out, DateCache::new().get(784_111_777));
        connection(out, persists(true, 11));
        end_head(out);
    });
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
    );
}

#[test]
fn a_plain_head_equals_its_parts() {
    let now = *DateCache::new().get(784_111_777);
    for (keep_alive, version) in [(true, 11), (true, 10), (false, 11), (false, 10)] {
        for (media_type, length) in
            [(DefaultType::Text, 0), (DefaultType::Text, 14), (DefaultType::Json, 0), (DefaultType::Json, 16384)]
        {
            let parts = written(|out| {
                status_line(out, 200);
                if length > 0 {
                    content_type(out, media_type.name());
                }
                content_length(out, length);
                date(out, &now);
                connection(out, persists(keep_alive, version));
                end_head(out);
            });
            let whole =
                written(|out| plain_head(out, media_type, length as usize, persists(keep_alive, version), &now));
            assert_eq!(whole, parts);
        }
    }
}

#[test]
fn all_status_lines_have_the_registered_phrase() {
    for code in 100..=999 {
        let line = written(|out| status_line(out, code));
        assert_eq!(line, format!("HTTP/1.1 {code} {}\r\n", status::reason(code)));
    }
}

#[test]
fn values_that_would_split_the_response_are_refused() {
    for value in ["a\r\nSet-Cookie: b", "a\r", "\n", "a\0b"] {
        assert_eq!(check_field(b"X", value.as_bytes()), Err(BadField::Value));
    }
    assert_eq!(check_field(b"X", b""), Ok(()));
}

#[test]
fn names_that_are_not_tokens_are_refused() {
    for name in ["", "a b", "a:", "a\r\nb", "a\0", "\u{e9}"] {
        assert_eq!(check_field(name.as_bytes(), b"v"), Err(BadField::Name));
    }
}

#[test]
fn connection_is_sent_only_if_the_version_implies_otherwise() {
    assert_eq!(written(|out| connection(out, persists(true, 11))), "");
    assert_eq!(written(|out| connection(out, persists(true, 10))), "Connection: keep-alive\r\n");
    assert_eq!(written(|out| connection(out, persists(false, 11))), "Connection: close\r\n");
    assert_eq!(written(|out| connection(out, persists(false, 10))), "Connection: close\r\n");
}

#[test]
fn bodies_are_allowed_except_for_1xx_204_and_304() {
    for (code, allowed) in [(100, false), (199, false), (200, true), (204, false), (205, true)] {
        assert_eq!(body_allowed(code), allowed);
    }
    assert!(!body_allowed(304) && body_allowed(404));
}

#[test]
fn chunks_have_their_size_in_hexadecimal() {
    for size in [1, 9, 10, 15, 16, 255, 256, 0xabcdef] {
        let data = "x".repeat(size);
        assert_eq!(written(|out| chunk(out, data.as_bytes())), format!("{size:x}\r\n{data}\r\n"));
    }
    assert_eq!(written(|out| chunk(out, b"hello")), "5\r\nhello\r\n");
}

#[test]
fn an_empty_chunk_does_not_end_the_body() {
    assert_eq!(written(|out| chunk(out, b"")), "");
}

#[test]
fn the_longest_content_length_has_20_digits() {
    let longest = written(|out| content_length(out, u64::MAX));
    assert_eq!(longest, "Content-Length: 18446744073709551615\r\n");
}

#[test]
fn error_responses_are_complete() {
    let mut out = b"earlier ".to_vec();
    let body = text_response(&mut out, 400, "bad Host", persists(false, 11), DateCache::new().get(0));
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        "earlier HTTP/1.1 400 Bad Request\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: 9\r\n\r\nbad Host\n"
    );
    assert_eq!(&text[body..], "bad Host\n");
}

#[test]
fn a_response_without_a_body_has_no_length() {
    let text = written(|out| {
        text_response(out, 304, "unused", persists(true, 10), DateCache::new().get(0));
    });
    assert_eq!(
        text,
        "HTTP/1.1 304 Not Modified\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Connection: keep-alive\r\n\r\n"
    );
}

#[test]
fn fields_that_a_handler_leaves_out_are_added() {
    let date = b"Sun, 06 Nov 1994 08:49:37 GMT";
    let (media_type, persists) = (Some(&b"text/plain"[..]), persists(false, 11));
    let text = written(|out| {
        out.extend_from_slice(b"before|");
        let (lines, fields) = (&b"A: b\r\nC: d\r\n"[..], HandlerFields::default());
        ResponseHead { status: 201, lines, fields, media_type, framing: Framing::Length(3), persists, date }.write(out);
        let fields = HandlerFields { content_type: true, date: true, ..HandlerFields::default() };
        let lines = b"Content-Type: x/y\r\nDate: now\r\n";
        ResponseHead { status: 200, lines, fields, media_type, framing: Framing::Chunked, persists, date }.write(out);
    });
    assert_eq!(
        text,
        "before|HTTP/1.1 201 Created\r\nA: b\r\nC: d\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n"
    );
}

#[test]
fn a_response_with_upgrade_names_it_in_connection() {
    for (keep_alive, version, value) in
        [(true, 11, "upgrade"), (true, 10, "upgrade, keep-alive"), (false, 11, "upgrade, close")]
    {
        let text = written(|out| {
            let (lines, date) = (&b"Upgrade: websocket\r\n"[..], b"Sun, 06 Nov 1994 08:49:37 GMT");
            let fields = HandlerFields { upgrade: true, date: true, ..HandlerFields::default() };
            let (media_type, persists) = (None, persists(keep_alive, version));
            ResponseHead { status: 426, lines, fields, media_type, framing: Framing::None, persists, date }.write(out);
        });
        assert_eq!(text, format!("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: {value}\r\n\r\n"));
    }
}

#[test]
fn fields_about_the_message_itself_are_recorded() {
    let mut fields = HandlerFields::default();
    for (name, value, sent) in [
        ("X", "y", true),
        ("date", "now", true),
        ("CONTENT-TYPE", "x/y", true),
        ("Connection", "Upgrade", false),
        ("Upgrade", "websocket", true),
        ("Content-Length", "12", false),
        ("Transfer-Encoding", "chunked", false),
    ] {
        let role = Role::of(name.as_bytes());
        assert_eq!(fields.record(role, value.as_bytes()), sent, "{name}");
    }
    assert!(fields.content_type && fields.date && fields.upgrade && !fields.close);
    assert_eq!(fields.length, Some(12));
    assert!(!fields.record(Role::Connection, b"Close"));
    fields.record(Role::ContentLength, b"18446744073709551615");
    assert!(fields.close && fields.length.is_none());
}

#[test]
fn the_framing_follows_status_method_and_version() {
    for (status, is_head, length, set, framing) in [
        (200, false, 5, Some(9), Framing::Length(5)),
        (200, true, 0, Some(9), Framing::Length(9)),
        (200, true, 0, None, Framing::Length(0)),
        (204, false, 5, None, Framing::None),
        (304, true, 0, Some(9), Framing::None),
        (205, false, 5, Some(9), Framing::Length(0)),
    ] {
        assert_eq!(Framing::of_whole(status, is_head, length, set), framing);
    }
    for (status, is_head, version, set, framing) in [
        (200, false, 11, None, Framing::Chunked),
        (200, true, 11, None, Framing::Chunked),
        (200, false, 10, None, Framing::UntilClose),
        (200, true, 10, None, Framing::None),
        (200, false, 10, Some(7), Framing::Length(7)),
        (204, false, 11, Some(7), Framing::None),
        (205, false, 11, None, Framing::Length(0)),
    ] {
        assert_eq!(Framing::of_pieces(status, is_head, version, set), framing);
    }
}
