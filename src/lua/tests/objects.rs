//! Objects, the values that they return, and the values that they keep.

use super::{SHOW, run, show};
use crate::lua::{
    Argument, ByteSource, BytesOf, Call, Fault, Field, Function, FunctionTable, Kind, List, New, NewFromFactory,
    NewTailed, NewWith, Next, Object, Outcome, Pushing, Record, StoredInField, StoredInTable, TableAt, TailSlice,
    TailedFactory, TailedSource, Value, functions, then,
};
use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

/// An object whose instances are counted.
struct Counted(Rc<Cell<i32>>, i64);

thread_local!(pub(super) static ALIVE: Rc<Cell<i32>> = Rc::default());

impl Counted {
    fn new(value: i64) -> Self {
        let count = ALIVE.with(Rc::clone);
        count.set(count.get() + 1);
        Counted(count, value)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Object for Counted {
    const NAME: &'static str = "counted";
    const USER_VALUES: i32 = 2;
    const METHODS: FunctionTable = functions! { value, field, take_bytes };
}

const NOTE: Field<Counted> = Field::new(2);

fn value(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(call.object::<Counted>(1)?.1)
}

fn field(call: &mut Call<'_>) -> Result<Argument, Fault> {
    Ok(Argument(call.field(1, NOTE)?))
}

impl ByteSource for Counted {
    fn bytes_to_push(&self) -> &[u8] {
        &b"0123456789"[..self.1 as usize]
    }
    fn bytes_pushed(&mut self) {
        self.1 = 0;
    }
}

fn take_bytes(call: &mut Call<'_>) -> Result<BytesOf<Counted>, Fault> {
    call.object::<Counted>(1)?;
    Ok(BytesOf::at(1))
}

/// `new(value, note)`: returns an object with a field.
fn make(call: &mut Call<'_>) -> Result<NewWith<Counted, 1>, Fault> {
    let value = call.integer(1)?;
    Ok(NewWith::new(Counted::new(value), [(NOTE, 2)]))
}

/// The functions `break_…` panic at different points.
fn break_in_step(_: &mut Call<'_>) -> Result<(), Fault> {
    panic!("in a step")
}

fn break_in_value(_: &mut Call<'_>) -> Result<(New<Counted>, Argument), Fault> {
    // The index is invalid, so pushing the value panics.
    Ok((New::of(Counted::new(1)), Argument(-1)))
}

fn break_in_create(call: &mut Call<'_>) -> Result<(), Fault> {
    call.create(Argument(0)).map(drop)
}

fn break_later(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.push(Argument(1))?;
    Ok(Next::call(0, then(|_, _| -> Result<(), Fault> { panic!("in a later step") }), 0))
}

/// Plain data with bytes after it.
#[derive(Clone, Copy)]
struct Head(u32);

impl Object for Head {
    const NAME: &'static str = "head";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! { read = read_head };
}

const OWNER: Field<Head> = Field::new(1);

fn read_head(call: &mut Call<'_>) -> Result<(i64, Vec<u8>, Argument), Fault> {
    let (head, bytes) = call.tail::<Head>(1)?;
    let (number, bytes) = (i64::from(head.0), bytes.to_vec());
    Ok((number, bytes, Argument(call.field(1, OWNER)?)))
}

struct Text(String);

impl TailedSource for Text {
    type Object = Head;
    fn size(&self) -> usize {
        self.0.len() + 1
    }
    fn create(&mut self, bytes: &mut [u8]) -> Option<Head> {
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        match &*self.0 {
            "none" => None,
            "panic" => panic!("in a source"),
            _ => Some(Head(7)),
        }
    }
}

/// `tailed(text, owner)`: returns an object whose tail is the text and a NUL; nil for the text `none`.
fn tailed(call: &mut Call<'_>) -> Result<NewTailed<Text, 1>, Fault> {
    let source = Text(call.utf8(1)?.to_string());
    Ok(NewTailed { source, fields: [(OWNER, 2)] })
}

impl TailedFactory for Counted {
    type Product = Head;
    fn size(&self) -> usize {
        self.1 as usize
    }
    fn create(&mut self, bytes: &mut [u8]) -> Option<Head> {
        bytes.fill(b'x');
        self.1 -= 1;
        (self.1 >= 0).then_some(Head(bytes.len() as u32))
    }
}

/// `created_by(counted, owner)`: returns an object whose tail has as many bytes as the value of `counted`; nil if there
/// are none.
fn created_by(call: &mut Call<'_>) -> Result<NewFromFactory<Counted, 1>, Fault> {
    call.any(2)?;
    Ok(NewFromFactory { factory: 1, fields: [(OWNER, 2)] })
}

/// `stored(object, value)`: stores the value in a field of the object, and returns the value.
fn stored(call: &mut Call<'_>) -> Result<StoredInField<Argument, Counted>, Fault> {
    call.any(2)?;
    Ok(StoredInField { value: Argument(2), object: 1, field: NOTE })
}

/// `part(head, from, to)`: returns some of the object's bytes; without `to`, requests a range far outside of them.
fn part(call: &mut Call<'_>) -> Result<TailSlice<Head>, Fault> {
    let (_, tail) = call.tail::<Head>(1)?;
    match call.is_none(3) {
        true => Ok(TailSlice::of(1, &tail[1..], tail)),
        false => {
            let part = &tail[call.integer(2)? as usize..call.integer(3)? as usize];
            Ok(TailSlice::of(1, tail, part))
        }
    }
}

/// `note(object, key, value)`: stores the value in the table in the object's field, or in `object` itself if it is a
/// table. Returns the value.
fn note(call: &mut Call<'_>) -> Result<StoredInTable<Argument, Argument>, Fault> {
    let table = match call.kind(1) {
        Kind::Table => TableAt::Index(1),
        _ => TableAt::field(1, NOTE),
    };
    let (key, value) = (Argument(2), Argument(3));
    Ok(StoredInTable { table, key, value })
}

type Served = (NewTailed<Text, 0>, Record<(Argument, i64)>);

/// `serve(f, metatable)`: calls `f` with a new object and a new table. Returns the kept number and the first result of
/// `f`.
fn serve(call: &mut Call<'_>) -> Result<Pushing<Served>, Fault> {
    let first_key = call.create("object")?;
    call.create("number")?;
    let function = call.push(Argument(1))?;
    let source = Text("head".to_string());
    let record = Record { first_key, values: (Argument(function + 1), 42), room: 2, metatable: Some(2) };
    let tailed = NewTailed { source, fields: [] };
    Ok(Next::call(2, then(served), 5).pushing((tailed, record)))
}

fn served(call: &mut Call<'_>, outcome: Outcome) -> Result<(i64, Argument), Fault> {
    assert!(outcome.ok && call.count() >= outcome.first);
    Ok((outcome.kept.into(), Argument(outcome.first)))
}

/// `list(n, note)`: returns a table that contains `n` objects and the fields `note` and `names`. `names` is a table.
fn list(call: &mut Call<'_>) -> Result<List<New<Counted>>, Fault> {
    let items = (1..=call.integer(1)?).map(|value| New::of(Counted::new(value)));
    let names = Value::List(vec![Value::Name("a"), Value::Integer(2)]);
    Ok(List { items: items.collect(), named: vec![("note", Value::Argument(2)), ("names", names)] })
}

/// `both(one, other)`: exchanges the contents of two objects.
fn both(call: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    let (one, other) = call.object_pair::<Counted, Counted>(1, 2)?;
    std::mem::swap(&mut one.1, &mut other.1);
    Ok((one.1, other.1))
}

/// The functions that tests call.
pub(super) const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"new", Function::new(make)),
    (c"break_in_step", Function::new(break_in_step)),
    (c"break_in_native", Function::native(|_| panic!("in a function of the core"))),
    (c"break_in_value", Function::new(break_in_value)),
    (c"break_in_create", Function::new(break_in_create)),
    (c"break_later", Function::new(break_later)),
    (c"tailed", Function::new(tailed)),
    (c"created_by", Function::new(created_by)),
    (c"part", Function::new(part)),
    (c"stored", Function::new(stored)),
    (c"note", Function::new(note)),
    (c"serve", Function::new(serve)),
    (c"list", Function::new(list)),
    (c"both", Function::new(both)),
];

#[test]
fn a_new_object_has_its_fields() {
    assert_eq!(run("return b.new(5, 'note'):field()"), "note");
    assert_eq!(run("return b.new('7'):value()"), "7");
    assert_eq!(run("b.new {}"), "code:1: bad argument #1 to 'new' (number expected, got table)");
    assert_eq!(run("b.new(1).value(b.tailed('x'))"), "code:1: bad argument #1 to 'value' (counted expected, got head)");
}

#[test]
fn bytes_of_an_object_become_a_string_once() {
    assert_eq!(show("(function(o) return o:take_bytes(), o:value() end)(b.new(3))"), "012 0");
    // The slice is out of range, in code that runs after the step.
    let broken = run("local o = b.new(11) return select(2, pcall(o.take_bytes, o))");
    assert!(broken.starts_with("internal error: range end index 11"), "{broken}");
}

#[test]
fn an_object_with_bytes_is_created_after_lua_has_allocated() {
    assert_eq!(show("b.tailed('text', 'me'):read()"), "7 text|0 me");
    assert_eq!(run("return b.tailed('none')"), "nil");
    assert_eq!(run("return select(2, pcall(b.tailed, 'panic'))"), "internal error: in a source");
}

#[test]
fn an_object_creates_others_with_bytes() {
    assert_eq!(show("b.created_by(b.new(3), 'me'):read()"), "3 xxx me");
    assert_eq!(show("b.created_by(b.new(0), 'me')"), "nil");
    assert_eq!(show("b.created_by('none', 'me')"), "nil");
}

#[test]
fn a_returned_value_is_also_stored_in_a_field() {
    let code = "local o = b.new(1) return show(b.stored(o, 'x'), o:field(), b.stored(1, 2))";
    assert_eq!(run(&format!("{SHOW} {code}")), "x x 2");
}

#[test]
fn parts_of_an_objects_bytes_become_strings() {
    assert_eq!(show("b.part(b.tailed('text'), 1, 3)"), "ex");
    assert_eq!(show("b.part(b.tailed('text'), 2, 2)"), "");
    assert_eq!(show("b.part(b.tailed('text'))"), "nil");
}

#[test]
fn values_are_stored_in_tables_and_in_tables_of_a_field() {
    let code = "local o, t = b.new(1), {}
        return show(b.note(o, 'a', 1), b.note(o, 'b', 2), o:field().a, o:field().b, b.note(t, 1, 'x'), t[1])";
    assert_eq!(run(&format!("{SHOW} {code}")), "1 2 1 2 x x");
    assert!(run("b.note(b.new(1), nil, 1)").ends_with("index is nil"));
    assert_eq!(run("b.note('none', 1, 1)"), "code:1: bad argument #1 to 'note' (userdata expected, got string)");
}

#[test]
fn a_called_function_gets_values_that_allocate() {
    let code = "local meta = { name = 'meta' }
        local kept, text = b.serve(function(head, record)
            return show(record.object == head, record.number, getmetatable(record).name, (head:read()))
        end, meta)
        return show(kept, text)";
    assert_eq!(run(&format!("{SHOW} {code}")), "5 true 42 meta 7");
    assert_eq!(run("b.serve(function() error('mine', 0) end)"), "mine");
}

#[test]
fn a_finalizer_may_do_anything_while_values_are_pushed() {
    let code = "local seen = 0
        local function again()
            setmetatable({}, { __gc = function()
                seen = seen + 1
                b.serve(function() return 1 end) b.tailed('inner', {}):read() b.new(2, {}):take_bytes()
                if seen < 200 then again() end
            end })
        end
        warn '@on'
        again()
        collectgarbage 'generational'
        local sum = 0
        while seen < 200 do
            sum = sum + b.serve(function(head) return (head:read()) end)
            b.new(3, 'note'):take_bytes()
        end
        return sum % 5";
    assert_eq!(run(code), "0");
}

#[test]
fn a_panic_is_an_error_wherever_it_happens() {
    for (call, text) in [
        ("b.break_in_step()", "code:1: internal error: in a step"),
        ("b.break_in_native()", "code:1: internal error: in a function of the core"),
        ("b.break_in_value()", "code:1: internal error: not a valid index: -1"),
        ("b.break_in_create()", "internal error: not a valid index: 0"),
        ("b.break_later(function() return 1, 2 end)", "code:1: internal error: in a later step"),
    ] {
        let code = format!(
            "for _ = 1, 300 do pcall(function() {call} end) end return select(2, pcall(function() {call} end))"
        );
        assert_eq!(run(&code), text, "{call}");
    }
}

#[test]
fn two_different_objects_can_be_borrowed_at_once() {
    assert_eq!(show("b.both(b.new(1), b.new(2))"), "2 1");
    assert_eq!(run("local o = b.new(1) b.both(o, o)"), "code:1: bad argument #2 to 'both' (the same object twice)");
    assert_eq!(run("b.both(b.new(1), 2)"), "code:1: bad argument #2 to 'both' (counted expected, got number)");
}

#[test]
fn a_list_of_objects_has_named_values_too() {
    let code = "local list = b.list(3, 'note')
        return show(#list, list[1]:value(), list[3]:value(), list.note, list.names[1], list.names[2])";
    assert_eq!(run(&format!("{SHOW} {code}")), "3 1 3 note a 2");
}
