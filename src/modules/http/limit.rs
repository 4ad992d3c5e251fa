//! Limits of bodies as arguments.

use crate::lua::{Call, Fault};

/// No limit: the greatest that Lua can ask for.
pub(super) const NO_LIMIT: u64 = i64::MAX as u64;

/// A limit in bytes at argument `index`.
pub(super) fn limit(call: &Call<'_>, index: i32, otherwise: u64) -> Result<u64, Fault> {
    let given = call.optional(index, |call, index| call.integer_in(index, 0..=i64::MAX, "limit"))?;
    Ok(given.map_or(otherwise, |limit| limit as u64))
}
