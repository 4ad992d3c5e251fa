//! Pushing values that need no allocation, and reading tables.

use super::fault::Fault;
use super::function::Function;
use super::pusher::Pusher;
use super::returns::{Argument, Nil, Push};
use super::stack::Stack;
use super::state::{Kind, State};
use mlua::ffi;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::ptr::without_provenance_mut;

/// A value that can be pushed without allocation.
pub(crate) trait Plain: Push {
    /// Pushes the value. The caller has reserved room for it.
    fn push_plain(self, to: &mut State);
}

/// A light userdata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Light(pub(crate) usize);

/// An element of a table: the stack index of the table, and the element's integer key. The element is read without
/// metamethods, and is nil if there is no table at the stack index.
#[derive(Clone, Copy)]
pub(crate) struct Element(pub(crate) c_int, pub(crate) i64);

macro_rules! plain {
    ($type:ty, $refers:literal, |$value:ident, $to:ident| $push:expr) => {
        impl Plain for $type {
            #[inline(always)]
            fn push_plain(self, $to: &mut State) {
                let $value = self;
                $push
            }
        }
        impl Push for $type {
            const REFERS_TO_STACK: bool = $refers;
            #[inline(always)]
            fn push(&mut self, mut to: Pusher<'_>) {
                self.push_plain(&mut to)
            }
        }
    };
}
pub(super) use plain;

plain!(Nil, false, |_value, to| to.push_nil());
plain!(bool, false, |value, to| to.push_boolean(value));
plain!(i64, false, |value, to| to.push_integer(value));
plain!(u32, false, |value, to| to.push_integer(value.into()));
plain!(f64, false, |value, to| to.push_number(value));
plain!(Argument, true, |value, to| to.push_copy(value.0));
plain!(Element, true, |value, to| to.push_element(value.0, value.1));
plain!(Function, false, |value, to| to.push_function(value.0));
plain!(Light, false, |value, to| to.push_light(without_provenance_mut(value.0)));

impl Stack {
    /// Returns the C function at `index`, if it has no upvalues.
    pub(crate) fn function_at(&mut self, index: c_int) -> Result<Option<Function>, Fault> {
        self.reserve(1)?;
        self.room += 1;
        Ok(self.light_function(index))
    }

    /// Returns the C function at `index`, if it has no upvalues. The stack must have room for one value.
    pub(super) fn light_function(&mut self, index: c_int) -> Option<Function> {
        let function = self.c_function(index)?;
        if self.push_upvalue(index, 1) {
            self.drop_top();
            return None;
        }
        Some(Function(function))
    }

    /// Pushes a value. Returns its stack index.
    #[inline]
    pub(crate) fn push(&mut self, value: impl Plain) -> Result<c_int, Fault> {
        self.reserve(1)?;
        value.push_plain(self);
        Ok(self.count())
    }

    /// Pushes copies of the values at these indexes.
    pub(crate) fn push_copies(&mut self, indexes: RangeInclusive<c_int>) -> Result<(), Fault> {
        for index in indexes {
            self.push(Argument(index))?;
        }
        Ok(())
    }

    /// Pushes the `number`th element of the table at `index`, see [`Element`]. Returns the index of the pushed value.
    #[inline]
    pub(crate) fn element(&mut self, index: c_int, number: i64) -> Result<c_int, Fault> {
        self.push(Element(index, number))
    }

    /// Pushes the value that the table at `index` has under the key at `key`, without metamethods; nil if there is no
    /// table at `index`. Returns the index of the pushed value.
    #[inline]
    pub(crate) fn get(&mut self, index: c_int, key: c_int) -> Result<c_int, Fault> {
        self.reserve(1)?;
        self.push_copy(key);
        self.get_top(index);
        Ok(self.count())
    }

    /// If the table at `index` has a field with the key at `key`, sets this field to the value at `value`, without
    /// metamethods. Allocates nothing. Returns whether the table has the field.
    #[inline]
    pub(crate) fn replace(&mut self, index: c_int, key: c_int, value: c_int) -> Result<bool, Fault> {
        self.reserve(2)?;
        let found = self.get(index, key)?;
        let known = self.kind(found) != Kind::Nil;
        if known {
            self.push_copy(key);
            self.push_copy(value);
            // SAFETY: a value was found under the key, so there is a table at `index` with a slot for the key, and no
            // memory is needed.
            unsafe { ffi::lua_rawset(self.state, index) };
        }
        self.drop_top();
        self.room += 3;
        Ok(known)
    }

    /// Calls `visit` for each pair of the table at `index`, with the stack indexes of the key and the value. Stops when
    /// `visit` fails.
    pub(crate) fn pairs(
        &mut self, index: c_int, mut visit: impl FnMut(&mut Self, c_int, c_int) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(index, Kind::Table, "table")?;
        self.reserve(3)?;
        let top = self.count();
        self.push_nil();
        let mut result = Ok(());
        // SAFETY: the key on top is nil, or the key that the last `lua_next` pushed. The table does not change during
        // the traversal, since no Lua code runs.
        while result.is_ok() && unsafe { ffi::lua_next(self.state, index) } != 0 {
            result = visit(self, top + 1, top + 2);
            self.shorten(top + 1);
        }
        self.shorten(top);
        self.room += 3;
        result
    }

    /// Sets the metatable of the table at `index` to the table at `metatable`.
    pub(crate) fn set_metatable(&mut self, index: c_int, metatable: c_int) -> Result<(), Fault> {
        for index in [index, metatable] {
            self.expect(index, Kind::Table, "table")?;
        }
        self.reserve(1)?;
        self.push_copy(metatable);
        self.pop_into_metatable(index);
        self.room += 1;
        Ok(())
    }

    /// Returns the light userdata at `index`; `None` if the value is not a light userdata.
    pub(crate) fn light(&self, index: c_int) -> Option<Light> {
        self.light_address(index).map(Light)
    }
}

/// `(value, key)`: returns `value[key]`, as Lua code would read it. Returns nothing if `value` is a userdata without
/// `__index`.
pub(crate) const INDEX: Function = Function::native(|mut to| {
    if to.count() < 2 {
        return 0;
    }
    if to.kind(1) == Kind::Userdata {
        to.push_metafield(1, c"__index");
        if to.is_none(to.count()) {
            return 0;
        }
    }
    to.drop_to(2);
    to.index(1);
    1
});
