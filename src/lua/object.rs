//! Rust values as full userdata.
//!
//! A type names itself through [`Object`]; its metatable is made once per VM and kept in the registry under the type's
//! identity. The value is dropped by `__gc`.

use super::block::{Slot, identity};
use super::fault::Fault;
use super::function::FunctionTable;
use super::pusher::Pusher;
use super::state::Kind;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Rust type that Lua holds as userdata.
pub(crate) trait Object: Sized + 'static {
    /// `__name`, shown in error messages.
    const NAME: &'static str;
    /// How many user values each object has.
    const USER_VALUES: c_int = 0;
    /// What `__index` finds; without any there is no `__index`.
    const METHODS: FunctionTable = &[];
    /// Metamethods besides `__index`, `__name` and `__gc`.
    const META: FunctionTable = &[];
    /// Runs before the value is dropped by the collector.
    fn collected(&mut self) {}
}

impl<T: Object> Slot<T> {
    const COUNTS: () = assert!(T::USER_VALUES >= 0 && T::USER_VALUES < 256);
}

/// Pushes the metatable of `T`, made at first use.
#[inline]
pub(super) fn push_type<T: Object>(to: &mut Pusher<'_>) {
    if to.push_registered(identity::<T>()) != Kind::Table {
        to.drop_top();
        make_type::<T>(to);
    }
}

#[cold]
fn make_type<T: Object>(to: &mut Pusher<'_>) {
    to.need(6, None);
    to.push_table(0, 3 + T::META.len() as c_int);
    to.push_string(T::NAME.as_bytes());
    to.set_field(c"__name");
    if !T::METHODS.is_empty() {
        // A table that is half empty has few chains: most methods are found at the first look.
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
    to.register(identity::<T>());
}

/// Pushes a new userdata with a value and `size` bytes behind it, which are 0 until `make` gives the value and fills them;
/// nothing when it has none. `make` runs after all that may raise, so the value is never lost; a panic of it is raised. →
/// whether it was pushed
#[inline(always)]
fn push_with<T: Object>(to: &mut Pusher<'_>, size: usize, make: impl FnOnce(&mut [u8]) -> Option<T>) -> bool {
    const { Slot::<T>::FITS };
    const { Slot::<T>::COUNTS };
    push_type::<T>(to);
    let metatable = to.count();
    let type_identity = to.identity(metatable);
    let slot: *mut Slot<T> = to.push_block(size_of::<Slot<T>>() + size, T::USER_VALUES).cast();
    // By the debug library a finalizer may have put another value in the place of the metatable, without the type's
    // `__gc`, or of the block, which is freed then.
    if to.identity(metatable) != type_identity || to.identity(metatable + 1) != slot.addr() {
        Fault::message("a finalizer has taken an object away").raise(to);
    }
    // SAFETY: the block is large enough for slot and bytes, and nobody else has it yet.
    let bytes = unsafe {
        let bytes = slot.add(1).cast::<u8>();
        bytes.write_bytes(0, size);
        std::slice::from_raw_parts_mut(bytes, size)
    };
    let Some(value) = caught(to, || make(bytes)) else {
        to.drop_to(metatable - 1);
        return false;
    };
    // SAFETY: nothing of Lua's has run since the block was made, which is on top, its metatable below it. The value is there
    // before a `__gc` can find it.
    unsafe {
        slot.write(Slot { key: identity::<T>(), value: MaybeUninit::new(value) });
        ffi::lua_rotate(to.state(), -2, 1);
        ffi::lua_setmetatable(to.state(), -2);
    }
    true
}

/// Pushes a new userdata whose value `make` gives, as [`push_with`].
#[inline]
pub(super) fn push<T: Object>(to: &mut Pusher<'_>, make: impl FnOnce() -> Option<T>) -> bool {
    push_with(to, 0, |_| make())
}

/// The same with `size` bytes behind the value, which has no finalizer.
#[inline]
pub(super) fn push_tailed<T: Object + Copy>(
    to: &mut Pusher<'_>, size: usize, make: impl FnOnce(&mut [u8]) -> Option<T>,
) -> bool {
    push_with(to, size, make)
}

unsafe extern "C-unwind" fn collect<T: Object>(state: *mut lua_State) -> c_int {
    // SAFETY: `__gc` is reachable through this type's metatable only, but a script may fetch it with
    // `debug.getmetatable` and call it on anything: hence the test.
    unsafe {
        let mut to = Pusher::new(state);
        let Some((slot, _)) = to.slot::<T>(1) else { return 0 };
        (*slot).key = std::ptr::null();
        caught(&mut to, || {
            #[cfg(feature = "panics")]
            super::panics::count();
            (*slot).value.assume_init_mut().collected();
            (*slot).value.assume_init_drop();
        });
    }
    0
}

/// What `run` gives, which is the caller's before something else may raise; raises a panic of it.
#[inline(always)]
fn caught<R>(to: &mut Pusher<'_>, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => Fault::panic(panic).raise(to),
    }
}
