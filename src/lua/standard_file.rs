//! The descriptors of the standard library's files. A file is recognized by its metatable. The registry contains the
//! metatable's name as a string, so the metatable is found without an allocation.

use super::stack::Stack;
use super::state::{Key, at, registry_key};
use mlua::ffi;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

/// The registry key for the name of the metatable that all files of the standard library have.
pub(super) static FILE_NAME: Key = Key::new(0);

/// The beginning of a standard library file's userdata, in both versions of Lua.
#[repr(C)]
struct LuaFile {
    file: *mut libc::FILE,
    /// Null once the file is closed.
    close: *const c_void,
}

impl Stack {
    /// Returns the descriptor of the standard library's file at `index`: `None` if the value is not such a file,
    /// `Some(None)` if the file is closed.
    pub(crate) fn standard_file(&self, index: c_int) -> Option<Option<BorrowedFd<'_>>> {
        // SAFETY: at most three values are pushed and then popped, in the room that a step keeps for its results. A
        // block with this metatable and at least this size has this layout. The file stays open while the stack is
        // borrowed, since no Lua code runs.
        unsafe {
            if ffi::lua_getmetatable(self.state, at(index)) == 0 {
                return None;
            }
            ffi::lua_rawgeti(self.state, ffi::LUA_REGISTRYINDEX, registry_key(FILE_NAME.pointer()));
            ffi::lua_rawget(self.state, ffi::LUA_REGISTRYINDEX);
            let is_file =
                ffi::lua_type(self.state, -1) == ffi::LUA_TTABLE && ffi::lua_rawequal(self.state, -1, -2) != 0;
            ffi::lua_pop(self.state, 2);
            let size = ffi::lua_rawlen(self.state, index) as usize;
            if !is_file || size < size_of::<LuaFile>() {
                return None;
            }
            let file: *const LuaFile = ffi::lua_touserdata(self.state, index).cast();
            if (*file).close.is_null() || (*file).file.is_null() {
                return Some(None);
            }
            let number = libc::fileno((*file).file);
            Some((number >= 0).then(|| BorrowedFd::borrow_raw(number)))
        }
    }
}
