//! A Lua value as JSON text, appended to a buffer. Called by `json.encode` inside `guard`.
//!
//! Invariant: of Lua's API only what can neither raise nor run Lua code nor start the collector is called
//! here: `lua_next`, raw reads, `lua_checkstack`. So the frames may own memory, and no string that was
//! found in a table moves or dies before the walk is over. Tables are read raw, metamethods do not count.

use super::DEPTH;
use super::failure::{Failure, Step, Written, fail, quoted};
use crate::raw::Text;
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_int, c_void};

/// In which order an object's fields are written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    /// As `next` finds them.
    Found,
    /// By the bytes of their keys.
    Sorted,
}

/// Appends the value at `index` (absolute) to `text`. `mark` is the address of the metatable of arrays.
/// Leaves values on the stack when it fails; the message names what cannot be encoded, and where.
///
/// # Safety
/// `state` is valid; `index` is a stack index of the running function, which has 1 free slot or more.
pub(super) unsafe fn write(
    state: *mut lua_State,
    index: c_int,
    text: &mut Vec<u8>,
    mark: *const c_void,
    order: Order,
) -> Result<(), Text> {
    let mut encoder = Encoder {
        state,
        text,
        mark,
        order,
    };
    // SAFETY: the caller's promise.
    let written = unsafe { encoder.value(index, 0) };
    written.map_err(|failure| Text::format(format_args!("json: {failure}")))
}

struct Encoder<'a> {
    state: *mut lua_State,
    text: &'a mut Vec<u8>,
    mark: *const c_void,
    order: Order,
}

/// One field of an object that is to be sorted: its key, and where its text begins and ends.
struct Field<'a> {
    key: &'a [u8],
    begin: usize,
    end: usize,
}

impl Encoder<'_> {
    /// Writes the value at `index`, which `depth` tables enclose.
    unsafe fn value(&mut self, index: c_int, depth: u32) -> Written {
        // SAFETY: reads of a value on the stack.
        unsafe {
            match ffi::lua_type(self.state, index) {
                ffi::LUA_TSTRING => self.string(index),
                ffi::LUA_TNUMBER => self.number(index),
                ffi::LUA_TTABLE => self.table(index, depth),
                ffi::LUA_TBOOLEAN if ffi::lua_toboolean(self.state, index) != 0 => {
                    self.literal(b"true")
                }
                ffi::LUA_TBOOLEAN => self.literal(b"false"),
                ffi::LUA_TNIL => self.literal(b"null"),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(self.state, index).is_null() => {
                    self.literal(b"null")
                }
                kind => fail(format!("cannot encode a {}", type_name(kind))),
            }
        }
    }

    fn literal(&mut self, text: &[u8]) -> Written {
        self.text.extend_from_slice(text);
        Ok(())
    }

    unsafe fn number(&mut self, index: c_int) -> Written {
        // SAFETY: reads of a number on the stack.
        unsafe {
            if ffi::lua_isinteger(self.state, index) != 0 {
                let value = ffi::lua_tointegerx(self.state, index, std::ptr::null_mut());
                return self.literal(itoa::Buffer::new().format(value).as_bytes());
            }
            let value = ffi::lua_tonumberx(self.state, index, std::ptr::null_mut());
            if !value.is_finite() {
                let name = if value.is_nan() { "NaN" } else { "infinity" };
                return fail(format!("cannot encode {name}"));
            }
            self.literal(ryu::Buffer::new().format_finite(value).as_bytes())
        }
    }

    /// The bytes of the string at `index`, for as long as the walk goes on.
    unsafe fn bytes<'b>(&self, index: c_int) -> &'b [u8] {
        let mut length = 0;
        // SAFETY: of a string, so nothing is converted; it is reachable from the value being encoded.
        unsafe {
            let pointer = ffi::lua_tolstring(self.state, index, &mut length);
            std::slice::from_raw_parts(pointer.cast(), length)
        }
    }

    unsafe fn string(&mut self, index: c_int) -> Written {
        // SAFETY: the caller has seen a string at `index`.
        let bytes = unsafe { self.bytes(index) };
        self.text.reserve(bytes.len() + 2);
        self.text.push(b'"');
        let plain = bytes.iter().position(|byte| !PLAIN[usize::from(*byte)]);
        let Some(plain) = plain else {
            self.text.extend_from_slice(bytes);
            self.text.push(b'"');
            return Ok(());
        };
        if let Err(error) = std::str::from_utf8(&bytes[plain..]) {
            let offset = plain + error.valid_up_to() + 1;
            return fail(format!(
                "cannot encode a string that is not UTF-8 (byte {offset})"
            ));
        }
        self.escaped(bytes);
        self.text.push(b'"');
        Ok(())
    }

    /// RFC 8259 section 7: quotation mark, backslash and control characters are escaped, nothing else is.
    fn escaped(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = rest
            .iter()
            .position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\')
        {
            self.text.extend_from_slice(&rest[..at]);
            let byte = rest[at];
            let short = match byte {
                0x08 => b'b',
                0x09 => b't',
                0x0a => b'n',
                0x0c => b'f',
                0x0d => b'r',
                b'"' | b'\\' => byte,
                _ => b'u',
            };
            self.text.extend_from_slice(&[b'\\', short]);
            if short == b'u' {
                let digits = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                self.text
                    .extend_from_slice(&[b'0', b'0', digits[high], digits[low]]);
            }
            rest = &rest[at + 1..];
        }
        self.text.extend_from_slice(rest);
    }

    unsafe fn table(&mut self, index: c_int, depth: u32) -> Written {
        if depth == DEPTH {
            return fail(format!(
                "excessive nesting, more than {DEPTH} tables (a cycle?)"
            ));
        }
        // SAFETY: key, value and a metatable, or the next key, are pushed at most.
        unsafe {
            if ffi::lua_checkstack(self.state, 4) == 0 {
                return fail("the Lua stack is full");
            }
            let marked = self.is_marked(index);
            ffi::lua_pushnil(self.state);
            if ffi::lua_next(self.state, index) == 0 {
                return self.literal(if marked { b"[]" } else { b"{}" });
            }
            match ffi::lua_type(self.state, -2) {
                ffi::LUA_TSTRING if marked => fail(format!(
                    "cannot encode an array with the key {}",
                    quoted(self.bytes(-2))
                )),
                ffi::LUA_TSTRING => self.object(index, depth),
                _ if ffi::lua_isinteger(self.state, -2) != 0 => self.array(index, depth),
                _ => self.bad_key(),
            }
        }
    }

    unsafe fn is_marked(&self, index: c_int) -> bool {
        // SAFETY: pushes one value at most.
        unsafe {
            if ffi::lua_getmetatable(self.state, index) == 0 {
                return false;
            }
            let same = ffi::lua_topointer(self.state, -1) == self.mark;
            ffi::lua_pop(self.state, 1);
            same
        }
    }

    /// The failure for the key at -2, which no JSON text has, or not beside the keys before it.
    unsafe fn bad_key(&self) -> Written {
        // SAFETY: reads of a value on the stack.
        unsafe {
            let kind = ffi::lua_type(self.state, -2);
            if kind == ffi::LUA_TSTRING || ffi::lua_isinteger(self.state, -2) != 0 {
                return fail("cannot encode a table with both integer and string keys");
            }
            let name = match kind {
                ffi::LUA_TNUMBER => "float",
                _ => type_name(kind),
            };
            fail(format!("cannot encode a table with a {name} as key"))
        }
    }

    /// Writes an object whose first key and value are on the stack.
    unsafe fn object(&mut self, table: c_int, depth: u32) -> Written {
        // SAFETY: `lua_next` fails on keys that are not in the table only, and nothing changes it here.
        unsafe {
            let begin = self.text.len();
            let mut fields = Vec::new();
            self.text.push(b'{');
            let value = ffi::lua_gettop(self.state);
            loop {
                if ffi::lua_type(self.state, value - 1) != ffi::LUA_TSTRING {
                    return self.bad_key();
                }
                let from = self.text.len();
                self.field(value, depth)?;
                if self.order == Order::Sorted {
                    fields.push(Field {
                        key: self.bytes(value - 1),
                        begin: from,
                        end: self.text.len(),
                    });
                }
                ffi::lua_pop(self.state, 1);
                if ffi::lua_next(self.state, table) == 0 {
                    break;
                }
                self.text.push(b',');
            }
            if self.order == Order::Sorted {
                self.sort(begin + 1, fields);
            }
            self.literal(b"}")
        }
    }

    /// Writes the key below `value` and the value.
    unsafe fn field(&mut self, value: c_int, depth: u32) -> Written {
        // SAFETY: the key is a string.
        unsafe {
            let written = self.string(value - 1).and_then(|()| {
                self.text.push(b':');
                self.value(value, depth + 1)
            });
            written.map_err(|failure| failure.inside(Step::Field(self.bytes(value - 1).to_vec())))
        }
    }

    /// Puts the fields that were written from `begin` on in the order of their keys. The keys themselves
    /// cannot be looked up one by one: pushing a string may raise.
    fn sort(&mut self, begin: usize, mut fields: Vec<Field<'_>>) {
        fields.sort_unstable_by_key(|field| field.key);
        let found = self.text.split_off(begin);
        for (count, field) in fields.iter().enumerate() {
            if count > 0 {
                self.text.push(b',');
            }
            self.text
                .extend_from_slice(&found[field.begin - begin..field.end - begin]);
        }
    }

    /// Writes an array whose first key, some integer, and value are on the stack. Elements are written as
    /// `next` finds them while it finds them in order, which it does unless a part of the table is hashed.
    unsafe fn array(&mut self, table: c_int, depth: u32) -> Written {
        // SAFETY: as for `object`.
        unsafe {
            self.text.push(b'[');
            let value = ffi::lua_gettop(self.state);
            let mut written = 0;
            while self.integer_key() == Some(written + 1) {
                written += 1;
                self.element(value, written, depth)?;
                ffi::lua_pop(self.state, 1);
                if ffi::lua_next(self.state, table) == 0 {
                    return self.literal(b"]");
                }
            }
            let length = self.count(table)?;
            for index in written + 1..=length {
                ffi::lua_settop(self.state, value - 1);
                if ffi::lua_rawgeti(self.state, table, index) == ffi::LUA_TNIL {
                    return fail(format!(
                        "cannot encode a sparse array ({length} integer keys, but no [{index}])"
                    ));
                }
                self.element(value, index, depth)?;
            }
            ffi::lua_settop(self.state, value - 2);
            self.literal(b"]")
        }
    }

    /// The key at -2 when it is an integer.
    unsafe fn integer_key(&self) -> Option<i64> {
        // SAFETY: reads of a value on the stack.
        unsafe {
            if ffi::lua_isinteger(self.state, -2) == 0 {
                return None;
            }
            Some(ffi::lua_tointegerx(self.state, -2, std::ptr::null_mut()))
        }
    }

    unsafe fn element(&mut self, value: c_int, index: i64, depth: u32) -> Written {
        if index > 1 {
            self.text.push(b',');
        }
        // SAFETY: the caller has pushed the element.
        let written = unsafe { self.value(value, depth + 1) };
        written.map_err(|failure| failure.inside(Step::Element(index)))
    }

    /// How many keys the table has, all of which must be integers. Leaves the stack as it is.
    unsafe fn count(&mut self, table: c_int) -> Result<i64, Box<Failure>> {
        // SAFETY: as for `object`; two values are pushed, of the four that `table` has asked for.
        unsafe {
            let mut count = 0;
            ffi::lua_pushnil(self.state);
            while ffi::lua_next(self.state, table) != 0 {
                if self.integer_key().is_none() {
                    self.bad_key()?;
                }
                count += 1;
                ffi::lua_pop(self.state, 1);
            }
            Ok(count)
        }
    }
}

/// The bytes that stand for themselves and are ASCII.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x80 {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Lua's name of a type that has no JSON text, with its article left to the caller.
fn type_name(kind: c_int) -> &'static str {
    match kind {
        ffi::LUA_TBOOLEAN => "boolean",
        ffi::LUA_TTABLE => "table",
        ffi::LUA_TFUNCTION => "function",
        ffi::LUA_TTHREAD => "thread",
        ffi::LUA_TLIGHTUSERDATA => "light userdata",
        _ => "userdata",
    }
}
