//! A call from Lua, as it is passed to a step.

use super::fault::Fault;
use super::object::Object;
use super::stack::Stack;
use super::state::{State, deref_to_field};
use std::ffi::c_int;
use std::marker::PhantomData;

/// A call from Lua: its values (see [`Stack`]), and the objects among them.
pub(crate) struct Call<'s> {
    stack: Stack,
    step: PhantomData<&'s mut ()>,
}

deref_to_field!(Call<'_>, stack: Stack);

impl Drop for Call<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.resume_collector();
    }
}

impl Call<'_> {
    /// Wraps the stack of the running function, which has room for `room` values.
    #[inline(always)]
    pub(super) fn new(raw: State, room: c_int) -> Self {
        Call { stack: Stack::new(raw, room), step: PhantomData }
    }

    /// Returns a pointer to the `T` at `index`.
    #[inline(always)]
    fn pointer<T: Object>(&self, index: c_int) -> Result<*mut T, Fault> {
        let value = self.stack.find::<T>(index);
        value.ok_or_else(|| Fault::expected(index, T::NAME))
    }

    /// Returns the `T` at `index`.
    #[inline]
    pub(crate) fn object<T: Object>(&self, index: c_int) -> Result<&T, Fault> {
        let object = self.as_object::<T>(index);
        object.ok_or_else(|| Fault::expected(index, T::NAME))
    }

    /// Returns the object at `index` if it is a `T`.
    #[inline]
    pub(crate) fn as_object<T: Object>(&self, index: c_int) -> Option<&T> {
        let value = self.stack.find::<T>(index)?;
        // SAFETY: the object exists while the call is borrowed: during the borrow, no Lua code runs, and no method
        // returns a mutable reference.
        Some(unsafe { &*value })
    }

    /// Returns the `T` at `index` and its tail, the bytes that a [`TailedSource`](super::TailedSource) has written
    /// after it.
    #[inline]
    pub(crate) fn tail<T: Object + Copy>(&self, index: c_int) -> Result<(&T, &[u8]), Fault> {
        let found = self.stack.tail::<T>(index);
        let (value, bytes) = found.ok_or_else(|| Fault::expected(index, T::NAME))?;
        // SAFETY: the object exists while the call is borrowed, and its bytes never change.
        Ok(unsafe { (&*value, &*bytes) })
    }

    /// Returns a mutable reference to the `T` at `index`.
    #[inline]
    pub(crate) fn object_mut<T: Object>(&mut self, index: c_int) -> Result<&mut T, Fault> {
        self.object_and_stack(index).map(|(object, _)| object)
    }

    /// Returns a mutable reference to the `T` at `index`, together with the values of the call.
    #[inline]
    pub(crate) fn object_and_stack<T: Object>(&mut self, index: c_int) -> Result<(&mut T, &mut Stack), Fault> {
        let value = self.pointer::<T>(index)?;
        // SAFETY: the object exists while the call is borrowed, because no Lua code runs. The borrow is mutable, so no
        // other reference to any object exists, and the returned stack cannot create one.
        Ok((unsafe { &mut *value }, &mut self.stack))
    }

    /// Returns mutable references to the objects at two indexes. Fails if both indexes contain the same object.
    pub(crate) fn object_pair<T: Object, U: Object>(
        &mut self, one: c_int, other: c_int,
    ) -> Result<(&mut T, &mut U), Fault> {
        let first = self.pointer::<T>(one)?;
        let second = self.pointer::<U>(other)?;
        if first.addr() == second.addr() {
            return Err(Fault::argument(other, "the same object twice"));
        }
        // SAFETY: the objects exist while the call is borrowed, because no Lua code runs. The borrow is mutable, so no
        // other reference to any object exists, and the two objects are in different blocks.
        Ok(unsafe { (&mut *first, &mut *second) })
    }
}
