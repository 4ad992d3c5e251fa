//! Builds values from the events of a decoder, one event at a time.
//!
//! Between two events, none of the decoder's frames is active, and its state is stored where a memory error cannot leak
//! it, see `returns`.

use super::fault::Fault;
use super::function::Function;
use super::pusher::Pusher;
use super::returns::Values;
use super::state::Kind;
use super::values::{Light, Plain};
use mlua::ffi;
use std::ffi::c_int;

/// One event: what to build next.
pub(crate) enum Event<'e> {
    /// Nil. In place of a key, it ends the pairs.
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    String(&'e [u8]),
    Light(Light),
    Function(Function),
    /// The value at a stack index of the function.
    Argument(c_int),
    /// A table, whose contents follow.
    Table(Table),
    /// The table that was given this name by an earlier event.
    Named(i64),
    /// Fills the table that was given this name by an earlier event. This event does not add a value, and is not
    /// allowed inside a table.
    Content(i64, Table),
    /// No value follows.
    End,
    /// The encoded data is malformed. The field is the error message.
    Malformed(&'static str),
}

/// A table. First, `items` values follow, for the keys from 1 on; a key whose value is nil is omitted. Then, if `pairs`
/// is set, keys and values follow until a key is nil.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) items: u64,
    pub(crate) pairs: bool,
    /// The numbers of items and of pairs to allocate room for when the table is created.
    pub(crate) room: (c_int, c_int),
    /// The names by which later events refer to the table; 0 means no name.
    pub(crate) names: [i64; 2],
    /// The stack index of the metatable; 0 if there is none. If the value at this index is not a table, it is ignored.
    pub(crate) metatable: c_int,
}

/// A decoder: reads encoded data and describes the values as events.
pub(crate) trait Decoder: 'static {
    /// The name of the call in error messages.
    const CALL: &'static str;
    /// Returns the next event. `depth` is the number of tables that enclose the event's value.
    fn next(&mut self, depth: u32) -> Event<'_>;
}

/// The values that a decoder describes.
pub(crate) struct Decoded<E>(pub(crate) E);

impl<E: Decoder> Values for Decoded<E> {
    #[inline]
    fn push_all(&mut self, to: Pusher<'_>) -> c_int {
        let mut builder = Builder { base: to.count() + 1, to, has_names: false, events: &mut self.0 };
        builder.values()
    }
}

/// Encoded data. Its decoder is created when its values are pushed.
pub(crate) trait Encoded: 'static {
    type Decoder: Decoder;
    /// Returns a decoder that starts at the beginning of the data.
    fn decoder(&self) -> Self::Decoder;
}

/// The values of encoded data, decoded when they are pushed. The data itself does not change.
pub(crate) struct DecodedOnPush<S>(pub(crate) S);

impl<S: Encoded> Values for DecodedOnPush<S> {
    #[inline]
    fn push_all(&mut self, to: Pusher<'_>) -> c_int {
        const { assert!(!std::mem::needs_drop::<S::Decoder>(), "a memory error would skip the decoder's destructor") };
        Decoded(self.0.decoder()).push_all(to)
    }
}

/// The maximum nesting depth of tables.
const MAX_DEPTH: u32 = 200;

/// The number of stack slots to reserve at a time: enough for the next 16 values and for the contents of a table.
const ROOM: c_int = 36;

/// Builds values. The frames of the methods own nothing, so a raised error skips no destructor.
struct Builder<'e, E> {
    to: Pusher<'e>,
    /// The stack index of the first value, or of the table of named tables once that table exists.
    base: c_int,
    has_names: bool,
    events: &'e mut E,
}

/// The result of an event.
enum Built {
    /// A value is on top of the stack, and no Lua code has run.
    Plain,
    /// A value is on top of the stack.
    Value,
    /// A value is on top of the stack. It cannot be a key.
    NaN,
    /// Nil, which is not pushed.
    Nil,
    /// No value: the event has filled an existing table.
    Content,
    End,
}

impl<E: Decoder> Builder<'_, E> {
    /// Pushes all values. Returns their number.
    fn values(&mut self) -> c_int {
        let mut count = 0;
        loop {
            // The caller has reserved room for the first values.
            if count % 16 == 4 {
                self.reserve(ROOM);
            }
            match self.value(0) {
                Built::Plain | Built::Value | Built::NaN => count += 1,
                Built::Nil => {
                    self.to.push_nil();
                    count += 1;
                }
                Built::Content => {}
                Built::End => break,
            }
        }
        if self.has_names {
            self.to.remove(self.base);
        }
        count
    }

    /// Builds the value of the next event. The caller has reserved room for it.
    #[inline(always)]
    fn value(&mut self, depth: u32) -> Built {
        let to = &mut self.to;
        match self.events.next(depth) {
            Event::Nil => Built::Nil,
            Event::Integer(value) => plain(to, value),
            Event::String(bytes) => {
                to.push_string(bytes);
                Built::Value
            }
            Event::Boolean(value) => plain(to, value),
            Event::Number(value) => match plain(to, value) {
                _ if value.is_nan() => Built::NaN,
                built => built,
            },
            Event::Light(value) => plain(to, value),
            Event::Function(value) => plain(to, value),
            Event::Argument(index) => {
                to.push_copy(index);
                Built::Plain
            }
            Event::Table(table) => {
                self.table(&table, depth);
                Built::Value
            }
            Event::Named(name) => {
                self.push_named(name);
                Built::Plain
            }
            Event::Content(name, table) => {
                if depth > 0 {
                    self.fail("a table is filled inside another table");
                }
                self.reserve(ROOM);
                self.push_named(name);
                self.content(&table, 1);
                self.to.drop_top();
                Built::Content
            }
            Event::End => Built::End,
            Event::Malformed(text) => self.fail(text),
        }
    }

    /// Builds a table. Each level of nesting needs stack slots for a table and a key. The room that is reserved at
    /// depth 0 is enough for the first levels.
    fn table(&mut self, table: &Table, depth: u32) {
        match depth {
            0 => self.reserve(ROOM),
            1..=3 => {}
            _ => self.reserve(8),
        }
        if depth == MAX_DEPTH {
            self.fail("nested too deeply");
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

    /// Fills the table on top of the stack.
    fn content(&mut self, table: &Table, depth: u32) {
        // A finalizer may have run since the table was created.
        if table.items > 0 {
            self.check_table(-1);
        }
        for index in 1..=table.items {
            match self.value(depth) {
                Built::Plain => {}
                Built::Value | Built::NaN => self.check_table(-2),
                Built::Nil | Built::Content => continue,
                Built::End => self.fail("an item is missing"),
            }
            // SAFETY: there is a table below the value. This was checked before the first item, and is checked again
            // after each item that may have run Lua code.
            unsafe { ffi::lua_rawseti(self.to.state(), -2, index as i64) };
        }
        if !table.pairs {
            return;
        }
        loop {
            match self.value(depth) {
                Built::Plain | Built::Value => {}
                Built::NaN => self.fail("a key is NaN"),
                Built::Nil | Built::End | Built::Content => break,
            }
            match self.value(depth) {
                Built::Plain | Built::Value | Built::NaN => {}
                _ => self.to.push_nil(),
            }
            self.to.set_pair();
        }
    }

    /// Gives the table on top of the stack the name `name`.
    fn name(&mut self, name: i64) {
        if !self.has_names {
            self.to.push_table(0, 0);
            // All values are addressed from the top, so inserting a value below them has no effect on their addresses.
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

    /// Pushes the table that has the name `name`.
    fn push_named(&mut self, name: i64) {
        if self.has_names {
            self.to.push_element(self.base, name);
        }
        if !self.has_names || self.to.kind(self.to.count()) != Kind::Table {
            self.fail("reference to an unknown table");
        }
    }

    /// Raises an error unless there is a table at `index`, counted from the top.
    #[inline(always)]
    fn check_table(&mut self, index: c_int) {
        if !self.to.is_table(index) {
            self.fail("a finalizer has removed a table");
        }
    }

    /// Ensures room for `count` more values. Raises an error if the stack cannot grow.
    fn reserve(&mut self, count: c_int) {
        if !self.to.has_room(count) {
            self.fail("too many values for the stack");
        }
    }

    /// Raises an error whose message starts with the name of the decoder's call.
    #[cold]
    fn fail(&mut self, text: &str) -> ! {
        Fault::message(format_args!("{}: {text}", E::CALL)).raise(&mut self.to)
    }
}

#[inline(always)]
fn plain(to: &mut Pusher<'_>, value: impl Plain) -> Built {
    value.push_plain(to);
    Built::Plain
}
