//! Encodes a Lua value as JSON text, which is appended to a buffer. Tables are read without metamethods.

use crate::codec::json::{MAX_DEPTH, NotUtf8, put_float, put_integer, put_string};
use crate::lua::{Kind, Light, Pairs, Read, RegistryName, Stack, Walk};
use crate::modules::value_error::{
    PathStep, ValueResult, bad_key, count_integer_keys, fail, quoted, type_name, unsupported,
};
use std::ops::Range;

/// The metatable that marks arrays. Each VM has one such metatable, so a table that was marked before the module was
/// loaded again is still recognized.
pub(super) static MARK: RegistryName = RegistryName::new();

/// `json.null`: the same value in every VM. A null `lightuserdata` from C code is equal to it.
pub(super) const NULL: Light = Light(0);

/// The order in which an object's fields are written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    /// The order of `next`.
    Unsorted,
    /// The order of their keys' bytes.
    Sorted,
}

/// Appends the value at `index` to `text`. On failure, returns a message that says which part cannot be encoded, and
/// where it is.
pub(super) fn write(stack: &mut Stack, index: i32, text: &mut Vec<u8>, order: Order) -> Result<(), String> {
    let mark = stack.registered_identity(&MARK);
    let mut encoder = Encoder { text, mark, order };
    let written = stack.walk(|values| encoder.value(values, index, 0));
    written.map_err(|failure| failure.message("json", "encode"))
}

/// Appends the value at `index` to `text`, as `json.encode` writes it without options. If the value cannot be encoded,
/// returns false and leaves `text` unchanged.
pub(crate) fn append(stack: &mut Stack, index: i32, text: &mut Vec<u8>) -> bool {
    let begin = text.len();
    let written = write(stack, index, text, Order::Unsorted).is_ok();
    if !written {
        text.truncate(begin);
    }
    written
}

/// Appends values to a JSON text.
struct Encoder<'t> {
    text: &'t mut Vec<u8>,
    /// The identity of the metatable of arrays; 0 if there is none.
    mark: usize,
    order: Order,
}

impl Encoder<'_> {
    /// Writes the value at `index`, which is inside `depth` tables.
    fn value(&mut self, values: &mut Walk, index: i32, depth: u32) -> ValueResult {
        match values.read(index) {
            Read::String(bytes) => self.string(bytes),
            Read::Integer(integer) => Ok(put_integer(self.text, integer)),
            Read::Table => self.table(values, index, depth),
            Read::Other(kind) => self.other(values, index, kind),
        }
    }

    fn other(&mut self, values: &Walk, index: i32, kind: Kind) -> ValueResult {
        match kind {
            Kind::Number => match values.number(index) {
                Ok(number) if number.is_finite() => Ok(put_float(self.text, number)),
                Ok(number) if !number.is_nan() => unsupported("infinity"),
                _ => unsupported("NaN"),
            },
            Kind::Boolean if values.is_true(index) => self.literal(b"true"),
            Kind::Boolean => self.literal(b"false"),
            Kind::Nil => self.literal(b"null"),
            Kind::LightUserdata if values.light(index) == Some(NULL) => self.literal(b"null"),
            kind => unsupported(format!("a {}", type_name(kind))),
        }
    }

    fn literal(&mut self, text: &[u8]) -> ValueResult {
        self.text.extend_from_slice(text);
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> ValueResult {
        put_string(self.text, bytes)
            .or_else(|NotUtf8(byte)| unsupported(format!("a string that is not UTF-8 (byte {byte})")))
    }

    fn table(&mut self, values: &mut Walk, index: i32, depth: u32) -> ValueResult {
        if depth == MAX_DEPTH {
            return fail(format!("excessive nesting, more than {MAX_DEPTH} tables (a cycle?)"));
        }
        let metatable = values.metatable(index);
        let marked = metatable != 0 && metatable == self.mark;
        let Some(mut pairs) = values.pairs(index) else { return fail("the Lua stack is full") };
        if !pairs.next() {
            return self.literal(if marked { b"[]" } else { b"{}" });
        }
        if pairs.integer_key().is_some() {
            return self.array(pairs, index, depth);
        }
        let key = pairs.key();
        match pairs.walk().string(key) {
            Some(name) if marked => unsupported(format!("an array with the key {}", quoted(name))),
            Some(_) => self.object(pairs, depth),
            None => bad_key(&mut pairs),
        }
    }

    /// Writes a table as an object. `pairs` is at the first pair.
    fn object(&mut self, mut pairs: Pairs<'_>, depth: u32) -> ValueResult {
        let begin = self.text.len();
        let mut fields = Vec::new();
        self.text.push(b'{');
        let (key, value) = (pairs.key(), pairs.value());
        loop {
            let from = self.text.len();
            let values = pairs.walk();
            let Some(name) = values.string(key) else { return bad_key(&mut pairs) };
            let written = self.string(name).and_then(|()| {
                self.text.push(b':');
                self.value(values, value, depth + 1)
            });
            if let Err(failure) = written {
                let name = values.string(key).unwrap_or_default();
                return Err(failure.inside(PathStep::Field(name.to_vec())));
            }
            if self.order == Order::Sorted {
                fields.push((values.string(key).unwrap_or_default().to_vec(), from..self.text.len()));
            }
            if !pairs.next() {
                break;
            }
            self.text.push(b',');
        }
        if self.order == Order::Sorted {
            self.sort(begin + 1, fields);
        }
        self.literal(b"}")
    }

    /// Sorts the fields that were written from offset `begin` on by their keys. `fields` contains the key and the range
    /// of each field.
    fn sort(&mut self, begin: usize, mut fields: Vec<(Vec<u8>, Range<usize>)>) {
        fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let found = self.text.split_off(begin);
        for (count, (_, field)) in fields.into_iter().enumerate() {
            if count > 0 {
                self.text.push(b',');
            }
            self.text.extend_from_slice(&found[field.start - begin..field.end - begin]);
        }
    }

    /// Writes a table as an array. `pairs` is at the first pair, whose key is an integer. Elements are written in the
    /// order of `next` as long as this is the order of their indexes, which is always the case unless some elements are
    /// in the table's hash part.
    fn array(&mut self, mut pairs: Pairs<'_>, table: i32, depth: u32) -> ValueResult {
        self.text.push(b'[');
        let value = pairs.value();
        let mut written = 0;
        while pairs.integer_key() == Some(written + 1) {
            written += 1;
            self.element(pairs.walk(), value, written, depth)?;
            if !pairs.next() {
                return self.literal(b"]");
            }
        }
        let values = pairs.walk();
        let length = count_integer_keys(values, table)?;
        for number in written + 1..=length {
            let Some(mut elements) = values.elements(table) else {
                return fail("the Lua stack is full");
            };
            let element = elements.get(number);
            if elements.walk().is_none(element) {
                return unsupported(format!("a sparse array ({length} integer keys, but no [{number}])"));
            }
            self.element(elements.walk(), element, number, depth)?;
        }
        self.literal(b"]")
    }

    fn element(&mut self, values: &mut Walk, index: i32, number: i64, depth: u32) -> ValueResult {
        if number > 1 {
            self.text.push(b',');
        }
        let written = self.value(values, index, depth + 1);
        written.map_err(|failure| failure.inside(PathStep::Element(number)))
    }
}
