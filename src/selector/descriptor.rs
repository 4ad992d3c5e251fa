//! What counts as a descriptor among Lua values.
//!
//! A socket or stream of ours, a lightuserdata that holds the number (bee's and ltask's convention), an
//! integer, a Lua `file*`, or a table or userdata with a `handle`, `fileno` or `getfd` method that
//! returns one of these. A raw number that belongs to a socket of ours in this VM is treated as that
//! socket, so that handing out handles keeps the fast path.

use crate::event::Source;
use crate::raw::object::{self, Key, Object};
use crate::raw::{Text, args};
use crate::socket::{Socket, Table};
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::os::raw::c_int;
use std::rc::Rc;

/// A descriptor, and its source when that is ours.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) number: RawFd,
    /// As `Rc::as_ptr` gives it. Null for a foreign descriptor; else valid while the Lua value is reachable and not
    /// closed.
    pub(crate) source: *const Source,
}

impl Descriptor {
    /// A share of the source.
    ///
    /// # Safety
    /// It is valid still.
    pub(crate) unsafe fn share(self) -> Option<Rc<Source>> {
        if self.source.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; the count that is added belongs to the share.
        unsafe {
            Rc::increment_strong_count(self.source);
            Some(Rc::from_raw(self.source))
        }
    }
}

impl Socket {
    /// What the selector needs to know; the number is -1 once closed.
    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor {
            number: self.number(),
            source: self.source().map_or(std::ptr::null(), Rc::as_ptr),
        }
    }
}

struct TableHolder(Rc<Table>); // bridge

impl Object for TableHolder {
    const NAME: &'static CStr = c"lio.sockets of this VM";
    const METHODS: &'static [(&'static CStr, crate::raw::Function)] = &[];
}

static TABLE: Key = Key::new(2);

/// The table of sockets of the VM that `state` belongs to. // bridge
///
/// # Safety
/// `state` is valid, with 8 free stack slots; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn table(state: *mut lua_State) -> *const Rc<Table> {
    // SAFETY: the holder stays in the registry as long as the VM lives.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, TABLE.pointer());
        let holder = match object::test::<TableHolder>(state, -1) {
            Some(holder) => holder,
            None => {
                ffi::lua_pop(state, 1);
                let made = object::push_new(state, || {
                    let shared = crate::lua::store::shared::<Table>(state);
                    Ok::<_, std::convert::Infallible>(TableHolder(shared.unwrap_or_default()))
                });
                ffi::lua_pushvalue(state, -1);
                ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, TABLE.pointer());
                let Ok(holder) = made;
                holder
            }
        };
        ffi::lua_pop(state, 1);
        &raw const (*holder).0
    }
}

fn foreign(number: RawFd) -> Descriptor {
    Descriptor {
        number,
        source: std::ptr::null(),
    }
}

/// The descriptor that argument `index` means; raises when it means none.
/// The number is -1 for an object that is closed.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive. May call Lua methods of the argument.
pub(crate) unsafe fn resolve(state: *mut lua_State, index: c_int) -> Descriptor {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::luaL_checkstack(state, 12, c"descriptor".as_ptr());
        ffi::lua_pushvalue(state, index);
        let found = look(state, index, 0);
        ffi::lua_settop(state, top);
        found
    }
}

/// Resolves the value on top of the stack.
unsafe fn look(state: *mut lua_State, argument: c_int, depth: u8) -> Descriptor {
    // SAFETY: as for `resolve`; each branch reads the type it has just tested.
    unsafe {
        let at = ffi::lua_gettop(state);
        match ffi::lua_type(state, at) {
            ffi::LUA_TLIGHTUSERDATA => {
                return number(
                    state,
                    argument,
                    ffi::lua_touserdata(state, at) as isize as i64,
                );
            }
            ffi::LUA_TNUMBER => {
                let mut exact = 0;
                let value = ffi::lua_tointegerx(state, at, &mut exact);
                if exact != 0 {
                    return number(state, argument, value);
                }
            }
            ffi::LUA_TUSERDATA if ffi::lua_getmetatable(state, at) != 0 => {
                ffi::lua_settop(state, at);
                if let Some(socket) = object::test::<Socket>(state, at) {
                    return (*socket).descriptor();
                }
                if let Some(stream) = object::test::<Stream>(state, at) {
                    return (*stream).transport.socket().descriptor();
                }
                let file: *mut File = ffi::luaL_testudata(state, at, c"FILE*".as_ptr()).cast();
                if !file.is_null() {
                    if (*file).close.is_none() || (*file).stream.is_null() {
                        return foreign(-1);
                    }
                    return foreign(libc::fileno((*file).stream));
                }
                return by_method(state, argument, depth);
            }
            ffi::LUA_TTABLE => return by_method(state, argument, depth),
            _ => {}
        }
        args::type_error(state, argument, c"descriptor")
    }
}

/// The layout of Lua's `luaL_Stream`.
#[repr(C)]
struct File {
    stream: *mut libc::FILE,
    close: Option<crate::raw::Function>,
}

unsafe fn number(state: *mut lua_State, argument: c_int, value: i64) -> Descriptor {
    // SAFETY: as for `resolve`.
    unsafe {
        let Ok(number) = RawFd::try_from(value) else {
            out_of_range(state, argument, value)
        };
        if number < 0 {
            out_of_range(state, argument, value)
        }
        match (*table(state)).find(number) {
            Some(source) => Descriptor {
                number,
                source: Rc::as_ptr(&source),
            },
            None => foreign(number),
        }
    }
}

unsafe fn out_of_range(state: *mut lua_State, argument: c_int, value: i64) -> ! {
    // SAFETY: as for `resolve`.
    unsafe {
        let message = Text::format(format_args!("{value} is not a descriptor"));
        args::argument_error(state, argument, message)
    }
}

unsafe fn by_method(state: *mut lua_State, argument: c_int, depth: u8) -> Descriptor {
    // SAFETY: as for `resolve`.
    unsafe {
        let at = ffi::lua_gettop(state);
        if depth < 4 && ffi::lua_checkstack(state, 12) != 0 {
            for name in [c"handle", c"fileno", c"getfd"] {
                // Indexing a userdata without __index raises: ask for the metamethod first.
                let table = ffi::lua_type(state, at) == ffi::LUA_TTABLE;
                if !table && ffi::luaL_getmetafield(state, at, c"__index".as_ptr()) == ffi::LUA_TNIL
                {
                    break;
                }
                ffi::lua_settop(state, at);
                if ffi::lua_getfield(state, at, name.as_ptr()) == ffi::LUA_TFUNCTION {
                    ffi::lua_pushvalue(state, at);
                    ffi::lua_call(state, 1, 1);
                    return look(state, argument, depth + 1);
                }
                ffi::lua_settop(state, at);
            }
        }
        args::type_error(state, argument, c"descriptor")
    }
}
