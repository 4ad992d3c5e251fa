//! The blocks of Lua's in which Rust values lie, and how they are known.
//!
//! Each block begins with the identity of its type, so a check reads the block's kind, size and first word, and calls
//! nothing that looks up. No other userdata can begin with it: Lua code cannot write into a block. A value that was
//! dropped, met by a finalizer that runs later, is refused like a wrong type.

use super::state::{Key, State, at};
use mlua::ffi::{self, lua_State};
use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

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
    // SAFETY: a `TypeId` is plain data of this size.
    let id: [u64; 2] = unsafe { std::mem::transmute(TypeId::of::<T>()) };
    id[0] ^ id[1].rotate_left(32)
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

/// The slot that holds `value`.
unsafe fn slot_of<T: 'static>(value: *const T) -> *const Slot<T> {
    // SAFETY: a slot begins that far before its value, in the same block.
    unsafe {
        let start = value.cast::<u8>();
        start.sub(std::mem::offset_of!(Slot<T>, value)).cast()
    }
}

/// What [`State::identity`] gives for the userdata that `object` lies in.
#[inline(always)]
pub(crate) fn identity_of<T: 'static>(object: &T) -> usize {
    std::ptr::from_ref(object).addr().wrapping_sub(std::mem::offset_of!(Slot<T>, value))
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
    pub(crate) unsafe fn get<T: 'static>(self) -> Option<*mut T> {
        // SAFETY: a block of that size can be read, and the key proves the layout.
        unsafe {
            let slot: *mut Slot<T> = self.start.cast();
            if self.size < size_of::<Slot<T>>() {
                return None;
            }
            ((*slot).key == identity::<T>()).then(|| (*slot).value.as_mut_ptr())
        }
    }
}

impl State {
    /// Where the object at `index` is, when it is a living `T`. The pointer holds while the object is reachable.
    #[inline(always)]
    pub(super) fn find<T: 'static>(&self, index: c_int) -> Option<*mut T> {
        // SAFETY: asks what is there; a value on a stack is reachable.
        unsafe { Block::at(self.state, at(index)).get::<T>() }
    }

    /// The object at `index`, and the bytes behind it, which were written when it was made; they do not change.
    ///
    /// # Safety
    /// The two are not used when the object is reachable no more.
    pub(super) unsafe fn tail<'b, T: 'static>(&self, index: c_int) -> Option<(&'b T, &'b [u8])> {
        // SAFETY: what is behind the slot was written whole before the key was.
        unsafe {
            let block = Block::at(self.state, at(index));
            let value = block.get::<T>()?;
            let bytes = block.start.cast::<Slot<T>>().add(1).cast::<u8>();
            let size = block.size - size_of::<Slot<T>>();
            Some((&*value, std::slice::from_raw_parts(bytes, size)))
        }
    }
}

/// The value at `index` when it is a living `T`.
///
/// # Safety
/// `state` is valid, with 2 free stack slots. The pointer holds while the userdata is reachable.
pub(crate) unsafe fn test<T: 'static>(state: *mut lua_State, index: c_int) -> Option<*mut T> {
    // SAFETY: a block that was just read off the stack is reachable.
    unsafe { Block::at(state, index).get::<T>() }
}

/// Whether a value that was once found by [`test`] has not been dropped since.
///
/// # Safety
/// Its userdata has not been collected.
pub(crate) unsafe fn is_alive<T: 'static>(value: *const T) -> bool {
    // SAFETY: the block is there still; dropping the value has set the key to null.
    unsafe { !(*slot_of(value)).key.is_null() }
}

/// A value that was once found by [`test`], unless it has been dropped since.
///
/// # Safety
/// As for [`is_alive`]; nothing of Lua's is called while the reference is in use, and there is no other.
pub(crate) unsafe fn living<'a, T: 'static>(value: *mut T) -> Option<&'a mut T> {
    // SAFETY: no other reference to the value is in use, as the caller says.
    unsafe { is_alive(value).then(|| &mut *value) }
}
