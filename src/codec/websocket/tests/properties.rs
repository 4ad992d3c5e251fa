//! Properties of the reader and the writer with random messages, splits and bytes.

use super::*;
use crate::codec::websocket::encoded_frame::{SharedCompressor, plain_frame};
use crate::codec::websocket::frame::{Head, Opcode};
use crate::codec::websocket::mask::{self, Key};
use crate::codec::websocket::writer::{Settings, Writer};
use proptest::prelude::*;
use proptest::sample::Index;

/// Splits `bytes` at random offsets.
fn split<'b>(bytes: &'b [u8], cuts: &[Index]) -> Vec<&'b [u8]> {
    let mut offsets: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    offsets.extend([0, bytes.len()]);
    offsets.sort_unstable();
    offsets.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn cuts(most: usize) -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..most)
}

/// Splits the frame of a client's message into fragments, with a ping after each.
fn fragmented(frame: &[u8], cuts: &[Index], key: Key) -> Vec<u8> {
    let (head, size) = Head::decode(frame).unwrap().unwrap();
    let mut payload = frame[size..].to_vec();
    mask::apply(&mut payload, head.key.unwrap());
    let parts = split(&payload, cuts);
    let mut out = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let opcode = if index == 0 { head.opcode } else { Opcode::Continuation };
        let is_final = index + 1 == parts.len();
        let is_compressed = head.is_compressed && index == 0;
        let fragment = Head { is_final, is_compressed, opcode, key: Some(key), length: part.len() as u64 };
        out.extend_from_slice(fragment.encode().as_slice());
        let start = out.len();
        out.extend_from_slice(part);
        mask::apply(&mut out[start..], key);
        out.extend_from_slice(&plain_frame(Opcode::Ping, b"ping", Some(key)));
    }
    out
}

/// Messages that compress well or badly.
fn message() -> impl Strategy<Value = Received> {
    prop_oneof![
        "[a-c äß€😀]{0,300}".prop_map(Received::Text),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Received::Binary),
        (prop::collection::vec(any::<u8>(), 0..9), 0usize..9000)
            .prop_map(|(part, count)| Received::Binary(part.repeat(count))),
    ]
}

fn direction() -> impl Strategy<Value = Option<Direction>> {
    let directions =
        (any::<bool>(), 8u8..=15).prop_map(|(keeps_context, window_bits)| Direction { keeps_context, window_bits });
    prop::option::weighted(0.8, directions)
}

proptest! {
    #[test]
    fn fragmented_and_split_messages_are_received_whole(
        messages in prop::collection::vec((message(), cuts(4)), 1..6), deflate in direction(), key: Key,
        threshold in 0usize..200, pieces in cuts(40), step in 1usize..2000,
    ) {
        let mut writer = Writer::new(deflate, Settings { level: 5, threshold });
        let shared = &mut SharedCompressor::default();
        let mut bytes = Vec::new();
        for (message, cuts) in &messages {
            let (kind, data) = match message {
                Received::Text(text) => (Kind::Text, text.as_bytes()),
                Received::Binary(data) => (Kind::Binary, &data[..]),
                _ => unreachable!(),
            };
            bytes.extend(fragmented(&writer.message(kind, data, Some(key), shared), cuts, key));
        }
        let limits = Limits { ratio: 1100, ..Limits::default() };
        let new = || Reader::new(Role::Server, limits, deflate);
        let whole = received(&mut new(), [&bytes[..]]);
        let without_pings = whole.iter().filter(|event| !matches!(event, Received::Ping(_)));
        prop_assert!(without_pings.eq(messages.iter().map(|(message, _)| message)));
        prop_assert!(received(&mut new(), split(&bytes, &pieces)) == whole);
        prop_assert!(received(&mut new(), bytes.chunks(step)) == whole);
    }

    #[test]
    fn the_events_of_damaged_bytes_do_not_depend_on_the_splits(
        messages in prop::collection::vec((message(), cuts(4)), 1..4), deflate in direction(), key: Key,
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4), pieces in cuts(40),
    ) {
        let mut writer = Writer::new(deflate, Settings { level: 5, threshold: 0 });
        let shared = &mut SharedCompressor::default();
        let mut bytes = Vec::new();
        for (message, cuts) in &messages {
            let (kind, data) = match message {
                Received::Text(text) => (Kind::Text, text.as_bytes()),
                Received::Binary(data) => (Kind::Binary, &data[..]),
                _ => unreachable!(),
            };
            bytes.extend(fragmented(&writer.message(kind, data, Some(key), shared), cuts, key));
        }
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] ^= byte;
        }
        let limits = Limits { message: 100_000, ratio: 1100, ..Limits::default() };
        let new = || Reader::new(Role::Server, limits, deflate);
        let whole = received(&mut new(), [&bytes[..]]);
        prop_assert_eq!(received(&mut new(), split(&bytes, &pieces)), whole.clone());
        prop_assert_eq!(received(&mut new(), bytes.chunks(1)), whole);
    }

    #[test]
    fn random_bytes_are_received_or_refused(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(0x41), Just(0x82), Just(0xc1)], 0..400),
        role in prop_oneof![Just(Role::Client), Just(Role::Server)], deflate in direction(), pieces in cuts(20),
    ) {
        let new = || Reader::new(role, Limits::default(), deflate);
        let whole = received(&mut new(), [&bytes[..]]);
        prop_assert_eq!(received(&mut new(), split(&bytes, &pieces)), whole);
    }
}

#[test]
fn a_long_text_that_arrives_byte_by_byte_takes_linear_time() {
    let text = "€".repeat(300_000);
    let frame = frame(TEXT, text.as_bytes());
    let events = received(&mut client(Limits::default()), frame.chunks(1));
    assert!(events == [Received::Text(text)]);
}
