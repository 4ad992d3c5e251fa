//! Rust values as full userdata.
//!
//! A type describes itself to Lua through [`Object`]. Its metatable is created once per VM and kept in the registry
//! under the type's identity. `__gc` drops the value.

use super::block::{Slot, type_identity};
use super::fault::Fault;
use super::function::FunctionTable;
use super::pusher::Pusher;
use super::state::Kind;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Rust type whose values are userdata in Lua.
pub(crate) trait Object: Sized + 'static {
    /// `__name`, shown in error messages.
    const NAME: &'static str;
    /// The number of user values of each object.
    const USER_VALUES: c_int = 0;
    /// The methods. `__index` is the table of these methods; a type without methods has no `__index`.
    const METHODS: FunctionTable = &[];
    /// Metamethods other than `__index`, `__name` and `__gc`.
    const META: FunctionTable = &[];
    /// Called before the collector drops the value.
    fn collected(&mut self) {}
}

/// Pushes the metatable of `T`, which is created on first use.
#[inline]
pub(super) fn push_metatable_of<T: Object>(to: &mut Pusher<'_>) {
    if to.push_registered(type_identity::<T>()) != Kind::Table {
        to.drop_top();
        create_metatable::<T>(to);
    }
}

/// Pushes a new userdata with the value that `make` returns; see [`push_with`].
#[inline]
pub(super) fn push<T: Object>(to: &mut Pusher<'_>, make: impl FnOnce() -> Option<T>) -> bool {
    push_with(to, 0, |_| make())
}

/// Pushes a new userdata with `size` bytes after its value; see [`push_with`]. The userdata has no finalizer.
#[inline]
pub(super) fn push_tailed<T: Object + Copy>(
    to: &mut Pusher<'_>, size: usize, make: impl FnOnce(&mut [u8]) -> Option<T>,
) -> bool {
    push_with(to, size, make)
}

/// Pushes a new userdata. It contains the value that `make` returns, followed by `size` bytes, which are 0 until `make`
/// fills them. If `make` returns `None`, nothing is pushed. `make` runs after all operations that can raise an error,
/// so the value is never lost. A panic in `make` is raised as a Lua error. Returns whether the userdata was pushed.
#[inline(always)]
fn push_with<T: Object>(to: &mut Pusher<'_>, size: usize, make: impl FnOnce(&mut [u8]) -> Option<T>) -> bool {
    const { Slot::<T>::ALIGNMENT_FITS };
    const { Slot::<T>::USER_VALUES_FIT };
    push_metatable_of::<T>(to);
    let metatable = to.count();
    let metatable_identity = to.identity(metatable);
    let slot: *mut Slot<T> = to.push_block(size_of::<Slot<T>>() + size, T::USER_VALUES).cast();
    // A finalizer may have run. With the debug library, it may have replaced the metatable on the stack with a value
    // without the type's `__gc`, or removed the block from the stack, so that the block is freed.
    if to.identity(metatable) != metatable_identity || to.identity(metatable + 1) != slot.addr() {
        Fault::message("a finalizer has removed an object").raise(to);
    }
    // SAFETY: the block is large enough for the slot and the bytes, and no other code has a reference to it yet.
    let bytes = unsafe {
        let bytes = slot.add(1).cast::<u8>();
        bytes.write_bytes(0, size);
        std::slice::from_raw_parts_mut(bytes, size)
    };
    let Some(value) = catch_panic(to, || make(bytes)) else {
        to.drop_to(metatable - 1);
        return false;
    };
    // SAFETY: no Lua code has run since the checks above, so the block is on top and its metatable below it. The value
    // is written before a `__gc` can find it.
    unsafe {
        slot.write(Slot { key: type_identity::<T>(), value: MaybeUninit::new(value) });
        ffi::lua_rotate(to.state(), -2, 1);
        ffi::lua_setmetatable(to.state(), -2);
    }
    true
}

impl<T: Object> Slot<T> {
    const USER_VALUES_FIT: () = assert!(T::USER_VALUES >= 0 && T::USER_VALUES < 256);
}

/// Creates the metatable of `T`, registers it and pushes it.
#[cold]
fn create_metatable<T: Object>(to: &mut Pusher<'_>) {
    to.need(6, None);
    to.push_table(0, 3 + T::META.len() as c_int);
    to.push_string(T::NAME.as_bytes());
    to.set_field(c"__name");
    if !T::METHODS.is_empty() {
        // The table has twice as many slots as needed, which keeps its collision chains short.
        to.push_functions(T::METHODS, T::METHODS.len() + 8);
        to.set_field(c"__index");
    }
    for (name, function) in T::META {
        to.push_closure(function.0, 0);
        to.set_field(name);
    }
    if std::mem::needs_drop::<T>() {
        to.push_function(collect::<T>);
        to.set_field(c"__gc");
    }
    let metatable = to.count();
    to.push_copy(metatable);
    to.register(type_identity::<T>());
}

unsafe extern "C-unwind" fn collect<T: Object>(state: *mut lua_State) -> c_int {
    // SAFETY: `__gc` is reachable through this type's metatable only, but a script can get it with `debug.getmetatable`
    // and call it with any value. Therefore `slot` checks the type.
    unsafe {
        let mut to = Pusher::new(state);
        let Some((slot, _)) = to.slot::<T>(1) else { return 0 };
        (*slot).key = std::ptr::null();
        catch_panic(&mut to, || {
            #[cfg(feature = "panics")]
            super::panics::count();
            (*slot).value.assume_init_mut().collected();
            (*slot).value.assume_init_drop();
        });
    }
    0
}

/// Runs `run` and returns its result. A panic is raised as a Lua error. The caller owns the result before another
/// operation can raise an error.
#[inline(always)]
fn catch_panic<R>(to: &mut Pusher<'_>, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => Fault::panic(panic).raise(to),
    }
}
