//! The layout of userdata blocks that contain Rust values, and how their type is checked.
//!
//! Each block begins with the identity of its type, so checking the type needs no lookup: the check reads the kind of
//! the value, and the size and the first word of the block. No other userdata can begin with this identity, because Lua
//! code cannot write into a block. A finalizer can get a value that has already been dropped; such a value is refused
//! like a value of another type.

use super::state::{Key, State, at};
use mlua::ffi;
use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::hash::{Hash, Hasher};
use std::mem::{MaybeUninit, offset_of};
use std::ptr::slice_from_raw_parts;

/// Returns the identity of `T`: the first word of userdata blocks that contain a `T`. It is derived from the address of
/// `ANCHOR`, so another copy of the library in the same process has different identities.
#[inline(always)]
pub(super) fn type_identity<T: 'static>() -> *const c_void {
    static ANCHOR: Key = Key::new(0);
    let offset = type_number::<T>() as usize;
    std::ptr::without_provenance(ANCHOR.pointer().addr().wrapping_add(offset))
}

/// Returns a number that identifies the type `T` within this library.
#[inline(always)]
pub(super) fn type_number<T: 'static>() -> u64 {
    /// Collects the number that a `TypeId` feeds to a hasher.
    struct Number(u64);
    impl Hasher for Number {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
            }
        }
        #[inline(always)]
        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut number = Number(0);
    TypeId::of::<T>().hash(&mut number);
    number.0
}

/// Returns the registry key of the userdata that refers to a VM's `T`.
pub(super) fn shared_key<T: 'static>() -> *const c_void {
    struct Of<T>(std::marker::PhantomData<T>);
    type_identity::<Of<T>>()
}

/// The beginning of a userdata block that contains a Rust value.
#[repr(C)]
pub(super) struct Slot<T> {
    /// The type's identity; null after the value has been dropped.
    pub(super) key: *const c_void,
    pub(super) value: MaybeUninit<T>,
}

impl<T> Slot<T> {
    /// Fails to compile if `T` needs a larger alignment than Lua's numbers, for which Lua aligns userdata.
    pub(super) const ALIGNMENT_FITS: () = assert!(align_of::<Slot<T>>() <= align_of::<f64>());
}

/// Returns the identity of the userdata that contains `object`; see [`State::identity`].
#[inline(always)]
pub(crate) fn identity_of<T: 'static>(object: &T) -> usize {
    std::ptr::from_ref(object).addr().wrapping_sub(offset_of!(Slot<T>, value))
}

impl State {
    /// Returns the slot of the object at `index`, if it is a `T` that has not been dropped, and the size of its block.
    /// The pointer is valid while the object is reachable, for example from a stack.
    #[inline(always)]
    pub(super) fn slot<T: 'static>(&self, index: c_int) -> Option<(*mut Slot<T>, usize)> {
        // SAFETY: `size` bytes of the block are readable, and if its first word is the identity of `T`, it contains a
        // `Slot<T>`. A light userdata has no block, and its length is 0.
        unsafe {
            let slot: *mut Slot<T> = ffi::lua_touserdata(self.state, at(index)).cast();
            if slot.is_null() {
                return None;
            }
            let size = ffi::lua_rawlen(self.state, index);
            (size >= size_of::<Slot<T>>() && (*slot).key == type_identity::<T>()).then_some((slot, size))
        }
    }

    /// Returns a pointer to the object at `index`, if it is a `T` that has not been dropped. The pointer is valid as
    /// long as the pointer from [`State::slot`].
    #[inline(always)]
    pub(super) fn find<T: 'static>(&self, index: c_int) -> Option<*mut T> {
        let (slot, _) = self.slot::<T>(index)?;
        Some(slot.wrapping_byte_add(offset_of!(Slot<T>, value)).cast())
    }

    /// Returns pointers to the object at `index` and to the bytes after it. The bytes were written when the object was
    /// created and never change. Both pointers are valid as long as the pointer from [`State::slot`].
    pub(super) fn tail<T: 'static>(&self, index: c_int) -> Option<(*const T, *const [u8])> {
        let (slot, size) = self.slot::<T>(index)?;
        let value = slot.wrapping_byte_add(offset_of!(Slot<T>, value)).cast();
        let bytes = slot.wrapping_add(1).cast::<u8>();
        Some((value, slice_from_raw_parts(bytes, size - size_of::<Slot<T>>())))
    }
}
