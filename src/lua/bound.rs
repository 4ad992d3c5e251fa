//! Tables of functions that have an upvalue in common.

use super::function::Function;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::at;
use mlua::ffi;
use std::ffi::{CStr, c_int};

/// A table that gets functions with the value at an index of the function's stack as their upvalue: the table at `table`,
/// or a new one, with what that at `copied` has. It is pushed.
pub(crate) struct Functions {
    pub(crate) list: &'static [(&'static CStr, Function)],
    pub(crate) upvalue: c_int,
    pub(crate) table: Option<c_int>,
    pub(crate) copied: Option<c_int>,
}

impl Sealed for Functions {}
impl Push for Functions {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; only a table is read and written.
        unsafe {
            ffi::luaL_checkstack(state, 8, std::ptr::null());
            match self.table {
                Some(index) => ffi::lua_pushvalue(state, at(index)),
                None => ffi::lua_createtable(state, 0, 4),
            }
            let table = ffi::lua_gettop(state);
            ffi::luaL_checktype(state, table, ffi::LUA_TTABLE);
            if let Some(copied) = self.copied {
                ffi::luaL_checktype(state, at(copied), ffi::LUA_TTABLE);
                ffi::lua_pushnil(state);
                while ffi::lua_next(state, copied) != 0 {
                    ffi::lua_pushvalue(state, -2);
                    ffi::lua_rotate(state, -2, 1);
                    ffi::lua_rawset(state, table);
                }
            }
            for (name, function) in self.list {
                ffi::lua_pushstring(state, name.as_ptr());
                ffi::lua_pushvalue(state, at(self.upvalue));
                function.push(state, 1);
                ffi::lua_rawset(state, table);
            }
        }
    }
}

/// A new table whose `__index` is this function, with the value at an index of the function's stack as its upvalue, if it
/// has one.
pub(crate) struct Lazy(pub(crate) Function, pub(crate) Option<c_int>);

impl Sealed for Lazy {}
impl Push for Lazy {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise.
        unsafe {
            ffi::luaL_checkstack(state, 8, std::ptr::null());
            ffi::lua_createtable(state, 0, 4);
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_pushstring(state, c"__index".as_ptr());
            if let Some(index) = self.1 {
                ffi::lua_pushvalue(state, at(index));
            }
            self.0.push(state, self.1.is_some().into());
            ffi::lua_rawset(state, -3);
            ffi::lua_setmetatable(state, -2);
        }
    }
}

/// A value that is kept in the table at an index as well, under the key at another one.
pub(crate) struct Entry<V>(pub(crate) c_int, pub(crate) c_int, pub(crate) V);

impl<V: Push> Sealed for Entry<V> {}
impl<V: Push> Push for Entry<V> {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        self.2.push(to.again());
        // SAFETY: a pusher's promise; only a table is written.
        unsafe {
            ffi::luaL_checktype(state, at(self.0), ffi::LUA_TTABLE);
            ffi::lua_pushvalue(state, at(self.1));
            ffi::lua_pushvalue(state, -2);
            ffi::lua_rawset(state, self.0);
        }
    }
}
