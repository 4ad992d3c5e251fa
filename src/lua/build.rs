//! Values that take memory, to be returned or created: functions with upvalues, tables, modules.

use super::function::Function;
use super::object::{self, Object};
use super::returns::sealed::Sealed;
use super::returns::{Push, Pusher};
use super::stack::at;
use super::values::Plain;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// A module: a new table with these functions.
pub(crate) struct Module(pub(crate) &'static [(&'static CStr, Function)]);

impl Sealed for Module {}
impl Push for Module {
    fn push(&mut self, to: Pusher<'_>) {
        // SAFETY: a pusher has room for a table, a name and a function.
        unsafe { push_functions(to.state(), self.0) }
    }
}

/// Pushes a table with these functions.
///
/// # Safety
/// `state` is valid, with 3 free stack slots; may raise a memory error.
pub(crate) unsafe fn push_functions(state: *mut lua_State, functions: &[(&CStr, Function)]) {
    // SAFETY: the table that is made lies below each function when that is set.
    unsafe {
        ffi::lua_createtable(state, 0, functions.len() as c_int + 4);
        for (name, function) in functions {
            function.push(state, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
    }
}

/// A module that has other values besides its functions.
pub(crate) struct ModuleWith {
    pub(crate) functions: &'static [(&'static CStr, Function)],
    pub(crate) values: Vec<(&'static str, Value)>,
}

impl Sealed for ModuleWith {}
impl Push for ModuleWith {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        Module(self.functions).push(to.again());
        set_named(&mut self.values, to);
    }
}

/// A new table with these values from 1 on, and these under their names.
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    pub(crate) named: Vec<(&'static str, Value)>,
}

impl<T: Push> Sealed for List<T> {}
impl<T: Push> Push for List<T> {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        let (items, named) = (self.items.len(), self.named.len());
        // SAFETY: a pusher has room for the table and one value.
        unsafe {
            ffi::lua_createtable(state, items as c_int, named as c_int);
            for (number, item) in (1..).zip(&mut self.items) {
                item.push(to.again());
                check_table(state, -2);
                ffi::lua_rawseti(state, -2, number);
            }
        }
        set_named(&mut self.named, to);
    }
}

/// Gives the table on top these values under their names.
fn set_named(values: &mut [(&'static str, Value)], to: Pusher<'_>) {
    let state = to.state();
    for (name, value) in values {
        name.push(to.again());
        value.push(to.again());
        // SAFETY: name and value lie above the table, and are taken off.
        unsafe {
            check_table(state, -3);
            ffi::lua_rawset(state, -3);
        }
    }
}

/// A function with upvalues.
pub(crate) struct Closure<U>(pub(crate) Function, pub(crate) U);

macro_rules! closure {
    ($count:literal: $($name:ident)*) => {
        impl<$($name: Push),*> Sealed for Closure<($($name,)*)> {}
        impl<$($name: Push),*> Push for Closure<($($name,)*)> {
            const REFERS: bool = false $(|| $name::REFERS)*;
            #[allow(non_snake_case)]
            fn push(&mut self, to: Pusher<'_>) {
 let state = to.state();
                let ($($name,)*) = &mut self.1;
                // SAFETY: a pusher has room for a function and its few upvalues, which are on top when it is made.
                unsafe {
                    $($name.push(to.again());)*
                    self.0.push(state, $count);
                }
            }
        }
    };
}
closure!(1: A);
closure!(2: A B);
closure!(3: A B C);
closure!(4: A B C D);

/// A new table with these values from 1 on, and with room for so many named ones. Its metatable is the table at an index of
/// the function's stack.
pub(crate) struct Row<V> {
    pub(crate) items: V,
    pub(crate) named: c_int,
    pub(crate) metatable: Option<c_int>,
}

macro_rules! row {
    ($count:literal: $($name:ident)*) => {
        impl<$($name: Plain),*> Sealed for Row<($($name,)*)> {}
        impl<$($name: Plain + Copy),*> Push for Row<($($name,)*)> {
            const REFERS: bool = true;
            #[allow(non_snake_case, unused_assignments)]
            fn push(&mut self, to: Pusher<'_>) {
                let state = to.state();
                let ($($name,)*) = self.items;
                // SAFETY: a pusher's promise. Nothing of Lua's runs once the table is made, whose places are there.
                unsafe {
                    ffi::lua_createtable(state, $count, self.named);
                    check_table(state, -1);
                    let mut number = 1;
                    $($name.push_plain(state);
                    ffi::lua_rawseti(state, -2, number);
                    number += 1;)*
                    if let Some(index) = self.metatable
                        && ffi::lua_type(state, at(index)) == ffi::LUA_TTABLE
                    {
                        ffi::lua_pushvalue(state, index);
                        ffi::lua_setmetatable(state, -2);
                    }
                }
            }
        }
    };
}
row!(1: A);
row!(2: A B);
row!(3: A B C);

/// A value made of others, for what is made seldom.
pub(crate) enum Value {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Name(&'static str),
    String(Vec<u8>),
    List(Vec<Value>),
    Record(Vec<(&'static str, Value)>),
    /// As a record; of several values under one name the last.
    Map(Vec<(Vec<u8>, Value)>),
    /// The value at an index of the function's stack, which must be an absolute one.
    Argument(c_int),
}

impl Sealed for Value {}
impl Push for Value {
    const REFERS: bool = true;
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher's promise; what is nested makes room for itself.
        unsafe {
            ffi::luaL_checkstack(state, 10, std::ptr::null());
            match self {
                Value::Nil => ffi::lua_pushnil(state),
                Value::Boolean(value) => value.push(to.again()),
                Value::Integer(value) => value.push(to.again()),
                Value::Number(value) => value.push(to.again()),
                Value::Name(value) => value.push(to.again()),
                Value::String(value) => Push::push(value, to.again()),
                Value::List(values) => {
                    ffi::lua_createtable(state, values.len() as c_int, 0);
                    for (number, value) in (1..).zip(values) {
                        value.push(to.again());
                        check_table(state, -2);
                        ffi::lua_rawseti(state, -2, number);
                    }
                }
                Value::Record(fields) => push_fields(fields, to),
                Value::Map(fields) => push_fields(fields, to),
                Value::Argument(index) => ffi::lua_pushvalue(state, at(*index)),
            }
        }
    }
}

/// Pushes a new table with these fields.
fn push_fields<K: Push>(fields: &mut [(K, Value)], to: Pusher<'_>) {
    let state = to.state();
    // SAFETY: a pusher has room for a table, a name and a value; what is nested makes room for itself.
    unsafe {
        ffi::lua_createtable(state, 0, fields.len() as c_int);
        for (name, value) in fields {
            name.push(to.again());
            value.push(to.again());
            check_table(state, -3);
            ffi::lua_rawset(state, -3);
        }
    }
}

/// Makes sure that a table is there still: a finalizer that has run since may have changed it by the debug library.
unsafe fn check_table(state: *mut lua_State, index: c_int) {
    // SAFETY: raises with nothing owned.
    unsafe { ffi::luaL_checktype(state, ffi::lua_absindex(state, index), ffi::LUA_TTABLE) }
}

/// The methods of a type: the table that its objects find them in, for Lua files that add some.
pub(crate) struct Methods<T>(std::marker::PhantomData<T>);

impl<T: Object> Sealed for Methods<T> {}
impl<T: Object> Push for Methods<T> {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: the metatable is a table of this folder's; its `__index` takes its place.
        unsafe {
            object::push_metatable::<T>(state);
            ffi::lua_getfield(state, -1, c"__index".as_ptr());
            ffi::lua_replace(state, -2);
        }
    }
}

/// The metatable of a type.
pub(crate) struct Metatable<T>(std::marker::PhantomData<T>);

impl<T: Object> Sealed for Metatable<T> {}
impl<T: Object> Push for Metatable<T> {
    fn push(&mut self, to: Pusher<'_>) {
        let state = to.state();
        // SAFETY: a pusher has the room that making a metatable asks for.
        unsafe { object::push_metatable::<T>(state) }
    }
}

impl<T> Methods<T> {
    pub(crate) fn of() -> Self {
        Methods(std::marker::PhantomData)
    }
}

impl<T> Metatable<T> {
    pub(crate) fn of() -> Self {
        Metatable(std::marker::PhantomData)
    }
}
