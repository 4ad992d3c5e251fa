//! The blocks of Lua's in which Rust values lie, and how they are known.
//!
//! Each block begins with the identity of its type, so a check reads the block's kind, size and first word, and calls
//! nothing that looks up. No other userdata can begin with it: Lua code cannot write into a block. A value that was
//! dropped, met by a finalizer that runs later, is refused like a wrong type.

use super::state::{Key, State, at};
use mlua::ffi;
use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::hash::{Hash, Hasher};
use std::mem::{MaybeUninit, offset_of};
use std::ptr::slice_from_raw_parts;

/// What tells the types of this library apart from each other, and from all else that a block of Lua's may begin with:
/// nobody else knows the address, which another copy of the library in the same process does not share either.
#[inline(always)]
pub(super) fn identity<T: 'static>() -> *const c_void {
    static ANCHOR: Key = Key::new(0);
    let offset = type_number::<T>() as usize;
    std::ptr::without_provenance(ANCHOR.pointer().addr().wrapping_add(offset))
}

/// Tells the types of this library apart.
#[inline(always)]
pub(super) fn type_number<T: 'static>() -> u64 {
    /// Hands out the number that a `TypeId` is hashed by.
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

/// Where the registry has what holds the value of type `T` that a VM shares.
pub(super) fn shared_key<T: 'static>() -> *const c_void {
    struct Of<T>(std::marker::PhantomData<T>);
    identity::<Of<T>>()
}

#[repr(C)]
pub(super) struct Slot<T> {
    /// The type's registry key; null once the value is dropped.
    pub(super) key: *const c_void,
    pub(super) value: MaybeUninit<T>,
}

impl<T> Slot<T> {
    /// Lua aligns userdata for its own numbers and pointers, and no further.
    pub(super) const FITS: () = assert!(align_of::<Slot<T>>() <= align_of::<f64>());
}

/// What [`State::identity`] gives for the userdata that `object` lies in.
#[inline(always)]
pub(crate) fn identity_of<T: 'static>(object: &T) -> usize {
    std::ptr::from_ref(object).addr().wrapping_sub(offset_of!(Slot<T>, value))
}

impl State {
    /// The slot of the object at `index` when it is a living `T`, and the size of its block. The pointer holds while the
    /// object is reachable, as a value on a stack is.
    #[inline(always)]
    pub(super) fn slot<T: 'static>(&self, index: c_int) -> Option<(*mut Slot<T>, usize)> {
        // SAFETY: a block of that size can be read, and the key proves its layout. What has no block, a light userdata too,
        // has no length.
        unsafe {
            let slot: *mut Slot<T> = ffi::lua_touserdata(self.state, at(index)).cast();
            if slot.is_null() {
                return None;
            }
            let size = ffi::lua_rawlen(self.state, index);
            (size >= size_of::<Slot<T>>() && (*slot).key == identity::<T>()).then_some((slot, size))
        }
    }

    /// Where the object at `index` is, when it is a living `T`. The pointer holds as that to its slot.
    #[inline(always)]
    pub(super) fn find<T: 'static>(&self, index: c_int) -> Option<*mut T> {
        let (slot, _) = self.slot::<T>(index)?;
        Some(slot.wrapping_byte_add(offset_of!(Slot<T>, value)).cast())
    }

    /// Where the object at `index` is, and the bytes behind it, which were written when it was made; those do not change. As
    /// for [`State::find`].
    pub(super) fn tail<T: 'static>(&self, index: c_int) -> Option<(*const T, *const [u8])> {
        let (slot, size) = self.slot::<T>(index)?;
        let value = slot.wrapping_byte_add(offset_of!(Slot<T>, value)).cast();
        let bytes = slot.wrapping_add(1).cast::<u8>();
        Some((value, slice_from_raw_parts(bytes, size - size_of::<Slot<T>>())))
    }
}
