//! Objects that a step gives Lua, and bytes that an object gives.

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

/// An object that has bytes to hand over, which are copied once, into Lua's string.
pub(crate) trait Lender: Object {
    /// The bytes that are handed over now.
    fn lent(&self) -> &[u8];
    /// Lua has copied them. Not called when it could not, for want of memory.
    fn handed_over(&mut self);
}

/// What the object at an index hands over, as a string.
pub(crate) struct Lent<T>(c_int, PhantomData<T>);

impl<T: Lender> Lent<T> {
    /// Of the object at argument `index`.
    pub(crate) fn by(index: c_int) -> Self {
        Lent(index, PhantomData)
    }
}

/// A new object, some of whose fields are set: each to the value at an index of the function's stack.
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

/// What makes an object of plain data with bytes behind it, when Lua has the memory for it. Such an object has no
/// finalizer, which the collector would have to call. What is read when it is made may have changed since the step: a
/// finalizer may run in between.
pub(crate) trait Source: 'static {
    type Object: Object + Copy;
    /// How many bytes there are.
    fn size(&self) -> usize;
    /// Writes them; they are 0 before. → the value; `None` when there is none any more: then Lua gets nil.
    fn make(&mut self, bytes: &mut [u8]) -> Option<Self::Object>;
}

/// The object that a source makes, some of whose fields are set: each to the value at an index of the function's stack.
pub(crate) struct Made<S: Source, const FIELDS: usize> {
    pub(crate) source: S,
    pub(crate) fields: [(Field<S::Object>, c_int); FIELDS],
}

/// An object that makes others of plain data with bytes behind them, when Lua has the memory for that: as a [`Source`], but
/// nothing is kept meanwhile.
pub(crate) trait Maker: Object {
    type Made: Object + Copy;
    /// How many bytes there are.
    fn size(&self) -> usize;
    /// As [`Source::make`].
    fn make(&mut self, bytes: &mut [u8]) -> Option<Self::Made>;
}

/// What the object at an index makes, some of whose fields are set: each to the value at an index of the function's stack.
/// Nil when the object is gone.
pub(crate) struct MadeBy<M: Maker, const FIELDS: usize> {
    pub(crate) maker: c_int,
    pub(crate) fields: [(Field<M::Made>, c_int); FIELDS],
}

/// Some of the bytes that the object at an index was made with, as a string; nil when it is gone.
#[derive(Clone, Copy)]
pub(crate) struct Part<T> {
    object: c_int,
    begin: usize,
    end: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Object + Copy> Part<T> {
    /// Those that `part` is, which is a slice of what [`Call::tail`](super::Call::tail) gives for the object at `object`.
    #[inline]
    pub(crate) fn of(object: c_int, tail: &[u8], part: &[u8]) -> Self {
        let begin = part.as_ptr().addr().wrapping_sub(tail.as_ptr().addr());
        Part { object, begin, end: begin.wrapping_add(part.len()), of: PhantomData }
    }
}

/// A value that a field of the object at an index of the function's stack keeps as well.
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
        // The value is taken once Lua has a block for it.
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
        // SAFETY: Lua copies the bytes before a finalizer can run, and does not look at them again.
        to.push_string(unsafe { (*object).lent() });
        if to.find::<T>(self.0) == Some(object) {
            // SAFETY: it was found again, after all that a finalizer may have done to the stack.
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
            // SAFETY: nothing of Lua's runs meanwhile.
            let size = unsafe { (*maker).size() };
            let stack = State::again(&to);
            object::push_tailed(&mut to, size, |bytes| {
                // SAFETY: found when the block is there, after all finalizers; nothing of Lua's runs while it is borrowed.
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
        // SAFETY: the bytes behind an object never change, and Lua copies them before a finalizer can run.
        let tail = to.tail::<T>(self.object).map(|(_, bytes)| unsafe { &*bytes });
        match tail.and_then(|tail| tail.get(self.begin..self.end)) {
            Some(bytes) => to.push_string(bytes),
            None => to.push_nil(),
        }
    }
}

/// Sets fields of the object that was pushed last, if one was.
#[inline]
fn set_fields<T: Object>(mut to: Pusher<'_>, fields: &[(Field<T>, c_int)]) {
    let object = to.count();
    if !fields.is_empty() && to.find::<T>(object).is_some() {
        for (field, value) in fields {
            to.set_user_value(object, field.number(), *value);
        }
    }
}
