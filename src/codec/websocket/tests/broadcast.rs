//! Broadcasts: frames that many connections share.

use super::*;
use crate::codec::websocket::broadcast::Broadcast;
use crate::codec::websocket::encoded_frame::SharedCompressor;
use crate::codec::websocket::writer::{Settings, Writer};
use bytes::Bytes;

const ALL: Settings = Settings { level: 5, threshold: 0 };

fn words(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| format!("word {} ", number * 7919 % 1000).into_bytes()).collect()
}

#[test]
fn connections_with_the_same_parameters_share_a_frame() {
    let shared = &mut SharedCompressor::default();
    let mut broadcast = Broadcast::new(Kind::Text, Bytes::from(words(1000)));
    let mut frame = |deflate: Option<Direction>| Writer::new(deflate, ALL).broadcast(&mut broadcast, shared);
    let addresses = |frames: [Bytes; 2]| frames.map(|frame| frame.as_ptr().addr());
    let [plain, again] = addresses([frame(None), frame(None)]);
    assert_eq!(plain, again);
    let [keeps, forgets] = addresses([frame(Some(KEEPS)), frame(Some(FORGETS))]);
    assert_eq!(keeps, forgets);
    assert_ne!(keeps, plain);
    let small = Direction { keeps_context: true, window_bits: 9 };
    assert_ne!(frame(Some(small)), frame(Some(KEEPS)));
    assert_eq!(frame(Some(KEEPS))[0], TEXT | COMPRESSED);
}

#[test]
fn windows_that_contain_the_whole_message_share_a_frame() {
    let shared = &mut SharedCompressor::default();
    let message = Bytes::from(words(50));
    assert!((257..=512).contains(&message.len()));
    let mut broadcast = Broadcast::new(Kind::Text, message);
    let addresses = [8, 9, 10, 15].map(|window_bits| {
        let direction = Direction { keeps_context: false, window_bits };
        Writer::new(Some(direction), ALL).broadcast(&mut broadcast, shared).as_ptr().addr()
    });
    assert_ne!(addresses[0], addresses[1]);
    assert_eq!(addresses[1..], [addresses[1]; 3]);
}

#[test]
fn messages_around_broadcasts_are_decoded_with_context_takeover() {
    let shared = &mut SharedCompressor::default();
    let (own, other) = (words(300), words(500));
    for window_bits in [8, 12, 15] {
        let direction = Direction { keeps_context: true, window_bits };
        let mut writer = Writer::new(Some(direction), ALL);
        let mut reader = client_with(direction, Limits::default());
        let mut frames = Vec::new();
        let mut expected = Vec::new();
        for is_broadcast in [false, false, true, false, true, true, false, false] {
            let message = if is_broadcast { &other } else { &own };
            frames.push(match is_broadcast {
                true => writer.broadcast(&mut Broadcast::new(Kind::Binary, Bytes::from(other.clone())), shared),
                false => writer.message(Kind::Binary, &own, None, shared),
            });
            expected.push(Received::Binary(message.clone()));
        }
        assert!(frames.iter().all(|frame| frame[0] == BINARY | COMPRESSED));
        assert!(received(&mut reader, frames.iter().map(|frame| &frame[..])) == expected, "{window_bits}");
    }
}

#[test]
fn a_broadcast_that_is_not_smaller_compressed_is_sent_without_compression() {
    let shared = &mut SharedCompressor::default();
    let mut broadcast = Broadcast::new(Kind::Binary, Bytes::from_static(&[1, 2, 3, 4]));
    let frame = Writer::new(Some(KEEPS), ALL).broadcast(&mut broadcast, shared);
    assert_eq!(frame[..], [BINARY, 4, 1, 2, 3, 4]);
    let settings = Settings { level: 5, threshold: 2000 };
    let mut broadcast = Broadcast::new(Kind::Binary, Bytes::from(vec![0; 1999]));
    assert_eq!(Writer::new(Some(KEEPS), settings).broadcast(&mut broadcast, shared)[0], BINARY);
}
