//! What is percent-encoded in a head, as Lua reads it: paths, and the pairs of a query or a form.
//!
//! The decoded text is put together in the VM's workspace, so a raise in between loses nothing.

use crate::codec::uri;
use crate::http::connection::workspace;
use crate::http::exchange::Workspace;
use crate::raw::{guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Pushes `raw`, percent-decoded; what is no escape stays as it is.
pub(super) unsafe fn push_decoded(state: *mut lua_State, raw: &[u8], plus_is_space: bool) {
    // SAFETY: the scratch buffer belongs to the VM's workspace, so a raise loses nothing.
    unsafe {
        if !uri::needs_decode(raw, plus_is_space) {
            push_bytes(state, raw);
            return;
        }
        let space: *mut Workspace = workspace(state);
        let decoded = guard(|| {
            let scratch = &mut (*space).scratch;
            scratch.clear();
            Ok(uri::percent_decode(raw, plus_is_space, scratch).is_ok())
        });
        match settle(state, decoded) {
            true => {
                let scratch = &(*space).scratch;
                push_bytes(state, scratch);
            }
            false => push_bytes(state, raw),
        }
    }
}

/// Pushes a table of `key=value&…` pairs.
///
/// # Safety
/// Nothing that needs `Drop` may be alive.
pub(crate) unsafe fn push_pairs(state: *mut lua_State, raw: &[u8]) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_createtable(state, 0, 0);
        let table = ffi::lua_gettop(state);
        for (name, value) in uri::query_pairs(raw) {
            push_decoded(state, name, true);
            push_decoded(state, value.unwrap_or_default(), true);
            insert(state, table);
        }
    }
}

/// Stores the value on top under the key below it; a second value of a key makes a list.
unsafe fn insert(state: *mut lua_State, table: c_int) {
    // SAFETY: plain stack work; both are popped.
    unsafe {
        ffi::lua_pushvalue(state, -2);
        match ffi::lua_rawget(state, table) {
            ffi::LUA_TNIL => {
                ffi::lua_pop(state, 1);
                ffi::lua_rawset(state, table);
                return;
            }
            ffi::LUA_TTABLE => {}
            _ => {
                ffi::lua_createtable(state, 2, 0);
                ffi::lua_rotate(state, -2, 1);
                ffi::lua_rawseti(state, -2, 1);
                ffi::lua_pushvalue(state, -3);
                ffi::lua_pushvalue(state, -2);
                ffi::lua_rawset(state, table);
            }
        }
        let count = ffi::lua_rawlen(state, -1) as i64;
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, count + 1);
        ffi::lua_pop(state, 3);
    }
}
