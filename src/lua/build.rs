//! Values whose creation allocates: functions with upvalues, tables, modules.

use super::function::{Function, FunctionTable};
use super::object::{self, Object};
use super::pusher::Pusher;
use super::returns::Push;
use super::values::Plain;
use std::ffi::c_int;

/// A module: a new table that contains these functions.
pub(crate) struct Module(pub(crate) FunctionTable);

impl Push for Module {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_functions(self.0, 4);
    }
}

/// A module that contains other values in addition to its functions.
pub(crate) struct ModuleWith {
    pub(crate) functions: FunctionTable,
    pub(crate) values: Vec<(&'static str, Value)>,
}

impl Push for ModuleWith {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        Module(self.functions).push(to.reborrow());
        set_named(&mut self.values, to);
    }
}

/// A new table that contains `items` under the keys 1, 2, 3, …, and `named` under their names.
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    pub(crate) named: Vec<(&'static str, Value)>,
}

impl<T: Push> Push for List<T> {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        push_items(&mut self.items, self.named.len(), &mut to);
        set_named(&mut self.named, to);
    }
}

/// Pushes a new table that contains `items` under the keys 1, 2, 3, … and has room for `fields` more fields.
fn push_items<T: Push>(items: &mut [T], fields: usize, to: &mut Pusher<'_>) {
    to.push_table(items.len() as c_int, fields as c_int);
    for (number, item) in (1..).zip(items) {
        item.push(to.reborrow());
        to.set_item(number);
    }
}

/// Sets each field in `values` in the table on top of the stack.
fn set_named<K: Push>(values: &mut [(K, Value)], mut to: Pusher<'_>) {
    for (name, value) in values {
        name.push(to.reborrow());
        value.push(to.reborrow());
        to.set_pair();
    }
}

/// A function with upvalues.
pub(crate) struct Closure<U>(pub(crate) Function, pub(crate) U);

macro_rules! closure {
    ($count:literal: $($name:ident)*) => {
        impl<$($name: Push),*> Push for Closure<($($name,)*)> {
            const REFERS_TO_STACK: bool = false $(|| $name::REFERS_TO_STACK)*;
            #[allow(non_snake_case)]
            fn push(&mut self, mut to: Pusher<'_>) {
                let ($($name,)*) = &mut self.1;
                $($name.push(to.reborrow());)*
                to.push_closure(self.0.0, $count);
            }
        }
    };
}
closure!(1: A);
closure!(2: A B);
closure!(3: A B C);
closure!(4: A B C D);

/// A new table that contains `values`. Their keys are the values on the function's stack from index `first_key` on. The
/// table has room for `room` more fields. Its metatable is the table at the index `metatable`, if given.
pub(crate) struct Record<V> {
    pub(crate) first_key: c_int,
    pub(crate) values: V,
    pub(crate) room: c_int,
    pub(crate) metatable: Option<c_int>,
}

macro_rules! record {
    ($count:literal: $($name:ident)*) => {
        impl<$($name: Plain + Copy),*> Push for Record<($($name,)*)> {
            const REFERS_TO_STACK: bool = true;
            #[allow(non_snake_case, unused_assignments)]
            fn push(&mut self, mut to: Pusher<'_>) {
                let ($($name,)*) = self.values;
                let mut key = self.first_key;
                to.push_table(0, $count + self.room);
                $(to.push_copy(key);
                $name.push_plain(&mut to);
                to.set_pair();
                key += 1;)*
                if let Some(index) = self.metatable {
                    to.set_metatable(index);
                }
            }
        }
    };
}
record!(1: A);
record!(2: A B);

/// A value that can contain other values. Used for values that are created rarely.
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Name(&'static str),
    String(Vec<u8>),
    List(Vec<Value>),
    Record(Vec<(&'static str, Value)>),
    /// A table like `Record`. If a name occurs several times, its last value is used.
    Map(Vec<(Vec<u8>, Value)>),
    /// The value at an absolute stack index of the function.
    Argument(c_int),
}

impl Push for Value {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(10, None);
        match self {
            Value::Boolean(value) => to.push_boolean(*value),
            Value::Integer(value) => to.push_integer(*value),
            Value::Number(value) => to.push_number(*value),
            Value::Name(value) => to.push_string(value.as_bytes()),
            Value::String(value) => to.push_string(value),
            Value::List(values) => push_items(values, 0, &mut to),
            Value::Record(fields) => push_record(fields, to),
            Value::Map(fields) => push_record(fields, to),
            Value::Argument(index) => to.push_copy(*index),
        }
    }
}

/// Pushes a new table that contains these fields.
fn push_record<K: Push>(fields: &mut [(K, Value)], mut to: Pusher<'_>) {
    to.push_table(0, fields.len() as c_int);
    set_named(fields, to);
}

/// The table of a type's methods, for Lua files that add methods.
pub(crate) struct Methods<T>(std::marker::PhantomData<T>);

impl<T: Object> Push for Methods<T> {
    fn push(&mut self, mut to: Pusher<'_>) {
        object::push_metatable_of::<T>(&mut to);
        let metatable = to.count();
        to.push_field(c"__index");
        to.replace_with_top(metatable);
    }
}

/// The metatable of a type.
pub(crate) struct Metatable<T>(std::marker::PhantomData<T>);

impl<T: Object> Push for Metatable<T> {
    fn push(&mut self, mut to: Pusher<'_>) {
        object::push_metatable_of::<T>(&mut to);
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
