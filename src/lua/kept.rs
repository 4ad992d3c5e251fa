//! Values that a VM keeps for functions of this library, and code in Lua.

use super::fault::Fault;
use super::object::Key;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::{Kind, Stack, at};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// What such a value is known by. A script can change the value by the debug library: who uses it looks at what it is.
pub(crate) struct Kept(Key);

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept(Key::new(0))
    }

    /// Pushes the value, nil when there is none.
    ///
    /// # Safety
    /// `state` is valid, with a free stack slot.
    pub(super) unsafe fn push(&'static self, state: *mut lua_State) -> Kind {
        // SAFETY: looks up an address in the registry, and the caller has a slot for what is there.
        Kind::of(unsafe { ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, self.0.pointer()) })
    }
}

impl Stack {
    /// Pushes the value that the VM keeps as `name`, nil when there is none. → its index
    pub(crate) fn kept(&mut self, name: &'static Kept) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: a slot is reserved.
        unsafe { name.push(self.state) };
        Ok(self.count())
    }

    /// The identity of the table or function that the VM keeps as `name`; 0 when it keeps none.
    pub(crate) fn kept_identity(&mut self, name: &'static Kept) -> usize {
        // SAFETY: a step has a slot to spare; what is pushed is dropped.
        unsafe {
            name.push(self.state);
            let identity = ffi::lua_topointer(self.state, -1).addr();
            ffi::lua_pop(self.state, 1);
            identity
        }
    }

    /// Pushes what the metatable of the value at `index` has under the name that the VM keeps as `name`; nil when there is
    /// nothing. → its index
    pub(crate) fn metafield(&mut self, index: c_int, name: &'static Kept) -> Result<c_int, Fault> {
        self.reserve(3)?;
        let top = self.count();
        // SAFETY: three slots are reserved; a metatable is a table, and any key can be asked for.
        unsafe {
            if ffi::lua_getmetatable(self.state, at(index)) == 0 {
                ffi::lua_pushnil(self.state);
            } else {
                name.push(self.state);
                ffi::lua_rawget(self.state, -2);
                ffi::lua_replace(self.state, -2);
            }
        }
        self.room += 2;
        Ok(top + 1)
    }
}

/// A value, which the VM keeps from then on.
pub(crate) struct Keep<V>(pub(crate) &'static Kept, pub(crate) V);

impl<V: Push> Sealed for Keep<V> {}
impl<V: Push> Push for Keep<V> {
    const REFERS: bool = V::REFERS;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        self.1.push(to);
        // SAFETY: a copy of the value takes one slot, and leaves it for the registry.
        unsafe {
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, self.0.0.pointer());
        }
    }
}

/// Lua code as a function, with the name that messages give it. Code that Lua cannot compile is an error.
pub(crate) struct Code {
    pub(crate) name: &'static CStr,
    pub(crate) text: &'static str,
}

impl Sealed for Code {}
impl Push for Code {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        let (text, size) = (self.text.as_ptr().cast(), self.text.len());
        // SAFETY: pointer and size are of one text, which is static; an error is raised with nothing owned.
        unsafe {
            let loaded =
                ffi::luaL_loadbufferx(state, text, size, self.name.as_ptr(), c"t".as_ptr());
            if loaded != ffi::LUA_OK {
                ffi::lua_error(state);
            }
        }
    }
}
