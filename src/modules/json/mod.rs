//! `lio.json`: converts Lua values to JSON text and back (RFC 8259). `lio.webserver` uses it to encode the tables that
//! handlers return, and to decode bodies for `req:json()`.

mod encode;
#[cfg(all(test, feature = "vendored"))]
mod tests;

use crate::codec::json::{self, Node, Nodes};
use crate::lua::{
    Argument, Call, Decoded, Decoder, Either, Event, Fault, Function, FunctionTable, Kind, ModuleWith, Nil, Register,
    RegistryName, SCRATCH_SIZE, ScratchBytes, Table, Value, functions, scratch,
};
use encode::{MARK, NULL, Order};
use std::cell::Cell;

pub(crate) use encode::append;

/// The buffer of a JSON text is kept for the next call if its capacity is at most this number of bytes.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

thread_local! {
    /// The buffer of the text that is being written.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The names of the options, as Lua strings.
static SORT: RegistryName = RegistryName::new();
static NULL_IS: RegistryName = RegistryName::new();

/// Returns the index of an option in the table at argument 2; `None` if there is no table.
fn option(call: &mut Call<'_>, name: &'static RegistryName) -> Result<Option<i32>, Fault> {
    match call.kind(2) {
        Kind::Table => {
            let name = call.registered(name)?;
            call.get(2, name).map(Some)
        }
        Kind::None | Kind::Nil => Ok(None),
        _ => Err(Fault::expected(2, "table")),
    }
}

/// `json.encode(value [, options])`: returns the JSON text of `value`. Error messages contain the path to the value
/// that cannot be encoded.
///
/// A table with the keys 1 to n is encoded as an array, a table with string keys as an object. An empty table is `{}`
/// unless `json.array` has marked it. If `options.sort` is true, the keys are in the order of their bytes.
fn encode(call: &mut Call<'_>) -> Result<Either<ScratchBytes, Vec<u8>>, Fault> {
    call.any(1)?;
    let order = match option(call, &SORT)? {
        Some(sort) if call.is_true(sort) => Order::Sorted,
        _ => Order::Unsorted,
    };
    let mut text = TEXT.try_with(Cell::take).unwrap_or_default();
    text.clear();
    encode::write(call, 1, &mut text, order).map_err(Fault::message)?;
    if text.len() > SCRATCH_SIZE {
        return Ok(Either::Other(text));
    }
    let size = scratch(text.len(), |bytes| {
        bytes.copy_from_slice(&text);
        bytes.len()
    });
    if text.capacity() <= MAX_KEPT_CAPACITY {
        let _ = TEXT.try_with(|place| place.set(text));
    }
    Ok(Either::One(ScratchBytes(size)))
}

type Decoding = Either<Decoded<Reader>, (Nil, String, &'static str)>;

/// Converts the nodes of a JSON text to Lua values.
struct Reader {
    nodes: Nodes,
    /// The number of nodes that were read, and the number of bytes of strings that were read.
    at: usize,
    bytes: usize,
    /// The stack indices of the value for null, and of the metatable of arrays.
    null: i32,
    mark: i32,
}

impl Decoder for Reader {
    const CALL: &'static str = "json";

    fn next(&mut self, _: u32) -> Event<'_> {
        let Some(node) = self.nodes.nodes.get(self.at) else { return Event::End };
        self.at += 1;
        match *node {
            Node::Null => Event::Argument(self.null),
            Node::Boolean(value) => Event::Boolean(value),
            Node::Integer(value) => Event::Integer(value),
            Node::Float(value) => Event::Number(value),
            Node::String(size) => {
                let rest = &self.nodes.bytes[self.bytes..];
                self.bytes += size;
                Event::String(&rest[..size])
            }
            Node::Array(count) => {
                let (items, room) = (count as u64, (hint(count), 0));
                Event::Table(Table { items, room, metatable: self.mark, ..Table::default() })
            }
            Node::Object(count) => Event::Table(Table { pairs: true, room: (0, hint(count)), ..Table::default() }),
            Node::End => Event::Nil,
        }
    }
}

/// Converts a count to a size for a new table.
fn hint(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// `json.decode(text [, options])`: returns a value. If the text is not JSON, returns `nil, message, code`: the code is
/// `"truncated"` if the text ends too early, otherwise `"invalid"`. The message contains the line and the column, which
/// is counted in bytes.
///
/// An object becomes a plain table, an array becomes a table with the mark of `json.array`. If a key is repeated, the
/// last value is used. An integer that fits in 64 bits becomes a Lua integer; a larger integer, or a number with a
/// fraction or an exponent, becomes a float. `null` becomes `json.null`, or `options.null` if it is given, which can be
/// any value except nil; if `options.null` is `false`, a null field is false in a condition, like an absent field.
fn decode(call: &mut Call<'_>) -> Result<Decoding, Fault> {
    call.bytes(1)?;
    let null = match option(call, &NULL_IS)? {
        Some(null) if !call.is_none(null) => null,
        _ => call.push(NULL)?,
    };
    let mark = call.registered(&MARK)?;
    Ok(match json::parse(call.bytes(1)?) {
        Ok(nodes) => Either::One(Decoded(Reader { nodes, at: 0, bytes: 0, null, mark })),
        Err(bad) => Either::Other((Nil, bad.message, bad.code)),
    })
}

/// `json.array([t])`: marks `t`, or a new table, as an array, and returns the table. An empty array is encoded as `[]`.
/// The mark is the metatable `json.array_mt`. Raises for a table with another metatable.
fn array(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let table = match call.kind(1) {
        Kind::None => call.create(Value::List(Vec::new()))?,
        Kind::Table => 1,
        _ => return Err(Fault::expected(1, "table")),
    };
    let mark = call.registered(&MARK)?;
    let own = call.metatable(table)?;
    if own != 0 && own != call.identity(mark) {
        return Err(Fault::argument(1, "the table has a metatable of its own"));
    }
    call.set_metatable(table, mark)?;
    Ok(Argument(table))
}

const FUNCTIONS: FunctionTable = functions! { encode, decode, array };

/// Opens `lio.json`: `encode`, `decode`, `array`, `array_mt`, `null`.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let mut mark = call.registered(&MARK)?;
    if call.kind(mark) != Kind::Table {
        let name = ("__name", Value::Name("lio.json.array"));
        mark = call.create(Register(&MARK, Value::Record(vec![name])))?;
    }
    call.create(Register(&SORT, "sort"))?;
    call.create(Register(&NULL_IS, "null"))?;
    let null = call.push(NULL)?;
    Ok(ModuleWith {
        functions: FUNCTIONS,
        values: vec![("array_mt", Value::Argument(mark)), ("null", Value::Argument(null))],
    })
});
