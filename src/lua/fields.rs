//! Values of Lua that an object keeps: fields, known by a number from 1 to [`Object::USER_VALUES`], and lists in them. They
//! live as long as the object, and Lua's collector sees through them, so that circles are collected.

use super::call::Call;
use super::fault::Fault;
use super::object::{Block, Object};
use super::protected::unhooked;
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::at;
use mlua::ffi::{self, lua_State};
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
    /// The field `number` (1 to `T::USER_VALUES`, checked when it is compiled if this makes a constant).
    pub(crate) const fn new(number: c_int) -> Self {
        assert!(number >= 1 && number <= T::USER_VALUES);
        Field {
            number,
            of: std::marker::PhantomData,
        }
    }

    /// For raw functions that are left as well. // bridge
    pub(crate) fn number(self) -> c_int {
        self.number
    }
}

impl Call<'_> {
    fn is<T: Object>(&self, index: c_int) -> bool {
        // SAFETY: the object is not used.
        unsafe { Block::at(self.state, at(index)).get::<T>().is_some() }
    }

    /// Pushes the value of a field of the object at `index`; nil when there is no such object. → its index
    #[inline]
    pub(crate) fn field<T: Object>(
        &mut self,
        index: c_int,
        field: Field<T>,
    ) -> Result<c_int, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room; only a full userdata is asked for its values.
        unsafe {
            match self.is::<T>(index) {
                true => ffi::lua_getiuservalue(self.state, index, field.number),
                false => {
                    ffi::lua_pushnil(self.state);
                    ffi::LUA_TNIL
                }
            };
            Ok(ffi::lua_gettop(self.state))
        }
    }

    /// Sets a field of the object at `index`, if there is one, to the value at `value`.
    #[inline]
    pub(crate) fn set_field<T: Object>(
        &mut self,
        index: c_int,
        field: Field<T>,
        value: c_int,
    ) -> Result<(), Fault> {
        if self.is::<T>(index) {
            self.reserve(1)?;
            // SAFETY: as for `field`; the assignment allocates nothing, and takes off what was pushed.
            unsafe {
                ffi::lua_pushvalue(self.state, at(value));
                ffi::lua_setiuservalue(self.state, index, field.number);
            }
            self.room += 1;
        }
        Ok(())
    }

    /// Pushes the `number`th value (from 1) of the list in a field of the object at `index`; nil or false when there is
    /// none. → its index
    #[inline]
    pub(crate) fn entry<T: Object>(
        &mut self,
        index: c_int,
        list: Field<T>,
        number: usize,
    ) -> Result<c_int, Fault> {
        let table = self.field(index, list)?;
        // SAFETY: only a table is looked into; its entry takes its place.
        unsafe {
            if ffi::lua_type(self.state, table) == ffi::LUA_TTABLE {
                ffi::lua_rawgeti(self.state, table, number as i64);
                ffi::lua_replace(self.state, table);
            }
        }
        Ok(table)
    }

    /// Sets the `number`th value (from 1) of the list in a field of the object at `index` to the value at `value`. A
    /// place that is new may take memory.
    pub(crate) fn set_entry<T: Object>(
        &mut self,
        index: c_int,
        list: Field<T>,
        number: usize,
        value: c_int,
    ) -> Result<(), Fault> {
        self.reserve(4)?;
        let table = self.field(index, list)?;
        let state = self.state;
        // SAFETY: there is room. An entry that is there is assigned without memory, all else protected.
        unsafe {
            let is_table = ffi::lua_type(state, table) == ffi::LUA_TTABLE;
            if is_table && ffi::lua_rawgeti(state, table, number as i64) != ffi::LUA_TNIL {
                ffi::lua_pushvalue(state, at(value));
                ffi::lua_rawseti(state, table, number as i64);
            } else if self.is::<T>(index) {
                ffi::lua_settop(state, table);
                ffi::lua_pushcfunction(state, enter_raw);
                ffi::lua_pushvalue(state, index);
                ffi::lua_pushinteger(state, list.number.into());
                ffi::lua_pushinteger(state, number as i64);
                ffi::lua_pushvalue(state, at(value));
                // A call that has room does not run the collector.
                if ffi::lua_checkstack(state, 40) == 0 {
                    return Err(Fault::message("stack overflow"));
                }
                let enter = || ffi::lua_pcall(state, 4, 0, 0);
                // Only a table that is made runs the collector, whose restart costs a collection.
                let status = match is_table {
                    true => unhooked(state, enter),
                    false => self.quiet(enter),
                };
                if status != ffi::LUA_OK {
                    let error = ffi::lua_gettop(state);
                    return Err(Fault::value(error));
                }
            }
            ffi::lua_settop(state, table - 1);
        }
        self.room += 5;
        Ok(())
    }

    /// Empties the `number`th place of the list in a field of the object at `index`: false is there from then on.
    #[inline]
    pub(crate) fn clear_entry<T: Object>(
        &mut self,
        index: c_int,
        list: Field<T>,
        number: usize,
    ) -> Result<(), Fault> {
        self.reserve(2)?;
        let table = self.field(index, list)?;
        // SAFETY: as for `set_entry`: what is there is assigned without memory.
        unsafe {
            if ffi::lua_type(self.state, table) == ffi::LUA_TTABLE
                && ffi::lua_rawgeti(self.state, table, number as i64) != ffi::LUA_TNIL
            {
                ffi::lua_pushboolean(self.state, 0);
                ffi::lua_rawseti(self.state, table, number as i64);
            }
            ffi::lua_settop(self.state, table - 1);
        }
        self.room += 3;
        Ok(())
    }
}

/// A value, which a table has under a key from then on.
#[derive(Clone, Copy)]
pub(crate) struct Noted<K, V> {
    pub(crate) table: Holder,
    pub(crate) key: K,
    pub(crate) value: V,
}

/// Where a table is.
#[derive(Clone, Copy)]
pub(crate) enum Holder {
    /// At an index.
    Index(c_int),
    /// In this field of the object at an index, where it is made if there is none.
    Field(c_int, c_int),
}

impl Holder {
    /// In a field of the object at `index`.
    pub(crate) fn field<T: Object>(index: c_int, field: Field<T>) -> Holder {
        Holder::Field(index, field.number)
    }

    /// Pushes the table.
    unsafe fn push(self, state: *mut lua_State) {
        // SAFETY: as for `Noted`: a pusher's promise, with room for three values. Only a table or a userdata is trusted.
        unsafe {
            match self {
                Holder::Index(index) => {
                    ffi::luaL_checktype(state, at(index), ffi::LUA_TTABLE);
                    ffi::lua_pushvalue(state, index);
                }
                Holder::Field(object, number) => {
                    ffi::luaL_checktype(state, at(object), ffi::LUA_TUSERDATA);
                    if ffi::lua_getiuservalue(state, object, number) != ffi::LUA_TTABLE {
                        ffi::lua_pop(state, 1);
                        ffi::lua_createtable(state, 0, 2);
                        // A finalizer may have changed the slot.
                        ffi::luaL_checktype(state, object, ffi::LUA_TUSERDATA);
                        ffi::lua_pushvalue(state, -1);
                        ffi::lua_setiuservalue(state, object, number);
                    }
                }
            }
        }
    }
}

impl<K: Push, V: Push> Sealed for Noted<K, V> {}
impl<K: Push, V: Push> Push for Noted<K, V> {
    const REFERS: bool = true;
    #[inline]
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise. A key that is none is an error of Lua's, raised with nothing owned.
        unsafe {
            self.value.push(to.again());
            self.table.push(state);
            self.key.push(to.again());
            ffi::lua_pushvalue(state, -3);
            ffi::lua_settable(state, -3);
            ffi::lua_pop(state, 1);
        }
    }
}

/// Enters a value into a list that may have to grow: (object, field, number, value).
unsafe extern "C-unwind" fn enter_raw(state: *mut lua_State) -> c_int {
    // SAFETY: only `set_entry` calls it, with an object, and nothing of Lua's runs meanwhile. Owns nothing.
    unsafe {
        let field = ffi::lua_tointegerx(state, 2, std::ptr::null_mut()) as c_int;
        if ffi::lua_getiuservalue(state, 1, field) != ffi::LUA_TTABLE {
            ffi::lua_createtable(state, 0, 0);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, field);
        }
        let number = ffi::lua_tointegerx(state, 3, std::ptr::null_mut());
        ffi::lua_pushvalue(state, 4);
        ffi::lua_rawseti(state, -2, number);
        0
    }
}
