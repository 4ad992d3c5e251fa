//! The reader: the examples of RFC 6455 section 5.7, the rules of frames and messages, UTF-8, memory.

use super::*;

/// Returns the events of frames that a client receives.
fn from_server(frames: &[Vec<u8>]) -> Vec<Received> {
    received(&mut client(Limits::default()), frames.iter().map(Vec::as_slice))
}

fn refused(code: u16, text: &'static str) -> Received {
    Received::Refused(code, text)
}

#[test]
fn the_examples_of_rfc_6455_section_5_7() {
    let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    let mut server = Reader::new(Role::Server, Limits::default(), None);
    assert_eq!(received(&mut server, [&masked[..]]), [text("Hello")]);
    let pong = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(received(&mut server, [&pong[..]]), [Received::Pong(b"Hello".to_vec())]);

    let mut client = client(Limits::default());
    let mut check = |bytes: &[u8], expected: Received| assert_eq!(received(&mut client, [bytes]), [expected]);
    check(&[0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f], text("Hello"));
    check(&[0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f], text("Hello"));
    check(&[0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f], Received::Ping(b"Hello".to_vec()));
    check(&[&[0x82, 0x7e, 0x01, 0x00][..], &[7; 256]].concat(), Received::Binary(vec![7; 256]));
    let long = [&[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0][..], &[7; 65536]].concat();
    check(&long, Received::Binary(vec![7; 65536]));
}

#[test]
fn a_message_that_is_entirely_in_the_input_is_not_copied() {
    let mut reader = client(Limits::default());
    let mut input =
        [frame(TEXT, b"one"), frame(PING, b"two"), frame(NEXT | FIRST_BINARY, b""), frame(LAST, b"three")].concat();
    let start = input.as_ptr().addr();
    let mut at = 0;
    for offset in [2, 7, 14] {
        let (consumed, event) = reader.next(&mut input[at..]);
        let Some(Event::Message(_, data) | Event::Ping(data)) = event else { panic!("{event:?}") };
        assert_eq!(data.as_ptr().addr() - start, offset);
        at += consumed;
    }
    assert_eq!(at, input.len());
    assert!(reader.owns_no_memory());
}

#[test]
fn frames_must_be_masked_by_clients_only() {
    let mut server = Reader::new(Role::Server, Limits::default(), None);
    let expected = refused(1002, "frame of a client without a mask");
    assert_eq!(received(&mut server, [&frame(TEXT, b"")[..]]), [expected]);
    let expected = refused(1002, "frame of a server with a mask");
    assert_eq!(from_server(&[vec![TEXT, 0x80, 1, 2, 3, 4]]), [expected]);
}

#[test]
fn control_frames_between_fragments() {
    let frames = [
        frame(FIRST_TEXT, b"He"),
        frame(PING, b"1"),
        frame(NEXT, b"ll"),
        frame(PONG, b""),
        frame(LAST, b"o"),
        frame(CLOSE, b"\x03\xe9bye"),
    ];
    let expected = [
        Received::Ping(b"1".to_vec()),
        Received::Pong(Vec::new()),
        text("Hello"),
        Received::Close(Some(1001), "bye".into()),
    ];
    assert_eq!(from_server(&frames), expected);
}

#[test]
fn fragments_must_be_in_order() {
    let expected = refused(1002, "continuation without a message");
    assert_eq!(from_server(&[frame(LAST, b"x")]), std::slice::from_ref(&expected));
    assert_eq!(from_server(&[frame(FIRST_TEXT, b""), frame(LAST, b""), frame(NEXT, b"")]), [text(""), expected]);
    let expected = refused(1002, "new message before the end of the last one");
    for next in [TEXT, BINARY, FIRST_TEXT] {
        assert_eq!(from_server(&[frame(FIRST_BINARY, b"x"), frame(next, b"")]), std::slice::from_ref(&expected));
    }
}

#[test]
fn rsv1_is_allowed_at_the_start_of_compressed_messages_only() {
    let expected = [refused(1002, "frame with an unexpected RSV1")];
    assert_eq!(from_server(&[frame(TEXT | COMPRESSED, &[0])]), expected);
    for first in [PING, PONG, CLOSE, NEXT, LAST] {
        let mut reader = client_with(FORGETS, Limits::default());
        let frames = [frame(FIRST_TEXT, b""), frame(first | COMPRESSED, b"")].concat();
        assert_eq!(received(&mut reader, [&frames[..]]), expected, "{first:#x}");
    }
    assert_eq!(from_server(&[frame(TEXT | 0x20, b"")]), [refused(1002, "frame with RSV2 or RSV3")]);
}

#[test]
fn nothing_is_read_after_a_close_frame_or_a_refusal() {
    let closed = Received::Close(None, String::new());
    assert_eq!(from_server(&[frame(CLOSE, b""), frame(TEXT, b"x"), vec![0xff; 9]]), [closed]);
    let expected = refused(1002, "frame with a reserved opcode");
    assert_eq!(from_server(&[vec![0x83], frame(TEXT, b"x")]), [expected]);
    let expected = refused(1002, "close frame with half a code");
    assert_eq!(from_server(&[frame(CLOSE, b"\x03"), frame(TEXT, b"x")]), [expected]);
}

#[test]
fn a_text_is_refused_at_its_first_impossible_byte() {
    // The text and the number of bytes after which it is impossible.
    for (bytes, impossible) in [
        (&b"ab\xff"[..], 3),
        (b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", 13),
        (b"\xf4\x90\x80\x80", 2),
        (b"\xe0\x80", 2),
        (b"\xc0\x80", 1),
        (b"\xf0\x9f\x98x", 4),
        (b"\x80", 1),
    ] {
        for first in [FIRST_TEXT, TEXT] {
            let mut reader = client(Limits::default());
            let announced = [first, 100];
            let mut events = received(&mut reader, [&announced[..]]);
            for (index, byte) in bytes.iter().enumerate() {
                assert_eq!(events, [], "{bytes:x?} after {index}");
                feed(&mut reader, &[*byte], &mut events);
                if index + 1 == impossible {
                    break;
                }
            }
            assert_eq!(events, [refused(1007, "text that is not UTF-8")], "{bytes:x?}");
        }
    }
}

#[test]
fn characters_may_be_split_between_fragments_but_not_at_the_end() {
    let smile = "😀".as_bytes();
    for cut in 1..4 {
        let (first, second) = smile.split_at(cut);
        assert_eq!(from_server(&[frame(FIRST_TEXT, first), frame(LAST, second)]), [text("😀")]);
        let expected = [refused(1007, "text that is not UTF-8")];
        assert_eq!(from_server(&[frame(TEXT, first)]), expected);
        assert_eq!(from_server(&[frame(FIRST_TEXT, first), frame(LAST, b"")]), expected);
        assert_eq!(from_server(&[frame(FIRST_TEXT, first), frame(LAST, b"x")]), expected);
    }
    assert_eq!(from_server(&[frame(BINARY, smile.split_at(2).0)]), [Received::Binary(smile[..2].to_vec())]);
}

#[test]
fn an_idle_reader_owns_no_memory() {
    assert!(size_of::<Reader>() <= 192, "{}", size_of::<Reader>());
    let mut reader = client(Limits::default());
    let message = frame(TEXT, b"hello");
    let ping = frame(PING, b"ping");
    let pieces = [&message[..3], &message[3..], &ping[..4], &ping[4..]];
    assert_eq!(received(&mut reader, pieces), [text("hello"), Received::Ping(b"ping".to_vec())]);
    assert!(reader.owns_no_memory() && !reader.is_within_message());
    assert_eq!(received(&mut reader, [&message[..1]]), []);
    assert!(reader.is_within_message());
}

#[test]
fn an_announced_length_allocates_no_memory() {
    let mut reader = client(Limits { message: u64::MAX, frame: u64::MAX, ..Limits::default() });
    let head = [BINARY, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(received(&mut reader, [&head[..]]), []);
    assert!(reader.owns_no_memory());
    assert!(reader.is_within_message());
}
