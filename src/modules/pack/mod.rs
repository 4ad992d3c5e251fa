//! Packing: Lua values as a block of bytes that travels from one VM to another. `pack`, `unpack`, `unpack_remove` and
//! `remove` of `ltask`; its calls pack and unpack by [`block`] and [`Unpack`].
//!
//! Tables are packed while nothing of Lua's runs, so that none changes meanwhile. Values with a `__pairs`, which is code of
//! the program's, are copied before: [`copy`] has `copy.lua` make plain tables of them.

use crate::codec::pack::{Exhausted, Item, Origin, Reader, Shape, TableState, Value, Writer};
use crate::ltask::message::{Borrowed, Payload};
use crate::lua::Value::List;
use crate::lua::{
    Argument, Call, Code, Coroutine, Decoded, Encoded, Event, Events, Fault, Function, FunctionTable, Keep, Kept, Kind,
    Light, Next, Outcome, Read, Returns, Table, Then, Threads, Walk, functions, results, then,
};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

#[cfg(all(test, feature = "vendored"))]
mod tests;

/// `pack`, `unpack`, `unpack_remove` and `remove`.
pub(crate) const FUNCTIONS: FunctionTable = functions! { pack, unpack, unpack_remove, remove };

/// The string `__pairs`.
static PAIRS: Kept = Kept::new();
/// The code of `copy.lua`.
static COPY: Kept = Kept::new();
const COPY_CODE: Code = Code { name: c"=pack", text: include_str!("copy.lua") };

/// The C functions that were packed. A message has their places here: whatever its bytes are, what is unpacked is one of
/// them.
static FUNCTIONS_SENT: Mutex<Vec<Function>> = Mutex::new(Vec::new());

/// Why values could not be packed.
enum Failure {
    /// One is of this kind.
    Unsupported(Kind),
    Memory,
    /// The stack has no room.
    Stack,
    /// A table has a `__pairs`.
    Pairs,
    /// The VM does not keep the name `__pairs` yet.
    Name,
    /// Tables are in one another so deep that a table is needed to keep some for later.
    Deep,
}

type Packed<T = ()> = Result<T, Failure>;

impl From<Exhausted> for Failure {
    fn from(_: Exhausted) -> Self {
        Failure::Memory
    }
}

thread_local! {
    /// A writer, whose memory serves the next message as well.
    static WRITER: Cell<Option<Box<Writer>>> = const { Cell::new(None) };
}

/// What `pack` writes, as a block.
#[inline(always)]
fn written(pack: impl FnOnce(&mut Writer) -> Packed) -> Packed<Payload> {
    let kept = WRITER.try_with(Cell::take).ok().flatten();
    let mut writer = kept.unwrap_or_default();
    let packed = pack(&mut writer).and_then(|()| Payload::copy(writer.bytes()).ok_or(Failure::Memory));
    writer.clear();
    // The place is gone only while the thread ends.
    let _ = WRITER.try_with(|place| place.set(Some(writer)));
    packed
}

/// The values from `first` on as a block; `None` if they have to be copied before, see [`copy`].
pub(crate) fn block(call: &mut Call<'_>, first: i32) -> Result<Option<Payload>, Fault> {
    let last = call.count();
    let mut later = 0;
    let packed = loop {
        match written(|writer| call.walk(|values| Packer { writer, later }.message(values, first, last))) {
            Err(Failure::Name) => drop(call.create(Keep(&PAIRS, "__pairs"))?),
            Err(Failure::Deep) if later == 0 => later = call.create(List(Vec::new()))?,
            packed => break packed,
        }
    };
    if later != 0 {
        call.drop_to(last);
    }
    match packed {
        Ok(payload) => Ok(Some(payload)),
        Err(Failure::Pairs) => Ok(None),
        Err(failure) => Err(explain(&failure)),
    }
}

/// The topmost `count` values of a coroutine that has returned as a block, if they can be packed where they are.
pub(crate) fn block_of(call: &mut Call<'_>, threads: &Threads, co: Coroutine, count: i32) -> Option<Payload> {
    let packed = written(|writer| {
        let packed = threads.walk(call, co, count, |values, first| {
            Packer { writer, later: 0 }.message(values, first, first + count - 1)
        });
        packed.unwrap_or(Err(Failure::Stack))
    });
    packed.ok()
}

#[cold]
fn explain(failure: &Failure) -> Fault {
    Fault::message(words(failure))
}

fn words(failure: &Failure) -> &'static str {
    match failure {
        Failure::Unsupported(Kind::Function) => "Unsupport type function to serialize",
        Failure::Unsupported(Kind::Thread) => "Unsupport type thread to serialize",
        Failure::Unsupported(_) => "Unsupport type userdata to serialize",
        Failure::Stack => "stack overflow",
        Failure::Memory | Failure::Pairs | Failure::Name | Failure::Deep => "no memory for a message",
    }
}

/// Copies the values from `first` on: of a table with a `__pairs` what that gives. The next step finds what is wrong, or
/// nil, and the copies behind it. It cannot yield.
pub(crate) fn copy<R>(call: &mut Call<'_>, first: i32, next: &'static Then, kept: u32) -> Result<Next<R>, Fault> {
    let last = call.count();
    let function = call.kept(&COPY)?;
    if call.kind(function) != Kind::Function {
        call.drop_to(last);
        call.create(Keep(&COPY, COPY_CODE))?;
    }
    call.push(Function::new(pairs_of))?;
    call.push(Function::new(refusal))?;
    call.push_copies(first..=last)?;
    Ok(Next::call_whole(last - first + 3, next, kept))
}

/// The block of the copies that `outcome` has brought, see [`copy`].
pub(crate) fn copied(call: &mut Call<'_>, outcome: Outcome) -> Result<Payload, Fault> {
    if let Some(message) = call.string(outcome.first) {
        return Err(Fault::message(String::from_utf8_lossy(message)));
    }
    block(call, outcome.first + 1)?.ok_or_else(|| explain(&Failure::Pairs))
}

/// Packs the values from `first` on, then runs `step`.
#[inline]
pub(crate) fn packed<R, F>(call: &mut Call<'_>, first: i32, step: F) -> Result<Next<R>, Fault>
where
    F: Fn(&mut Call<'_>, Payload) -> Result<Next<R>, Fault> + Copy + 'static,
    R: Returns,
{
    if let Some(payload) = block(call, first)? {
        return step(call, payload);
    }
    let next = then(move |call: &mut Call<'_>, outcome| {
        let payload = copied(call, outcome)?;
        step(call, payload)
    });
    copy(call, first, next, 0)
}

/// (value) → what its metatable has as `__pairs`.
fn pairs_of(call: &mut Call<'_>) -> Result<Argument, Fault> {
    Ok(Argument(call.metafield(1, &PAIRS)?))
}

/// (value) → what is wrong when it cannot be packed.
fn refusal(call: &mut Call<'_>) -> Result<Option<&'static str>, Fault> {
    let failed = call.walk(|values| match values.kind(1) {
        Kind::String | Kind::Table => None,
        kind => plain(values, 1, kind).err(),
    });
    Ok(failed.as_ref().map(words))
}

/// Packs values while nothing of Lua's runs.
struct Packer<'w> {
    writer: &'w mut Writer,
    /// The index of a table with those that come later, 0 for none.
    later: i32,
}

impl Packer<'_> {
    fn message(&mut self, values: &mut Walk, first: i32, last: i32) -> Packed {
        for index in first..last + 1 {
            self.value(values, index, 0)?;
        }
        let mut done = 0;
        while let Some(number) = self.writer.begin_content(done)? {
            done = number;
            let mut later = values.elements(self.later).ok_or(Failure::Stack)?;
            let table = later.get(number);
            self.content(later.walk(), table, 1)?;
        }
        Ok(())
    }

    /// Packs the value at `index`, which `depth` tables are around.
    #[inline(always)]
    fn value(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        if let Some(integer) = values.as_integer(index) {
            return Ok(self.writer.integer(integer)?);
        }
        match values.read(index) {
            Read::Integer(integer) => Ok(self.writer.integer(integer)?),
            Read::String(bytes) => Ok(self.writer.string(bytes)?),
            Read::Table => self.table(values, index, depth),
            Read::Other(kind) => Ok(self.writer.value(plain(values, index, kind)?)?),
        }
    }

    /// The same of what is most likely a string.
    #[inline(always)]
    fn key(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        match values.string(index) {
            Some(bytes) => Ok(self.writer.string(bytes)?),
            None => self.value(values, index, depth),
        }
    }

    fn table(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        match self.writer.table(values.identity(index), depth)? {
            TableState::New => self.content(values, index, depth + 1),
            TableState::Written => Ok(()),
            TableState::Postponed(_) if self.later == 0 => Err(Failure::Deep),
            TableState::Postponed(number) => {
                let entered = values.enter(self.later, number, index);
                entered.map_err(|_| Failure::Memory)
            }
        }
    }

    /// The content of the table at `index`: items as long as the keys come as 1, 2, …, which an array part's do, then keys
    /// and values.
    fn content(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        let mut pairs = values.pairs(index).ok_or(Failure::Stack)?;
        match pairs.has_metafield(index, &PAIRS) {
            Some(false) => {}
            Some(true) => return Err(Failure::Pairs),
            None => return Err(Failure::Name),
        }
        let (key, value) = (pairs.key(), pairs.value());
        let mut more = pairs.next();
        let mut number = pairs.integer_key();
        // An array part comes first: without an integer there is none.
        let length = match number {
            Some(_) => pairs.walk().raw_length(index) as u64,
            None => 0,
        };
        let mut array = self.writer.array(length)?;
        if length > 0 {
            while let Some(next) = number {
                if !self.writer.item(&mut array, next)? {
                    break;
                }
                self.value(pairs.walk(), value, depth)?;
                more = pairs.next();
                number = pairs.integer_key();
            }
            self.writer.end_items(&array);
        }
        let mut count = 0;
        while more {
            self.key(pairs.walk(), key, depth)?;
            self.value(pairs.walk(), value, depth)?;
            count += 1;
            more = pairs.next();
        }
        Ok(self.writer.end(array, count)?)
    }
}

/// A value that is neither a string nor a table.
fn plain(values: &mut Walk, index: i32, kind: Kind) -> Packed<Value<'static>> {
    Ok(match kind {
        Kind::None | Kind::Nil => Value::Nil,
        Kind::Boolean => Value::Boolean(values.is_true(index)),
        Kind::Number => Value::Float(values.number(index).unwrap_or(f64::NAN)),
        Kind::LightUserdata => Value::Pointer(values.light(index).map_or(0, |light| light.0)),
        Kind::Function => match values.c_function(index) {
            Some(function) => Value::Function(number(function)),
            None => return Err(Failure::Unsupported(kind)),
        },
        kind => return Err(Failure::Unsupported(kind)),
    })
}

/// The place of a function among those that were packed, from 1.
fn number(function: Function) -> u64 {
    let mut sent = FUNCTIONS_SENT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |sent: &Function| sent.address() == function.address();
    let place = sent.iter().position(known).unwrap_or_else(|| {
        sent.push(function);
        sent.len() - 1
    });
    place as u64 + 1
}

/// The function in such a place.
fn numbered(number: u64) -> Option<Function> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    let sent = FUNCTIONS_SENT.lock().unwrap_or_else(PoisonError::into_inner);
    sent.get(place).copied()
}

/// A decoder of packed values.
pub(crate) struct Unpacker<B>(Reader<B>);

impl<B: AsRef<[u8]> + 'static> Events for Unpacker<B> {
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
            Ok(Item::Function(number)) => match numbered(number) {
                Some(function) => Event::Function(function),
                None => Event::Wrong("no function"),
            },
            Ok(Item::Table(shape, offset)) => Event::Table(table(shape, [name(offset), 0])),
            Ok(Item::Postponed(number, offset)) => Event::Table(table(Shape::default(), [name(offset), -number])),
            Ok(Item::Content(number, shape)) => Event::Content(-number, table(shape, [0; 2])),
            Ok(Item::Reference(offset)) => Event::Named(name(Some(offset))),
            Ok(Item::End) => Event::End,
            Err(corrupt) => Event::Wrong(corrupt.text()),
        }
    }
}

fn table(shape: Shape, names: [i64; 2]) -> Table {
    let (items, pairs) = shape.room;
    Table { items: shape.items, pairs: shape.pairs, room: (items as i32, pairs as i32), names, metatable: 0 }
}

/// The name of the table at an offset: those that come later have negative ones.
#[inline(always)]
fn name(offset: Option<i64>) -> i64 {
    offset.map_or(0, |offset| offset.wrapping_add(1).max(1))
}

/// The bytes of a short message: with nothing to free, they need no place that survives an error.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    length: u8,
    bytes: [u8; Short::MOST],
}

impl Short {
    const MOST: usize = 160;

    fn copy(from: &[u8]) -> Option<Short> {
        let mut bytes = [0; Short::MOST];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let length = from.len() as u8;
        Some(Short { length, bytes })
    }
}

impl AsRef<[u8]> for Short {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(Short::MOST)]
    }
}

results! {
    /// The values of a message.
    pub(crate) enum Unpacked {
        None(()),
        Short(Decoded<Unpacker<Short>>),
        Owned(Decoded<Unpacker<Payload>>),
        Borrowed(Decoded<Unpacker<Borrowed>>),
    }
}

impl Encoded for Borrowed {
    type Decoder = Unpacker<Borrowed>;
    #[inline]
    fn decoder(&self) -> Unpacker<Borrowed> {
        borrowed(*self).0
    }
}

fn borrowed(block: Borrowed) -> Decoded<Unpacker<Borrowed>> {
    Decoded(Unpacker(Reader::new(block, Origin::Message)))
}

impl Unpacked {
    /// Of bytes that are copied, if they are few.
    fn short(bytes: &[u8], origin: Origin) -> Option<Unpacked> {
        if bytes.is_empty() {
            return Some(Unpacked::None(()));
        }
        let reader = Reader::new(Short::copy(bytes)?, origin);
        Some(Unpacked::Short(Decoded(Unpacker(reader))))
    }

    fn owned(payload: Payload, origin: Origin) -> Unpacked {
        Unpacked::Owned(Decoded(Unpacker(Reader::new(payload, origin))))
    }

    /// Of a payload, which is freed.
    pub(crate) fn of(payload: Payload) -> Unpacked {
        let short = Unpacked::short(payload.as_slice(), Origin::Message);
        short.unwrap_or_else(|| Unpacked::owned(payload, Origin::Message))
    }
}

/// `pack(...)` → pointer, size. The block is the caller's; none for no values.
pub(crate) fn pack(call: &mut Call<'_>) -> Result<Next<(Light, i64)>, Fault> {
    packed(call, 1, |_, payload| Ok(Next::returns(given(payload))))
}

/// A block as Lua has it.
fn given(payload: Payload) -> (Light, i64) {
    let (address, size) = payload.give();
    (Light(address), size as i64)
}

/// The block that arguments 1 and 2 name; nil, or a null pointer of size 0, is none.
fn named(call: &Call<'_>) -> Result<Option<(usize, usize)>, Fault> {
    let Some(Light(address)) = call.light(1) else {
        return match call.is_none(1) {
            true => Ok(None),
            false => Err(Fault::expected(1, "pointer")),
        };
    };
    let size = call.integer(2)?;
    if size < 0 || (address == 0 && size != 0) {
        return Err(Fault::argument(2, "wrong size"));
    }
    Ok((address != 0).then_some((address, size as usize)))
}

/// `unpack(pointer, size)` or `unpack(string)` → the values. Does not free. A string holds no light userdata and
/// no function.
pub(crate) fn unpack(call: &mut Call<'_>) -> Result<Unpacked, Fault> {
    if let Some(bytes) = call.string(1) {
        return match Unpacked::short(bytes, Origin::Text) {
            Some(short) => Ok(short),
            None => match Payload::copy(bytes) {
                Some(payload) => Ok(Unpacked::owned(payload, Origin::Text)),
                None => Err(explain(&Failure::Memory)),
            },
        };
    }
    Ok(match named(call)? {
        Some((address, size)) => Unpacked::Borrowed(borrowed(Borrowed::new(address, size))),
        None => Unpacked::None(()),
    })
}

/// `unpack_remove(pointer, size)` → the values. Frees, even when it raises.
pub(crate) fn unpack_remove(call: &mut Call<'_>) -> Result<Unpacked, Fault> {
    Ok(match named(call)? {
        Some((address, size)) => Unpacked::of(Payload::adopt(address, size)),
        None => Unpacked::None(()),
    })
}

/// `remove(pointer, size)`: frees; nil is fine.
pub(crate) fn remove(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.light(1) {
        Some(Light(address)) => drop(Payload::adopt(address, 0)),
        None if call.is_none(1) => {}
        None => return Err(Fault::expected(1, "pointer")),
    }
    Ok(())
}
