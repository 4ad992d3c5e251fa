//! JSON text to a value of `serde_json`, and that onto the Lua stack. Called by `json.decode`.
//!
//! Invariant: [`parse`] knows no Lua, so it may own what it likes; [`push`] owns nothing, so Lua may raise
//! (it can run out of memory) anywhere in it.

use crate::raw::{Text, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use serde_json::{Value, error::Category};
use std::os::raw::c_int;

/// Why a text is not JSON: plain data.
#[derive(Clone, Copy)]
pub(super) struct Bad {
    /// What was expected, with line and column, both from 1, the latter in bytes.
    pub(super) message: Text,
    /// Short word for programs.
    pub(super) code: &'static str,
}

/// Parses a whole text as RFC 8259 has it: one value, UTF-8, no byte order mark, no lone surrogates, at
/// most [`super::DEPTH`] arrays and objects inside one another, no number beyond a double's range.
pub(super) fn parse(text: &[u8]) -> Result<Value, Bad> {
    serde_json::from_slice(text).map_err(|error| Bad {
        message: Text::format(format_args!("json: {error}")),
        code: match error.classify() {
            Category::Eof => "truncated",
            _ => "invalid",
        },
    })
}

/// Pushes `value`; for each null a copy of the Lua value at `null`. Arrays get the metatable at `mark`. Both are absolute
/// indices, or those of upvalues.
///
/// # Safety
/// `state` is valid; `value` stays where it is until the end even when the collector runs; nothing that
/// needs `Drop` may be alive in the frames up to Lua.
pub(super) unsafe fn push(state: *mut lua_State, value: &Value, null: c_int, mark: c_int) {
    // SAFETY: plain stack work; the slots are asked for. What is alive here borrows.
    unsafe {
        if ffi::lua_checkstack(state, 3) == 0 {
            raise(state, Text::new("json: the Lua stack is full"));
        }
        match value {
            Value::Null => ffi::lua_pushvalue(state, null),
            Value::Bool(value) => ffi::lua_pushboolean(state, (*value).into()),
            Value::Number(value) => match value.as_i64() {
                Some(integer) => ffi::lua_pushinteger(state, integer),
                // Without serde_json's arbitrary precision every number is a double at least.
                None => ffi::lua_pushnumber(state, value.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(value) => push_bytes(state, value.as_bytes()),
            Value::Array(values) => {
                ffi::lua_createtable(state, size_hint(values.len()), 0);
                for (index, value) in (1..).zip(values) {
                    push(state, value, null, mark);
                    ffi::lua_rawseti(state, -2, index);
                }
                ffi::lua_pushvalue(state, mark);
                ffi::lua_setmetatable(state, -2);
            }
            Value::Object(fields) => {
                ffi::lua_createtable(state, 0, size_hint(fields.len()));
                for (key, value) in fields {
                    push_bytes(state, key.as_bytes());
                    push(state, value, null, mark);
                    ffi::lua_rawset(state, -3);
                }
            }
        }
    }
}

/// A count for `lua_createtable`.
fn size_hint(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}
