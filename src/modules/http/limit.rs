//! The size limit of a body as an argument.

use crate::lua::{Call, Fault};

/// No limit: the largest Lua integer.
pub(super) const NO_LIMIT: u64 = i64::MAX as u64;

/// Reads a limit in bytes at argument `index`; `otherwise` is the default.
pub(super) fn limit(call: &Call<'_>, index: i32, otherwise: u64) -> Result<u64, Fault> {
    let given = call.optional(index, |call, index| call.integer_in(index, 0..=i64::MAX, "limit"))?;
    Ok(given.map_or(otherwise, |limit| limit as u64))
}
