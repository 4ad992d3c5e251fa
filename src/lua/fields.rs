//! Lua values that an object keeps: fields, which are numbered from 1 to [`Object::USER_VALUES`], and lists in fields.
//! The values exist as long as the object, and the collector traverses them, so cycles are collected.

use super::call::Call;
use super::fault::Fault;
use super::function::Function;
use super::object::Object;
use super::pusher::Pusher;
use super::returns::{Argument, Push};
use super::state::Kind;
use mlua::ffi;
use std::ffi::c_int;

/// A field of an object of type `T`.
pub(crate) struct Field<T> {
    number: c_int,
    of: std::marker::PhantomData<fn(T)>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T: Object> Field<T> {
    /// Returns the field `number`, from 1 to `T::USER_VALUES`. The range is checked at compile time if the result is a
    /// constant.
    pub(crate) const fn new(number: c_int) -> Self {
        assert!(number >= 1 && number <= T::USER_VALUES);
        Field { number, of: std::marker::PhantomData }
    }

    /// Returns the number of the user value.
    pub(super) fn number(self) -> c_int {
        self.number
    }
}

impl Call<'_> {
    /// Pushes the value of a field of the object at `index`; nil if there is no object. Returns the index of the value.
    #[inline]
    pub(crate) fn field<T: Object>(&mut self, index: c_int, field: Field<T>) -> Result<c_int, Fault> {
        self.reserve(1)?;
        self.push_user_value(index, field.number);
        Ok(self.count())
    }

    /// Sets a field of the object at `index` to the value at `value`. Does nothing if there is no object.
    #[inline]
    pub(crate) fn set_field<T: Object>(&mut self, index: c_int, field: Field<T>, value: c_int) -> Result<(), Fault> {
        self.reserve(1)?;
        self.push_copy(value);
        self.pop_into_user_value(index, field.number);
        self.room += 1;
        Ok(())
    }

    /// Pushes the `number`th value (from 1) of the list in a field of the object at `index`; nil or false if the list
    /// has no such value. Returns the index of the pushed value.
    #[inline]
    pub(crate) fn entry<T: Object>(&mut self, index: c_int, list: Field<T>, number: usize) -> Result<c_int, Fault> {
        let table = self.field(index, list)?;
        self.element(table, number as i64)?;
        self.replace_with_top(table);
        self.room += 1;
        Ok(table)
    }

    /// Sets the `number`th value (from 1) of the list in a field of the object at `index` to the value at `value`.
    /// Allocates if the list has to grow.
    pub(crate) fn set_entry<T: Object>(
        &mut self, index: c_int, list: Field<T>, number: usize, value: c_int,
    ) -> Result<(), Fault> {
        self.reserve(5)?;
        let kind = self.push_user_value(index, list.number);
        if !self.replace_entry(kind, number, |call| call.push_copy(value)) && self.find::<T>(index).is_some() {
            self.push_function(ENTER.0);
            self.push_copy(index);
            self.push_integer(list.number.into());
            self.push_integer(number as i64);
            self.push_copy(value);
            // A call does not run the collector if the stack does not have to grow.
            if !self.has_room(40) {
                return Err(Fault::message("stack overflow"));
            }
            // Only creating a table can run the collector, and restarting a paused collector costs a collection.
            let status = match kind {
                Kind::Table => self.call_unhooked(4, 0),
                _ => self.call_isolated(4, 0),
            };
            if status != ffi::LUA_OK {
                return Err(Fault::value(self.count()));
            }
        }
        self.room += 5;
        Ok(())
    }

    /// Replaces the `number`th value of the list in a field of the object at `index` with false.
    #[inline]
    pub(crate) fn clear_entry<T: Object>(&mut self, index: c_int, list: Field<T>, number: usize) -> Result<(), Fault> {
        self.reserve(3)?;
        let kind = self.push_user_value(index, list.number);
        self.replace_entry(kind, number, |call| call.push_boolean(false));
        self.room += 3;
        Ok(())
    }

    /// Pops the value on top, whose type is `kind`. If the value is a table with an element `number`, replaces this
    /// element with the value that `push` pushes, without an allocation. Returns whether a value was replaced.
    #[inline]
    fn replace_entry(&mut self, kind: Kind, number: usize, push: impl FnOnce(&mut Self)) -> bool {
        if kind != Kind::Table {
            self.drop_top();
            return false;
        }
        // SAFETY: the table is on top, and both callers have reserved room for two more values.
        unsafe {
            let known = ffi::lua_rawgeti(self.state, -1, number as i64) != ffi::LUA_TNIL;
            if known {
                push(self);
                ffi::lua_rawseti(self.state, -3, number as i64);
            }
            self.pop(2);
            known
        }
    }
}

/// A value that is also stored in a table, under a key.
#[derive(Clone, Copy)]
pub(crate) struct StoredInTable<K, V> {
    pub(crate) table: TableAt,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<V> StoredInTable<Argument, V> {
    /// Returns `value`, which is also stored in the table at `table` under the key at `key`.
    pub(crate) fn new(table: c_int, key: c_int, value: V) -> Self {
        StoredInTable { table: TableAt::Index(table), key: Argument(key), value }
    }
}

/// The place of a table.
#[derive(Clone, Copy)]
pub(crate) enum TableAt {
    /// At a stack index of the function.
    Index(c_int),
    /// In a field of an object: the index of the object, and the number of the field. The table is created if the field
    /// has none.
    Field(c_int, c_int),
}

impl TableAt {
    /// Returns the place of the table in a field of the object at `index`.
    pub(crate) fn field<T: Object>(index: c_int, field: Field<T>) -> TableAt {
        TableAt::Field(index, field.number)
    }

    /// Pushes the table.
    fn push(self, to: &mut Pusher<'_>) {
        match self {
            TableAt::Index(index) => {
                to.check_kind(index, Kind::Table);
                to.push_copy(index);
            }
            TableAt::Field(object, number) => to.push_user_table(object, number),
        }
    }
}

impl<K: Push, V: Push> Push for StoredInTable<K, V> {
    const REFERS_TO_STACK: bool = true;
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        self.value.push(to.reborrow());
        let value = to.count();
        self.table.push(&mut to);
        self.key.push(to.reborrow());
        to.push_copy(value);
        to.set_pair();
        to.drop_top();
    }
}

/// `(object, field, number, value)`: stores `value` as the element `number` of the list in the object's field. Creates
/// the list if there is none.
const ENTER: Function = Function::native(|mut to| {
    let field = to.to_integer(2).unwrap_or_default() as c_int;
    let number = to.to_integer(3).unwrap_or_default();
    to.push_user_table(1, field);
    to.push_copy(4);
    to.set_item(number);
    0
});
