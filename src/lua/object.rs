//! Rust values as full userdata.
//!
//! A type names itself through [`Object`]; its metatable is made once per VM and kept in the registry
//! under the type's identity. Each block begins with that, so a check reads the block's kind, size
//! and first word, and calls nothing that looks up. No other userdata can begin with it: Lua code cannot
//! write into a block. The value is dropped by `__gc`; a
//! dead one, met by a finalizer that runs later, is refused like a wrong type.

use super::fault::Fault;
use super::function::Function;
use mlua::ffi::{self, lua_State};
use std::any::TypeId;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// What tells the types of this library apart from each other, and from all else that a block of Lua's may begin with:
/// nobody else knows the address, which another copy of the library in the same process does not share either.
#[inline(always)]
fn identity<T: 'static>() -> *const c_void {
    static ANCHOR: Key = Key::new(0);
    let offset = type_number::<T>() as usize;
    std::ptr::without_provenance(ANCHOR.pointer().addr().wrapping_add(offset))
}

/// Tells the types of this library apart.
#[inline(always)]
pub(super) fn type_number<T: 'static>() -> u64 {
    // SAFETY: a `TypeId` is plain data of this size.
    let id: [u64; 2] = unsafe { std::mem::transmute(TypeId::of::<T>()) };
    id[0] ^ id[1].rotate_left(32)
}

/// Where the registry has what holds the value of type `T` that a VM shares.
pub(super) fn shared_key<T: 'static>() -> *const c_void {
    struct Of<T>(std::marker::PhantomData<T>);
    identity::<Of<T>>()
}

/// A registry key: what counts is its address, so it must not be zero-sized.
pub(crate) struct Key(#[allow(dead_code)] u8);

impl Key {
    pub(crate) const fn new(seed: u8) -> Self {
        Key(seed)
    }

    pub(crate) fn pointer(&'static self) -> *const c_void {
        (self as *const Key).cast()
    }
}

#[repr(C)]
struct Slot<T> {
    /// The type's registry key; null once the value is dropped.
    key: *const c_void,
    value: MaybeUninit<T>,
}

impl<T> Slot<T> {
    /// Lua aligns userdata for its own numbers and pointers, and no further.
    const FITS: () = assert!(align_of::<Slot<T>>() <= align_of::<f64>());
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

/// Where the tail of a value made by [`push_with_tail`] begins.
///
/// # Safety
/// `value` was made by it.
pub(crate) unsafe fn tail<T: Object>(value: *const T) -> *mut u8 {
    // SAFETY: the tail lies behind the slot.
    unsafe { slot_of(value).add(1).cast::<u8>().cast_mut() }
}

/// The slot that holds `value`.
unsafe fn slot_of<T: Object>(value: *const T) -> *const Slot<T> {
    // SAFETY: a slot begins that far before its value, in the same block.
    unsafe {
        let start = value.cast::<u8>();
        start.sub(std::mem::offset_of!(Slot<T>, value)).cast()
    }
}

/// A userdata, or nothing, of which it is to be told what it is.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    start: *mut c_void,
    size: usize,
}

impl Block {
    /// What is at `index`.
    ///
    /// # Safety
    /// `state` is valid, and `index` is acceptable. The block holds while the userdata is reachable.
    #[inline]
    pub(crate) unsafe fn at(state: *mut lua_State, index: c_int) -> Block {
        // SAFETY: what has no block, a light userdata too, has no length.
        unsafe {
            let start = ffi::lua_touserdata(state, index);
            let size = match start.is_null() {
                true => 0,
                false => ffi::lua_rawlen(state, index),
            };
            Block { start, size }
        }
    }

    /// The value when it is a living `T`.
    ///
    /// # Safety
    /// The userdata is reachable.
    #[inline]
    pub(crate) unsafe fn get<T: Object>(self) -> Option<*mut T> {
        // SAFETY: a block of that size can be read, and the key proves the layout.
        unsafe {
            let slot: *mut Slot<T> = self.start.cast();
            if self.size < size_of::<Slot<T>>() {
                return None;
            }
            ((*slot).key == identity::<T>()).then(|| (*slot).value.as_mut_ptr())
        }
    }

    /// The bytes behind a living `T`, which were written when it was made; they do not change.
    ///
    /// # Safety
    /// As for [`Block::get`]; the slice holds as long.
    pub(super) unsafe fn tail<'b, T: Object>(self) -> Option<(&'b T, &'b [u8])> {
        // SAFETY: what is behind the slot was written whole before the key was.
        unsafe {
            let value = self.get::<T>()?;
            let bytes = self.start.cast::<Slot<T>>().add(1).cast::<u8>();
            let size = self.size - size_of::<Slot<T>>();
            Some((&*value, std::slice::from_raw_parts(bytes, size)))
        }
    }

    /// The address by which Lua knows it.
    pub(crate) fn address(self) -> usize {
        self.start.addr()
    }
}

/// The value at `index` when it is a living `T`.
///
/// # Safety
/// `state` is valid, with 2 free stack slots. The pointer holds while the userdata is reachable.
pub(crate) unsafe fn test<T: Object>(state: *mut lua_State, index: c_int) -> Option<*mut T> {
    // SAFETY: a block that was just read off the stack is reachable.
    unsafe { Block::at(state, index).get::<T>() }
}

/// The value that an upvalue of the running function was made with, when it is living.
///
/// # Safety
/// The pseudo-index `index` is of an upvalue that was set to a `T`.
pub(crate) unsafe fn upvalue<T: Object>(state: *mut lua_State, index: c_int) -> Option<*mut T> {
    // SAFETY: an upvalue of this library's functions is set once, to what the caller names.
    unsafe { known(state, index) }
}

/// The value at `index`, which [`test`] or [`check`] has found there before, when it is living.
///
/// # Safety
/// The index still holds that userdata.
#[inline]
pub(crate) unsafe fn known<T: Object>(state: *mut lua_State, index: c_int) -> Option<*mut T> {
    // SAFETY: the caller's promise; the key is null once the value is dropped.
    unsafe {
        let slot: *mut Slot<T> = ffi::lua_touserdata(state, index).cast();
        (!slot.is_null() && !(*slot).key.is_null()).then(|| (*slot).value.as_mut_ptr())
    }
}

/// Whether a value that was once found by [`test`] has not been dropped since.
///
/// # Safety
/// Its userdata has not been collected.
pub(crate) unsafe fn is_alive<T: Object>(value: *const T) -> bool {
    // SAFETY: the block is there still; dropping the value has set the key to null.
    unsafe { !(*slot_of(value)).key.is_null() }
}

/// A value that was once found by [`test`], unless it has been dropped since.
///
/// # Safety
/// As for [`is_alive`]; nothing of Lua's is called while the reference is in use, and there is no other.
pub(crate) unsafe fn living<'a, T: Object>(value: *mut T) -> Option<&'a mut T> {
    // SAFETY: no other reference to the value is in use, as the caller says.
    unsafe { is_alive(value).then(|| &mut *value) }
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
