//! A call from Lua, as a step sees it.

use super::fault::Fault;
use super::object::Object;
use super::stack::Stack;
use super::state::{State, stands_on};
use std::ffi::c_int;
use std::marker::PhantomData;

/// A call from Lua: its values, see [`Stack`], and the objects among them.
pub(crate) struct Call<'s> {
    stack: Stack,
    step: PhantomData<&'s mut ()>,
}

stands_on!(Call<'_>, stack: Stack);

impl Drop for Call<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.wake_collector();
    }
}

impl Call<'_> {
    /// Of the running function, with room for `room` values.
    #[inline(always)]
    pub(super) fn new(raw: State, room: c_int) -> Self {
        Call { stack: Stack::new(raw, room), step: PhantomData }
    }

    /// Where the object at `index` is.
    #[inline(always)]
    fn place<T: Object>(&self, index: c_int) -> Result<*mut T, Fault> {
        let value = self.stack.find::<T>(index);
        value.ok_or_else(|| Fault::expected(index, T::NAME))
    }

    /// The object at `index`.
    #[inline]
    pub(crate) fn object<T: Object>(&self, index: c_int) -> Result<&T, Fault> {
        let object = self.as_object::<T>(index);
        object.ok_or_else(|| Fault::expected(index, T::NAME))
    }

    /// The object at `index` if it is one of this type.
    #[inline]
    pub(crate) fn as_object<T: Object>(&self, index: c_int) -> Option<&T> {
        let value = self.stack.find::<T>(index)?;
        // SAFETY: it lives as long as the call is borrowed: nothing of Lua's runs, and no method gives a mutable reference
        // meanwhile.
        Some(unsafe { &*value })
    }

    /// The object at `index`, and the bytes that it was made with by a [`Source`](super::Source).
    #[inline]
    pub(crate) fn tail<T: Object + Copy>(&self, index: c_int) -> Result<(&T, &[u8]), Fault> {
        let found = self.stack.tail::<T>(index);
        let (value, bytes) = found.ok_or_else(|| Fault::expected(index, T::NAME))?;
        // SAFETY: the object lives as long as the call is borrowed; its bytes never change.
        Ok(unsafe { (&*value, &*bytes) })
    }

    /// The object at `index`, for changes.
    #[inline]
    pub(crate) fn object_mut<T: Object>(&mut self, index: c_int) -> Result<&mut T, Fault> {
        self.split(index).map(|(object, _)| object)
    }

    /// The object at `index`, for changes, and beside it the values of the call.
    #[inline]
    pub(crate) fn split<T: Object>(&mut self, index: c_int) -> Result<(&mut T, &mut Stack), Fault> {
        let value = self.place::<T>(index)?;
        // SAFETY: as for `object`, and the call is borrowed as a whole: there is no other reference to any object, and the
        // stack gives none.
        Ok((unsafe { &mut *value }, &mut self.stack))
    }

    /// The objects at two indexes, for changes; the same one twice is refused.
    pub(crate) fn pair<T: Object, U: Object>(&mut self, one: c_int, other: c_int) -> Result<(&mut T, &mut U), Fault> {
        let first = self.place::<T>(one)?;
        let second = self.place::<U>(other)?;
        if first.addr() == second.addr() {
            return Err(Fault::argument(other, "the same object twice"));
        }
        // SAFETY: as for `split`; two objects that do not lie in the same block.
        Ok(unsafe { (&mut *first, &mut *second) })
    }
}
