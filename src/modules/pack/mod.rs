//! Packs Lua values into a block of bytes, which is sent from one VM to another, and unpacks the block. Contains
//! `pack`, `unpack`, `unpack_remove` and `remove` of `ltask`. The calls of `ltask` pack with [`block`] and unpack with
//! [`Unpacked`].
//!
//! | file | topic |
//! |---|---|
//! | `packing` | values to a block; `copy.lua` for values with `__pairs` |
//! | `unpacking` | the bytes of a block to values |
//! | `functions` | the numbers of packed C functions |

mod functions;
mod packing;
#[cfg(all(test, feature = "vendored"))]
mod tests;
mod unpacking;

use crate::codec::pack::Origin;
use crate::ltask::message::{BorrowedPayload, Payload};
use crate::lua::{Call, Fault, FunctionTable, Light, Next, functions};
use packing::{PackError, fault};
use unpacking::borrowed;

pub(crate) use packing::{block, block_of, copied, copy, packed};
pub(crate) use unpacking::Unpacked;

/// The functions `pack`, `unpack`, `unpack_remove` and `remove`.
pub(crate) const FUNCTIONS: FunctionTable = functions! { pack, unpack, unpack_remove, remove };

/// `pack(...)`: returns the pointer and the size of a block, which the caller must free. Without values, the pointer is
/// null and the size is 0.
pub(crate) fn pack(call: &mut Call<'_>) -> Result<Next<(Light, i64)>, Fault> {
    packed(call, 1, |_, payload| Ok(Next::returns(into_lua(payload))))
}

/// `unpack(pointer, size)` or `unpack(string)`: returns the values. Does not free the block. A string must not contain
/// light userdata or functions.
pub(crate) fn unpack(call: &mut Call<'_>) -> Result<Unpacked, Fault> {
    if let Some(bytes) = call.string(1) {
        if let Some(short) = Unpacked::short(bytes, Origin::Text) {
            return Ok(short);
        }
        let payload = Payload::copy(bytes).ok_or_else(|| fault(&PackError::Memory))?;
        return Ok(Unpacked::owned(payload, Origin::Text));
    }
    Ok(match block_argument(call)? {
        Some((address, size)) => Unpacked::Borrowed(borrowed(BorrowedPayload::new(address, size))),
        None => Unpacked::None(()),
    })
}

/// `unpack_remove(pointer, size)`: returns the values. Frees the block, even if unpacking fails.
pub(crate) fn unpack_remove(call: &mut Call<'_>) -> Result<Unpacked, Fault> {
    Ok(match block_argument(call)? {
        Some((address, size)) => Unpacked::of(Payload::from_raw(address, size)),
        None => Unpacked::None(()),
    })
}

/// `remove(pointer, size)`: frees the block, if there is one.
pub(crate) fn remove(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.light(1) {
        Some(Light(address)) => drop(Payload::from_raw(address, 0)),
        None if call.is_none(1) => {}
        None => return Err(Fault::expected(1, "pointer")),
    }
    Ok(())
}

/// Converts a block to a pointer and a size for Lua code, which then owns the block.
fn into_lua(payload: Payload) -> (Light, i64) {
    let (address, size) = payload.into_raw();
    (Light(address), size as i64)
}

/// Returns the block at arguments 1 and 2. Nil, or a null pointer of size 0, is not a block.
fn block_argument(call: &Call<'_>) -> Result<Option<(usize, usize)>, Fault> {
    let Some(Light(address)) = call.light(1) else {
        return if call.is_none(1) { Ok(None) } else { Err(Fault::expected(1, "pointer")) };
    };
    let size = call.integer(2)?;
    if size < 0 || (address == 0 && size != 0) {
        return Err(Fault::argument(2, "size must be 0 or more, and 0 for a null pointer"));
    }
    Ok((address != 0).then_some((address, size as usize)))
}
