//! The fields of a head that Lua holds, read by name.
//!
//! Requests and the answers that the client reads (`client/lua.rs`) are looked at through it. Nothing is copied but
//! what is pushed, and the head's bytes stay as they were sent.

use crate::codec::http1::fields::Field;
use crate::raw::push_bytes;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// The fields of a head that Lua holds, and the bytes that they are places in.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) fields: &'a [Field],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The values of a field, in order; names are case-blind.
    pub(crate) fn values(self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields
            .iter()
            .filter(move |field| field.name.of(self.bytes).eq_ignore_ascii_case(name))
            .map(move |field| field.value.of(self.bytes))
    }

    /// Pushes all values of a field as one, or nil.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_joined(self, state: *mut lua_State, name: &[u8]) {
        // SAFETY: plain stack work.
        unsafe {
            let mut parts = 0;
            for value in self.values(name) {
                if parts > 0 {
                    let cookie = name.eq_ignore_ascii_case(b"cookie");
                    push_bytes(state, if cookie { b"; " } else { b", " });
                    push_bytes(state, value);
                    ffi::lua_concat(state, 3);
                } else {
                    push_bytes(state, value);
                }
                parts += 1;
            }
            if parts == 0 {
                ffi::lua_pushnil(state);
            }
        }
    }

    /// Pushes the list of a field's values, in order.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_all(self, state: *mut lua_State, name: &[u8]) {
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_createtable(state, 1, 0);
            for (index, value) in self.values(name).enumerate() {
                push_bytes(state, value);
                ffi::lua_rawseti(state, -2, index as i64 + 1);
            }
        }
    }

    /// Pushes a table of lower-case name to value; repeated ones joined.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_table(self, state: *mut lua_State) {
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_createtable(state, 0, self.fields.len() as c_int);
            for field in self.fields {
                let name = field.name.of(self.bytes);
                push_lower(state, name);
                self.push_joined(state, name);
                ffi::lua_rawset(state, -3);
            }
        }
    }
}

/// Pushes a field name in lower case.
///
/// # Safety
/// As for [`push_bytes`].
pub(crate) unsafe fn push_lower(state: *mut lua_State, name: &[u8]) {
    let mut lower = [0u8; 256];
    // SAFETY: the caller's promise.
    unsafe {
        let Some(lower) = lower.get_mut(..name.len()) else {
            push_bytes(state, name);
            return;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        push_bytes(state, lower);
    }
}
