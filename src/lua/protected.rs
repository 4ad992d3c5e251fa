//! What takes memory of Lua's in the middle of a step. Nothing of Lua's runs all the same: the collector rests, so that
//! there is no finalizer, and hooks are off; an error ends in a protected call, so that no raise passes the step's frames.
//! (An emergency collection runs no finalizers.) It costs some hundred instructions; what is hot returns its values instead.

use super::call::Call;
use super::fault::Fault;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::at;
use super::store::{self, Store};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

impl Call<'_> {
    /// Pushes a value that takes memory. An [`Argument`](super::Argument) in it is a value of this function's stack. → its
    /// index
    pub(crate) fn create<T: Push>(&mut self, mut value: T) -> Result<c_int, Fault> {
        self.reserve(1)?;
        let state = self.state;
        // SAFETY: there is room; the value lives in this frame, which the protected call does not leave by a raise.
        unsafe {
            let top = ffi::lua_gettop(state);
            if ffi::lua_checkstack(state, top + 20) == 0 {
                return Err(Fault::message("stack overflow"));
            }
            ffi::lua_pushcfunction(state, push_value::<T>);
            // The same values at the same indexes.
            let below = if T::REFERS { top } else { 0 };
            for index in 1..=below {
                ffi::lua_pushvalue(state, index);
            }
            ffi::lua_pushlightuserdata(state, (&raw mut value).cast());
            let status = quiet(state, || ffi::lua_pcall(state, below + 1, 1, 0));
            self.settle(status)
        }
    }

    /// The index of what a protected call has left on top.
    fn settle(&mut self, status: c_int) -> Result<c_int, Fault> {
        // SAFETY: reads the height of the stack.
        let top = unsafe { ffi::lua_gettop(self.state) };
        match status {
            ffi::LUA_OK => Ok(top),
            _ => Err(Fault::value(top)),
        }
    }

    /// The value of type `T` that this VM has one of, made at first use.
    pub(crate) fn shared<T: Default + 'static>(&mut self) -> Result<Rc<T>, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room.
        let store = unsafe { store::of(self.state) };
        self.room += 1;
        let shared = store.and_then(Store::shared::<T>);
        shared.ok_or_else(|| Fault::message("the VM is closing"))
    }

    /// Whether the value at `index` has a metatable with this field.
    pub(crate) fn has_metafield(
        &mut self,
        index: c_int,
        name: &'static CStr,
    ) -> Result<bool, Fault> {
        let found = self.create(Metafield(index, name))?;
        let has = !self.is_none(found);
        self.drop_to(found - 1);
        Ok(has)
    }

    /// Pushes the table of the modules that are loaded. → its index
    pub(crate) fn loaded_libraries(&mut self) -> Result<c_int, Fault> {
        self.create(Libraries)
    }

    /// Pushes what `require` has loaded under `name`; nil when it has not. → its index
    pub(crate) fn loaded(&mut self, name: &'static str) -> Result<c_int, Fault> {
        let libraries = self.loaded_libraries()?;
        self.raw_field(libraries, name)?;
        self.replace_with_top(libraries);
        Ok(libraries)
    }

    /// Pushes the field `name` of the table at `index`, without metamethods; nil when that is no table. → its index
    pub(crate) fn raw_field(&mut self, index: c_int, name: &'static str) -> Result<c_int, Fault> {
        let key = self.create(name)?;
        // SAFETY: `lua_rawget` takes the key off, and allocates nothing.
        unsafe {
            match ffi::lua_type(self.state, at(index)) {
                ffi::LUA_TTABLE => {
                    ffi::lua_rawget(self.state, index);
                }
                _ => {
                    ffi::lua_pushnil(self.state);
                    ffi::lua_replace(self.state, key);
                }
            }
        }
        Ok(key)
    }
}

/// A field of a value's metatable, or nil.
struct Metafield(c_int, &'static CStr);

impl Sealed for Metafield {}
impl Push for Metafield {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        // SAFETY: a pusher's promise; it pushes nothing for nil.
        unsafe {
            let (state, name) = (to.state(), self.1.as_ptr());
            ffi::luaL_checkstack(state, 4, std::ptr::null());
            if ffi::luaL_getmetafield(state, at(self.0), name) == ffi::LUA_TNIL {
                ffi::lua_pushnil(state);
            }
        }
    }
}

/// The table of the modules that are loaded.
struct Libraries;

impl Sealed for Libraries {}
impl Push for Libraries {
    fn push(&mut self, to: Pusher<'_>) {
        // SAFETY: a pusher's promise.
        unsafe {
            ffi::lua_getfield(to.state(), ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        }
    }
}

/// Runs `allocate` with the collector at rest and hooks off, as they were before it.
///
/// # Safety
/// `state` is valid; `allocate` does not raise.
pub(super) unsafe fn quiet(state: *mut lua_State, allocate: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: a flag of the collector is read, set and set back.
    unsafe {
        let runs = ffi::lua_gc(state, ffi::LUA_GCISRUNNING) == 1;
        if runs {
            ffi::lua_gc(state, ffi::LUA_GCSTOP);
        }
        let status = unhooked(state, allocate);
        if runs {
            ffi::lua_gc(state, ffi::LUA_GCRESTART);
        }
        status
    }
}

/// Runs `allocate` with hooks off, as they were before it.
///
/// # Safety
/// As for [`quiet`], and `allocate` takes memory by nothing that runs the collector.
pub(super) unsafe fn unhooked(state: *mut lua_State, allocate: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: setting a hook that was set before changes nothing else.
    unsafe {
        let mask = ffi::lua_gethookmask(state);
        if mask == 0 {
            return allocate();
        }
        let hook = ffi::lua_gethook(state);
        let count = ffi::lua_gethookcount(state);
        ffi::lua_sethook(state, None, 0, 0);
        let status = allocate();
        ffi::lua_sethook(state, hook, mask, count);
        status
    }
}

/// Pushes the value that the topmost argument points to.
unsafe extern "C-unwind" fn push_value<T: Push>(state: *mut lua_State) -> c_int {
    // SAFETY: only `create` calls it, in whose frame the value is; no hook can get hold of it. The pointer is taken off, so
    // that no Lua value keeps it. This frame and the closure's own nothing.
    let pushed = catch_unwind(AssertUnwindSafe(|| unsafe {
        let value: *mut T = ffi::lua_touserdata(state, -1).cast();
        ffi::lua_pop(state, 1);
        (*value).push(Pusher::new(state));
    }));
    match pushed {
        Ok(()) => 1,
        // SAFETY: the frame is this function's.
        Err(panic) => unsafe { Fault::panic(panic).raise(state) },
    }
}
