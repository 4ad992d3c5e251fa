//! Compressed messages between a writer and a reader.

use super::*;
use crate::codec::websocket::deflate::Compressor;
use crate::codec::websocket::encoded_frame::{SharedCompressor, plain_frame};
use crate::codec::websocket::writer::{Settings, Writer};

const ALL: Settings = Settings { level: 5, threshold: 0 };

#[test]
fn the_examples_of_rfc_7692_section_7_2_3() {
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let messages = [
        vec![0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00],
        vec![0x41, 0x03, 0xf2, 0x48, 0xcd, 0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00],
        vec![0xc1, 0x05, 0xf2, 0x00, 0x11, 0x00, 0x00],
        vec![0xc1, 0x0b, 0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        vec![0xc1, 0x08, 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        vec![0xc1, 0x0d, 0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
    ];
    let mut reader = client_with(KEEPS, Limits::default());
    let pieces = messages.iter().map(Vec::as_slice);
    assert_eq!(received(&mut reader, pieces), vec![text("Hello"); messages.len()]);
    let mut writer = Writer::new(Some(FORGETS), ALL);
    let mut out = Vec::new();
    Compressor::new(5).compress(b"Hello", FORGETS, &mut out).unwrap();
    assert_eq!(out, hello);
    // The frame with compression is larger.
    let frame = writer.message(Kind::Text, b"Hello", None, &mut SharedCompressor::default());
    assert_eq!(frame[..], *b"\x81\x05Hello");
}

#[test]
fn an_empty_message_is_one_byte() {
    let mut writer = Writer::new(Some(KEEPS), ALL);
    let shared = &mut SharedCompressor::default();
    let frames = [b"" as &[u8], b"text", b"", b"text"].map(|message| writer.message(Kind::Text, message, None, shared));
    assert_eq!(frames[0][..], [0xc1, 1, 0]);
    assert_eq!(frames[2][..], [0xc1, 1, 0]);
    let mut reader = client_with(KEEPS, Limits::default());
    let expected = ["", "text", "", "text"].map(text);
    assert_eq!(received(&mut reader, frames.iter().map(|frame| &frame[..])), expected);
}

#[test]
fn an_empty_message_may_be_compressed_to_no_bytes() {
    let mut reader = client_with(KEEPS, Limits::default());
    let hello = frame(TEXT | COMPRESSED, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    let empty = frame(TEXT | COMPRESSED, b"");
    let with_window = frame(TEXT | COMPRESSED, &[0xf2, 0x00, 0x11, 0x00, 0x00]);
    let expected = ["Hello", "", "Hello"].map(text);
    assert_eq!(received(&mut reader, [&hello[..], &empty, &with_window]), expected);
}

#[test]
fn corrupt_messages_are_refused() {
    let expected = [Received::Refused(1002, "message with corrupt compressed data")];
    for payload in [&[0x06, 0x00][..], &[0xf2, 0x48, 0xcd, 0xc9], &[0xff; 20], &[0x00, 0x00, 0xff, 0xff]] {
        let mut reader = client_with(KEEPS, Limits::default());
        let message = frame(BINARY | COMPRESSED, payload);
        assert_eq!(received(&mut reader, [&message[..]]), expected, "{payload:x?}");
        assert!(reader.owns_no_memory());
    }
}

#[test]
fn compressed_texts_are_checked_as_they_arrive() {
    let mut out = Vec::new();
    Compressor::new(5).compress(b"a text\xff and more of the text", FORGETS, &mut out).unwrap();
    let mut reader = client_with(FORGETS, Limits::default());
    let message = frame(FIRST_TEXT | COMPRESSED, &out);
    let half = message.len() * 2 / 3;
    assert_eq!(received(&mut reader, [&message[..half]]), [Received::Refused(1007, "text that is not UTF-8")]);
}

#[test]
fn the_threshold_applies_to_the_size_of_the_message() {
    let mut writer = Writer::new(Some(KEEPS), Settings { level: 5, threshold: 100 });
    let shared = &mut SharedCompressor::default();
    let message = [b'x'; 100];
    assert_eq!(
        writer.message(Kind::Text, &message[1..], None, shared),
        plain_frame(Kind::Text.into(), &message[1..], None)
    );
    assert_eq!(writer.message(Kind::Text, &message, None, shared)[0], TEXT | COMPRESSED);
    assert_eq!(Writer::new(None, ALL).message(Kind::Text, &message, None, shared)[0], TEXT);
}

#[test]
fn context_takeover_compresses_a_repeated_message_further() {
    let shared = &mut SharedCompressor::default();
    let message = b"the quick brown fox jumps over the lazy dog 0123456789";
    for (direction, is_smaller) in [(KEEPS, true), (FORGETS, false)] {
        let mut writer = Writer::new(Some(direction), ALL);
        let first = writer.message(Kind::Text, message, None, shared);
        let second = writer.message(Kind::Text, message, None, shared);
        assert_eq!(second.len() < first.len() / 2, is_smaller);
        assert_eq!(second == first, !is_smaller);
    }
}

#[test]
fn without_context_takeover_the_memory_of_the_reader_is_freed() {
    let message = frame(TEXT | COMPRESSED, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    for (direction, is_freed) in [(KEEPS, false), (FORGETS, true)] {
        let mut reader = client_with(direction, Limits::default());
        assert!(reader.owns_no_memory());
        assert_eq!(received(&mut reader, [&message[..]]), [text("Hello")]);
        assert_eq!(reader.owns_no_memory(), is_freed);
    }
    let mut reader = client_with(FORGETS, Limits::default());
    received(&mut reader, [&message[..]]);
    let with_window = frame(TEXT | COMPRESSED, &[0xf2, 0x00, 0x11, 0x00, 0x00]);
    let events = received(&mut reader, [&with_window[..]]);
    assert_ne!(events, [text("Hello")], "a reference to the previous message");
}

/// Returns random bytes, which cannot be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn a_small_window_is_never_exceeded() {
    for window_bits in 8..15u8 {
        // The second half repeats bytes that are only in a larger window.
        let half = noise((1 << window_bits) + 1);
        for keeps_context in [true, false] {
            let direction = Direction { keeps_context, window_bits };
            let compressed = |direction: Direction, messages: &[&[u8]]| {
                let mut compressor = Compressor::new(9);
                let mut out = Vec::new();
                for message in messages {
                    compressor.compress(message, direction, &mut out).unwrap();
                }
                out.len()
            };
            assert!(compressed(direction, &[&half.repeat(2)]) >= half.len() * 2);
            assert!(compressed(direction, &[&half, &half]) >= half.len() * 2);
            let larger = Direction { window_bits: window_bits + 1, ..direction };
            assert!(compressed(larger, &[&half.repeat(2)]) < half.len() * 3 / 2);
            assert_eq!(compressed(larger, &[&half, &half]) < half.len() * 3 / 2, keeps_context);
        }
    }
}
