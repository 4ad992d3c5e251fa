//! Lua values as values of templates. Tables are read without metamethods, by the rules of `lio.json`.

use crate::lua::{Kind, Pairs, Read, Stack, Walk};
use crate::modules::value_error::{
    PathStep, ValueResult, bad_key, count_integer_keys, fail, quoted, type_name, unsupported,
};
use minijinja::Value;

/// The maximum number of tables inside each other.
const MAX_DEPTH: u32 = 100;

/// Returns the variables in the table at `index`; none if there is no table. On failure, returns a message that says
/// which part cannot be used, and where it is.
pub(super) fn variables(stack: &mut Stack, index: i32) -> Result<Vec<(String, Value)>, String> {
    let found = stack.walk(|values| {
        let Some(mut pairs) = values.pairs(index) else { return Ok(Vec::new()) };
        if pairs.next() { fields(pairs, 0) } else { Ok(Vec::new()) }
    });
    found.map_err(|failure| failure.message("data", "use"))
}

/// Returns the value at `index`, which is inside `depth` tables.
fn value(values: &mut Walk, index: i32, depth: u32) -> ValueResult<Value> {
    match values.read(index) {
        // A browser shows replacement characters for malformed UTF-8, and so does a template.
        Read::String(bytes) => Ok(Value::from(String::from_utf8_lossy(bytes).as_ref())),
        Read::Integer(integer) => Ok(Value::from(integer)),
        Read::Table => table(values, index, depth),
        Read::Other(kind) => other(values, index, kind),
    }
}

fn other(values: &Walk, index: i32, kind: Kind) -> ValueResult<Value> {
    match kind {
        Kind::Number => Ok(Value::from(values.number(index).unwrap_or(f64::NAN))),
        Kind::Boolean => Ok(Value::from(values.is_true(index))),
        // `json.null`, and absent values.
        Kind::Nil => Ok(Value::from(())),
        Kind::LightUserdata if values.light(index) == Some(crate::lua::Light(0)) => Ok(Value::from(())),
        kind => unsupported(format!("a {}", type_name(kind))),
    }
}

fn table(values: &mut Walk, index: i32, depth: u32) -> ValueResult<Value> {
    if depth == MAX_DEPTH {
        return fail(format!("excessive nesting, more than {MAX_DEPTH} tables (a cycle?)"));
    }
    let Some(mut pairs) = values.pairs(index) else { return fail("the Lua stack is full") };
    if !pairs.next() {
        // An empty table has no items, whether as a list or as a map.
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if pairs.integer_key().is_some() {
        return list(values, index, depth);
    }
    // A map has the order of the bytes of its keys.
    fields(pairs, depth).map(Value::from_pairs)
}

/// Reads the fields of a table with string keys. `pairs` is at the first pair.
fn fields(mut pairs: Pairs<'_>, depth: u32) -> ValueResult<Vec<(String, Value)>> {
    let mut fields = Vec::new();
    let (key, at) = (pairs.key(), pairs.value());
    loop {
        let values = pairs.walk();
        let Some(name) = values.string(key) else {
            bad_key(&mut pairs)?;
            return fail("a key is not a string");
        };
        let name = name.to_vec();
        let field = value(values, at, depth + 1);
        let Ok(text) = String::from_utf8(name.clone()) else {
            return unsupported(format!("the key {}, which is not UTF-8", quoted(&name)));
        };
        fields.push((text, field.map_err(|failure| failure.inside(PathStep::Field(name)))?));
        if !pairs.next() {
            return Ok(fields);
        }
    }
}

/// Reads a table whose first key is an integer.
fn list(values: &mut Walk, table: i32, depth: u32) -> ValueResult<Value> {
    let length = count_integer_keys(values, table)?;
    let Some(mut elements) = values.elements(table) else { return fail("the Lua stack is full") };
    let mut items = Vec::new();
    for number in 1..=length {
        let element = elements.get(number);
        if elements.walk().is_none(element) {
            return unsupported(format!("a sparse list ({length} integer keys, but no [{number}])"));
        }
        let item = value(elements.walk(), element, depth + 1);
        items.push(item.map_err(|failure| failure.inside(PathStep::Element(number)))?);
    }
    Ok(Value::from(items))
}
