//! Packing what runs code of the user: `__pairs`, and finalizers while Lua allocates. Used by `encode`.
//!
//! Such code runs only inside [`Encoder::protected`], which puts the work aside first, so that the code
//! may pack as well, and which always returns. So nothing here allocates in Lua but there.

use super::encode::{Encoder, Failure, Result, Scratch};
use crate::raw::function;
use crate::raw::object::Key;
use mlua::ffi::{self, lua_State};
use std::mem;
use std::os::raw::c_int;

/// Registry key of the string `__pairs`, so that a look-up allocates nothing.
static PAIRS: Key = Key::new(0);

impl Encoder {
    /// The pairs that the metamethod on top of the stack gives; pops it and the metatable at `base`.
    pub(super) unsafe fn pairs(
        &mut self,
        index: c_int,
        base: c_int,
        depth: u32,
        shape: usize,
    ) -> Result {
        let state = self.state;
        let iterator = base + 1;
        let (key, value) = (base + 4, base + 5);
        // SAFETY: the stack holds metatable, metamethod; then metatable, iterator, its state and its
        // control value, and what the iterator gives above them.
        unsafe {
            if ffi::lua_checkstack(state, 12) == 0 {
                return Err(Failure::Stack);
            }
            self.open_aside()?;
            ffi::lua_pushvalue(state, index);
            self.protected(1, 3)?;
            let mut keys = 0;
            loop {
                for offset in 0..3 {
                    ffi::lua_pushvalue(state, iterator + offset);
                }
                self.protected(2, 2)?;
                if ffi::lua_type(state, key) == ffi::LUA_TNIL {
                    break;
                }
                if ffi::lua_rawequal(state, key, key) == 0 {
                    return Err(Failure::Key);
                }
                // A table made by the iterator could make room for another at its address.
                self.keep(key);
                self.keep(value);
                self.value(key, value, depth)?;
                self.value(value, value, depth)?;
                keys += 1;
                ffi::lua_settop(state, key);
                ffi::lua_replace(state, iterator + 2);
            }
            ffi::lua_settop(state, base - 1);
            self.end_keys(shape, 0, keys)
        }
    }

    /// With a metatable on top: pushes its `__pairs`, or pushes nothing and returns false.
    pub(super) unsafe fn push_pairs(&mut self) -> Result<bool> {
        let state = self.state;
        // SAFETY: plain stack work that allocates nothing but under protection.
        unsafe {
            let key = PAIRS.pointer();
            if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key) != ffi::LUA_TSTRING {
                ffi::lua_settop(state, -2);
                function!(make_key).push(state, 0);
                self.protected(0, 1)?;
            }
            if ffi::lua_rawget(state, -2) != ffi::LUA_TNIL {
                return Ok(true);
            }
            ffi::lua_settop(state, -2);
            Ok(false)
        }
    }

    pub(super) unsafe fn open_aside(&mut self) -> Result {
        // SAFETY: the slot was reserved; the stack has room for a function.
        unsafe {
            if ffi::lua_type(self.state, self.aside) == ffi::LUA_TNIL {
                function!(make_table).push(self.state, 0);
                self.protected(0, 1)?;
                ffi::lua_replace(self.state, self.aside);
            }
        }
        Ok(())
    }

    unsafe fn keep(&mut self, index: c_int) {
        // SAFETY: the table aside is open; should this raise, nothing is lost.
        unsafe {
            if ffi::lua_type(self.state, index) == ffi::LUA_TTABLE {
                self.kept += 1;
                ffi::lua_pushvalue(self.state, index);
                ffi::lua_rawseti(self.state, self.aside, -self.kept);
            }
        }
    }

    /// Calls what is on the stack while this work is put aside.
    unsafe fn protected(&mut self, arguments: c_int, results: c_int) -> Result {
        // SAFETY: `lua_pcall` catches whatever is raised, so the frame with the work is never skipped.
        // What nested calls left in the cell is dropped.
        unsafe {
            let work = mem::replace(&mut *self.scratch, Scratch::new());
            let status = ffi::lua_pcall(self.state, arguments, results, 0);
            *self.scratch = work;
            match status {
                ffi::LUA_OK => Ok(()),
                _ => Err(Failure::Raised),
            }
        }
    }
}

unsafe extern "C-unwind" fn make_table(state: *mut lua_State) -> c_int {
    // SAFETY: a C function has free slots.
    unsafe { ffi::lua_createtable(state, 0, 0) };
    1
}

unsafe extern "C-unwind" fn make_key(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::lua_pushstring(state, c"__pairs".as_ptr());
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, PAIRS.pointer());
    }
    1
}
