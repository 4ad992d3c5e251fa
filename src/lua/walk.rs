//! Reading tables to any depth. No Lua code runs during the traversal, so no table changes.

use super::fault::Fault;
use super::function::Function;
use super::registered::RegistryName;
use super::stack::Stack;
use super::state::{Kind, State, at, ffi_methods, string_at};
use mlua::ffi;
use std::ffi::c_int;
use std::ops::Deref;
use std::ptr::null_mut;

/// Reads the values of a call, and traverses the tables among them. While a walk exists, only its cursors can push,
/// drop or change values.
pub(crate) struct Walk {
    stack: Stack,
    /// The number of values before the first cursor. Cursors may leave values above it, which are dropped when the walk
    /// ends.
    top: c_int,
    /// The height up to which the stack is known to have room. The first cursor sets it.
    limit: c_int,
}

/// The value of `top` before the first cursor.
const NO_CURSOR: c_int = -1;

impl Deref for Walk {
    type Target = Stack;
    #[inline(always)]
    fn deref(&self) -> &Stack {
        &self.stack
    }
}

/// A value, with its contents in the most common cases.
pub(crate) enum Read<'w> {
    Integer(i64),
    String(&'w [u8]),
    Table,
    Other(Kind),
}

/// A walk for the step whose stack is `of`. When the guard is dropped, including during a panic, it copies the
/// walk's `collector_paused` to `of`.
struct WalkGuard<'a> {
    walk: Walk,
    of: &'a mut Stack,
}

impl Drop for WalkGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.of.collector_paused = self.walk.stack.collector_paused;
    }
}

/// The maximum number of values that a cursor and the code that reads its values push together.
const VALUES_PER_CURSOR: c_int = 6;

impl Stack {
    /// Calls `read` with a walk over the values of this stack.
    #[inline]
    pub(crate) fn walk<R>(&mut self, read: impl FnOnce(&mut Walk) -> R) -> R {
        let (own, room) = (self.raw.reborrow(), self.room);
        self.walk_in(own, room, read)
    }

    /// Calls `read` with a walk over the values of another stack of the VM, which has room for `room` values.
    #[inline]
    pub(super) fn walk_in<R>(&mut self, raw: State, room: c_int, read: impl FnOnce(&mut Walk) -> R) -> R {
        let mut stack = self.alias();
        (stack.raw, stack.room) = (raw, room);
        let mut lent = WalkGuard { walk: Walk { stack, top: NO_CURSOR, limit: 0 }, of: self };
        let result = read(&mut lent.walk);
        if lent.walk.top != NO_CURSOR {
            let top = lent.walk.top;
            lent.walk.stack.shorten(top);
        }
        result
    }

    /// Returns the identity of the metatable that the value at `index` has; 0 if it has none.
    #[inline]
    pub(crate) fn metatable(&mut self, index: c_int) -> Result<usize, Fault> {
        self.reserve(1)?;
        self.room += 1;
        Ok(self.metatable_identity(index))
    }
}

impl Walk {
    ffi_methods! {
        /// Returns the value at `index`.
        pub(crate) fn read[](index: c_int) -> Read<'_> = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TTABLE => Read::Table,
            ffi::LUA_TNUMBER if ffi::lua_isinteger(state, index) != 0 => {
                Read::Integer(ffi::lua_tointegerx(state, index, null_mut()))
            }
            ffi::LUA_TSTRING => Read::String(string_at(state, index)),
            kind => Read::Other(Kind::of(kind)),
        };
    }

    /// Returns a cursor over the pairs of the table at `index`, without metamethods, in no particular order; `None` if
    /// there is no table at `index`, or the stack is full.
    #[inline(always)]
    pub(crate) fn pairs(&mut self, index: c_int) -> Option<Pairs<'_>> {
        let key = self.cursor(index)?;
        // `lua_next` starts at nil.
        self.stack.push_nil();
        Some(Pairs { walk: self, table: index, key, begun: false })
    }

    /// Returns a cursor over the integer keys of the table at `index`, without metamethods; `None` in the same cases as
    /// for [`Walk::pairs`].
    pub(crate) fn elements(&mut self, index: c_int) -> Option<Elements<'_>> {
        let value = self.cursor(index)?;
        Some(Elements { walk: self, table: index, value })
    }

    /// Returns the first stack index of a new cursor over the table at `index`.
    #[inline(always)]
    fn cursor(&mut self, index: c_int) -> Option<c_int> {
        let top = self.stack.count();
        if self.top == NO_CURSOR {
            (self.top, self.limit) = (top, top + self.stack.room);
        }
        if self.stack.kind(index) != Kind::Table || (top + VALUES_PER_CURSOR > self.limit && !self.grow(top)) {
            return None;
        }
        Some(top + 1)
    }

    /// Makes room for ten more cursors. Returns false if the stack cannot grow.
    #[cold]
    fn grow(&mut self, top: c_int) -> bool {
        self.limit = top + 10 * VALUES_PER_CURSOR;
        self.stack.has_room(10 * VALUES_PER_CURSOR)
    }

    /// Returns the identity of the metatable that the value at `index` has; 0 if it has none.
    #[inline]
    pub(crate) fn metatable(&mut self, index: c_int) -> usize {
        self.stack.metatable_identity(index)
    }

    /// Whether the metatable of the value at `index` has a field with the name that the VM keeps as `name`; `None` if
    /// the value has a metatable, but the VM does not keep that name.
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static RegistryName) -> Option<bool> {
        let stack = &mut self.stack;
        if !stack.push_metatable(index) {
            return Some(false);
        }
        let metatable = stack.count();
        let known = name.push(stack) == Kind::String;
        let found = known && {
            stack.get_top(metatable);
            !stack.is_none(metatable + 1)
        };
        stack.shorten(metatable - 1);
        known.then_some(found)
    }

    /// Returns the C function at `index`, if it has no upvalues.
    pub(crate) fn light_function(&mut self, index: c_int) -> Option<Function> {
        self.stack.light_function(index)
    }

    /// Stores the value at `value`, which is not nil, as the `number`th item of the table at `table`. This costs as
    /// much as [`Call::create`](super::Call::create).
    pub(crate) fn enter(&mut self, table: c_int, number: i64, value: c_int) -> Result<(), Fault> {
        assert!(self.kind(table) == Kind::Table && !self.is_none(value));
        let stack = &mut self.stack;
        if !stack.has_room(20) {
            return Err(Fault::message("stack overflow"));
        }
        stack.push_function(ENTER.0);
        stack.push_copy(table);
        stack.push_integer(number);
        stack.push_copy(value);
        // The table gets a value and loses none, so cursors over it stay valid.
        match stack.call_isolated(3, 0) {
            ffi::LUA_OK => Ok(()),
            _ => {
                stack.drop_top();
                Err(Fault::message("not enough memory"))
            }
        }
    }
}

/// `(table, number, value)`: stores `value` as the `number`th item of `table`.
const ENTER: Function = Function::native(|mut to| {
    let number = to.to_integer(2).unwrap_or_default();
    to.push_copy(1);
    to.push_copy(3);
    to.set_item(number);
    0
});

/// A cursor over the pairs of a table.
pub(crate) struct Pairs<'w> {
    walk: &'w mut Walk,
    table: c_int,
    key: c_int,
    begun: bool,
}

impl Pairs<'_> {
    /// Moves to the next pair. Returns false if there is no further pair.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> bool {
        let state = self.walk.stack.state;
        // SAFETY: the key is nil, or a key that `lua_next` returned for the same table: only this cursor changes its
        // slot, and no code removes a key from the table. The key is on top after the values above it are dropped.
        unsafe {
            if self.begun {
                ffi::lua_settop(state, self.key);
            }
            self.begun = true;
            ffi::lua_next(state, self.table) != 0
        }
    }

    /// Returns the key if it is an integer. Returns `None` otherwise, and after the last pair.
    #[inline(always)]
    pub(crate) fn integer_key(&self) -> Option<i64> {
        self.walk.as_integer(self.key)
    }

    /// Returns the index of the key.
    #[inline(always)]
    pub(crate) fn key(&self) -> c_int {
        self.key
    }

    /// Returns the index of the value.
    #[inline(always)]
    pub(crate) fn value(&self) -> c_int {
        self.key + 1
    }

    /// Returns the walk, to traverse the key or the value.
    #[inline(always)]
    pub(crate) fn walk(&mut self) -> &mut Walk {
        // A cursor that the walk returns may leave values above the key.
        self.begun = true;
        self.walk
    }

    /// Whether a metatable has a field, see [`Walk::has_metafield`].
    #[inline(always)]
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static RegistryName) -> Option<bool> {
        self.walk.has_metafield(index, name)
    }
}

/// A cursor over the values that a table has under integer keys.
pub(crate) struct Elements<'w> {
    walk: &'w mut Walk,
    table: c_int,
    value: c_int,
}

impl Elements<'_> {
    /// Moves to the `number`th element. Returns the index of its value, which may be nil.
    pub(crate) fn get(&mut self, number: i64) -> c_int {
        let state = self.walk.stack.state;
        // SAFETY: the stack has `value - 1` values, of which one is the table, and room for one more.
        unsafe {
            ffi::lua_settop(state, self.value - 1);
            ffi::lua_rawgeti(state, self.table, number);
        }
        self.value
    }

    /// Returns the walk, to traverse the value.
    pub(crate) fn walk(&mut self) -> &mut Walk {
        self.walk
    }
}
