//! Bytes to Lua values. Called by `unpack`.
//!
//! Trusts nothing: every read is checked against the end, and all tables together are made no larger than the
//! bytes could fill. What it cannot check is what a pointer or a C function points to: hence a string, which
//! anybody may have made, holds none.

use super::format::*;
use crate::raw::Function;
use mlua::ffi::{self, lua_State};
use std::mem;
use std::os::raw::c_int;

/// What is wrong with the bytes. One byte, so that a result fits in a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Corrupt {
    Tag,
    CutOff,
    Depth,
    Integer,
    Reference,
    Content,
    Key,
    Function,
    Stack,
    ForeignFunction,
    ForeignPointer,
}

impl Corrupt {
    pub(super) fn text(self) -> &'static str {
        match self {
            Corrupt::Tag => "unknown tag",
            Corrupt::CutOff => "the bytes are cut off",
            Corrupt::Depth => "nested too deeply",
            Corrupt::Integer => "integer expected",
            Corrupt::Reference => "reference to nothing",
            Corrupt::Content => "content without a table",
            Corrupt::Key => "NaN for a key",
            Corrupt::Function => "no function",
            Corrupt::Stack => "too many values for the stack",
            Corrupt::ForeignFunction => {
                "a string with a C function in it; only a pointer and a size may hold one"
            }
            Corrupt::ForeignPointer => {
                "a string with a light userdata in it; only a pointer and a size may hold one"
            }
        }
    }
}

type Result<T = ()> = std::result::Result<T, Corrupt>;

/// Who has made the bytes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    /// `pack`, in this process: addresses are what they were.
    Message,
    /// Anybody: no item may hold an address.
    Text,
}

/// Pushes the values in `bytes` and returns how many; on failure the stack holds more than before.
/// Raises nothing but memory errors.
///
/// # Safety
/// `state` is valid.
pub(super) unsafe fn decode(state: *mut lua_State, bytes: &[u8], origin: Origin) -> Result<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut decoder = Decoder {
            state,
            bytes,
            at: 0,
            base: ffi::lua_gettop(state) + 1,
            aside: false,
            later: 0,
            spare: bytes.len() as u64,
            origin,
        };
        decoder.message()
    }
}

/// Plain data, since a frame that holds it may be left by longjmp.
struct Decoder<'a> {
    state: *mut lua_State,
    bytes: &'a [u8],
    at: usize,
    /// Stack slot of the first value, or of the table aside when there is one.
    base: c_int,
    /// Whether there is a table below the values: shared tables by offset, and those without a body
    /// yet at -1, -2, …
    aside: bool,
    later: i64,
    /// For so many entries more tables may be made beforehand. An entry takes a byte at least, one with a key two,
    /// and the hint of keys is less than twice their number: what `pack` made never runs out of it.
    spare: u64,
    origin: Origin,
}

impl Decoder<'_> {
    unsafe fn message(&mut self) -> Result<c_int> {
        let state = self.state;
        // SAFETY: there is a free slot for each value, and some more.
        unsafe {
            let mut count = 0;
            let mut bodies = 0;
            while self.at < self.bytes.len() {
                if count % 16 == 0 {
                    self.room(36)?;
                }
                let tag = self.byte()?;
                if tag != BODY {
                    count += 1;
                    self.value(tag, 0)?;
                    continue;
                }
                bodies += 1;
                if bodies > self.later {
                    return Err(Corrupt::Content);
                }
                ffi::lua_rawgeti(state, self.base, -bodies);
                let (items, keys) = self.shape()?;
                self.content(items, keys != 0, 1)?;
                ffi::lua_settop(state, -2);
            }
            if bodies != self.later {
                return Err(Corrupt::CutOff);
            }
            if self.aside {
                ffi::lua_rotate(state, self.base, -1);
                ffi::lua_settop(state, -2);
            }
            Ok(count)
        }
    }

    unsafe fn room(&self, slots: c_int) -> Result {
        // SAFETY: returns false instead of raising.
        match unsafe { ffi::lua_checkstack(self.state, slots) } {
            0 => Err(Corrupt::Stack),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8> {
        let Some(byte) = self.bytes.get(self.at) else {
            return Err(Corrupt::CutOff);
        };
        self.at += 1;
        Ok(*byte)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, _)) = self.bytes[self.at..].split_first_chunk::<N>() else {
            return Err(Corrupt::CutOff);
        };
        self.at += N;
        Ok(*bytes)
    }

    #[inline(always)]
    unsafe fn string(&mut self, length: u64) -> Result {
        let rest = &self.bytes[self.at..];
        if length > rest.len() as u64 {
            return Err(Corrupt::CutOff);
        }
        self.at += length as usize;
        // SAFETY: that many bytes are there.
        unsafe { ffi::lua_pushlstring(self.state, rest.as_ptr().cast(), length as usize) };
        Ok(())
    }

    /// Reads what `tag` announces and pushes it.
    #[inline(always)]
    unsafe fn value(&mut self, tag: u8, depth: u32) -> Result {
        let state = self.state;
        // SAFETY: the stack has room for the value.
        unsafe {
            if tag < INTEGER_END {
                ffi::lua_pushinteger(state, i64::from(tag) - INTEGER_BIAS);
                return Ok(());
            }
            if tag < NIL {
                return self.string((tag - STRING).into());
            }
            if tag == TABLE {
                return self.table(false, depth);
            }
            self.long_value(tag, depth)
        }
    }

    unsafe fn long_value(&mut self, tag: u8, depth: u32) -> Result {
        let state = self.state;
        // SAFETY: as for `value`.
        unsafe {
            match tag {
                NIL => ffi::lua_pushnil(state),
                FALSE => ffi::lua_pushboolean(state, 0),
                TRUE => ffi::lua_pushboolean(state, 1),
                INTEGER_8..=INTEGER_64 => {
                    let value = self.integer(tag)?;
                    ffi::lua_pushinteger(state, value);
                }
                FLOAT => ffi::lua_pushnumber(state, f64::from_ne_bytes(self.array()?)),
                STRING_8 => {
                    let length = self.byte()?;
                    self.string(length.into())?;
                }
                STRING_32 => {
                    let length = u32::from_ne_bytes(self.array()?);
                    self.string(length.into())?;
                }
                STRING_64 => {
                    let length = u64::from_ne_bytes(self.array()?);
                    self.string(length)?;
                }
                POINTER => {
                    if self.origin == Origin::Text {
                        return Err(Corrupt::ForeignPointer);
                    }
                    let address = usize::from_ne_bytes(self.array()?);
                    ffi::lua_pushlightuserdata(state, address as *mut _);
                }
                FUNCTION => self.function()?,
                TABLE_SHARED => self.table(true, depth)?,
                LATER | LATER_SHARED => self.later(tag == LATER_SHARED)?,
                REFERENCE => self.reference()?,
                _ => return Err(Corrupt::Tag),
            }
        }
        Ok(())
    }

    fn integer(&mut self, tag: u8) -> Result<i64> {
        Ok(match tag {
            0..INTEGER_END => i64::from(tag) - INTEGER_BIAS,
            INTEGER_8 => i8::from_ne_bytes(self.array()?).into(),
            INTEGER_16 => i16::from_ne_bytes(self.array()?).into(),
            INTEGER_32 => i32::from_ne_bytes(self.array()?).into(),
            INTEGER_64 => i64::from_ne_bytes(self.array()?),
            _ => return Err(Corrupt::Integer),
        })
    }

    unsafe fn function(&mut self) -> Result {
        if self.origin == Origin::Text {
            return Err(Corrupt::ForeignFunction);
        }
        let address = usize::from_ne_bytes(self.array()?);
        if address == 0 {
            return Err(Corrupt::Function);
        }
        // SAFETY: the same process packed the address of a C function. Nothing here calls it.
        unsafe {
            let function = mem::transmute::<usize, ffi::lua_CFunction>(address);
            Function::foreign(function).push(self.state, 0);
        }
        Ok(())
    }

    /// Array count and count of keys of the table that begins here; the latter is a hint, but for 0.
    fn shape(&mut self) -> Result<(u64, u64)> {
        let shape = self.byte()?;
        let items = match shape & SHAPE_WIDTH {
            0 => 0,
            WIDTH_8 => self.byte()?.into(),
            WIDTH_32 => u32::from_ne_bytes(self.array()?).into(),
            _ => u64::from_ne_bytes(self.array()?),
        };
        let rest = (self.bytes.len() - self.at) as u64;
        if items > rest {
            return Err(Corrupt::CutOff);
        }
        let keys = match shape & SHAPE_KEYS {
            0 => 0,
            class => 1 << (class - 1),
        };
        Ok((items, keys))
    }

    unsafe fn table(&mut self, shared: bool, depth: u32) -> Result {
        let offset = self.at - 1;
        if depth == MAX_DEPTH {
            return Err(Corrupt::Depth);
        }
        let (items, keys) = self.shape()?;
        // SAFETY: the stack is checked before it grows.
        unsafe {
            // Each level takes a table and a key; the first few fit in what `message` asked for.
            if depth > 3 {
                self.room(8)?;
            }
            let (room, slots) = (self.grant(items), self.grant(keys));
            ffi::lua_createtable(self.state, room, slots);
            if shared {
                self.remember(offset as i64);
            }
            self.content(items, keys != 0, depth + 1)
        }
    }

    /// For how many of the promised entries a table is made. More come into it as any table grows.
    #[inline(always)]
    fn grant(&mut self, promised: u64) -> c_int {
        if promised > self.spare.min(1 << 26) {
            return 0;
        }
        self.spare -= promised;
        promised as c_int
    }

    unsafe fn later(&mut self, shared: bool) -> Result {
        let offset = self.at - 1;
        // SAFETY: as for `table`.
        unsafe {
            self.room(8)?;
            ffi::lua_createtable(self.state, 0, 0);
            self.later += 1;
            self.remember(-self.later);
            if shared {
                self.remember(offset as i64);
            }
        }
        Ok(())
    }

    /// Enters the table on top into the table aside.
    unsafe fn remember(&mut self, key: i64) {
        let state = self.state;
        // SAFETY: there are free slots. Values are named from the top, so one more below moves none.
        unsafe {
            if !self.aside {
                ffi::lua_createtable(state, 0, 0);
                ffi::lua_rotate(state, self.base, 1);
                self.aside = true;
            }
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawseti(state, self.base, key);
        }
    }

    unsafe fn reference(&mut self) -> Result {
        let tag = self.byte()?;
        let offset = self.integer(tag)?;
        // SAFETY: the table aside is at the base when there is one.
        unsafe {
            if !self.aside || offset < 0 {
                return Err(Corrupt::Reference);
            }
            if ffi::lua_rawgeti(self.state, self.base, offset) != ffi::LUA_TTABLE {
                return Err(Corrupt::Reference);
            }
        }
        Ok(())
    }

    /// Fills the table on top.
    unsafe fn content(&mut self, items: u64, keys: bool, depth: u32) -> Result {
        let state = self.state;
        // SAFETY: the table is on top; the keys given to `lua_rawset` are neither nil nor NaN, so it
        // raises nothing but a memory error.
        unsafe {
            for index in 1..=items {
                let tag = self.byte()?;
                if tag == NIL {
                    continue;
                }
                self.value(tag, depth)?;
                ffi::lua_rawseti(state, -2, index as i64);
            }
            if !keys {
                return Ok(());
            }
            loop {
                let tag = self.byte()?;
                if tag == NIL {
                    return Ok(());
                }
                self.value(tag, depth)?;
                if tag == FLOAT && ffi::lua_tonumberx(state, -1, std::ptr::null_mut()).is_nan() {
                    return Err(Corrupt::Key);
                }
                let tag = self.byte()?;
                self.value(tag, depth)?;
                ffi::lua_rawset(state, -3);
            }
        }
    }
}
