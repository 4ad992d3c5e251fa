//! Values that steps read and create.

use super::{SHOW, run, show};
use crate::lua::{
    Argument, Call, Decoded, Decoder, Event, Fault, FunctionTable, Kind, Read, Table, Value, Walk, functions,
};

/// `swap(table, key, value)`: returns the old value, and whether it was replaced.
fn swap(call: &mut Call<'_>) -> Result<(Argument, bool), Fault> {
    let was = call.get(1, 2)?;
    let done = call.replace(1, 2, 3)?;
    Ok((Argument(was), done))
}

/// `shaped()`: returns a list that contains a record and a map.
fn shaped(_: &mut Call<'_>) -> Result<Value, Fault> {
    let map = ["a", "b", "a"].into_iter().zip(1..);
    let map = map.map(|(name, number)| (name.into(), Value::Integer(number)));
    let record = vec![("name", Value::String(b"text".to_vec()))];
    Ok(Value::List(vec![Value::Record(record), Value::Map(map.collect())]))
}

fn is_string(call: &mut Call<'_>) -> Result<(bool, Vec<u8>), Fault> {
    let text = call.bytes(1)?.to_vec();
    Ok((call.kind(1) == Kind::String, text))
}

/// Returns the sum of the integers in a value. Stops reading a table when its sum reaches 100.
fn sum(values: &mut Walk, index: i32) -> i64 {
    let Some(mut pairs) = values.pairs(index) else {
        return values.as_integer(index).unwrap_or(0);
    };
    let (key, value) = (pairs.key(), pairs.value());
    let mut total = 0;
    while total < 100 && pairs.next() {
        total += sum(pairs.walk(), key) + sum(pairs.walk(), value);
    }
    total
}

/// `sum(value)`: returns the sum of the integers in `value`, and whether the stack has the same height as before.
fn sum_of(call: &mut Call<'_>) -> Result<(i64, bool), Fault> {
    let before = call.count();
    let total = call.walk(|values| sum(values, 1));
    Ok((total, call.count() == before))
}

/// `reversed(t)`: returns the elements of a list from the last to the first, as one string.
fn reversed(call: &mut Call<'_>) -> Result<String, Fault> {
    let length = call.raw_length(1) as i64;
    Ok(call.walk(|values| {
        let mut text = String::new();
        for number in (1..=length).rev() {
            let mut elements = values.elements(1).expect("a table");
            let index = elements.get(number);
            match elements.walk().read(index) {
                Read::Integer(value) => text += &value.to_string(),
                Read::String(bytes) => text += &String::from_utf8_lossy(bytes),
                Read::Table => text += "{}",
                Read::Other(kind) => text += &format!("{kind:?}"),
            }
        }
        text
    }))
}

/// `collect(t)`: returns a new table with the values of `t`. Each value is added during the traversal of `t`.
fn collect(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let list = call.create(Value::List(Vec::new()))?;
    call.walk(|values| {
        let mut pairs = values.pairs(1).expect("a table");
        let mut count = 0;
        while pairs.next() {
            count += 1;
            let value = pairs.value();
            pairs.walk().enter(list, count, value)?;
        }
        Ok::<_, Fault>(())
    })?;
    Ok(Argument(list))
}

/// Values from characters: `{` and `[` start tables, `(` starts a table with a name, `)` refers to it, `!` fills it,
/// `-` is nil and ends pairs.
struct Words(String, usize);

impl Decoder for Words {
    const CALL: &'static str = "words";
    fn next(&mut self, _: u32) -> Event<'_> {
        let begin = self.1;
        self.1 += 1;
        let items = Table { items: 2, ..Table::default() };
        match self.0.as_bytes().get(begin) {
            None => Event::End,
            Some(b'-') => Event::Nil,
            Some(b'[') => Event::Table(items),
            Some(b'{') => Event::Table(Table { pairs: true, metatable: 2, ..Table::default() }),
            Some(b'(') => Event::Table(Table { names: [7, -1], ..items }),
            Some(b')') => Event::Named(-1),
            Some(b'!') => Event::Content(7, items),
            Some(b'?') => Event::Malformed("no word"),
            Some(b'N') => Event::Number(f64::NAN),
            Some(b'p') => panic!("in a decoder"),
            Some(digit @ b'0'..=b'9') => Event::Integer((digit - b'0').into()),
            Some(_) => Event::String(&self.0.as_bytes()[begin..begin + 1]),
        }
    }
}

/// `words(text, metatable)`: returns the values that the characters describe.
fn words(call: &mut Call<'_>) -> Result<Decoded<Words>, Fault> {
    Ok(Decoded(Words(call.utf8(1)?.to_string(), 0)))
}

/// The functions that tests call.
pub(super) const FUNCTIONS: FunctionTable =
    functions! { swap, is_string, shaped, sum = sum_of, reversed, collect, words };

#[test]
fn a_missing_argument_is_reported_as_no_value() {
    assert_eq!(run("b.new()"), "code:1: bad argument #1 to 'new' (number expected, got no value)");
    assert_eq!(
        run("b.swap(nil, nil, nil) b.is_string()"),
        "code:1: bad argument #1 to 'is_string' (string expected, got no value)"
    );
}

#[test]
fn tables_are_read_and_changed_without_allocation() {
    let code = "local t = setmetatable({ a = 1 }, { __index = error, __newindex = error })
        return show(b.swap(t, 'a', 2)) .. ' ' .. show(b.swap(t, 'b', 2)) .. ' ' .. show(t.a, rawget(t, 'b'))";
    assert_eq!(run(&format!("{SHOW} {code}")), "1 true nil false 2 nil");
    assert_eq!(show("b.swap(1, 2, 3)"), "nil false");
}

#[test]
fn a_standard_file_has_a_descriptor() {
    assert_eq!(show("b.number(io.stdout), b.number(io.stderr)"), "1 2");
    let code = "local f = io.tmpfile() f:close() return show(b.number(f))";
    assert_eq!(run(&format!("{SHOW} {code}")), "-1");
    let others = "b.number(b.new(1)), b.number('x'), b.number(print), b.number(), b.number(setmetatable({}, getmetatable(io.stdout)))";
    assert_eq!(show(others), "nil nil nil nil nil");
    let code = "debug.getregistry()['FILE*'] = nil return show(b.number(io.stdout))";
    assert_eq!(run(&format!("{SHOW} {code}")), "nil");
}

#[test]
fn a_nested_value_becomes_tables() {
    let code = "local list = b.shaped() return show(#list, list[1].name, list[2].a, list[2].b)";
    assert_eq!(run(&format!("{SHOW} {code}")), "2 text 3 2");
}

#[test]
fn tables_are_traversed_to_any_depth() {
    assert_eq!(show("b.sum({ 1, { 2, { [3] = { 4 } }, n = 5 } })"), "22 true");
    assert_eq!(show("b.sum(7)"), "7 true");
    // Nested traversals that end early.
    let code = "local t = {} for i = 1, 50 do t[i] = { { 99, 1, 5 }, 99 } end return show(b.sum(t))";
    assert_eq!(run(&format!("{SHOW} {code}")), "102 true");
    let deep = "local t = {} for _ = 1, 1000 do t = { x = t } end return show(b.sum(t))";
    assert_eq!(run(&format!("{SHOW} {deep}")), "0 true");
    assert_eq!(show("b.reversed({ 'a', 2, {}, 1.5 })"), "Number{}2a");
    assert_eq!(show("#b.collect({ 1, 2, x = 3, y = {} })"), "4");
}

#[test]
fn values_are_built_from_events() {
    let code = "local meta = {}
        local a, one, t, list = b.words('a1{b2c--[[3x-', meta)
        assert(getmetatable(t) == meta and t.b == 2 and t.c == nil)
        assert(list[1][1] == 3 and list[1][2] == 'x' and #list == 1)
        return show(a, one)";
    assert_eq!(run(&format!("{SHOW} {code}")), "a 1");
    assert_eq!(
        show("(function() local t, u, n = b.words('(12)5!34') return t[1], t[2], t == u, n end)()"),
        "3 4 true 5"
    );
    for (text, message) in [
        ("1?", "words: no word"),
        (")", "words: reference to an unknown table"),
        ("[!", "words: a table is filled inside another table"),
        ("{N", "words: a key is NaN"),
        ("[1", "words: an item is missing"),
        ("1p", "internal error: in a decoder"),
    ] {
        let found = run(&format!("return select(2, pcall(b.words, '{text}'))"));
        assert_eq!(found, message);
    }
    let deep = run("return select(2, pcall(b.words, ('['):rep(300)))");
    assert_eq!(deep, "words: nested too deeply");
    let many = run("return select(2, pcall(b.words, ('1'):rep(1100000)))");
    assert_eq!(many, "words: too many values for the stack");
}

/// The debug library can change slots of a C function while the function allocates.
#[test]
fn a_finalizer_that_changes_the_stack_corrupts_no_table() {
    let code = "local seen = 0
        local function again()
            setmetatable({}, { __gc = function()
                seen = seen + 1
                for slot = 3, 12 do pcall(debug.setlocal, 2, slot, seen) end
                if seen < 300 then again() end
            end })
        end
        again()
        collectgarbage 'generational'
        while seen < 300 do pcall(b.words, '(a[b{c(dx)y-e', {}) end
        return 'done'";
    assert_eq!(run(code), "done");
}
