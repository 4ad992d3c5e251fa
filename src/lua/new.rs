//! New objects that a step returns to Lua, and bytes that an object passes to Lua.
//!
//! A *tailed* object is plain data with bytes after it, its *tail*, in one block of Lua memory. It has no finalizer,
//! which saves work for the collector.

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

/// An object with bytes that are passed to Lua. The bytes are copied once, into Lua's string.
pub(crate) trait ByteSource: Object {
    /// Returns the bytes to pass to Lua.
    fn bytes_to_push(&self) -> &[u8];
    /// Called after Lua has copied the bytes. Not called if there was no memory for the copy.
    fn bytes_pushed(&mut self);
}

/// The bytes of the object at an index, as a string.
pub(crate) struct BytesOf<T>(c_int, PhantomData<T>);

impl<T: ByteSource> BytesOf<T> {
    /// Returns the bytes of the object at argument `index`.
    pub(crate) fn at(index: c_int) -> Self {
        BytesOf(index, PhantomData)
    }
}

/// A new object. Each of `fields` is set to the value at a stack index of the function.
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

/// Creates a tailed object after Lua has allocated memory for it. A finalizer can run between the step and the
/// creation, so the data that [`TailedSource::create`] reads may have changed.
pub(crate) trait TailedSource: 'static {
    type Object: Object + Copy;
    /// Returns the size of the tail in bytes.
    fn size(&self) -> usize;
    /// Fills `bytes`, which are all 0, and returns the value. If this returns `None`, no object is created, and Lua
    /// gets nil.
    fn create(&mut self, bytes: &mut [u8]) -> Option<Self::Object>;
}

/// The tailed object that `source` creates. Each of `fields` is set to the value at a stack index of the function.
pub(crate) struct NewTailed<S: TailedSource, const FIELDS: usize> {
    pub(crate) source: S,
    pub(crate) fields: [(Field<S::Object>, c_int); FIELDS],
}

/// An object that creates tailed objects after Lua has allocated memory for them. This trait works like a
/// [`TailedSource`], but the factory is not parked in the VM's store, because it is in Lua's memory.
pub(crate) trait TailedFactory: Object {
    type Product: Object + Copy;
    /// Returns the size of the tail in bytes.
    fn size(&self) -> usize;
    /// Creates the object, as [`TailedSource::create`] does.
    fn create(&mut self, bytes: &mut [u8]) -> Option<Self::Product>;
}

/// The tailed object that the factory at the index `factory` creates. Each of `fields` is set to the value at a stack
/// index of the function. Pushes nil if there is no longer a factory at the index.
pub(crate) struct NewFromFactory<F: TailedFactory, const FIELDS: usize> {
    pub(crate) factory: c_int,
    pub(crate) fields: [(Field<F::Product>, c_int); FIELDS],
}

/// A part of an object's tail, as a string. Pushes nil if there is no longer an object at the index `object`.
#[derive(Clone, Copy)]
pub(crate) struct TailSlice<T> {
    object: c_int,
    begin: usize,
    end: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Object + Copy> TailSlice<T> {
    /// Describes `part`, a slice of `tail`. `tail` contains the bytes that [`Call::tail`](super::Call::tail) returns
    /// for the object at `object`.
    #[inline]
    pub(crate) fn of(object: c_int, tail: &[u8], part: &[u8]) -> Self {
        let begin = part.as_ptr().addr().wrapping_sub(tail.as_ptr().addr());
        TailSlice { object, begin, end: begin.wrapping_add(part.len()), of: PhantomData }
    }
}

/// A value that is also stored in a field of the object at a stack index of the function.
pub(crate) struct StoredInField<V, T> {
    pub(crate) value: V,
    pub(crate) object: c_int,
    pub(crate) field: Field<T>,
}

impl<V: Push, T: Object> Push for StoredInField<V, T> {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.value.push(to.reborrow());
        if to.find::<T>(self.object).is_some() {
            let value = to.count();
            to.set_user_value(self.object, self.field.number(), value);
        }
    }
}

impl<T: Object> Push for New<T> {
    fn push(&mut self, mut to: Pusher<'_>) {
        // The value is moved after Lua has allocated a block for it.
        if !object::push(&mut to, || self.0.take()) {
            to.push_nil();
        }
    }
}

impl<T: ByteSource> Push for BytesOf<T> {
    const REFERS_TO_STACK: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let Some(object) = to.find::<T>(self.0) else { return to.push_nil() };
        // SAFETY: the object was just found at its index. Lua copies the bytes before a finalizer can run, and does not
        // read them again.
        to.push_string(unsafe { (*object).bytes_to_push() });
        if to.find::<T>(self.0) == Some(object) {
            // SAFETY: the same object was found again, after any change that a finalizer has made to the stack.
            unsafe { (*object).bytes_pushed() };
        }
    }
}

impl<T: Object, const FIELDS: usize> Push for NewWith<T, FIELDS> {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.new.push(to.reborrow());
        set_fields(to, &self.fields);
    }
}

impl<S: TailedSource, const FIELDS: usize> Push for NewTailed<S, FIELDS> {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        let size = self.source.size();
        match object::push_tailed(&mut to, size, |bytes| self.source.create(bytes)) {
            true => set_fields(to, &self.fields),
            false => to.push_nil(),
        }
    }
}

impl<F: TailedFactory, const FIELDS: usize> Push for NewFromFactory<F, FIELDS> {
    const REFERS_TO_STACK: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let index = self.factory;
        let created = to.find::<F>(index).is_some_and(|factory| {
            // SAFETY: the object was just found, and no Lua code runs during this call.
            let size = unsafe { (*factory).size() };
            let stack = State::reborrow(&to);
            object::push_tailed(&mut to, size, |bytes| {
                // SAFETY: the object is found after the allocation, after which no finalizer can run. No Lua code runs
                // while it is borrowed.
                stack.find::<F>(index).and_then(|factory| unsafe { (*factory).create(bytes) })
            })
        });
        match created {
            true => set_fields(to, &self.fields),
            false => to.push_nil(),
        }
    }
}

impl<T: Object + Copy> Push for TailSlice<T> {
    const REFERS_TO_STACK: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        // SAFETY: the bytes after an object never change, and Lua has copied them before the next finalizer can run.
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
