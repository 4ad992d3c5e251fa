//! A call from Lua, as a step sees it.

use super::fault::Fault;
use super::object::{Block, Object};
use super::stack::{Stack, at};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A call from Lua: its values, see [`Stack`], and the objects among them.
pub(crate) struct Call<'s> {
    stack: Stack,
    step: PhantomData<&'s mut ()>,
}

impl Deref for Call<'_> {
    type Target = Stack;
    #[inline(always)]
    fn deref(&self) -> &Stack {
        &self.stack
    }
}

impl DerefMut for Call<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }
}

impl Drop for Call<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.wake_collector();
    }
}

impl Call<'_> {
    /// # Safety
    /// `state` is that of the running C function, whose stack nobody else changes while the call is in use, with room for
    /// `room` values.
    #[inline(always)]
    pub(super) unsafe fn new(state: *mut lua_State, room: c_int) -> Self {
        Call {
            // SAFETY: the same promise, passed on.
            stack: unsafe { Stack::new(state, room) },
            step: PhantomData,
        }
    }

    /// A call of a raw function that is left. // bridge
    ///
    /// # Safety
    /// As for a step of the function that runs.
    pub(crate) unsafe fn bridge<R>(
        state: *mut lua_State,
        step: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        // SAFETY: without room of its own, a step asks for what it needs.
        step(&mut unsafe { Call::new(state, 0) })
    }

    /// A call for raw functions that are left. // bridge
    ///
    /// # Safety
    /// As for `new`; nothing of Lua's is called but through it while it is in use.
    pub(crate) unsafe fn raw<'b>(state: *mut lua_State) -> Call<'b> {
        // SAFETY: the caller's promise; it asks for room.
        unsafe { Call::new(state, 0) }
    }

    /// The state, for raw functions that are left.
    pub(crate) fn state(&self) -> *mut lua_State {
        self.stack.state
    }

    /// Where the object at `index` is.
    #[inline(always)]
    fn find<T: Object>(&self, index: c_int) -> Result<*mut T, Fault> {
        // SAFETY: asks what is there; a block that is one of `T` holds a living value.
        match unsafe { Block::at(self.state, at(index)).get::<T>() } {
            Some(value) => Ok(value),
            None => Err(Fault::expected(index, name::<T>())),
        }
    }

    /// The object at `index`.
    #[inline]
    pub(crate) fn object<T: Object>(&self, index: c_int) -> Result<&T, Fault> {
        let value = self.find::<T>(index)?;
        // SAFETY: it lives as long as the call is borrowed: nothing of Lua's runs, and no method gives a mutable reference
        // meanwhile.
        Ok(unsafe { &*value })
    }

    /// The object at `index` if it is one of this type.
    #[inline]
    pub(crate) fn as_object<T: Object>(&self, index: c_int) -> Option<&T> {
        // SAFETY: of this type and living, or nothing; the borrow of the call keeps everybody else from it.
        unsafe {
            Block::at(self.state, at(index))
                .get::<T>()
                .map(|value| &*value)
        }
    }

    /// The object at `index`, and the bytes that it was made with by a [`Source`](super::Source).
    #[inline]
    pub(crate) fn tail<T: Object + Copy>(&self, index: c_int) -> Result<(&T, &[u8]), Fault> {
        // SAFETY: as for `object`; its bytes never change.
        match unsafe { Block::at(self.state, at(index)).tail::<T>() } {
            Some(found) => Ok(found),
            None => Err(Fault::expected(index, name::<T>())),
        }
    }

    /// The object at `index`, for changes.
    #[inline]
    pub(crate) fn object_mut<T: Object>(&mut self, index: c_int) -> Result<&mut T, Fault> {
        let value = self.find::<T>(index)?;
        // SAFETY: as for `object`, and the call is borrowed as a whole: there is no other reference to any object.
        Ok(unsafe { &mut *value })
    }

    /// The object at `index`, for changes, and beside it the values of the call.
    #[inline]
    pub(crate) fn split<T: Object>(&mut self, index: c_int) -> Result<(&mut T, &mut Stack), Fault> {
        let value = self.find::<T>(index)?;
        // SAFETY: as for `object_mut`; the stack gives no references to objects.
        Ok((unsafe { &mut *value }, &mut self.stack))
    }

    /// The objects at two indexes, for changes; the same one twice is refused.
    pub(crate) fn pair<T: Object, U: Object>(
        &mut self,
        one: c_int,
        other: c_int,
    ) -> Result<(&mut T, &mut U), Fault> {
        let first = self.find::<T>(one)?;
        let second = self.find::<U>(other)?;
        if first.addr() == second.addr() {
            return Err(Fault::argument(other, "the same object twice"));
        }
        // SAFETY: as for `object_mut`; two objects that do not lie in the same block.
        Ok(unsafe { (&mut *first, &mut *second) })
    }
}

/// How errors name objects of a type.
fn name<T: Object>() -> &'static str {
    T::NAME.to_str().unwrap_or("object")
}
