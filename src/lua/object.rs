//! Rust values as full userdata.
//!
//! A type names itself through [`Object`]; its metatable is made once per VM and kept in the registry under the type's
//! identity. The value is dropped by `__gc`.

use super::block::{Slot, identity};
use super::fault::Fault;
use super::function::Function;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use super::block::{Block, Key, is_alive, known, living, tail, test, upvalue};

/// A Rust type that Lua holds as userdata.
pub(crate) trait Object: Sized + 'static {
    /// `__name`, shown in error messages.
    const NAME: &'static CStr;
    /// How many user values each object has.
    const USER_VALUES: c_int = 0;
    /// What `__index` finds.
    const METHODS: &'static [(&'static CStr, Function)];
    /// Metamethods besides `__index`, `__name` and `__gc`.
    const META: &'static [(&'static CStr, Function)] = &[];
    /// Runs before the value is dropped by the collector.
    fn collected(&mut self) {}
    /// Called once with the new metatable on top of the stack.
    ///
    /// # Safety
    /// `state` is valid; nothing that needs `Drop` may be alive.
    unsafe fn finish_metatable(_state: *mut lua_State) {}
}

impl<T: Object> Slot<T> {
    const COUNTS: () = assert!(T::USER_VALUES >= 0 && T::USER_VALUES < 256);
}

/// Pushes the metatable of `T`, made at first use.
///
/// # Safety
/// `state` is valid, with 4 free stack slots; may raise a memory error.
pub(crate) unsafe fn push_metatable<T: Object>(state: *mut lua_State) {
    // SAFETY: plain stack work; the functions stored are this type's own.
    unsafe {
        let key = identity::<T>();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key) == ffi::LUA_TTABLE {
            return;
        }
        ffi::lua_pop(state, 1);
        ffi::lua_createtable(state, 0, 8);
        ffi::lua_pushstring(state, T::NAME.as_ptr());
        ffi::lua_setfield(state, -2, c"__name".as_ptr());
        ffi::lua_createtable(state, 0, T::METHODS.len() as c_int);
        for (name, function) in T::METHODS {
            function.push(state, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        ffi::lua_setfield(state, -2, c"__index".as_ptr());
        for (name, function) in T::META {
            function.push(state, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        if std::mem::needs_drop::<T>() {
            // SAFETY: it lets no panic pass.
            Function::foreign(collect::<T>).push(state, 0);
            ffi::lua_setfield(state, -2, c"__gc".as_ptr());
        }
        T::finish_metatable(state);
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key);
    }
}

/// Pushes a new userdata whose value `make` gives. `make` runs after all that may raise, so the value
/// is never lost; a failure of `make` pops the userdata and is returned, a panic of `make` is raised.
///
/// # Safety
/// `state` is valid, with 6 free stack slots; nothing that needs `Drop` may be alive in the caller but
/// what `make` owns by reference.
pub(crate) unsafe fn push_new<T: Object, E>(
    state: *mut lua_State,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<*mut T, E> {
    const { Slot::<T>::FITS };
    const { Slot::<T>::COUNTS };
    // SAFETY: the slot is written before the metatable with its `__gc` is set; neither step raises. What a finalizer may
    // have put in the place of the metatable by the debug library is no table, or one without consequence.
    unsafe {
        push_metatable::<T>(state);
        let slot: *mut Slot<T> =
            ffi::lua_newuserdatauv(state, size_of::<Slot<T>>(), T::USER_VALUES).cast();
        ffi::luaL_checktype(state, ffi::lua_gettop(state) - 1, ffi::LUA_TTABLE);
        match caught(state, make) {
            Ok(value) => {
                slot.write(Slot {
                    key: identity::<T>(),
                    value: MaybeUninit::new(value),
                });
                ffi::lua_rotate(state, -2, 1);
                ffi::lua_setmetatable(state, -2);
                Ok((*slot).value.as_mut_ptr())
            }
            Err(error) => {
                ffi::lua_pop(state, 2);
                Err(error)
            }
        }
    }
}

/// Pushes a new userdata with a plain value and `size` bytes behind it, which are 0 until `make` fills them; nothing
/// when `make` has none. `make` runs after all that may raise but a panic of its own. → whether it was pushed
///
/// # Safety
/// As for [`push_new`].
pub(super) unsafe fn push_tailed<T: Object + Copy>(
    state: *mut lua_State,
    size: usize,
    make: impl FnOnce(&mut [u8]) -> Option<T>,
) -> bool {
    const { Slot::<T>::FITS };
    const { Slot::<T>::COUNTS };
    // SAFETY: the block is large enough for slot and bytes, and nobody else has it yet. As in `push_new`, its metatable is
    // set when there is a value.
    unsafe {
        push_metatable::<T>(state);
        let slot: *mut Slot<T> =
            ffi::lua_newuserdatauv(state, size_of::<Slot<T>>() + size, T::USER_VALUES).cast();
        ffi::luaL_checktype(state, ffi::lua_gettop(state) - 1, ffi::LUA_TTABLE);
        let bytes = slot.add(1).cast::<u8>();
        bytes.write_bytes(0, size);
        match caught(state, || make(std::slice::from_raw_parts_mut(bytes, size))) {
            Some(value) => {
                slot.write(Slot {
                    key: identity::<T>(),
                    value: MaybeUninit::new(value),
                });
                ffi::lua_rotate(state, -2, 1);
                ffi::lua_setmetatable(state, -2);
                true
            }
            None => {
                ffi::lua_pop(state, 2);
                false
            }
        }
    }
}

/// Pushes a new userdata with a plain value and `tail` bytes behind it, which the caller fills. Its metatable, as
/// [`push_metatable`] gives it, is at `metatable`.
///
/// # Safety
/// As for [`push_new`]; `T` needs no `Drop`.
pub(crate) unsafe fn push_with_tail<T: Object + Copy>(
    state: *mut lua_State,
    metatable: c_int,
    value: T,
    tail: usize,
) -> *mut T {
    const { Slot::<T>::FITS };
    // SAFETY: the block is large enough for the slot and the tail.
    unsafe {
        let size = size_of::<Slot<T>>() + tail;
        let slot: *mut Slot<T> = ffi::lua_newuserdatauv(state, size, T::USER_VALUES).cast();
        slot.write(Slot {
            key: identity::<T>(),
            value: MaybeUninit::new(value),
        });
        ffi::lua_pushvalue(state, metatable);
        ffi::lua_setmetatable(state, -2);
        (*slot).value.as_mut_ptr()
    }
}

/// The value at argument `index`; raises a type error that names it otherwise.
///
/// # Safety
/// As for [`test`]; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn check<T: Object>(state: *mut lua_State, index: c_int) -> *mut T {
    // SAFETY: asks what is there; where it raises, no frame owns anything.
    unsafe {
        match test::<T>(state, index) {
            Some(value) => value,
            None => Fault::expected(index, T::NAME.to_str().unwrap_or("object")).raise(state),
        }
    }
}

unsafe extern "C-unwind" fn collect<T: Object>(state: *mut lua_State) -> c_int {
    // SAFETY: `__gc` is reachable through this type's metatable only, but a script may fetch it with
    // `debug.getmetatable` and call it on anything: hence the test.
    unsafe {
        let Some(value) = test::<T>(state, 1) else {
            return 0;
        };
        let slot: *mut Slot<T> = ffi::lua_touserdata(state, 1).cast();
        (*slot).key = std::ptr::null();
        caught(state, || {
            #[cfg(feature = "panics")]
            super::panics::count();
            (*value).collected();
            std::ptr::drop_in_place(value);
        });
    }
    0
}

/// What `run` gives; raises a panic of it.
///
/// # Safety
/// As for a raise; what `run` gives is the caller's before something else may raise.
unsafe fn caught<R>(state: *mut lua_State, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        // SAFETY: the caller's frames own nothing when a panic has left `run`.
        Err(panic) => unsafe { Fault::panic(panic).raise(state) },
    }
}
