//! Values that are made of events: what a decoder reads, one after the other.
//!
//! Between two events no frame of the decoder is left, and it waits where a memory error cannot leak it, see `returns`.

use super::fault::Fault;
use super::function::Function;
use super::pusher::Pusher;
use super::returns::Values;
use super::state::Kind;
use super::values::{Light, Plain};
use mlua::ffi;
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
        let mut maker = Maker { base: to.count() + 1, to, has_names: false, events: &mut self.0 };
        maker.values()
    }
}

/// What a decoder is made for, once its values are to be pushed.
pub(crate) trait Encoded: 'static {
    type Decoder: Events;
    /// A decoder that begins at the start.
    fn decoder(&self) -> Self::Decoder;
}

/// The values of something encoded, which stays as it is.
pub(crate) struct DecodedLate<S>(pub(crate) S);

impl<S: Encoded> Values for DecodedLate<S> {
    #[inline]
    fn push_all(&mut self, to: Pusher<'_>) -> c_int {
        const { assert!(!std::mem::needs_drop::<S::Decoder>(), "a memory error skips the decoder's frame") };
        Decoded(self.0.decoder()).push_all(to)
    }
}

/// Tables may be in one another so deep.
const DEPTH: u32 = 200;

/// For so many values there is room, now and then: for the next 16 and what is in a table.
const ROOM: c_int = 36;

/// Makes values. What is in these frames owns nothing.
struct Maker<'e, E> {
    to: Pusher<'e>,
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
    fn values(&mut self) -> c_int {
        let mut count = 0;
        loop {
            // There is room for the first few.
            if count % 16 == 4 {
                self.reserve(ROOM);
            }
            match self.value(0) {
                Made::Plain | Made::Value | Made::NaN => count += 1,
                Made::Nil => {
                    self.to.push_nil();
                    count += 1;
                }
                Made::Content => {}
                Made::End => break,
            }
        }
        if self.has_names {
            self.to.remove(self.base);
        }
        count
    }

    /// Makes what the next event says, where there is room for a value.
    #[inline(always)]
    fn value(&mut self, depth: u32) -> Made {
        let to = &mut self.to;
        match self.events.next(depth) {
            Event::Nil => Made::Nil,
            Event::Integer(value) => plain(to, value),
            Event::String(bytes) => {
                to.push_string(bytes);
                Made::Value
            }
            Event::Boolean(value) => plain(to, value),
            Event::Number(value) => match plain(to, value) {
                _ if value.is_nan() => Made::NaN,
                made => made,
            },
            Event::Light(value) => plain(to, value),
            Event::Function(value) => plain(to, value),
            Event::Argument(index) => {
                to.push_copy(index);
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
                self.reserve(ROOM);
                self.push_named(name);
                self.content(&table, 1);
                self.to.drop_top();
                Made::Content
            }
            Event::End => Made::End,
            Event::Wrong(text) => self.wrong(text),
        }
    }

    /// Makes a table, which takes the room of itself and a key: the first few fit in what is asked for with the first one.
    fn table(&mut self, table: &Table, depth: u32) {
        match depth {
            0 => self.reserve(ROOM),
            1..=3 => {}
            _ => self.reserve(8),
        }
        if depth == DEPTH {
            self.wrong("nested too deeply");
        }
        let (items, pairs) = table.room;
        self.to.push_table(items, pairs);
        if table.metatable != 0 {
            self.to.set_metatable(table.metatable);
        }
        for name in table.names {
            if name != 0 {
                self.name(name);
            }
        }
        self.content(table, depth + 1);
    }

    /// Fills the table on top.
    fn content(&mut self, table: &Table, depth: u32) {
        // A finalizer may have run since it was made.
        if table.items > 0 {
            self.check_table(-1);
        }
        for index in 1..=table.items {
            match self.value(depth) {
                Made::Plain => {}
                Made::Value | Made::NaN => self.check_table(-2),
                Made::Nil | Made::Content => continue,
                Made::End => self.wrong("an item is missing"),
            }
            // SAFETY: below the value lies a table, as it did before the first: nothing of Lua's has run since, or it was looked
            // at again.
            unsafe { ffi::lua_rawseti(self.to.state(), -2, index as i64) };
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
                _ => self.to.push_nil(),
            }
            self.to.set_pair();
        }
    }

    /// Names the table on top.
    fn name(&mut self, name: i64) {
        if !self.has_names {
            self.to.push_table(0, 0);
            // Values are found from the top, so one more below moves none.
            self.to.insert_top(self.base);
            self.has_names = true;
        }
        let named = self.to.count();
        self.to.push_copy(self.base);
        self.to.push_copy(named);
        self.check_table(-2);
        self.to.set_item(name);
        self.to.drop_top();
    }

    /// Pushes the table of that name.
    fn push_named(&mut self, name: i64) {
        if self.has_names {
            self.to.push_element(self.base, name);
        }
        if !self.has_names || self.to.kind(self.to.count()) != Kind::Table {
            self.wrong("reference to nothing");
        }
    }

    /// Makes sure that there is a table, at an index from the top.
    #[inline(always)]
    fn check_table(&mut self, index: c_int) {
        if !self.to.is_table(index) {
            self.wrong("a finalizer has taken a table away");
        }
    }

    fn reserve(&mut self, count: c_int) {
        if !self.to.has_room(count) {
            self.wrong("too many values for the stack");
        }
    }

    #[cold]
    fn wrong(&mut self, text: &str) -> ! {
        Fault::message(format_args!("{}: {text}", E::CALL)).raise(&mut self.to)
    }
}

#[inline(always)]
fn plain(to: &mut Pusher<'_>, value: impl Plain) -> Made {
    value.push_plain(to);
    Made::Plain
}
