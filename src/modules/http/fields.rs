//! Header sections as Lua tables.

use crate::codec::http1::stored_section;
use crate::lua::Value;

/// Returns a table that maps lower-case names to values; repeated fields are joined.
pub(super) fn joined_table(section: &[u8]) -> Value {
    let named = stored_section::all_joined(section).into_iter();
    Value::Map(named.map(|(name, value)| (name, Value::String(value))).collect())
}

/// Returns a list of strings.
pub(super) fn strings<'v>(values: impl Iterator<Item = &'v [u8]>) -> Value {
    Value::List(values.map(|value| Value::String(value.to_vec())).collect())
}

/// Returns a table that maps lower-case names to values; if a field is repeated, the last value is used.
pub(super) fn last_value_table<'v>(fields: impl Iterator<Item = (&'v [u8], &'v [u8])>) -> Value {
    Value::Map(fields.map(|(name, value)| (name.to_ascii_lowercase(), Value::String(value.to_vec()))).collect())
}
