//! Reader of packed values.
//!
//! The reader does not trust its input: it checks every read against the end of the bytes, and preallocates tables only
//! for as many entries as the bytes can contain. The reader cannot check the target of a pointer. A string can come
//! from any source, so pointers in strings are refused.

use super::format::*;

/// Why bytes cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Corrupt {
    Tag,
    CutOff,
    Depth,
    Integer,
    Reference,
    Content,
    ForeignFunction,
    ForeignPointer,
}

impl Corrupt {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Corrupt::Tag => "unknown tag",
            Corrupt::CutOff => "the data is truncated",
            Corrupt::Depth => "nested too deeply",
            Corrupt::Integer => "integer expected",
            Corrupt::Reference => "reference to an unknown table",
            Corrupt::Content => "content without a table",
            Corrupt::ForeignFunction => "a string cannot contain a C function; pass the message by pointer and size",
            Corrupt::ForeignPointer => "a string cannot contain a light userdata; pass the message by pointer and size",
        }
    }
}

type Result<T> = std::result::Result<T, Corrupt>;

/// The source of the bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Origin {
    /// A writer in this process: addresses are valid.
    Message,
    /// Any source: addresses are refused.
    Text,
}

/// A value, or an instruction for building tables.
#[derive(Debug, PartialEq)]
pub(crate) enum Item<'b> {
    /// Nil; as a key it ends the pairs of the table.
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(&'b [u8]),
    /// A light userdata.
    Pointer(usize),
    /// A C function, by its number.
    Function(u64),
    /// A table whose content follows. If the second field is a number, an [`Item::Reference`] with this number can
    /// follow.
    Table(Shape, Option<i64>),
    /// A table whose content follows as [`Item::Content`] with the first number. The second field is as in
    /// [`Item::Table`].
    Postponed(i64, Option<i64>),
    /// The content of the table that [`Item::Postponed`] announced with this number.
    Content(i64, Shape),
    /// The table whose [`Item::Table`] or [`Item::Postponed`] has this number as its second field.
    Reference(i64),
    /// The end of the values.
    End,
}

/// The content of a table: `items` values, some of which may be nil; then, if `pairs` is true, keys and values until a
/// key is nil.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Shape {
    pub(crate) items: u64,
    pub(crate) pairs: bool,
    /// The numbers of items and pairs to preallocate.
    pub(crate) room: (u32, u32),
}

/// Reads a message.
pub(crate) struct Reader<B> {
    bytes: B,
    at: usize,
    postponed: i64,
    contents: i64,
    /// The number of entries that may still be preallocated. An entry takes at least one byte, and an entry with a key
    /// at least two. The hint for keys is less than twice the number of keys, so a message of a writer never exceeds
    /// this limit.
    preallocatable: u64,
    origin: Origin,
}

impl<B: AsRef<[u8]>> Reader<B> {
    pub(crate) fn new(bytes: B, origin: Origin) -> Reader<B> {
        let preallocatable = bytes.as_ref().len() as u64;
        Reader { bytes, at: 0, postponed: 0, contents: 0, preallocatable, origin }
    }

    /// Returns the next item. `depth`: the number of open tables; 0 at the top level.
    #[inline(always)]
    pub(crate) fn next(&mut self, depth: u32) -> Result<Item<'_>> {
        let Some(&tag) = self.bytes.as_ref().get(self.at) else { return self.end(depth) };
        self.at += 1;
        if tag < INTEGER_END {
            return Ok(Item::Integer(i64::from(tag) - INTEGER_BIAS));
        }
        if tag < NIL {
            return self.string((tag - STRING).into());
        }
        if matches!(tag, INTEGER_8..=INTEGER_64) {
            return self.integer(tag).map(Item::Integer);
        }
        self.tagged(tag, depth)
    }

    fn end(&self, depth: u32) -> Result<Item<'_>> {
        match depth == 0 && self.contents == self.postponed {
            true => Ok(Item::End),
            false => Err(Corrupt::CutOff),
        }
    }

    fn tagged(&mut self, tag: u8, depth: u32) -> Result<Item<'_>> {
        Ok(match tag {
            NIL => Item::Nil,
            FALSE => Item::Boolean(false),
            TRUE => Item::Boolean(true),
            FLOAT => Item::Float(f64::from_ne_bytes(self.array()?)),
            STRING_8 => {
                let length = u8::from_ne_bytes(self.array()?);
                return self.string(length.into());
            }
            STRING_32 => {
                let length = u32::from_ne_bytes(self.array()?);
                return self.string(length.into());
            }
            STRING_64 => {
                let length = u64::from_ne_bytes(self.array()?);
                return self.string(length);
            }
            POINTER if self.origin == Origin::Text => return Err(Corrupt::ForeignPointer),
            POINTER => Item::Pointer(usize::from_ne_bytes(self.array()?)),
            FUNCTION if self.origin == Origin::Text => return Err(Corrupt::ForeignFunction),
            FUNCTION => Item::Function(u64::from_ne_bytes(self.array()?)),
            TABLE | TABLE_SHARED if depth == MAX_DEPTH => return Err(Corrupt::Depth),
            TABLE => Item::Table(self.shape()?, None),
            TABLE_SHARED => {
                let name = Some(self.at as i64 - 1);
                Item::Table(self.shape()?, name)
            }
            POSTPONED | POSTPONED_SHARED => {
                self.postponed += 1;
                let name = (tag == POSTPONED_SHARED).then_some(self.at as i64 - 1);
                Item::Postponed(self.postponed, name)
            }
            CONTENT if depth == 0 => {
                self.contents += 1;
                if self.contents > self.postponed {
                    return Err(Corrupt::Content);
                }
                Item::Content(self.contents, self.shape()?)
            }
            REFERENCE => {
                let [tag] = self.array()?;
                match self.integer(tag)? {
                    ..0 => return Err(Corrupt::Reference),
                    offset => Item::Reference(offset),
                }
            }
            _ => return Err(Corrupt::Tag),
        })
    }

    /// Reads the next `N` bytes.
    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.bytes.as_ref().get(self.at..);
        let bytes = rest.and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        bytes.copied().ok_or(Corrupt::CutOff)
    }

    #[inline(always)]
    fn string(&mut self, length: u64) -> Result<Item<'_>> {
        let bytes = self.bytes.as_ref();
        let rest = &bytes[self.at.min(bytes.len())..];
        if length > rest.len() as u64 {
            return Err(Corrupt::CutOff);
        }
        self.at += length as usize;
        Ok(Item::String(&rest[..length as usize]))
    }

    #[inline]
    fn integer(&mut self, tag: u8) -> Result<i64> {
        Ok(match tag {
            0..INTEGER_END => i64::from(tag) - INTEGER_BIAS,
            INTEGER_8 => i8::from_ne_bytes(self.array()?).into(),
            INTEGER_16 => i16::from_ne_bytes(self.array()?).into(),
            INTEGER_32 => i32::from_ne_bytes(self.array()?).into(),
            INTEGER_64 => i64::from_ne_bytes(self.array()?),
            _ => return Err(Corrupt::Integer),
        })
    }

    fn shape(&mut self) -> Result<Shape> {
        let [shape] = self.array()?;
        let items = match shape & SHAPE_WIDTH {
            0 => 0,
            WIDTH_8 => u8::from_ne_bytes(self.array()?).into(),
            WIDTH_32 => u32::from_ne_bytes(self.array()?).into(),
            _ => u64::from_ne_bytes(self.array()?),
        };
        let rest = self.bytes.as_ref().len().saturating_sub(self.at);
        if items > rest as u64 {
            return Err(Corrupt::CutOff);
        }
        let pairs = match shape & SHAPE_KEYS {
            0 => 0,
            class => 1 << (class - 1),
        };
        Ok(Shape { items, pairs: pairs != 0, room: (self.preallocation(items), self.preallocation(pairs)) })
    }

    /// Returns the number of entries to preallocate for a table that has `promised` entries. A table grows if more
    /// entries follow.
    #[inline(always)]
    fn preallocation(&mut self, promised: u64) -> u32 {
        if promised > self.preallocatable.min(1 << 26) {
            return 0;
        }
        self.preallocatable -= promised;
        promised as u32
    }
}
