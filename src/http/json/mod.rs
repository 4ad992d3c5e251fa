//! `lio.json`: Lua values to JSON text and back (RFC 8259). `lio.webserver` sends with it a table that a
//! handler returns, and reads with it what `req:json()` gives.
//!
//! - `encode.rs`: walks a Lua value, appends its text to a buffer; `failure.rs`: what hinders it, where
//! - `decode.rs`: text to a parsed value, and that onto the Lua stack
//!
//! Invariant: what owns memory (the text being written, the value being pushed) belongs to a userdata,
//! [`Scratch`], before Lua may raise; the frames hold references to it. Each function keeps one scratch
//! for the next call. While in use it is out of reach: a finalizer that Lua runs in the middle of a call,
//! and that calls in here again, makes one of its own.

mod decode;
mod encode;
mod failure;
#[cfg(all(test, feature = "vendored"))]
mod tests;

use crate::raw::object::{self, Key, Object};
use crate::raw::{Function, Text, args, function, guard, module, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use serde_json::Value;
use std::convert::Infallible;
use std::ffi::CStr;
use std::os::raw::c_int;

/// How many tables may lie inside one another: what `serde_json` reads, so that all that is written can
/// be read back.
const DEPTH: u32 = 127;

/// A buffer that grew beyond this many bytes is not kept for the next call.
const KEPT: usize = 1 << 20;

/// The registry's name of the metatable that marks arrays.
const ARRAY: &CStr = c"lio.json.array";

/// The same by an address.
static MARK: Key = Key::new(7);

/// The up-values of `encode` and `decode`, and the one of `array`.
const SCRATCH: c_int = 1;
const MARKED_BY: c_int = 2;
const ARRAY_MARK: c_int = 1;

/// What a call owns while Lua may raise.
struct Scratch {
    text: Vec<u8>,
    parsed: Value,
}

impl Object for Scratch {
    const NAME: &'static CStr = c"lio.json.scratch";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

/// Pushes the scratch that the running function has kept, or a new one, and takes it out of reach. A call
/// that does not come to [`give_back`], because Lua raised, leaves it to the collector.
unsafe fn take(state: *mut lua_State) -> *mut Scratch {
    let slot = ffi::lua_upvalueindex(SCRATCH);
    // SAFETY: plain stack work within the 20 slots of a call; the type is tested.
    unsafe {
        ffi::lua_pushvalue(state, slot);
        if let Some(scratch) = object::test::<Scratch>(state, -1) {
            ffi::lua_pushboolean(state, 0);
            ffi::lua_replace(state, slot);
            return scratch;
        }
        ffi::lua_pop(state, 1);
        let Ok(scratch) = object::push_new(state, || {
            Ok::<_, Infallible>(Scratch {
                text: Vec::new(),
                parsed: Value::Null,
            })
        });
        scratch
    }
}

/// Keeps the scratch at `index` for the next call. Never raises.
unsafe fn give_back(state: *mut lua_State, index: c_int) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushvalue(state, index);
        ffi::lua_replace(state, ffi::lua_upvalueindex(SCRATCH));
    }
}

/// Raises unless argument 2 is absent, nil or a table; true when it is a table.
unsafe fn has_options(state: *mut lua_State) -> bool {
    // SAFETY: as for `args::type_error`: nothing that needs `Drop` is alive in the callers.
    unsafe {
        match ffi::lua_type(state, 2) {
            ffi::LUA_TTABLE => true,
            ffi::LUA_TNONE | ffi::LUA_TNIL => false,
            _ => args::type_error(state, 2, c"table"),
        }
    }
}

/// Appends the value at `index` (absolute) to `text`, as `json.encode` writes it without options. False, with
/// `text` as it was, when it cannot be encoded.
///
/// # Safety
/// `state` is valid, with 4 free stack slots; called inside `guard`, since it does not raise.
pub(crate) unsafe fn append(state: *mut lua_State, index: c_int, text: &mut Vec<u8>) -> bool {
    let begin = text.len();
    // SAFETY: reading a registry value by address neither raises nor runs Lua code.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, MARK.pointer());
        // Null when the module was never loaded: no table has a metatable there.
        let mark = ffi::lua_topointer(state, -1);
        let written = encode::write(state, index, text, mark, encode::Order::Found);
        ffi::lua_settop(state, top);
        if written.is_err() {
            text.truncate(begin);
        }
        written.is_ok()
    }
}

/// `json.encode(value [, options])` → string; raises a string that names the place in the value.
///
/// A table with the keys 1 to n is an array, one with string keys an object, an empty one `{}` unless
/// `json.array` marked it. `options.sort` (true): keys in the order of their bytes.
unsafe extern "C-unwind" fn encode(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the text belongs to the scratch whenever Lua may raise.
    unsafe {
        ffi::luaL_checkany(state, 1);
        let mut order = encode::Order::Found;
        if has_options(state) {
            ffi::lua_getfield(state, 2, c"sort".as_ptr());
            if ffi::lua_toboolean(state, -1) != 0 {
                order = encode::Order::Sorted;
            }
        }
        let mark = ffi::lua_topointer(state, ffi::lua_upvalueindex(MARKED_BY));
        let scratch = take(state);
        let own = ffi::lua_gettop(state);
        let written = guard(|| {
            (*scratch).text.clear();
            encode::write(state, 1, &mut (*scratch).text, mark, order)
        });
        ffi::lua_settop(state, own);
        if written.is_ok() {
            push_bytes(state, &(*scratch).text);
        }
        let trimmed = guard(|| {
            if (*scratch).text.capacity() > KEPT {
                (*scratch).text = Vec::new();
            }
            Ok(())
        });
        give_back(state, own);
        settle(state, written.and(trimmed));
        1
    }
}

/// `json.decode(text [, options])` → value, or `nil, message, code` for a text that is not JSON: code
/// `"truncated"` when it ends too early, else `"invalid"`. The message has line and column, in bytes.
///
/// An object is a plain table, an array one that `json.array` would have marked. Of equal keys the last counts. An integer of 64 bits is a Lua
/// integer; a larger one, or one with a fraction or an exponent, is a float. `null` is `json.null`, or
/// `options.null`: any value but nil; `false` makes it test like an absent field.
unsafe extern "C-unwind" fn decode(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the parsed value belongs to the scratch while it is pushed.
    unsafe {
        let text = args::bytes(state, 1);
        if !has_options(state) || ffi::lua_getfield(state, 2, c"null".as_ptr()) == ffi::LUA_TNIL {
            push_null(state);
        }
        let null = ffi::lua_gettop(state);
        let scratch = take(state);
        let own = ffi::lua_gettop(state);
        let parsed = guard(|| {
            Ok(decode::parse(text).map(|value| {
                (*scratch).parsed = value;
            }))
        });
        if let Ok(Ok(())) = parsed {
            let mark = ffi::lua_upvalueindex(MARKED_BY);
            decode::push(state, &(*scratch).parsed, null, mark);
        }
        let dropped = guard(|| {
            (*scratch).parsed = Value::Null;
            Ok(())
        });
        give_back(state, own);
        settle(state, dropped);
        match settle(state, parsed) {
            Ok(()) => 1,
            Err(bad) => {
                ffi::lua_pushnil(state);
                push_bytes(state, bad.message.as_bytes());
                push_bytes(state, bad.code.as_bytes());
                3
            }
        }
    }
}

/// `json.array([t])` → `t`, or a new table, marked as an array: `[]` when it is empty. The mark is the
/// metatable `json.array_mt`; a table that has another metatable is refused.
unsafe extern "C-unwind" fn array(state: *mut lua_State) -> c_int {
    let mark = ffi::lua_upvalueindex(ARRAY_MARK);
    // SAFETY: plain stack work; nothing that needs `Drop` is alive.
    unsafe {
        if ffi::lua_type(state, 1) == ffi::LUA_TNONE {
            ffi::lua_createtable(state, 0, 0);
        }
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        if ffi::lua_getmetatable(state, 1) != 0 {
            if ffi::lua_rawequal(state, -1, mark) == 0 {
                let message = Text::new("the table has a metatable of its own");
                args::argument_error(state, 1, message);
            }
            ffi::lua_pop(state, 1);
        }
        ffi::lua_pushvalue(state, mark);
        ffi::lua_setmetatable(state, 1);
        ffi::lua_settop(state, 1);
        1
    }
}

/// Pushes `json.null`: the same value in every VM, and one that a `lightuserdata` of C compares equal to.
unsafe fn push_null(state: *mut lua_State) {
    // SAFETY: plain stack work; the pointer is never followed.
    unsafe { ffi::lua_pushlightuserdata(state, std::ptr::null_mut()) }
}

/// Opens `lio.json`: `encode`, `decode`, `array`, `array_mt`, `null`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(state, &[]);
        push_null(state);
        ffi::lua_setfield(state, -2, c"null".as_ptr());
        // One per VM, so that a table marked before the module was loaded again is still known.
        ffi::luaL_newmetatable(state, ARRAY.as_ptr());
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, MARK.pointer());
        ffi::lua_pushboolean(state, 0);
        ffi::lua_pushvalue(state, -2);
        function!(encode).push(state, 2);
        ffi::lua_setfield(state, -3, c"encode".as_ptr());
        ffi::lua_pushboolean(state, 0);
        ffi::lua_pushvalue(state, -2);
        function!(decode).push(state, 2);
        ffi::lua_setfield(state, -3, c"decode".as_ptr());
        ffi::lua_pushvalue(state, -1);
        function!(array).push(state, 1);
        ffi::lua_setfield(state, -3, c"array".as_ptr());
        ffi::lua_setfield(state, -2, c"array_mt".as_ptr());
        1
    }
}
