//! The format of packed values: each value is a tag, followed by the tag's data.
//!
//! Both sides are in one process, so numbers are in native byte order. A message is a sequence of values, followed by a
//! `CONTENT` for each `POSTPONED` in the message, in the same order.
//!
//! A table is `TABLE`, a shape byte, the number of array values in the width that the shape specifies, and these
//! values. If the shape specifies keys, they follow, each with its value, and `NIL` ends them. A table nested deeper
//! than [`MAX_DEPTH`] is written as `POSTPONED`, and its content separately, so neither side needs a stack as deep as
//! the data.

/// The maximum number of tables open at once, in a message and in each `CONTENT`.
pub(super) const MAX_DEPTH: u32 = 48;

/// Tags below this value are the integers from `-INTEGER_BIAS` up.
pub(super) const INTEGER_END: u8 = 0x80;
/// The value to subtract from the tag of an integer.
pub(super) const INTEGER_BIAS: i64 = 16;
/// Tags from this value on are strings of up to 63 bytes, with the length in the low six bits.
pub(super) const STRING: u8 = 0x80;
/// Strings of this length or longer have their length after the tag.
pub(super) const STRING_END: usize = 0x40;

pub(super) const NIL: u8 = 0xc0;
pub(super) const FALSE: u8 = 0xc1;
pub(super) const TRUE: u8 = 0xc2;
pub(super) const INTEGER_8: u8 = 0xc3;
pub(super) const INTEGER_16: u8 = 0xc4;
pub(super) const INTEGER_32: u8 = 0xc5;
pub(super) const INTEGER_64: u8 = 0xc6;
pub(super) const FLOAT: u8 = 0xc7;
pub(super) const STRING_8: u8 = 0xc8;
pub(super) const STRING_32: u8 = 0xc9;
pub(super) const STRING_64: u8 = 0xca;
pub(super) const POINTER: u8 = 0xcb;
pub(super) const FUNCTION: u8 = 0xcc;
pub(super) const TABLE: u8 = 0xcd;
/// A `TABLE` to which a `REFERENCE` refers.
pub(super) const TABLE_SHARED: u8 = 0xce;
/// A table whose content follows in a `CONTENT`.
pub(super) const POSTPONED: u8 = 0xcf;
/// A `POSTPONED` to which a `REFERENCE` refers.
pub(super) const POSTPONED_SHARED: u8 = 0xd0;
/// The content of the first `POSTPONED` that has no content yet: shape, count and values as in a `TABLE`.
pub(super) const CONTENT: u8 = 0xd1;
/// A table that occurs again. An integer follows: the offset of the table's tag in the message.
pub(super) const REFERENCE: u8 = 0xd2;

/// Low bits of the shape: 0 if there are no keys; otherwise 1 + the binary logarithm of the number of keys, rounded up,
/// as Lua rounds up the size of a table's hash part.
pub(super) const SHAPE_KEYS: u8 = 0x3f;
/// High bits of the shape: the width of the array count.
pub(super) const SHAPE_WIDTH: u8 = 0xc0;
pub(super) const WIDTH_8: u8 = 0x40;
pub(super) const WIDTH_32: u8 = 0x80;
pub(super) const WIDTH_64: u8 = 0xc0;

/// Returns the low bits of the shape for `count` keys.
pub(super) fn keys_class(count: u64) -> u8 {
    match count {
        0 => 0,
        // The result is at most 65.
        _ => 65 - (count - 1).leading_zeros() as u8,
    }
}
