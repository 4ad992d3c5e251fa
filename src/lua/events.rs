//! Values that are made of events: what a decoder reads, one after the other.
//!
//! Between two events no frame of the decoder is left, and it waits where a memory error cannot leak it, see `returns`.

use super::fault::Fault;
use super::function::Function;
use super::returns::{Pusher, Values};
use super::stack::at;
use super::values::{Light, Plain};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// One step in the making of values.
pub(crate) enum Event<'e> {
    /// A value of its own. As a key: there is no further pair.
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    String(&'e [u8]),
    Light(Light),
    Function(Function),
    /// The value at an index of the function's stack.
    Argument(c_int),
    /// A table, whose content follows.
    Table(Table),
    /// A table that was named before.
    Named(i64),
    /// The content of a table that was named before; no value of its own. In the place of a value only.
    Content(i64, Table),
    /// There is no further value.
    End,
    /// What is wrong with what was to be decoded.
    Wrong(&'static str),
}

/// A table: `items` values from 1 on, a nil among them is left out; then, if `pairs`, keys and values until a key is nil.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) items: u64,
    pub(crate) pairs: bool,
    /// How many items and pairs there is room for beforehand.
    pub(crate) room: (c_int, c_int),
    /// Names of the table, to be met again; 0 is none.
    pub(crate) names: [i64; 2],
    /// The index of the value that becomes its metatable, if that is a table; 0 is none.
    pub(crate) metatable: c_int,
}

/// A decoder.
pub(crate) trait Events: 'static {
    /// What messages about wrong events begin with.
    const CALL: &'static str;
    /// The next event, `depth` tables deep (none: 0).
    fn next(&mut self, depth: u32) -> Event<'_>;
}

/// The values that a decoder gives.
pub(crate) struct Decoded<E>(pub(crate) E);

impl<E: Events> Values for Decoded<E> {
    #[inline]
    fn push_all(&mut self, to: Pusher<'_>) -> c_int {
        let state = to.state();
        // SAFETY: a pusher's promise; what is in these frames owns nothing.
        unsafe {
            let base = ffi::lua_gettop(state) + 1;
            let events = &mut self.0;
            let mut maker = Maker {
                state,
                base,
                has_names: false,
                events,
            };
            maker.values()
        }
    }
}

/// Tables may be in one another so deep.
const DEPTH: u32 = 200;

/// Makes values. An allocation may run a finalizer, which can change any slot by the debug library: so what is in a slot
/// is looked at again wherever Lua would trust it.
struct Maker<'e, E> {
    state: *mut lua_State,
    /// Where the values begin, or the table with the named tables, once there is one.
    base: c_int,
    has_names: bool,
    events: &'e mut E,
}

/// What an event came to.
enum Made {
    /// A value lies on the stack, and nothing of Lua's has run.
    Plain,
    /// A value lies on the stack.
    Value,
    /// The same, and it is no key.
    NaN,
    /// Nil, which was not pushed.
    Nil,
    /// No value.
    Content,
    End,
}

impl<E: Events> Maker<'_, E> {
    /// Pushes all values. → how many
    ///
    /// # Safety
    /// As for all methods: a pusher's promise.
    unsafe fn values(&mut self) -> c_int {
        let mut count = 0;
        // SAFETY: the stack is asked for room for every 16 values.
        unsafe {
            loop {
                if count % 16 == 0 {
                    self.reserve(36);
                }
                match self.value(0) {
                    Made::Plain | Made::Value | Made::NaN => count += 1,
                    Made::Nil => {
                        ffi::lua_pushnil(self.state);
                        count += 1;
                    }
                    Made::Content => {}
                    Made::End => break,
                }
            }
            if self.has_names {
                ffi::lua_rotate(self.state, self.base, -1);
                ffi::lua_pop(self.state, 1);
            }
        }
        count
    }

    /// Makes what the next event says.
    #[inline(always)]
    unsafe fn value(&mut self, depth: u32) -> Made {
        let state = self.state;
        // SAFETY: whoever asks for a value has reserved room for it.
        unsafe {
            match self.events.next(depth) {
                Event::Nil => Made::Nil,
                Event::Integer(value) => plain(state, value),
                Event::String(bytes) => {
                    ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len());
                    Made::Value
                }
                Event::Boolean(value) => plain(state, value),
                Event::Number(value) => match plain(state, value) {
                    _ if value.is_nan() => Made::NaN,
                    made => made,
                },
                Event::Light(value) => plain(state, value),
                Event::Function(value) => plain(state, value),
                Event::Argument(index) => {
                    ffi::lua_pushvalue(state, at(index));
                    Made::Plain
                }
                Event::Table(table) => {
                    self.table(&table, depth);
                    Made::Value
                }
                Event::Named(name) => {
                    self.push_named(name);
                    Made::Plain
                }
                Event::Content(name, table) => {
                    if depth > 0 {
                        self.wrong("content inside of a table");
                    }
                    self.push_named(name);
                    self.content(&table, 1);
                    ffi::lua_pop(state, 1);
                    Made::Content
                }
                Event::End => Made::End,
                Event::Wrong(text) => self.wrong(text),
            }
        }
    }

    unsafe fn table(&mut self, table: &Table, depth: u32) {
        let state = self.state;
        // SAFETY: each level takes a table and a key; the first few fit in what `values` asked for.
        unsafe {
            if depth > 3 {
                self.reserve(8);
            }
            if depth == DEPTH {
                self.wrong("nested too deeply");
            }
            let (items, pairs) = table.room;
            ffi::lua_createtable(state, items.max(0), pairs.max(0));
            if table.metatable != 0 {
                self.check_table(-1);
                ffi::lua_pushvalue(state, at(table.metatable));
                match ffi::lua_type(state, -1) {
                    ffi::LUA_TTABLE => drop(ffi::lua_setmetatable(state, -2)),
                    _ => ffi::lua_pop(state, 1),
                }
            }
            for name in table.names {
                if name != 0 {
                    self.name(name);
                }
            }
            self.content(table, depth + 1);
        }
    }

    /// Fills the table on top.
    unsafe fn content(&mut self, table: &Table, depth: u32) {
        let state = self.state;
        // SAFETY: what is stored into is a table. A key that is none is an error of Lua's.
        unsafe {
            for index in 1..=table.items {
                match self.value(depth) {
                    Made::Plain => {}
                    Made::Value | Made::NaN => self.check_table(-2),
                    Made::Nil | Made::Content => continue,
                    Made::End => self.wrong("an item is missing"),
                }
                ffi::lua_rawseti(state, -2, index as i64);
            }
            if !table.pairs {
                return;
            }
            loop {
                match self.value(depth) {
                    Made::Plain | Made::Value => {}
                    Made::NaN => self.wrong("NaN for a key"),
                    Made::Nil | Made::End | Made::Content => break,
                }
                match self.value(depth) {
                    Made::Plain | Made::Value | Made::NaN => {}
                    _ => ffi::lua_pushnil(state),
                }
                self.check_table(-3);
                ffi::lua_rawset(state, -3);
            }
        }
    }

    /// Names the table on top.
    unsafe fn name(&mut self, name: i64) {
        let state = self.state;
        // SAFETY: there are free slots. Values are found from the top, so one more below moves none.
        unsafe {
            if !self.has_names {
                ffi::lua_createtable(state, 0, 0);
                ffi::lua_rotate(state, self.base, 1);
                self.has_names = true;
            }
            self.check_table(self.base);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawseti(state, self.base, name);
        }
    }

    /// Pushes the table of that name.
    unsafe fn push_named(&mut self, name: i64) {
        // SAFETY: only a table is looked into.
        unsafe {
            if !self.has_names {
                self.wrong("reference to nothing");
            }
            self.check_table(self.base);
            if ffi::lua_rawgeti(self.state, self.base, name) != ffi::LUA_TTABLE {
                self.wrong("reference to nothing");
            }
        }
    }

    #[inline(always)]
    unsafe fn check_table(&self, index: c_int) {
        // SAFETY: the index is of a value that was pushed.
        unsafe {
            if ffi::lua_type(self.state, index) != ffi::LUA_TTABLE {
                self.wrong("a finalizer has taken a table away");
            }
        }
    }

    unsafe fn reserve(&self, count: c_int) {
        // SAFETY: `lua_checkstack` reports that there is none by its result.
        unsafe {
            if ffi::lua_checkstack(self.state, count) == 0 {
                self.wrong("too many values for the stack");
            }
        }
    }

    #[cold]
    unsafe fn wrong(&self, text: &str) -> ! {
        // SAFETY: a pusher's promise: no frame up to Lua owns anything.
        unsafe { Fault::message(format_args!("{}: {text}", E::CALL)).raise(self.state) }
    }
}

#[inline(always)]
unsafe fn plain(state: *mut lua_State, value: impl Plain) -> Made {
    // SAFETY: room for a value was reserved before its event was read.
    unsafe { value.push_plain(state) };
    Made::Plain
}
