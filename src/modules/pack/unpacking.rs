//! Unpacking the bytes of a block: the values of a message.

use super::functions::function_at;
use crate::codec::pack::{Item, Origin, Reader, Shape};
use crate::ltask::message::{BorrowedPayload, Payload};
use crate::lua::{Decoded, Decoder, Encoded, Event, Light, Table, results};

results! {
    /// The values of a message. The variants differ in where the bytes are stored.
    pub(crate) enum Unpacked {
        None(()),
        Short(Decoded<Unpacker<ShortBytes>>),
        Owned(Decoded<Unpacker<Payload>>),
        Borrowed(Decoded<Unpacker<BorrowedPayload>>),
    }
}

impl Unpacked {
    /// Copies the bytes and returns their values; `None` if there are too many bytes.
    pub(super) fn short(bytes: &[u8], origin: Origin) -> Option<Unpacked> {
        if bytes.is_empty() {
            return Some(Unpacked::None(()));
        }
        let reader = Reader::new(ShortBytes::copy(bytes)?, origin);
        Some(Unpacked::Short(Decoded(Unpacker(reader))))
    }

    /// Returns the values of a payload of any size.
    pub(super) fn owned(payload: Payload, origin: Origin) -> Unpacked {
        Unpacked::Owned(Decoded(Unpacker(Reader::new(payload, origin))))
    }

    /// Returns the values of a payload. The payload is freed when the values have been read.
    pub(crate) fn of(payload: Payload) -> Unpacked {
        let short = Unpacked::short(payload.as_slice(), Origin::Message);
        short.unwrap_or_else(|| Unpacked::owned(payload, Origin::Message))
    }
}

/// Returns the values of a block that is not freed.
pub(super) fn borrowed(block: BorrowedPayload) -> Decoded<Unpacker<BorrowedPayload>> {
    Decoded(Unpacker(Reader::new(block, Origin::Message)))
}

impl Encoded for BorrowedPayload {
    type Decoder = Unpacker<BorrowedPayload>;
    #[inline]
    fn decoder(&self) -> Unpacker<BorrowedPayload> {
        borrowed(*self).0
    }
}

/// A decoder of packed values.
pub(crate) struct Unpacker<B>(Reader<B>);

impl<B: AsRef<[u8]> + 'static> Decoder for Unpacker<B> {
    const CALL: &'static str = "cannot unpack";

    #[inline(always)]
    fn next(&mut self, depth: u32) -> Event<'_> {
        match self.0.next(depth) {
            Ok(Item::Nil) => Event::Nil,
            Ok(Item::Boolean(value)) => Event::Boolean(value),
            Ok(Item::Integer(value)) => Event::Integer(value),
            Ok(Item::Float(value)) => Event::Number(value),
            Ok(Item::String(bytes)) => Event::String(bytes),
            Ok(Item::Pointer(address)) => Event::Light(Light(address)),
            Ok(Item::Function(number)) => match function_at(number) {
                Some(function) => Event::Function(function),
                None => Event::Malformed("no function"),
            },
            Ok(Item::Table(shape, offset)) => Event::Table(table(shape, [name(offset), 0])),
            Ok(Item::Postponed(number, offset)) => Event::Table(table(Shape::default(), [name(offset), -number])),
            Ok(Item::Content(number, shape)) => Event::Content(-number, table(shape, [0; 2])),
            Ok(Item::Reference(offset)) => Event::Named(name(Some(offset))),
            Ok(Item::End) => Event::End,
            Err(corrupt) => Event::Malformed(corrupt.text()),
        }
    }
}

/// Returns the event for a table.
fn table(shape: Shape, names: [i64; 2]) -> Table {
    let (items, pairs) = shape.room;
    Table { items: shape.items, pairs: shape.pairs, room: (items as i32, pairs as i32), names, metatable: 0 }
}

/// Returns the name of the table at an offset. Tables that are packed later have negative names.
#[inline(always)]
fn name(offset: Option<i64>) -> i64 {
    offset.map_or(0, |offset| offset.wrapping_add(1).max(1))
}

/// The bytes of a short message. Nothing has to be freed, so it does no harm if an error skips the destructor.
#[derive(Clone, Copy)]
pub(crate) struct ShortBytes {
    length: u8,
    bytes: [u8; ShortBytes::MAX_SIZE],
}

impl ShortBytes {
    const MAX_SIZE: usize = 160;

    /// Copies the bytes; returns `None` if there are more than `MAX_SIZE`.
    fn copy(from: &[u8]) -> Option<ShortBytes> {
        let mut bytes = [0; ShortBytes::MAX_SIZE];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let length = from.len() as u8;
        Some(ShortBytes { length, bytes })
    }
}

impl AsRef<[u8]> for ShortBytes {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(ShortBytes::MAX_SIZE)]
    }
}
