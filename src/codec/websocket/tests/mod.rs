//! Tests of the WebSocket codec that need several of its files.

mod broadcast;
mod compression;
mod limits;
mod negotiation;
mod properties;
mod rate;
mod reader;

use super::close::Close;
use super::negotiation::{Deflate, Direction};
use super::reader::{Event, Limits, Reader};
use super::{Kind, Role};

/// An event that a reader has received, with owned data.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Received {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Refused(u16, &'static str),
}

impl From<Event<'_>> for Received {
    fn from(event: Event<'_>) -> Received {
        match event {
            Event::Message(Kind::Text, data) => Received::Text(String::from_utf8(data.into_owned()).expect("UTF-8")),
            Event::Message(Kind::Binary, data) => Received::Binary(data.into_owned()),
            Event::Ping(payload) => Received::Ping(payload.into_owned()),
            Event::Pong(payload) => Received::Pong(payload.into_owned()),
            Event::Close(Close { code, reason }) => Received::Close(code, reason),
            Event::Refused(refusal) => Received::Refused(refusal.code, refusal.text),
        }
    }
}

/// Passes one piece of bytes to a reader. Appends the events.
fn feed(reader: &mut Reader, piece: &[u8], events: &mut Vec<Received>) {
    let mut piece = piece.to_vec();
    let mut at = 0;
    loop {
        let (consumed, event) = reader.next(&mut piece[at..]);
        at += consumed;
        match event {
            Some(event) => events.push(event.into()),
            None => break,
        }
    }
    assert_eq!(at, piece.len(), "without an event, all bytes are consumed");
}

/// Returns the events of bytes that arrive in pieces.
fn received<'p>(reader: &mut Reader, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<Received> {
    let mut events = Vec::new();
    for piece in pieces {
        feed(reader, piece, &mut events);
    }
    events
}

/// Returns a reader of a client, so that frames need no mask.
fn client(limits: Limits) -> Reader {
    Reader::new(Role::Client, limits, None)
}

/// Parameters with context takeover or without it.
const KEEPS: Direction = Direction { keeps_context: true, window_bits: 15 };
const FORGETS: Direction = Direction { keeps_context: false, window_bits: 15 };

fn client_with(deflate: Direction, limits: Limits) -> Reader {
    Reader::new(Role::Client, limits, Some(deflate))
}

/// Returns an unmasked frame with these first byte and payload.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let head = match length {
        0..126 => vec![first, length as u8],
        126..0x1_0000 => [&[first, 126][..], &(length as u16).to_be_bytes()].concat(),
        _ => [&[first, 127][..], &(length as u64).to_be_bytes()].concat(),
    };
    [&head[..], payload].concat()
}

/// The first bytes of frames.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const FIRST_TEXT: u8 = 0x01;
const FIRST_BINARY: u8 = 0x02;
const NEXT: u8 = 0x00;
const LAST: u8 = 0x80;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const COMPRESSED: u8 = 0x40;

fn text(text: &str) -> Received {
    Received::Text(text.into())
}

fn deflate(client: Direction, server: Direction) -> Deflate {
    Deflate { client, server }
}
