//! Values on the stack: pushing those that take no memory, and reading tables.

use super::fault::Fault;
use super::function::Function;
use super::stack::{Stack, at};
use mlua::ffi::{self, lua_State};
use std::ffi::{c_int, c_void};

/// A value that can be pushed without memory of Lua's.
pub(crate) trait Plain: super::Push {
    /// Pushes it.
    ///
    /// # Safety
    /// `state` has room for it.
    unsafe fn push_plain(self, state: *mut lua_State);
}

/// A light userdata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Light(pub(crate) usize);

macro_rules! plain {
    ($type:ty, $refers:literal, |$value:ident, $state:ident| $push:expr) => {
        impl Plain for $type {
            #[inline(always)]
            unsafe fn push_plain(self, $state: *mut lua_State) {
                let $value = self;
                // SAFETY: the caller has made room for one value, and none of these takes memory.
                unsafe { $push }
            }
        }
        impl super::returns::sealed::Sealed for $type {}
        impl super::Push for $type {
            const REFERS: bool = $refers;
            #[inline(always)]
            fn push(&mut self, to: super::Pusher<'_>) {
                // SAFETY: a pusher says that there is room.
                unsafe { self.push_plain(to.state()) }
            }
        }
    };
}

plain!(super::Nil, false, |_value, state| ffi::lua_pushnil(state));
plain!(bool, false, |value, state| ffi::lua_pushboolean(
    state,
    value.into()
));
plain!(i64, false, |value, state| ffi::lua_pushinteger(
    state, value
));
plain!(u32, false, |value, state| ffi::lua_pushinteger(
    state,
    value.into()
));
plain!(f64, false, |value, state| ffi::lua_pushnumber(state, value));
plain!(super::Argument, true, |value, state| ffi::lua_pushvalue(
    state,
    at(value.0)
));
plain!(Function, false, |value, state| Function::push(
    value, state, 0
));
plain!(Light, false, |value, state| ffi::lua_pushlightuserdata(
    state,
    std::ptr::without_provenance_mut::<c_void>(value.0)
));

impl Stack {
    /// Pushes a value. → its index
    #[inline]
    pub(crate) fn push(&mut self, value: impl Plain) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: room for one value was reserved above.
        unsafe {
            value.push_plain(self.state);
            Ok(ffi::lua_gettop(self.state))
        }
    }

    /// Pushes the `number`th element of the table at `index`, without metamethods; nil when that is no table. → its index
    #[inline]
    pub(crate) fn element(&mut self, index: c_int, number: i64) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room; only a table is looked into.
        unsafe {
            match ffi::lua_type(self.state, at(index)) {
                ffi::LUA_TTABLE => ffi::lua_rawgeti(self.state, index, number),
                _ => {
                    ffi::lua_pushnil(self.state);
                    ffi::LUA_TNIL
                }
            };
            Ok(ffi::lua_gettop(self.state))
        }
    }

    /// Pushes what the table at `index` has for the key at `key`, without metamethods; nil when that is no table. → its index
    #[inline]
    pub(crate) fn get(&mut self, index: c_int, key: c_int) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room; only a table is looked into, and the key that is pushed becomes the value.
        unsafe {
            match ffi::lua_type(self.state, at(index)) {
                ffi::LUA_TTABLE => {
                    ffi::lua_pushvalue(self.state, at(key));
                    ffi::lua_rawget(self.state, index);
                }
                _ => ffi::lua_pushnil(self.state),
            }
            Ok(ffi::lua_gettop(self.state))
        }
    }

    /// Gives the key at `key` the value at `value` in the table at `index`, without metamethods, if it has one there
    /// already: this takes no memory. → whether it had
    #[inline]
    pub(crate) fn replace(
        &mut self,
        index: c_int,
        key: c_int,
        value: c_int,
    ) -> Result<bool, Fault> {
        self.reserve(2)?;
        let found = self.get(index, key)?;
        // SAFETY: there is room; a key that has a value has a place.
        unsafe {
            let known = ffi::lua_type(self.state, found) != ffi::LUA_TNIL;
            if known {
                ffi::lua_pushvalue(self.state, at(key));
                ffi::lua_pushvalue(self.state, at(value));
                ffi::lua_rawset(self.state, index);
            }
            ffi::lua_settop(self.state, found - 1);
            self.room += 3;
            Ok(known)
        }
    }

    /// The length of the table or string at `index`, without metamethods; 0 of anything else but a userdata.
    pub(crate) fn raw_length(&self, index: c_int) -> usize {
        // SAFETY: any value can be asked.
        unsafe { ffi::lua_rawlen(self.state, at(index)) as usize }
    }

    /// Visits each pair of the table at `index`, by the indexes of key and value, until `visit` fails.
    pub(crate) fn pairs(
        &mut self,
        index: c_int,
        mut visit: impl FnMut(&mut Self, c_int, c_int) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.kind(index) != super::Kind::Table {
            return Err(Fault::expected(index, "table"));
        }
        self.reserve(3)?;
        // SAFETY: there is room; the table does not change while it is visited, since nothing of Lua's runs.
        unsafe {
            let top = ffi::lua_gettop(self.state);
            ffi::lua_pushnil(self.state);
            let mut result = Ok(());
            while result.is_ok() && ffi::lua_next(self.state, index) != 0 {
                result = visit(self, top + 1, top + 2);
                ffi::lua_settop(self.state, top + 1);
            }
            ffi::lua_settop(self.state, top);
            self.room += 3;
            result
        }
    }

    /// Gives the table at `index` the table at `metatable` as its metatable.
    pub(crate) fn set_metatable(&mut self, index: c_int, metatable: c_int) -> Result<(), Fault> {
        for index in [index, metatable] {
            if self.kind(index) != super::Kind::Table {
                return Err(Fault::expected(index, "table"));
            }
        }
        self.reserve(1)?;
        // SAFETY: both are tables. An assignment takes no memory, and leaves the stack as it was.
        unsafe {
            ffi::lua_pushvalue(self.state, metatable);
            ffi::lua_setmetatable(self.state, index);
        }
        self.room += 1;
        Ok(())
    }

    /// The integer that the number at `index` equals; `None` for anything else, a string too.
    #[inline]
    pub(crate) fn whole(&self, index: c_int) -> Option<i64> {
        let mut exact = 0;
        // SAFETY: any value can be asked.
        unsafe {
            if ffi::lua_type(self.state, at(index)) != ffi::LUA_TNUMBER {
                return None;
            }
            let value = ffi::lua_tointegerx(self.state, index, &mut exact);
            (exact != 0).then_some(value)
        }
    }

    /// The address by which Lua knows the object, the string or the function at `index`: an identity, and nothing else.
    #[inline]
    pub(crate) fn address(&self, index: c_int) -> usize {
        // SAFETY: any value can be asked.
        unsafe { ffi::lua_topointer(self.state, at(index)).addr() }
    }

    /// The light userdata at `index`.
    pub(crate) fn light(&self, index: c_int) -> Option<Light> {
        // SAFETY: asks for the address only.
        unsafe {
            (ffi::lua_type(self.state, at(index)) == ffi::LUA_TLIGHTUSERDATA)
                .then(|| Light(ffi::lua_touserdata(self.state, index).addr()))
        }
    }

    /// Whether the values at two indexes are the same, without metamethods.
    pub(crate) fn is_same(&self, one: c_int, other: c_int) -> bool {
        // SAFETY: an index without a value is the same as none.
        unsafe { ffi::lua_rawequal(self.state, at(one), at(other)) != 0 }
    }
}

/// (value, key): what the value has for the key, as Lua code would find it; nothing when a userdata has no fields.
pub(crate) const INDEX: Function = {
    unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
        // SAFETY: raises what an `__index` raises, with nothing owned.
        unsafe {
            let is_userdata = ffi::lua_type(state, 1) == ffi::LUA_TUSERDATA;
            if is_userdata && ffi::luaL_getmetafield(state, 1, c"__index".as_ptr()) == ffi::LUA_TNIL
            {
                return 0;
            }
            ffi::lua_settop(state, 2);
            ffi::lua_gettable(state, 1);
        }
        1
    }
    // SAFETY: it has no frame that a panic could pass.
    unsafe { Function::foreign(index) }
};
