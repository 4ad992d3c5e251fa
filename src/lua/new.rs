//! New objects that a step returns to Lua, and bytes that an object passes to Lua.

use super::fields::Field;
use super::object::{self, Object};
use super::pusher::Pusher;
use super::returns::Push;
use super::state::State;
use std::ffi::c_int;
use std::marker::PhantomData;

/// A new object.
pub(crate) struct New<T: Object>(Option<T>);

impl<T: Object> New<T> {
    pub(crate) fn of(value: T) -> Self {
        New(Some(value))
    }
}

/// An object with bytes that are passed to Lua. They are copied once, into Lua's string.
pub(crate) trait Lender: Object {
    /// Returns the bytes to pass now.
    fn lent(&self) -> &[u8];
    /// Called after Lua has copied the bytes. Not called if the copy failed for want of memory.
    fn handed_over(&mut self);
}

/// The bytes of the object at an index, as a string.
pub(crate) struct Lent<T>(c_int, PhantomData<T>);

impl<T: Lender> Lent<T> {
    /// The bytes of the object at argument `index`.
    pub(crate) fn by(index: c_int) -> Self {
        Lent(index, PhantomData)
    }
}

/// A new object, with some of its fields set: each to the value at an index of the function's stack.
pub(crate) struct NewWith<T: Object, const FIELDS: usize> {
    new: New<T>,
    fields: [(Field<T>, c_int); FIELDS],
}

impl<T: Object, const FIELDS: usize> NewWith<T, FIELDS> {
    pub(crate) fn new(value: T, fields: [(Field<T>, c_int); FIELDS]) -> Self {
        let new = New::of(value);
        NewWith { new, fields }
    }
}

/// Creates an object of plain data with bytes behind it, when Lua has allocated memory for it. Such an object has no
/// finalizer, which saves work for the collector. A finalizer may run between the step and the creation, so the data
/// that the creation reads may have changed.
pub(crate) trait Source: 'static {
    type Object: Object + Copy;
    /// Returns the number of bytes.
    fn size(&self) -> usize;
    /// Writes the bytes, which are 0 before, and returns the value. If it returns `None`, there is no object to create,
    /// and Lua gets nil.
    fn make(&mut self, bytes: &mut [u8]) -> Option<Self::Object>;
}

/// The object that a source creates, with some of its fields set: each to the value at an index of the function's
/// stack.
pub(crate) struct Made<S: Source, const FIELDS: usize> {
    pub(crate) source: S,
    pub(crate) fields: [(Field<S::Object>, c_int); FIELDS],
}

/// An object that creates others of plain data with bytes behind them, when Lua has allocated memory for them: like a
/// [`Source`], but nothing is stored meanwhile.
pub(crate) trait Maker: Object {
    type Made: Object + Copy;
    /// Returns the number of bytes.
    fn size(&self) -> usize;
    /// Creates the object, as [`Source::make`].
    fn make(&mut self, bytes: &mut [u8]) -> Option<Self::Made>;
}

/// The object that the object at an index creates, with some of its fields set: each to the value at an index of the
/// function's stack. Nil if there is no object at the index when it is pushed.
pub(crate) struct MadeBy<M: Maker, const FIELDS: usize> {
    pub(crate) maker: c_int,
    pub(crate) fields: [(Field<M::Made>, c_int); FIELDS],
}

/// Some of the bytes behind the object at an index, as a string; nil if there is no object at the index when it is
/// pushed.
#[derive(Clone, Copy)]
pub(crate) struct Part<T> {
    object: c_int,
    begin: usize,
    end: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Object + Copy> Part<T> {
    /// The bytes of `part`, which is a slice of the bytes that [`Call::tail`](super::Call::tail) returns for the object
    /// at `object`.
    #[inline]
    pub(crate) fn of(object: c_int, tail: &[u8], part: &[u8]) -> Self {
        let begin = part.as_ptr().addr().wrapping_sub(tail.as_ptr().addr());
        Part { object, begin, end: begin.wrapping_add(part.len()), of: PhantomData }
    }
}

/// A value that is also stored in a field of the object at an index of the function's stack.
pub(crate) struct Stored<V, T> {
    pub(crate) value: V,
    pub(crate) object: c_int,
    pub(crate) field: Field<T>,
}

impl<V: Push, T: Object> Push for Stored<V, T> {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.value.push(to.again());
        if to.find::<T>(self.object).is_some() {
            let value = to.count();
            to.set_user_value(self.object, self.field.number(), value);
        }
    }
}

impl<T: Object> Push for New<T> {
    fn push(&mut self, mut to: Pusher<'_>) {
        // The value is moved when Lua has allocated a block for it.
        if !object::push(&mut to, || self.0.take()) {
            to.push_nil();
        }
    }
}

impl<T: Lender> Push for Lent<T> {
    const REFERS: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let Some(object) = to.find::<T>(self.0) else { return to.push_nil() };
        // SAFETY: the object was just found at its index. Lua copies the bytes before a finalizer can run, and does not
        // read them again.
        to.push_string(unsafe { (*object).lent() });
        if to.find::<T>(self.0) == Some(object) {
            // SAFETY: the same object was found again, after any change that a finalizer has made to the stack.
            unsafe { (*object).handed_over() };
        }
    }
}

impl<T: Object, const FIELDS: usize> Push for NewWith<T, FIELDS> {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.new.push(to.again());
        set_fields(to, &self.fields);
    }
}

impl<S: Source, const FIELDS: usize> Push for Made<S, FIELDS> {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        let size = self.source.size();
        match object::push_tailed(&mut to, size, |bytes| self.source.make(bytes)) {
            true => set_fields(to, &self.fields),
            false => to.push_nil(),
        }
    }
}

impl<M: Maker, const FIELDS: usize> Push for MadeBy<M, FIELDS> {
    const REFERS: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let index = self.maker;
        let made = to.find::<M>(index).is_some_and(|maker| {
            // SAFETY: the object was just found, and no Lua code runs during this call.
            let size = unsafe { (*maker).size() };
            let stack = State::again(&to);
            object::push_tailed(&mut to, size, |bytes| {
                // SAFETY: the object is found after the allocation, which is the last moment a finalizer can run. No
                // Lua code runs while it is borrowed.
                stack.find::<M>(index).and_then(|maker| unsafe { (*maker).make(bytes) })
            })
        });
        match made {
            true => set_fields(to, &self.fields),
            false => to.push_nil(),
        }
    }
}

impl<T: Object + Copy> Push for Part<T> {
    const REFERS: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        // SAFETY: the bytes behind an object never change, and Lua has copied them when the next finalizer can run.
        let tail = to.tail::<T>(self.object).map(|(_, bytes)| unsafe { &*bytes });
        match tail.and_then(|tail| tail.get(self.begin..self.end)) {
            Some(bytes) => to.push_string(bytes),
            None => to.push_nil(),
        }
    }
}

/// Sets fields of the object that was pushed last, if one was pushed.
#[inline]
fn set_fields<T: Object>(mut to: Pusher<'_>, fields: &[(Field<T>, c_int)]) {
    let object = to.count();
    if !fields.is_empty() && to.find::<T>(object).is_some() {
        for (field, value) in fields {
            to.set_user_value(object, field.number(), *value);
        }
    }
}
