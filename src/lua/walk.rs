//! Values inside of tables, to any depth: read while nothing of Lua's runs, so that no table changes under its reader.

use super::fault::Fault;
use super::function::Function;
use super::kept::Kept;
use super::stack::{Kind, Stack, at};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::ops::Deref;

/// The values of a call, to be read, and the tables among them, to be entered. Nothing can be pushed, dropped or changed
/// meanwhile but by the cursors that it gives.
pub(crate) struct Walk {
    stack: Stack,
    /// How high the stack may grow for sure.
    limit: c_int,
    /// Whether a cursor may have left values.
    used: bool,
}

impl Deref for Walk {
    type Target = Stack;
    #[inline(always)]
    fn deref(&self) -> &Stack {
        &self.stack
    }
}

/// A value, as far as it is read in most cases.
pub(crate) enum Read<'w> {
    Integer(i64),
    String(&'w [u8]),
    Table,
    Other(Kind),
}

/// A walk, after which the call knows whether the collector rests, also when there was a panic.
struct Lending<'a> {
    walk: Walk,
    of: &'a mut Stack,
}

impl Drop for Lending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.of.rests = self.walk.stack.rests;
    }
}

/// How many values a cursor and what looks at its values push.
const LEVEL: c_int = 6;

impl Stack {
    /// Has `read` read the values and what is in them.
    #[inline]
    pub(crate) fn walk<R>(&mut self, read: impl FnOnce(&mut Walk) -> R) -> R {
        let (state, top) = (self.state, self.count());
        let walk = Walk {
            limit: top + self.room,
            stack: self.lend(),
            used: false,
        };
        let mut lent = Lending { walk, of: self };
        let result = read(&mut lent.walk);
        if lent.walk.used {
            // SAFETY: cursors leave what was there as it was; what they left above is dropped.
            unsafe { ffi::lua_settop(state, top) };
        }
        result
    }

    /// The value at `index` if it is an integer: no float, no string.
    #[inline(always)]
    pub(crate) fn as_integer(&self, index: c_int) -> Option<i64> {
        // SAFETY: any value can be asked; an integer is not converted.
        unsafe {
            (ffi::lua_isinteger(self.state, at(index)) != 0)
                .then(|| ffi::lua_tointegerx(self.state, index, std::ptr::null_mut()))
        }
    }

    /// What tells the table, function or userdata at `index` from others, as long as it exists.
    #[inline(always)]
    pub(crate) fn identity(&self, index: c_int) -> usize {
        // SAFETY: any value can be asked; the address is not used as one.
        unsafe { ffi::lua_topointer(self.state, at(index)).addr() }
    }

    /// The identity of the metatable of the value at `index`; 0 when it has none.
    #[inline]
    pub(crate) fn metatable(&mut self, index: c_int) -> Result<usize, Fault> {
        self.reserve(1)?;
        // SAFETY: there is room; what was pushed is dropped.
        unsafe {
            self.room += 1;
            Ok(metatable(self.state, at(index)))
        }
    }
}

/// The identity of the metatable of the value at `index`, 0 for none.
#[inline]
unsafe fn metatable(state: *mut lua_State, index: c_int) -> usize {
    // SAFETY: the caller has a free slot, and an index that is at it.
    unsafe {
        if ffi::lua_getmetatable(state, index) == 0 {
            return 0;
        }
        let identity = ffi::lua_topointer(state, -1).addr();
        ffi::lua_pop(state, 1);
        identity
    }
}

impl Walk {
    /// The value at `index`.
    #[inline(always)]
    pub(crate) fn read(&self, index: c_int) -> Read<'_> {
        match self.kind(index) {
            Kind::Table => Read::Table,
            Kind::Number => match self.as_integer(index) {
                Some(integer) => Read::Integer(integer),
                None => Read::Other(Kind::Number),
            },
            Kind::String => {
                let mut length = 0;
                // SAFETY: it is a string, and stays where it is while the walk is borrowed.
                Read::String(unsafe {
                    let start = ffi::lua_tolstring(self.state, index, &mut length);
                    std::slice::from_raw_parts(start.cast(), length)
                })
            }
            kind => Read::Other(kind),
        }
    }

    /// The pairs of the table at `index`, without metamethods, in no order; `None` when that is no table, or the stack is full.
    #[inline(always)]
    pub(crate) fn pairs(&mut self, index: c_int) -> Option<Pairs<'_>> {
        let key = self.cursor(index)?;
        // SAFETY: there is room. The key before the first one is nil.
        unsafe { ffi::lua_pushnil(self.stack.state) };
        Some(Pairs {
            walk: self,
            table: index,
            key,
            begun: false,
        })
    }

    /// The values of the table at `index` by integer keys, without metamethods; `None` as for [`Walk::pairs`].
    pub(crate) fn elements(&mut self, index: c_int) -> Option<Elements<'_>> {
        let value = self.cursor(index)?;
        Some(Elements {
            walk: self,
            table: index,
            value,
        })
    }

    /// Where a cursor over the table at `index` begins.
    #[inline(always)]
    fn cursor(&mut self, index: c_int) -> Option<c_int> {
        let top = self.stack.count();
        if self.stack.kind(index) != Kind::Table || (top + LEVEL > self.limit && !self.grow(top)) {
            return None;
        }
        self.used = true;
        Some(top + 1)
    }

    #[cold]
    fn grow(&mut self, top: c_int) -> bool {
        self.limit = top + 10 * LEVEL;
        // SAFETY: asks for room for ten levels, and reports that there is none by its result.
        unsafe { ffi::lua_checkstack(self.stack.state, 10 * LEVEL) != 0 }
    }

    /// The identity of the metatable of the value at `index`; 0 when it has none.
    #[inline]
    pub(crate) fn metatable(&mut self, index: c_int) -> usize {
        // SAFETY: a walk has a free slot beside its cursors.
        unsafe { metatable(self.stack.state, at(index)) }
    }

    /// Whether the metatable of the value at `index` has a field with the name that the VM keeps as `name`; `None` when it
    /// keeps none.
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static Kept) -> Option<bool> {
        let state = self.stack.state;
        // SAFETY: as for `metatable`, with two slots; a metatable is a table, any key can be asked for.
        unsafe {
            if ffi::lua_getmetatable(state, at(index)) == 0 {
                return Some(false);
            }
            let known = name.push(state) == Kind::String;
            let found = known && ffi::lua_rawget(state, -2) != ffi::LUA_TNIL;
            ffi::lua_pop(state, 2);
            known.then_some(found)
        }
    }

    /// The C function at `index` if it has no upvalues.
    pub(crate) fn c_function(&mut self, index: c_int) -> Option<Function> {
        let state = self.stack.state;
        // SAFETY: a C function names its upvalues; one that has been pushed is dropped. Lua calls it itself as it stands.
        unsafe {
            let function = ffi::lua_tocfunction(state, at(index))?;
            if !ffi::lua_getupvalue(state, index, 1).is_null() {
                ffi::lua_pop(state, 1);
                return None;
            }
            Some(Function::foreign(function))
        }
    }

    /// Enters the value at `value`, which is not nil, as the `number`th of the table at `table`. Costs as much as
    /// [`Call::create`](super::Call::create).
    pub(crate) fn enter(&mut self, table: c_int, number: i64, value: c_int) -> Result<(), Fault> {
        let state = self.stack.state;
        assert!(self.kind(table) == Kind::Table && !self.is_none(value));
        // SAFETY: there is room, asked for. Protected, a table gets a value, and loses none; nothing of Lua's runs.
        unsafe {
            if ffi::lua_checkstack(state, 20) == 0 {
                return Err(Fault::message("stack overflow"));
            }
            ffi::lua_pushcfunction(state, enter_raw);
            ffi::lua_pushvalue(state, table);
            ffi::lua_pushinteger(state, number);
            ffi::lua_pushvalue(state, at(value));
            match self.stack.quiet(|| ffi::lua_pcall(state, 3, 0, 0)) {
                ffi::LUA_OK => Ok(()),
                _ => {
                    ffi::lua_pop(state, 1);
                    Err(Fault::message("not enough memory"))
                }
            }
        }
    }
}

/// (table, number, value): enters the value.
unsafe extern "C-unwind" fn enter_raw(state: *mut lua_State) -> c_int {
    // SAFETY: only `enter` calls it, with a table; owns nothing.
    unsafe {
        let number = ffi::lua_tointegerx(state, 2, std::ptr::null_mut());
        ffi::lua_rawseti(state, 1, number);
        0
    }
}

/// A cursor over the pairs of a table.
pub(crate) struct Pairs<'w> {
    walk: &'w mut Walk,
    table: c_int,
    key: c_int,
    begun: bool,
}

impl Pairs<'_> {
    /// Goes on to the next pair. → whether there is one
    #[inline(always)]
    pub(crate) fn next(&mut self) -> bool {
        let state = self.walk.stack.state;
        // SAFETY: the key is one that `lua_next` gave for the same table, or nil, since nothing but this cursor changes its
        // slot, and nobody takes a key from the table. It lies on top once what is above it is dropped.
        unsafe {
            if self.begun {
                ffi::lua_settop(state, self.key);
            }
            self.begun = true;
            ffi::lua_next(state, self.table) != 0
        }
    }

    /// The key if it is an integer; none when there is no further pair.
    #[inline(always)]
    pub(crate) fn integer_key(&self) -> Option<i64> {
        self.walk.as_integer(self.key)
    }

    /// The index of the key.
    #[inline(always)]
    pub(crate) fn key(&self) -> c_int {
        self.key
    }

    /// The index of the value.
    #[inline(always)]
    pub(crate) fn value(&self) -> c_int {
        self.key + 1
    }

    /// The values, to look into this one.
    #[inline(always)]
    pub(crate) fn walk(&mut self) -> &mut Walk {
        // Another cursor may leave values above the key.
        self.begun = true;
        self.walk
    }

    /// As [`Walk::has_metafield`].
    #[inline(always)]
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static Kept) -> Option<bool> {
        self.walk.has_metafield(index, name)
    }
}

/// A cursor over the values of a table by integer keys.
pub(crate) struct Elements<'w> {
    walk: &'w mut Walk,
    table: c_int,
    value: c_int,
}

impl Elements<'_> {
    /// Goes to the `number`th. → the index of the value, which may be nil
    pub(crate) fn get(&mut self, number: i64) -> c_int {
        let state = self.walk.stack.state;
        // SAFETY: there is a table, and room for one value.
        unsafe {
            ffi::lua_settop(state, self.value - 1);
            ffi::lua_rawgeti(state, self.table, number);
        }
        self.value
    }

    /// The values, to look into this one.
    pub(crate) fn walk(&mut self) -> &mut Walk {
        self.walk
    }
}
