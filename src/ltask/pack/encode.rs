//! Lua values to bytes. Called by `pack`.
//!
//! What is under construction lies in a cell of the thread, never in a frame: a memory error of Lua may
//! leave by longjmp, and the next call finds the block and uses it again. Code of the user (`__pairs`,
//! and finalizers while Lua allocates) runs only inside [`Encoder::protected`], which puts the work
//! aside first, so that such code may pack as well, and which always returns.

use super::buffer::{Buffer, Exhausted, write_integer, write_string};
use super::format::*;
use super::seen::Seen;
use mlua::ffi::{self, lua_State};
use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};

/// Why values could not be packed.
pub(super) enum Failure {
    /// A value of this type, by Lua's number for it.
    Unsupported(c_int),
    /// An iterator of `__pairs` gave NaN for a key.
    Key,
    Memory,
    /// The stack has no room.
    Stack,
    /// Code of the user raised; the error is on top of the stack.
    Raised,
}

impl From<Exhausted> for Failure {
    fn from(_: Exhausted) -> Self {
        Failure::Memory
    }
}

/// How far apart two keys may be that both go into the array.
const GAP: u64 = 64;

pub(super) type Result<T = ()> = std::result::Result<T, Failure>;

pub(super) struct Scratch {
    buffer: Buffer,
    seen: Seen,
}

impl Scratch {
    pub(super) const fn new() -> Self {
        Scratch {
            buffer: Buffer::new(),
            seen: Seen::new(),
        }
    }
}

thread_local! {
    static SCRATCH: UnsafeCell<Scratch> = const { UnsafeCell::new(Scratch::new()) };
}

/// Packs the values at `first..=top`; on failure the stack holds more than before.
///
/// # Safety
/// `state` is valid; `first` is positive.
pub(super) unsafe fn encode(state: *mut lua_State, first: c_int) -> Result<(*mut c_void, usize)> {
    // SAFETY: the cell belongs to this thread, and no reference to it outlives a call in this module.
    unsafe {
        // The cell is gone only while the thread ends.
        let Ok(scratch) = SCRATCH.try_with(UnsafeCell::get) else {
            return Err(Failure::Memory);
        };
        (*scratch).buffer.clear();
        (*scratch).seen.clear();
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, ffi::LUA_MINSTACK) == 0 {
            return Err(Failure::Stack);
        }
        ffi::lua_pushnil(state);
        let mut encoder = Encoder {
            state,
            scratch,
            aside: top + 1,
            later: 0,
            kept: 0,
        };
        let packed = encoder.message(first, top);
        (*scratch).buffer.trim();
        if packed.is_ok() {
            ffi::lua_settop(state, top);
        }
        packed
    }
}

/// Plain data, since a frame that holds it may be left by longjmp.
pub(super) struct Encoder {
    pub(super) state: *mut lua_State,
    pub(super) scratch: *mut Scratch,
    /// Stack slot of a table, nil until it is needed: at 1, 2, … what is packed later, at -1, -2, …
    /// what has to stay alive because its address is known.
    pub(super) aside: c_int,
    later: i64,
    pub(super) kept: i64,
}

impl Encoder {
    fn buffer(&mut self) -> &mut Buffer {
        // SAFETY: the cell outlives the call, and nobody else uses it meanwhile.
        unsafe { &mut (*self.scratch).buffer }
    }

    unsafe fn message(&mut self, first: c_int, top: c_int) -> Result<(*mut c_void, usize)> {
        // SAFETY: the indices are valid; each step leaves the stack as it found it.
        unsafe {
            for index in first..=top {
                self.value(index, self.aside, 0)?;
            }
            let mut done = 0;
            while done < self.later {
                done += 1;
                let table = self.aside + 1;
                ffi::lua_rawgeti(self.state, self.aside, done);
                self.buffer().byte(BODY)?;
                self.content(table, table, 1)?;
                ffi::lua_settop(self.state, self.aside);
            }
            Ok(self.buffer().finish()?)
        }
    }

    /// Packs the value at `index`, which is counted from the bottom; `top` is the stack's height.
    #[inline(always)]
    pub(super) unsafe fn value(&mut self, index: c_int, top: c_int, depth: u32) -> Result {
        let state = self.state;
        // SAFETY: reads a value on the stack; a string stays there while it is copied.
        unsafe {
            if ffi::lua_isinteger(state, index) != 0 {
                let value = ffi::lua_tointegerx(state, index, std::ptr::null_mut());
                return Ok(write_integer(self.buffer(), value)?);
            }
            let kind = ffi::lua_type(state, index);
            if kind == ffi::LUA_TSTRING {
                return self.string(index);
            }
            if kind == ffi::LUA_TTABLE {
                return self.table(index, top, depth);
            }
            self.other(index, kind)
        }
    }

    /// As [`Encoder::value`], for what is most likely a string.
    #[inline(always)]
    unsafe fn key(&mut self, index: c_int, top: c_int, depth: u32) -> Result {
        // SAFETY: as for `value`.
        unsafe {
            if ffi::lua_type(self.state, index) != ffi::LUA_TSTRING {
                return self.value(index, top, depth);
            }
            self.string(index)
        }
    }

    #[inline(always)]
    unsafe fn string(&mut self, index: c_int) -> Result {
        // SAFETY: the string stays on the stack while it is copied.
        unsafe {
            let mut length = 0;
            let start = ffi::lua_tolstring(self.state, index, &mut length);
            let bytes = std::slice::from_raw_parts(start.cast(), length);
            Ok(write_string(self.buffer(), bytes)?)
        }
    }

    unsafe fn other(&mut self, index: c_int, kind: c_int) -> Result {
        let state = self.state;
        // SAFETY: as for `value`.
        unsafe {
            match kind {
                ffi::LUA_TNUMBER => {
                    let number = ffi::lua_tonumberx(state, index, std::ptr::null_mut());
                    self.buffer().tagged(FLOAT, number.to_ne_bytes())?;
                }
                ffi::LUA_TNIL => self.buffer().byte(NIL)?,
                ffi::LUA_TBOOLEAN => {
                    let truth = ffi::lua_toboolean(state, index) != 0;
                    self.buffer().byte(if truth { TRUE } else { FALSE })?;
                }
                ffi::LUA_TLIGHTUSERDATA => {
                    let pointer = ffi::lua_touserdata(state, index) as usize;
                    self.buffer().tagged(POINTER, pointer.to_ne_bytes())?;
                }
                ffi::LUA_TFUNCTION => return self.function(index),
                kind => return Err(Failure::Unsupported(kind)),
            }
        }
        Ok(())
    }

    /// A C function without upvalues is but an address.
    unsafe fn function(&mut self, index: c_int) -> Result {
        // SAFETY: a C function has its upvalues from 1 on; a name means that one was pushed.
        unsafe {
            let Some(function) = ffi::lua_tocfunction(self.state, index) else {
                return Err(Failure::Unsupported(ffi::LUA_TFUNCTION));
            };
            if !ffi::lua_getupvalue(self.state, index, 1).is_null() {
                return Err(Failure::Unsupported(ffi::LUA_TFUNCTION));
            }
            let address = function as usize;
            Ok(self.buffer().tagged(FUNCTION, address.to_ne_bytes())?)
        }
    }

    unsafe fn table(&mut self, index: c_int, top: c_int, depth: u32) -> Result {
        let state = self.state;
        // SAFETY: the value is a table; the stack is checked before it grows.
        unsafe {
            let offset = self.buffer().len();
            let address = ffi::lua_topointer(state, index) as usize;
            if let Some(first) = (*self.scratch).seen.enter(address, offset) {
                return self.reference(first);
            }
            // Each level takes a key and a value; the first few fit in what `encode` asked for.
            if depth > 3 && ffi::lua_checkstack(state, 10) == 0 {
                return Err(Failure::Stack);
            }
            if depth < MAX_DEPTH {
                self.buffer().byte(TABLE)?;
                return self.content(index, top, depth + 1);
            }
            self.buffer().byte(LATER)?;
            self.open_aside()?;
            self.later += 1;
            ffi::lua_pushvalue(state, index);
            ffi::lua_rawseti(state, self.aside, self.later);
            Ok(())
        }
    }

    /// A table that was met before: its first place becomes a shared one.
    fn reference(&mut self, first: usize) -> Result {
        let tag = &mut self.buffer().written()[first];
        *tag = match *tag {
            TABLE => TABLE_SHARED,
            LATER => LATER_SHARED,
            shared => shared,
        };
        self.buffer().byte(REFERENCE)?;
        Ok(write_integer(self.buffer(), first as i64)?)
    }

    /// The shape and what is in the table at `index`.
    unsafe fn content(&mut self, index: c_int, top: c_int, depth: u32) -> Result {
        let state = self.state;
        let shape = self.buffer().len();
        let (key, value) = (top + 1, top + 2);
        // SAFETY: ten slots are free; `lua_next` keeps a key below the value on top.
        unsafe {
            if ffi::lua_getmetatable(state, index) != 0 {
                if self.push_pairs()? {
                    self.buffer().byte(0)?;
                    return self.pairs(index, top + 1, depth, shape);
                }
                ffi::lua_settop(state, top);
            }
            ffi::lua_pushnil(state);
            let mut more = ffi::lua_next(state, index) != 0;
            let mut integer = more && ffi::lua_isinteger(state, key) != 0;
            // An array part comes first, so without an integer there is none.
            let length = match integer {
                true => ffi::lua_rawlen(state, index) as u64,
                false => 0,
            };
            let width = self.begin_array(length)?;
            if width != 0 {
                // Goes on as long as the keys come as 1, 2, …, which an array part's do.
                let mut count = 0;
                while integer {
                    let next = ffi::lua_tointegerx(state, key, std::ptr::null_mut()) as u64;
                    if next != count + 1 && !self.fill(count, next, length)? {
                        break;
                    }
                    count = next;
                    self.value(value, value, depth)?;
                    ffi::lua_settop(state, key);
                    more = ffi::lua_next(state, index) != 0;
                    integer = more && ffi::lua_isinteger(state, key) != 0;
                }
                self.end_array(shape + 1, width, count);
            }
            let mut keys = 0;
            while more {
                self.key(key, value, depth)?;
                self.value(value, value, depth)?;
                keys += 1;
                ffi::lua_settop(state, key);
                more = ffi::lua_next(state, index) != 0;
            }
            self.end_keys(shape, width, keys)
        }
    }

    /// Leaves room for the shape and for a count of at most `length`; returns the width.
    fn begin_array(&mut self, length: u64) -> Result<u8> {
        let buffer = self.buffer();
        Ok(if length == 0 {
            buffer.byte(0)?;
            0
        } else if length <= u8::MAX.into() {
            buffer.array([0; 2])?;
            WIDTH_8
        } else if length <= u32::MAX.into() {
            buffer.array([0; 5])?;
            WIDTH_32
        } else {
            buffer.array([0; 9])?;
            WIDTH_64
        })
    }

    /// Fills the gap from `count` to the next key with nil, if there should be one: where it lies below
    /// the table's length, and is small. The length may be any border, so that a few values can pretend
    /// to be an array of 2^40.
    fn fill(&mut self, count: u64, next: u64, length: u64) -> Result<bool> {
        if next <= count || next > length || next - count > GAP {
            return Ok(false);
        }
        for _ in count + 1..next {
            self.buffer().byte(NIL)?;
        }
        Ok(true)
    }

    fn end_array(&mut self, at: usize, width: u8, count: u64) {
        // The count is at most the length that the width was chosen for.
        let bytes = self.buffer().written();
        match width {
            WIDTH_8 => bytes[at] = count as u8,
            WIDTH_32 => bytes[at..at + 4].copy_from_slice(&(count as u32).to_ne_bytes()),
            _ => bytes[at..at + 8].copy_from_slice(&count.to_ne_bytes()),
        }
    }

    pub(super) fn end_keys(&mut self, shape: usize, width: u8, keys: u64) -> Result {
        self.buffer().written()[shape] = width | keys_class(keys);
        if keys > 0 {
            self.buffer().byte(NIL)?;
        }
        Ok(())
    }
}
