//! The limits of the reader.

use super::*;

const SMALL: Limits = Limits { message: 10, frame: 8, empty_fragments: 3, ratio: 20 };

const TOO_LONG: Received = Received::Refused(1009, "message exceeds the limit");

fn small(frames: &[Vec<u8>]) -> Vec<Received> {
    received(&mut client(SMALL), frames.iter().map(Vec::as_slice))
}

fn compressed_bytes(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::codec::websocket::deflate::Compressor::new(9).compress(message, FORGETS, &mut out).unwrap();
    out
}

/// Returns the frame of a message that is compressed independently.
fn compressed(message: &[u8]) -> Vec<u8> {
    frame(BINARY | COMPRESSED, &compressed_bytes(message))
}

#[test]
fn frames_are_refused_when_their_head_arrives() {
    assert_eq!(small(&[frame(BINARY, &[1; 8])]), [Received::Binary(vec![1; 8])]);
    assert_eq!(small(&[vec![BINARY, 9]]), [Received::Refused(1009, "frame exceeds the limit")]);
    assert_eq!(small(&[frame(PING, &[1; 125])]), [Received::Ping(vec![1; 125])]);
}

#[test]
fn messages_are_refused_when_the_head_of_a_fragment_exceeds_the_limit() {
    let first = frame(FIRST_BINARY, &[1; 8]);
    assert_eq!(small(&[first.clone(), frame(LAST, &[1; 2])]), [Received::Binary(vec![1; 10])]);
    assert_eq!(small(&[first, vec![LAST, 3]]), [TOO_LONG]);
}

#[test]
fn fragments_without_data_are_limited() {
    let empty = frame(NEXT, b"");
    let first = frame(FIRST_TEXT, b"");
    let allowed = [first.clone(), empty.clone(), empty.clone(), frame(NEXT, b"x"), frame(LAST, b"")];
    assert_eq!(small(&allowed), [text("x")]);
    let expected = [Received::Refused(1008, "message with too many empty fragments")];
    assert_eq!(small(&[first, empty.clone(), empty.clone(), empty]), expected);
}

#[test]
fn compressed_fragments_without_output_are_limited() {
    let empty_block = [0, 0, 0, 0xff, 0xff];
    let frames = [frame(FIRST_BINARY | COMPRESSED, &empty_block), frame(NEXT, &empty_block).repeat(3)].concat();
    let expected = [Received::Refused(1008, "message with too many empty fragments")];
    assert_eq!(received(&mut client_with(KEEPS, SMALL), [&frames[..]]), expected);
}

#[test]
fn the_limit_of_messages_applies_after_decompression() {
    let limits = Limits { message: 1000, frame: 1000, ..Limits::default() };
    let mut reader = client_with(FORGETS, limits);
    assert_eq!(received(&mut reader, [&compressed(&[0; 1000])[..]]), [Received::Binary(vec![0; 1000])]);
    assert_eq!(received(&mut reader, [&compressed(&[0; 1001])[..]]), [TOO_LONG]);
    assert!(reader.owns_no_memory());
}

#[test]
fn the_compression_ratio_is_limited_above_one_mebibyte() {
    let limits = Limits { message: 2 << 20, frame: 2 << 20, ratio: 20, ..Limits::default() };
    let mut reader = client_with(FORGETS, limits);
    let zeros = vec![0; 1 << 20];
    assert_eq!(received(&mut reader, [&compressed(&zeros)[..]]), [Received::Binary(zeros)]);
    let expected = [Received::Refused(1009, "message exceeds the limit of the compression ratio")];
    assert_eq!(received(&mut reader, [&compressed(&vec![0; (1 << 20) + 1])[..]]), expected);
    // Each of these numbers takes more than a twentieth of its size.
    let numbers: Vec<u8> =
        (0..300_000u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    let mut reader = client_with(FORGETS, limits);
    assert_eq!(received(&mut reader, [&compressed(&numbers)[..]]), [Received::Binary(numbers)]);
}

#[test]
fn compressed_bytes_that_output_nothing_are_limited() {
    let limits = Limits { message: 1000, ..Limits::default() };
    let blocks = [0, 0, 0, 0xff, 0xff].repeat(819);
    let mut reader = client_with(KEEPS, limits);
    let first = frame(FIRST_BINARY | COMPRESSED, &blocks);
    assert_eq!(received(&mut reader, [&first[..]]), []);
    assert_eq!(received(&mut reader, [&frame(LAST, &[0])[..]]), [Received::Binary(Vec::new())]);
    // The head of a fragment of 2002 bytes: 6097 bytes in all.
    assert_eq!(received(&mut reader, [&first[..], &[NEXT, 126, 0x07, 0xd2]]), [TOO_LONG]);
}

/// Regression: blocks without data, 10 bits each, took seconds for a message of 1 MiB.
#[test]
fn a_compressed_message_needs_data() {
    // Fixed blocks without data: four in five bytes.
    let empty = [0b0000_0010, 0b0000_1000, 0b0010_0000, 0b1000_0000, 0];
    let message = |blocks: usize, data: &[u8]| {
        let mut out = compressed_bytes(data);
        out.extend([0, 0, 0xff, 0xff]);
        out.extend(empty.repeat(blocks));
        out.push(0);
        frame(BINARY | COMPRESSED, &out)
    };
    let expected = [Received::Binary(vec![7; 9])];
    let (accepted, refused) = (message(1636, &[7; 9]), message(1637, &[7; 9]));
    // The pieces do not matter.
    for size in [1, 1000, 4096, 4100, 5000, 9000] {
        let mut reader = client_with(FORGETS, Limits::default());
        assert_eq!(received(&mut reader, accepted.chunks(size)), expected, "in pieces of {size}");
        assert_eq!(reader.take_work(), accepted.len() as u64 - 4, "without the head");
        assert_eq!(reader.take_work(), 0);
        let expected = [Received::Refused(1008, "compressed message with too little data")];
        assert_eq!(received(&mut reader, refused.chunks(size)), expected, "in pieces of {size}");
    }
    let expected = [Received::Binary(vec![7; 400])];
    let long = message(1700, &[7; 400]);
    assert_eq!(received(&mut client_with(FORGETS, Limits::default()), [&long[..]]), expected);
}

/// A sender that flushes after each byte is accepted.
#[test]
fn a_compressed_message_may_be_flushed_after_every_byte() {
    // The first one is without compression: a stored block of a byte, and an empty one.
    for level in [0, 1, 6, 9] {
        let mut compressor = flate2::Compress::new(flate2::Compression::new(level), false);
        let (data, mut out) = ((0..=255u8).cycle().take(20_000).collect::<Vec<u8>>(), Vec::with_capacity(400_000));
        for byte in &data {
            compressor.compress_vec(&[*byte], &mut out, flate2::FlushCompress::Sync).unwrap();
        }
        out.truncate(out.len() - 4);
        let mut reader = client_with(FORGETS, Limits::default());
        assert_eq!(received(&mut reader, [&frame(BINARY | COMPRESSED, &out)[..]]), [Received::Binary(data)], "{level}");
    }
}
