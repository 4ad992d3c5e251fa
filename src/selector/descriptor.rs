//! What counts as a descriptor among Lua values.
//!
//! A socket or stream of ours, a lightuserdata that holds the number (bee's and ltask's convention), an
//! integer, a Lua `file*`, or a table or userdata with a `handle`, `fileno` or `getfd` method that
//! returns one of these. A raw number that belongs to a socket of ours in this VM is treated as that
//! socket, so that handing out handles keeps the fast path.

use super::number::Numbers;
use super::{Kind, Watch};
use crate::raw::object::{self, Key, Object};
use crate::raw::{Text, args};
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::os::raw::{c_int, c_void};
use std::rc::{Rc, Weak};

/// A descriptor, and the watch of the socket that owns it when that is ours.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) number: RawFd,
    /// Null for a foreign descriptor; else valid while the Lua value is reachable and not closed.
    pub(crate) watch: *const Watch,
    pub(crate) kind: Kind,
}

/// Gives the descriptor of the object at an index; -1 as number when it is closed.
pub(crate) type Accessor = unsafe fn(*mut lua_State, c_int) -> Descriptor;

static ACCESSOR: Key = Key::new(1);

/// Marks the metatable on top of the stack: its objects have a descriptor.
///
/// # Safety
/// A metatable is on top; `accessor` accepts every object that has it.
pub(crate) unsafe fn mark(state: *mut lua_State, accessor: Accessor) {
    // SAFETY: a function pointer travels as a light userdata.
    unsafe {
        ffi::lua_pushlightuserdata(state, accessor as *mut c_void);
        ffi::lua_rawsetp(state, -2, ACCESSOR.pointer());
    }
}

/// The sockets of ours in one VM, by descriptor.
#[derive(Default)]
pub(crate) struct Owned {
    sockets: RefCell<Numbers<(Weak<Watch>, Kind)>>,
    /// The event descriptor of the VM's service, which the scheduler closes and no object of Lua's may.
    lent: Cell<Option<RawFd>>,
}

impl Owned {
    /// Records `number` as the descriptor that is lent to the VM, in the place of an earlier one.
    pub(crate) fn lend(&self, number: RawFd) {
        self.lent.set(Some(number));
    }

    /// Whether `number` is lent: then closing an object of it leaves it open.
    pub(crate) fn is_lent(&self, number: RawFd) -> bool {
        self.lent.get() == Some(number)
    }

    pub(crate) fn insert(&self, number: RawFd, watch: &Rc<Watch>, kind: Kind) {
        let entry = (Rc::downgrade(watch), kind);
        self.sockets.borrow_mut().insert(number, entry);
    }

    /// Forgets `number` if it still means `watch`.
    pub(crate) fn remove(&self, number: RawFd, watch: &Rc<Watch>) {
        let mut sockets = self.sockets.borrow_mut();
        let same = sockets
            .get(&number)
            .is_some_and(|(found, _)| std::ptr::eq(found.as_ptr(), Rc::as_ptr(watch)));
        if same {
            sockets.remove(&number);
        }
    }
}

struct OwnedHolder(Rc<Owned>);

impl Object for OwnedHolder {
    const NAME: &'static CStr = c"lio.sockets of this VM";
    const METHODS: &'static [(&'static CStr, crate::raw::Function)] = &[];
}

static OWNED: Key = Key::new(2);

/// The table of sockets of the VM that `state` belongs to.
///
/// # Safety
/// `state` is valid, with 8 free stack slots; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn owned(state: *mut lua_State) -> *const Rc<Owned> {
    // SAFETY: the holder stays in the registry as long as the VM lives.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, OWNED.pointer());
        let holder = match object::test::<OwnedHolder>(state, -1) {
            Some(holder) => holder,
            None => {
                ffi::lua_pop(state, 1);
                let made = object::push_new(state, || {
                    Ok::<_, std::convert::Infallible>(OwnedHolder(Rc::default()))
                });
                ffi::lua_pushvalue(state, -1);
                ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, OWNED.pointer());
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
        watch: std::ptr::null(),
        kind: Kind::Foreign,
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
                ffi::lua_rawgetp(state, -1, ACCESSOR.pointer());
                let accessor = ffi::lua_touserdata(state, -1);
                ffi::lua_settop(state, at);
                if !accessor.is_null() {
                    let accessor: Accessor = std::mem::transmute(accessor);
                    return accessor(state, at);
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
        let owned: &Owned = &*owned(state);
        let sockets = owned.sockets.borrow();
        match sockets.get(&number) {
            Some((watch, kind)) if watch.strong_count() > 0 => Descriptor {
                number,
                watch: watch.as_ptr(),
                kind: *kind,
            },
            _ => foreign(number),
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
