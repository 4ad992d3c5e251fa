//! Writer of packed values.

use super::format::*;
use super::table_offsets::TableOffsets;

/// There is not enough memory for the message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exhausted;

type Result<T = ()> = std::result::Result<T, Exhausted>;

/// A value other than a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(&'a [u8]),
    /// A light userdata.
    Pointer(usize),
    /// A C function, as a number that both sides know, counted from 1.
    Function(u64),
}

/// A writer of messages, one after another. The caller writes the content of a table if [`Writer::table`] requests it.
#[derive(Default)]
pub(crate) struct Writer {
    /// The first `length` bytes are the message; the other bytes are spare.
    bytes: Vec<u8>,
    length: usize,
    tables: TableOffsets,
    postponed: i64,
}

/// How the caller continues after [`Writer::table`].
pub(crate) enum TableState {
    /// The caller writes the table's content now, from [`Writer::array`] to [`Writer::end`].
    New,
    /// The table was written before.
    Written,
    /// The caller writes the table's content after all values, once [`Writer::begin_content`] returns this number.
    /// Numbers count from 1.
    Postponed(i64),
}

/// The array of a table that is being written. The array precedes the table's pairs.
pub(crate) struct Array {
    shape: usize,
    width: u8,
    /// The length that Lua reports for the table.
    length: u64,
    count: u64,
}

const FIRST_CAPACITY: usize = 512;
/// The maximum capacity that is kept for the next message, in bytes.
const MAX_SPARE_CAPACITY: usize = 64 * 1024;
/// The largest distance between two consecutive keys in the array.
const MAX_GAP: u64 = 64;

impl Writer {
    /// The bytes of the message so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Begins a new message.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        self.postponed = 0;
        self.tables.clear();
        if self.bytes.len() > MAX_SPARE_CAPACITY {
            self.bytes = Vec::new();
        }
    }

    /// Writes an integer in its shortest form.
    #[inline]
    pub(crate) fn integer(&mut self, value: i64) -> Result {
        let small = value.wrapping_add(INTEGER_BIAS);
        if (0..INTEGER_END.into()).contains(&small) {
            self.byte(small as u8)
        } else if let Ok(value) = i8::try_from(value) {
            self.tagged(INTEGER_8, value.to_ne_bytes())
        } else if let Ok(value) = i16::try_from(value) {
            self.tagged(INTEGER_16, value.to_ne_bytes())
        } else if let Ok(value) = i32::try_from(value) {
            self.tagged(INTEGER_32, value.to_ne_bytes())
        } else {
            self.tagged(INTEGER_64, value.to_ne_bytes())
        }
    }

    /// Writes a string.
    #[inline(always)]
    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result {
        let length = bytes.len();
        if length < STRING_END {
            let next = self.next(length + 1)?;
            next[0] = STRING | length as u8;
            copy_short(&mut next[1..], bytes);
            return Ok(());
        }
        self.long_string(bytes)
    }

    /// Writes a value.
    pub(crate) fn value(&mut self, value: Value<'_>) -> Result {
        match value {
            Value::Nil => self.byte(NIL),
            Value::Boolean(false) => self.byte(FALSE),
            Value::Boolean(true) => self.byte(TRUE),
            Value::Integer(value) => self.integer(value),
            Value::Float(value) => self.tagged(FLOAT, value.to_ne_bytes()),
            Value::String(bytes) => self.string(bytes),
            Value::Pointer(address) => self.tagged(POINTER, address.to_ne_bytes()),
            Value::Function(number) => self.tagged(FUNCTION, number.to_ne_bytes()),
        }
    }

    /// Writes the tag of a table, or a reference if the table was written before. `identity` must be unique among the
    /// tables of a message; `depth` is the number of tables around this table.
    pub(crate) fn table(&mut self, identity: usize, depth: u32) -> Result<TableState> {
        let offset = self.length;
        if let Some(first) = self.tables.enter(identity, offset) {
            let tag = &mut self.bytes[first];
            *tag = match *tag {
                TABLE => TABLE_SHARED,
                POSTPONED => POSTPONED_SHARED,
                shared => shared,
            };
            self.byte(REFERENCE)?;
            self.integer(first as i64)?;
            return Ok(TableState::Written);
        }
        if depth < MAX_DEPTH {
            self.byte(TABLE)?;
            return Ok(TableState::New);
        }
        self.byte(POSTPONED)?;
        self.postponed += 1;
        Ok(TableState::Postponed(self.postponed))
    }

    /// Begins the content of the next postponed table. `done`: the number of postponed tables written so far. Returns
    /// the table's number, or `None` if all are written.
    pub(crate) fn begin_content(&mut self, done: i64) -> Result<Option<i64>> {
        if done == self.postponed {
            return Ok(None);
        }
        self.byte(CONTENT)?;
        Ok(Some(done + 1))
    }

    /// Begins the content of a table. `length`: the length that Lua reports; 0 if the table has no array.
    pub(crate) fn array(&mut self, length: u64) -> Result<Array> {
        let shape = self.length;
        let (width, size) = match length {
            0 => (0, 0),
            1..=0xff => (WIDTH_8, 1),
            0x100..=0xffff_ffff => (WIDTH_32, 4),
            _ => (WIDTH_64, 8),
        };
        self.next(1 + size)?;
        Ok(Array { shape, width, length, count: 0 })
    }

    /// Returns whether the value of `key` belongs in the array, which contains the values of the previous keys. A small
    /// gap before `key` is filled with nil, but only within the table's length. This length may be any border: a table
    /// with a few values can report a length of 2^40.
    #[inline(always)]
    pub(crate) fn item(&mut self, array: &mut Array, key: i64) -> Result<bool> {
        let next = key as u64;
        if next != array.count.wrapping_add(1) && !self.fill(array, next)? {
            return Ok(false);
        }
        array.count = next;
        Ok(true)
    }

    /// Ends the items of an array. Keys and values follow.
    pub(crate) fn end_items(&mut self, array: &Array) {
        let at = array.shape + 1;
        match array.width {
            0 => {}
            // The count is at most the length that determined the width.
            WIDTH_8 => self.bytes[at] = array.count as u8,
            WIDTH_32 => {
                self.bytes[at..at + 4].copy_from_slice(&(array.count as u32).to_ne_bytes());
            }
            _ => self.bytes[at..at + 8].copy_from_slice(&array.count.to_ne_bytes()),
        }
    }

    /// Ends the content of a table with this number of pairs after its array.
    pub(crate) fn end(&mut self, array: Array, pairs: u64) -> Result {
        self.bytes[array.shape] = array.width | keys_class(pairs);
        match pairs {
            0 => Ok(()),
            _ => self.byte(NIL),
        }
    }

    /// Returns the next `count` bytes of the message, which the caller overwrites.
    #[inline(always)]
    fn next(&mut self, count: usize) -> Result<&mut [u8]> {
        let (start, end) = (self.length, self.length + count);
        if end > self.bytes.len() {
            self.grow(end)?;
        }
        self.length = end;
        Ok(&mut self.bytes[start..end])
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) -> Result {
        let size = needed.max(self.bytes.len() * 2).max(FIRST_CAPACITY);
        let more = size - self.bytes.len();
        self.bytes.try_reserve_exact(more).map_err(|_| Exhausted)?;
        self.bytes.resize(size, 0);
        Ok(())
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) -> Result {
        self.next(1)?[0] = byte;
        Ok(())
    }

    /// Writes a tag and a number after it.
    #[inline(always)]
    fn tagged<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) -> Result {
        let next = self.next(N + 1)?;
        next[0] = tag;
        next[1..].copy_from_slice(&bytes);
        Ok(())
    }

    fn long_string(&mut self, bytes: &[u8]) -> Result {
        if let Ok(length) = u8::try_from(bytes.len()) {
            self.tagged(STRING_8, length.to_ne_bytes())?;
        } else if let Ok(length) = u32::try_from(bytes.len()) {
            self.tagged(STRING_32, length.to_ne_bytes())?;
        } else {
            self.tagged(STRING_64, (bytes.len() as u64).to_ne_bytes())?;
        }
        self.next(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn fill(&mut self, array: &Array, next: u64) -> Result<bool> {
        if next <= array.count || next > array.length || next - array.count > MAX_GAP {
            return Ok(false);
        }
        for _ in array.count + 1..next {
            self.byte(NIL)?;
        }
        Ok(true)
    }
}

/// Copies up to 16 bytes without a function call, because most strings are short. Both slices must have the same
/// length.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    if from.len() > 16 {
        to.copy_from_slice(from);
    } else if !overlap::<8>(to, from) && !overlap::<4>(to, from) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

/// Copies `N` to `2 * N` bytes as two words, which may overlap. Returns false if the slices are shorter than `N` bytes.
#[inline(always)]
fn overlap<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else {
        return false;
    };
    if let Some(to) = to.first_chunk_mut() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *last;
    }
    true
}
