//! The targets `websocket_frames` and `websocket_deflate` of the fuzzers.

use super::encoded_frame::{SharedCompressor, plain_frame};
use super::frame::{Head, Opcode};
use super::inflate::TRAILER;
use super::mask::Key;
use super::negotiation::Direction;
use super::reader::{Event, Limits, Reader};
use super::writer::{Settings, Writer};
use super::{Kind, Role};
use crate::codec::fuzz_input::{Input, pieces};
use flate2::{Decompress, FlushDecompress, Status};

/// An event of a reader, with owned data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Refused(u16, &'static str),
}

impl From<Event<'_>> for Received {
    fn from(event: Event<'_>) -> Received {
        match event {
            Event::Message(kind, data) => Received::Message(kind, data.into_owned()),
            Event::Ping(payload) => Received::Ping(payload.into_owned()),
            Event::Pong(payload) => Received::Pong(payload.into_owned()),
            Event::Close(close) => Received::Close(close.code, close.reason),
            Event::Refused(refusal) => Received::Refused(refusal.code, refusal.text),
        }
    }
}

/// Returns the events of bytes that arrive in these pieces. Checks that the memory of an idle reader is freed.
fn received(mut reader: Reader, keeps_context: bool, pieces: &[&[u8]]) -> Vec<Received> {
    let mut events = Vec::new();
    for piece in pieces {
        let (mut piece, mut at) = (piece.to_vec(), 0);
        loop {
            let (consumed, event) = reader.next(&mut piece[at..]);
            at += consumed;
            let Some(event) = event else { break };
            events.push(Received::from(event));
        }
        assert_eq!(at, piece.len(), "without an event, all bytes are consumed");
    }
    let has_ended = matches!(events.last(), Some(Received::Close(..) | Received::Refused(..)));
    if has_ended || !keeps_context && !reader.is_within_message() {
        assert!(reader.owns_no_memory(), "an idle reader owns no memory");
    }
    events
}

/// Checks each event of `count` bytes against the limits.
fn check(events: &[Received], limits: &Limits, count: usize) {
    assert!(events.len() <= count, "an event needs bytes");
    for (index, event) in events.iter().enumerate() {
        let is_last = index + 1 == events.len();
        match event {
            Received::Message(kind, data) => {
                assert!(data.len() as u64 <= limits.message, "a message of {} bytes", data.len());
                assert!(*kind == Kind::Binary || std::str::from_utf8(data).is_ok(), "a text is UTF-8");
            }
            Received::Ping(payload) | Received::Pong(payload) => assert!(payload.len() <= 125),
            Received::Close(code, reason) => {
                assert!(is_last, "an event after the close frame");
                assert!(code.is_none_or(super::close::is_valid) && reason.len() <= 123);
            }
            Received::Refused(code, text) => {
                assert!(is_last, "an event after a refusal");
                assert!(matches!(code, 1002 | 1007 | 1008 | 1009) && text.len() <= 123, "{code} {text}");
            }
        }
    }
}

/// Checks that the messages arrive again if they are sent by the other role.
fn check_again(events: &[Received], role: Role, deflate: Option<Direction>) {
    let key: Option<Key> = (role == Role::Server).then_some([7, 0, 255, 80]);
    let mut writer = Writer::new(deflate, Settings { level: 1, threshold: 16 });
    let (mut bytes, shared) = (Vec::new(), &mut SharedCompressor::default());
    let mut expected = Vec::new();
    for event in events {
        match event {
            Received::Message(kind, data) => bytes.extend_from_slice(&writer.message(*kind, data, key, shared)),
            Received::Ping(data) => bytes.extend_from_slice(&plain_frame(Opcode::Ping, data, key)),
            Received::Pong(data) => bytes.extend_from_slice(&plain_frame(Opcode::Pong, data, key)),
            _ => continue,
        }
        expected.push(event.clone());
    }
    let limits = Limits { message: u64::MAX, frame: u64::MAX, ratio: u32::MAX, ..Limits::default() };
    let keeps_context = deflate.is_some_and(|deflate| deflate.keeps_context);
    assert!(received(Reader::new(role, limits, deflate), keeps_context, &[&bytes]) == expected);
}

fn direction(flags: u8) -> Option<Direction> {
    let direction = Direction { keeps_context: flags & 8 != 0, window_bits: 8 + (flags & 7) };
    (flags & 16 != 0).then_some(direction)
}

/// Decodes frames. The input: flags, sizes of pieces, the bytes of the peer. The events must not depend on the pieces.
pub(crate) fn frames(data: &[u8]) -> Vec<Received> {
    let mut input = Input(data);
    let flags = input.byte();
    let role = if flags & 32 != 0 { Role::Client } else { Role::Server };
    let deflate = direction(flags);
    // The compression ratio is compared with the bytes that have arrived, so it has its own target.
    let limits = match flags & 64 {
        0 => Limits { message: 40, frame: 24, empty_fragments: 2, ratio: 1100 },
        _ => Limits { message: 70_000, frame: 66_000, empty_fragments: 128, ratio: 1100 },
    };
    let sizes = input.sizes();
    let bytes = input.0;
    let keeps_context = deflate.is_some_and(|deflate| deflate.keeps_context);
    let events = |pieces: &[&[u8]]| received(Reader::new(role, limits, deflate), keeps_context, pieces);
    let whole = events(&[bytes]);
    check(&whole, &limits, bytes.len());
    assert_eq!(events(&pieces(bytes, &sizes)), whole, "the events depend on the pieces {sizes:?}");
    assert_eq!(events(&pieces(bytes, &[1])), whole, "the events of single bytes differ");
    check_again(&whole, role, deflate);
    whole
}

/// Decodes a compressed message, or compresses and decodes messages, depending on the first byte.
pub(crate) fn deflate(data: &[u8]) -> Vec<Received> {
    let mut input = Input(data);
    match input.byte() {
        flags if flags & 128 == 0 => inflated(flags, input),
        flags => round_trip(flags, input),
    }
}

/// Decodes the rest of the input as one compressed message, in fragments.
fn inflated(flags: u8, mut input: Input<'_>) -> Vec<Received> {
    let deflate = Direction { keeps_context: flags & 1 != 0, window_bits: 15 };
    let message = match flags & 6 {
        0 => 1000,
        2 => 100_000,
        4 => (1 << 20) + 1000,
        _ => 4 << 20,
    };
    let limits = Limits { message, frame: 1 << 20, ratio: u32::from(input.byte()), ..Limits::default() };
    let kind = if flags & 8 != 0 { Kind::Text } else { Kind::Binary };
    let sizes = input.sizes();
    let payload = input.0;
    let parts = pieces(payload, &sizes);
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let opcode = if index == 0 { kind.into() } else { Opcode::Continuation };
        let (is_final, is_compressed) = (index + 1 == parts.len(), index == 0);
        let head = Head { is_final, is_compressed, opcode, key: None, length: part.len() as u64 };
        bytes.extend_from_slice(head.encode().as_slice());
        bytes.extend_from_slice(part);
    }
    let reader = Reader::new(Role::Client, limits, Some(deflate));
    let events = received(reader, deflate.keeps_context, &[&bytes]);
    check(&events, &limits, bytes.len());
    assert!(events.len() <= 1);
    if let Some(Received::Message(_, data)) = events.first() {
        let ratio = limits.ratio.max(1) as usize;
        assert!(data.len() <= 1 << 20 || data.len() / ratio <= payload.len(), "the limit of the ratio");
    }
    if let Some(expected) = inflated_at_once(payload, message as usize)
        && parts.len() <= 128
    {
        check_refusal_or(&events, kind, &expected, payload.len(), &limits);
    }
    events
}

/// Decodes a message with another interface of the decoder; `None` if it has a final block, is invalid, or is longer than
/// `limit`.
fn inflated_at_once(payload: &[u8], limit: usize) -> Option<Vec<u8>> {
    if payload.is_empty() {
        return None;
    }
    // Deflate expands data by at most 1032, so a short input needs little memory.
    let most = limit.min(payload.len() * 1032);
    let (input, mut out) = ([payload, &TRAILER[..4]].concat(), Vec::with_capacity(most + 1));
    let mut decoder = Decompress::new(false);
    let status = decoder.decompress_vec(&input, &mut out, FlushDecompress::Sync).ok()?;
    let is_whole = decoder.total_in() == input.len() as u64 && out.len() <= most;
    (is_whole && status != Status::StreamEnd).then_some(out)
}

/// A shorter compressed message is never refused for too little data.
const TOO_LITTLE_FROM: u64 = 8192;

/// Checks that a valid message was received, or refused for a limit.
fn check_refusal_or(events: &[Received], kind: Kind, expected: &[u8], compressed: usize, limits: &Limits) {
    let exceeds_ratio = expected.len() > 1 << 20 && expected.len() / limits.ratio.max(1) as usize > compressed;
    match events {
        [Received::Message(_, data)] => assert!(data == expected, "the message differs"),
        [Received::Refused(1007, _)] => assert!(kind == Kind::Text && std::str::from_utf8(expected).is_err()),
        // The ratio is also checked for each part of the message.
        [Received::Refused(1009, _)] => assert!(expected.len() > 1 << 20, "{events:?}"),
        [Received::Refused(1008, _)] => {
            assert!(compressed as u64 >= TOO_LITTLE_FROM && expected.len() < compressed, "{events:?}");
        }
        // The last block may be incomplete.
        [Received::Refused(1002, _)] => {}
        _ => panic!("{events:?} {exceeds_ratio}"),
    }
}

/// Compresses messages that the rest of the input describes, and decodes them.
fn round_trip(flags: u8, mut input: Input<'_>) -> Vec<Received> {
    let deflate = Direction { keeps_context: flags & 8 != 0, window_bits: 8 + (flags & 7) };
    let key: Option<Key> = (flags & 16 != 0).then_some([1, 2, 3, 4]);
    let role = if key.is_some() { Role::Server } else { Role::Client };
    let level = 1 + u32::from(input.byte() % 9);
    let sizes = input.sizes();
    let mut writer = Writer::new(Some(deflate), Settings { level, threshold: 0 });
    let (mut bytes, shared) = (Vec::new(), &mut SharedCompressor::default());
    let (mut expected, mut total) = (Vec::new(), 0);
    // Most inputs are short, because compression is slow with the checks of the fuzzer's build.
    let most = if flags & 64 != 0 { 100_000 } else { 6000 };
    while !input.0.is_empty() && total < most {
        let (length, count) = (usize::from(input.byte()), input.short() % 2000);
        let mut message = input.bytes(length).repeat(count + 1);
        message.truncate(most);
        total += message.len() + 1;
        bytes.extend_from_slice(&writer.message(Kind::Binary, &message, key, shared));
        expected.push(Received::Message(Kind::Binary, message));
    }
    let limits = Limits { ratio: 1100, ..Limits::default() };
    let reader = Reader::new(role, limits, Some(deflate));
    let events = received(reader, deflate.keeps_context, &pieces(&bytes, &sizes));
    assert!(events == expected, "the messages differ: {deflate:?}, level {level}");
    events
}

/// Returns an input of [`frames`].
fn frames_input(flags: u8, sizes: &[u8], frames: &[&[u8]]) -> Vec<u8> {
    [&[flags, sizes.len() as u8][..], sizes, &frames.concat()].concat()
}

/// Returns seeds of [`frames`].
pub(crate) fn frames_seeds() -> Vec<Vec<u8>> {
    let key = Some([1, 2, 3, 4]);
    let masked = |opcode, payload: &[u8]| plain_frame(opcode, payload, key);
    let plain = |opcode, payload: &[u8]| plain_frame(opcode, payload, None);
    let deflated = |flags: u8, key| {
        let mut writer = Writer::new(direction(flags), Settings { level: 5, threshold: 0 });
        let shared = &mut SharedCompressor::default();
        let frames = [(); 2].map(|()| writer.message(Kind::Text, "Grüße, Grüße, Grüße".as_bytes(), key, shared));
        frames.concat()
    };
    let close = super::close::encode(1000, "end").unwrap_or_default();
    vec![
        frames_input(64, &[1, 3], &[&masked(Opcode::Text, "Grüße".as_bytes()), &masked(Opcode::Close, &close)]),
        frames_input(32, &[2], &[&plain(Opcode::Binary, b"12345"), &plain(Opcode::Ping, b"ping"), b"\x8a\x00"]),
        // A message in fragments, with a ping between them.
        frames_input(32, &[], &[b"\x01\x02\xc3\xbc\x89\x01x\x00\x01\xc3\x80\x01\xbc\x88\x00"]),
        // A message of 200 bytes, and one of 66,000 bytes.
        frames_input(96, &[0], &[&plain(Opcode::Binary, &[7; 200]), &plain(Opcode::Text, &[65; 65_536])]),
        frames_input(16 | 7, &[5], &[&deflated(16 | 7, key)]),
        frames_input(32 | 16 | 8 | 1, &[1], &[&deflated(16 | 8 | 1, None)]),
        // A text that is not UTF-8, and frames that exceed a limit.
        frames_input(32, &[], &[b"\x81\x01\xff"]),
        frames_input(32, &[], &[b"\x82\x19"]),
        frames_input(32, &[], &[b"\x01\x00\x00\x00\x00\x00\x00\x00\x80\x00"]),
    ]
}

/// Returns seeds of [`deflate`].
pub(crate) fn deflate_seeds() -> Vec<Vec<u8>> {
    let compressed = |message: &[u8]| {
        let mut out = Vec::new();
        let with = Direction { keeps_context: false, window_bits: 15 };
        super::deflate::Compressor::new(9).compress(message, with, &mut out).unwrap_or(());
        out
    };
    let inflate = |flags: u8, ratio: u8, sizes: &[u8], message: &[u8]| {
        [&[flags, ratio, sizes.len() as u8][..], sizes, message].concat()
    };
    vec![
        inflate(0, 20, &[3], &compressed(b"Hello, Hello, Hello")),
        inflate(8 | 1, 20, &[], &compressed("Grüße".as_bytes())),
        // A stored block, a block with a fixed code, and two blocks of which the first is final.
        inflate(2, 20, &[1], b"\x00\x05\x00\xfa\xffHello\x00"),
        inflate(2, 20, &[], b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"),
        inflate(2, 20, &[], b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00"),
        // More than a window; more than the limits of messages and of the ratio.
        inflate(2, 255, &[0], &compressed(&b"0123456789abc".repeat(6000))),
        inflate(0, 255, &[], &compressed(&[0; 1001])),
        inflate(6, 20, &[], &compressed(&[0; 2 << 20])),
        [&[128 | 64 | 16 | 8 | 7, 4, 1, 9, 3, 0, 2][..], b"abc", &[4, 7, 0], b"defg"].concat(),
        [&[128 | 8, 8, 0, 5, 1, 0][..], b"12345", &[200, 0, 0], &(0..200).collect::<Vec<u8>>()].concat(),
        [&[128 | 7, 0, 2, 1, 0, 1, 7, 0][..], b"z", &[0, 0, 0]].concat(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[Vec<Received>]) -> Vec<String> {
        let text = |event: &Received| match event {
            Received::Message(kind, data) => format!("{kind:?} {}", data.len()),
            Received::Ping(_) => "ping".into(),
            Received::Pong(_) => "pong".into(),
            Received::Close(code, reason) => format!("close {code:?} {reason}"),
            Received::Refused(code, text) => format!("{code} {text}"),
        };
        all.iter().map(|events| events.iter().map(text).collect::<Vec<_>>().join(", ")).collect()
    }

    #[test]
    fn the_seeds_of_frames_reach_messages_and_limits() {
        let all: Vec<_> = frames_seeds().iter().map(|seed| frames(seed)).collect();
        let expected = [
            "Text 7, close Some(1000) end",
            "Binary 5, ping, pong",
            "ping, Text 4, close None ",
            "Binary 200, Text 65536",
            "Text 25, Text 25",
            "Text 25, Text 25",
            "1007 text that is not UTF-8",
            "1009 frame exceeds the limit",
            "1008 message with too many empty fragments",
        ];
        assert_eq!(texts(&all), expected);
    }

    #[test]
    fn the_seeds_of_deflate_reach_messages_and_limits() {
        let all: Vec<_> = deflate_seeds().iter().map(|seed| deflate(seed)).collect();
        let expected = [
            "Binary 19",
            "Text 7",
            "Binary 5",
            "Binary 5",
            "Binary 5",
            "Binary 78000",
            "1009 message exceeds the limit",
            "1009 message exceeds the limit of the compression ratio",
            "Binary 9, Binary 7172",
            "Binary 1285, Binary 200",
            "Binary 1793, Binary 0",
        ];
        assert_eq!(texts(&all), expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, 0x80, 0x55] {
                frames(&vec![first; length]);
                deflate(&vec![first; length]);
            }
        }
    }
}
