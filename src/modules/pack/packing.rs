//! Packing values into a block.
//!
//! No Lua code runs while tables are packed, so that they do not change. A value with a `__pairs` metamethod, which is
//! the program's code, is copied first: [`copy`] runs `copy.lua`, which creates plain tables.

use super::functions::number_of;
use crate::codec::pack::{Exhausted, TableState, Value, Writer};
use crate::ltask::message::Payload;
use crate::lua::Value::List;
use crate::lua::{
    Argument, Call, Chunk, Continuation, Coroutine, Fault, Function, Kind, Next, Outcome, Read, Register, RegistryName,
    Returns, Threads, Walk, then,
};
use std::cell::Cell;

/// The string `__pairs`, kept in the VM.
static PAIRS: RegistryName = RegistryName::new();
/// The code of `copy.lua`, kept in the VM.
static COPY: RegistryName = RegistryName::new();
const COPY_CODE: Chunk<'static> = Chunk::Text(include_bytes!("copy.lua"), c"=pack");

/// Packs the values from index `first` on into a block. Returns `None` if the values must be copied first; see
/// [`copy`].
pub(crate) fn block(call: &mut Call<'_>, first: i32) -> Result<Option<Payload>, Fault> {
    let last = call.count();
    let mut later = 0;
    let packed = loop {
        match write_block(|writer| call.walk(|values| Packer { writer, later }.message(values, first, last))) {
            Err(PackError::Name) => drop(call.create(Register(&PAIRS, "__pairs"))?),
            Err(PackError::Deep) if later == 0 => later = call.create(List(Vec::new()))?,
            packed => break packed,
        }
    };
    if later != 0 {
        call.drop_to(last);
    }
    match packed {
        Ok(payload) => Ok(Some(payload)),
        Err(PackError::Pairs) => Ok(None),
        Err(failure) => Err(fault(&failure)),
    }
}

/// Packs the topmost `count` values of a coroutine that has returned into a block. Returns `None` on failure, and if
/// the values must be copied first.
pub(crate) fn block_of(call: &mut Call<'_>, threads: &Threads, co: Coroutine, count: i32) -> Option<Payload> {
    let packed = write_block(|writer| {
        let packed = threads.walk(call, co, count, |values, first| {
            Packer { writer, later: 0 }.message(values, first, first + count - 1)
        });
        packed.unwrap_or(Err(PackError::Stack))
    });
    packed.ok()
}

/// Copies the values from index `first` on. A table with a `__pairs` metamethod is replaced by a table of the pairs
/// that the metamethod returns. The step `next` gets an error message, or nil and the copies. The metamethods cannot
/// yield.
pub(crate) fn copy<R>(
    call: &mut Call<'_>, first: i32, next: &'static Continuation, kept: u32,
) -> Result<Next<R>, Fault> {
    let last = call.count();
    let function = call.registered(&COPY)?;
    if call.kind(function) != Kind::Function {
        call.drop_to(last);
        call.create(Register(&COPY, COPY_CODE))?;
    }
    call.push(Function::new(pairs_of))?;
    call.push(Function::new(refusal))?;
    call.push_copies(first..=last)?;
    Ok(Next::call_unyieldable(last - first + 3, next, kept))
}

/// Packs the copies in `outcome` (see [`copy`]) into a block.
pub(crate) fn copied(call: &mut Call<'_>, outcome: Outcome) -> Result<Payload, Fault> {
    if let Some(message) = call.string(outcome.first) {
        return Err(Fault::message(String::from_utf8_lossy(message)));
    }
    block(call, outcome.first + 1)?.ok_or_else(|| fault(&PackError::Pairs))
}

/// Packs the values from index `first` on, then runs `step` with the block.
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

/// Why values cannot be packed.
pub(super) enum PackError {
    /// A value of this type cannot be packed.
    Unsupported(Kind),
    Memory,
    /// The Lua stack cannot grow.
    Stack,
    /// A table has a `__pairs` metamethod.
    Pairs,
    /// The name `__pairs` is not stored in the VM yet.
    Name,
    /// Tables are nested so deeply that a table is needed to keep some of them for later.
    Deep,
}

impl From<Exhausted> for PackError {
    fn from(_: Exhausted) -> Self {
        PackError::Memory
    }
}

/// Converts a failure to an error.
#[cold]
pub(super) fn fault(failure: &PackError) -> Fault {
    Fault::message(message(failure))
}

/// Returns the message of a failure. The messages about types are those of ltask.
fn message(failure: &PackError) -> &'static str {
    match failure {
        PackError::Unsupported(Kind::Function) => "Unsupport type function to serialize",
        PackError::Unsupported(Kind::Thread) => "Unsupport type thread to serialize",
        PackError::Unsupported(_) => "Unsupport type userdata to serialize",
        PackError::Stack => "stack overflow",
        PackError::Memory | PackError::Pairs | PackError::Name | PackError::Deep => "no memory for a message",
    }
}

type Packed<T = ()> = Result<T, PackError>;

thread_local! {
    /// A writer, whose memory is reused for the next message.
    static WRITER: Cell<Option<Box<Writer>>> = const { Cell::new(None) };
}

/// Calls `pack` with a writer. Returns the written bytes as a block.
#[inline(always)]
fn write_block(pack: impl FnOnce(&mut Writer) -> Packed) -> Packed<Payload> {
    let kept = WRITER.try_with(Cell::take).ok().flatten();
    let mut writer = kept.unwrap_or_default();
    let packed = pack(&mut writer).and_then(|()| Payload::copy(writer.bytes()).ok_or(PackError::Memory));
    writer.clear();
    // The thread-local exists unless the thread is ending.
    let _ = WRITER.try_with(|place| place.set(Some(writer)));
    packed
}

/// Packs values while no Lua code runs.
struct Packer<'w> {
    writer: &'w mut Writer,
    /// The index of a table with the tables that are packed later; 0 if there is none.
    later: i32,
}

impl Packer<'_> {
    /// Packs the values at `first` to `last`, then the tables that were postponed.
    fn message(&mut self, values: &mut Walk, first: i32, last: i32) -> Packed {
        for index in first..last + 1 {
            self.value(values, index, 0)?;
        }
        let mut done = 0;
        while let Some(number) = self.writer.begin_content(done)? {
            done = number;
            let mut later = values.elements(self.later).ok_or(PackError::Stack)?;
            let table = later.get(number);
            self.content(later.walk(), table, 1)?;
        }
        Ok(())
    }

    /// Packs the value at `index`, which is inside `depth` tables.
    #[inline(always)]
    fn value(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        if let Some(integer) = values.as_integer(index) {
            return Ok(self.writer.integer(integer)?);
        }
        match values.read(index) {
            Read::Integer(integer) => Ok(self.writer.integer(integer)?),
            Read::String(bytes) => Ok(self.writer.string(bytes)?),
            Read::Table => self.table(values, index, depth),
            Read::Other(kind) => Ok(self.writer.value(plain_value(values, index, kind)?)?),
        }
    }

    /// Packs a value that is most likely a string.
    #[inline(always)]
    fn key(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        match values.string(index) {
            Some(bytes) => Ok(self.writer.string(bytes)?),
            None => self.value(values, index, depth),
        }
    }

    /// Packs the table at `index`, or a reference to it if it was packed before.
    fn table(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        match self.writer.table(values.identity(index), depth)? {
            TableState::New => self.content(values, index, depth + 1),
            TableState::Written => Ok(()),
            TableState::Postponed(_) if self.later == 0 => Err(PackError::Deep),
            TableState::Postponed(number) => {
                let entered = values.enter(self.later, number, index);
                entered.map_err(|_| PackError::Memory)
            }
        }
    }

    /// Packs the contents of the table at `index`: first the items, as long as the keys are 1, 2, 3 and so on, as in an
    /// array part; then the other keys and values.
    fn content(&mut self, values: &mut Walk, index: i32, depth: u32) -> Packed {
        let mut pairs = values.pairs(index).ok_or(PackError::Stack)?;
        match pairs.has_metafield(index, &PAIRS) {
            Some(false) => {}
            Some(true) => return Err(PackError::Pairs),
            None => return Err(PackError::Name),
        }
        let (key, value) = (pairs.key(), pairs.value());
        let mut more = pairs.next();
        let mut number = pairs.integer_key();
        // `next` begins with the array part. If the first key is not an integer, there is no array part.
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

/// Converts a value that is neither a string nor a table.
fn plain_value(values: &mut Walk, index: i32, kind: Kind) -> Packed<Value<'static>> {
    Ok(match kind {
        Kind::None | Kind::Nil => Value::Nil,
        Kind::Boolean => Value::Boolean(values.is_true(index)),
        Kind::Number => Value::Float(values.number(index).unwrap_or(f64::NAN)),
        Kind::LightUserdata => Value::Pointer(values.light(index).map_or(0, |light| light.0)),
        Kind::Function => match values.light_function(index) {
            Some(function) => Value::Function(number_of(function)),
            None => return Err(PackError::Unsupported(kind)),
        },
        kind => return Err(PackError::Unsupported(kind)),
    })
}

/// `(value)`: returns the `__pairs` metamethod of the value.
fn pairs_of(call: &mut Call<'_>) -> Result<Argument, Fault> {
    Ok(Argument(call.metafield(1, &PAIRS)?))
}

/// `(value)`: returns an error message if the value cannot be packed; otherwise nil.
fn refusal(call: &mut Call<'_>) -> Result<Option<&'static str>, Fault> {
    let failed = call.walk(|values| match values.kind(1) {
        Kind::String | Kind::Table => None,
        kind => plain_value(values, 1, kind).err(),
    });
    Ok(failed.as_ref().map(message))
}
