//! Files of Lua's standard library, as descriptors. They are known by their metatable, whose name the registry has as a
//! string, so that looking it up takes no memory.

use super::stack::Stack;
use super::state::{Key, at, registry_key};
use mlua::ffi;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

/// Where the registry has the name of the metatable of the standard library's files.
pub(super) static FILE_NAME: Key = Key::new(0);

/// How such a file begins in memory, in both versions of Lua.
#[repr(C)]
struct LuaFile {
    file: *mut libc::FILE,
    /// Null once it is closed.
    close: *const c_void,
}

impl Stack {
    /// The descriptor of the standard library's file at `index`: `None` when there is another value, `Some(None)` when
    /// the file is closed.
    pub(crate) fn standard_file(&self, index: c_int) -> Option<Option<BorrowedFd<'_>>> {
        // SAFETY: three values are pushed, and taken off, where a step has room for results. Only this metatable's blocks
        // have that layout. The file stays open as long as the stack is borrowed, since nothing of Lua's runs.
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
