//! Objects, and what they give and keep.

use super::{SHOW, run, show};
use crate::lua::{
    Argument, Call, Fault, Field, Function, FunctionTable, Holder, Kind, Lender, Lent, List, Made, MadeBy, Maker, New,
    NewWith, Next, Noted, Object, Outcome, Part, Pushing, Record, Source, Stored, Value, functions, then,
};
use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

/// Counts how many of it are alive.
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
    const METHODS: FunctionTable = functions! { value, field, lend };
}

const NOTE: Field<Counted> = Field::new(2);

fn value(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(call.object::<Counted>(1)?.1)
}

fn field(call: &mut Call<'_>) -> Result<Argument, Fault> {
    Ok(Argument(call.field(1, NOTE)?))
}

impl Lender for Counted {
    fn lent(&self) -> &[u8] {
        &b"0123456789"[..self.1 as usize]
    }
    fn handed_over(&mut self) {
        self.1 = 0;
    }
}

fn lend(call: &mut Call<'_>) -> Result<Lent<Counted>, Fault> {
    call.object::<Counted>(1)?;
    Ok(Lent::by(1))
}

/// `new(value, note)` → an object with a field.
fn make(call: &mut Call<'_>) -> Result<NewWith<Counted, 1>, Fault> {
    let value = call.integer(1)?;
    Ok(NewWith::new(Counted::new(value), [(NOTE, 2)]))
}

/// `break_at(where)`: panics there.
fn break_in_step(_: &mut Call<'_>) -> Result<(), Fault> {
    panic!("in a step")
}

fn break_in_value(_: &mut Call<'_>) -> Result<(New<Counted>, Argument), Fault> {
    // An index that nobody has.
    Ok((New::of(Counted::new(1)), Argument(-1)))
}

fn break_in_create(call: &mut Call<'_>) -> Result<(), Fault> {
    call.create(Argument(0)).map(drop)
}

fn break_later(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.push(Argument(1))?;
    Ok(Next::call(0, then(|_, _| -> Result<(), Fault> { panic!("in a later step") }), 0))
}

/// Plain data and bytes behind it.
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

impl Source for Text {
    type Object = Head;
    fn size(&self) -> usize {
        self.0.len() + 1
    }
    fn make(&mut self, bytes: &mut [u8]) -> Option<Head> {
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        match &*self.0 {
            "none" => None,
            "panic" => panic!("in a source"),
            _ => Some(Head(7)),
        }
    }
}

/// `made(text, owner)` → an object with the text behind it.
fn made(call: &mut Call<'_>) -> Result<Made<Text, 1>, Fault> {
    let source = Text(call.utf8(1)?.to_string());
    Ok(Made { source, fields: [(OWNER, 2)] })
}

impl Maker for Counted {
    type Made = Head;
    fn size(&self) -> usize {
        self.1 as usize
    }
    fn make(&mut self, bytes: &mut [u8]) -> Option<Head> {
        bytes.fill(b'x');
        self.1 -= 1;
        (self.1 >= 0).then_some(Head(bytes.len() as u32))
    }
}

/// `made_by(counted, owner)` → an object with as many bytes as the other one says.
fn made_by(call: &mut Call<'_>) -> Result<MadeBy<Counted, 1>, Fault> {
    call.any(2)?;
    Ok(MadeBy { maker: 1, fields: [(OWNER, 2)] })
}

/// `stored(object, value)` → the value, which a field of the object has from then on.
fn stored(call: &mut Call<'_>) -> Result<Stored<Argument, Counted>, Fault> {
    call.any(2)?;
    Ok(Stored { value: Argument(2), object: 1, field: NOTE })
}

/// `part(head, from, to)` → those of its bytes; far beyond them when there is no `to`.
fn part(call: &mut Call<'_>) -> Result<Part<Head>, Fault> {
    let (_, tail) = call.tail::<Head>(1)?;
    match call.is_none(3) {
        true => Ok(Part::of(1, &tail[1..], tail)),
        false => {
            let part = &tail[call.integer(2)? as usize..call.integer(3)? as usize];
            Ok(Part::of(1, tail, part))
        }
    }
}

/// `note(object, key, value)` → the value, which the table in the object's field has from then on; or a table itself.
fn note(call: &mut Call<'_>) -> Result<Noted<Argument, Argument>, Fault> {
    let table = match call.kind(1) {
        Kind::Table => Holder::Index(1),
        _ => Holder::field(1, NOTE),
    };
    let (key, value) = (Argument(2), Argument(3));
    Ok(Noted { table, key, value })
}

type Served = (Made<Text, 0>, Record<(Argument, i64)>);

/// `serve(f, metatable)` → what `f` says of an object and a table with it, which are made for it.
fn serve(call: &mut Call<'_>) -> Result<Pushing<Served>, Fault> {
    let first_key = call.create("object")?;
    call.create("number")?;
    let function = call.push(Argument(1))?;
    let source = Text("head".to_string());
    let record = Record { first_key, values: (Argument(function + 1), 42), room: 2, metatable: Some(2) };
    let made = Made { source, fields: [] };
    Ok(Next::call(2, then(served), 5).pushing((made, record)))
}

fn served(call: &mut Call<'_>, outcome: Outcome) -> Result<(i64, Argument), Fault> {
    assert!(outcome.ok && call.count() >= outcome.first);
    Ok((outcome.kept.into(), Argument(outcome.first)))
}

/// `list(n, note)` → a table of n objects, whose field `note` is the note, and `names` another table.
fn list(call: &mut Call<'_>) -> Result<List<New<Counted>>, Fault> {
    let items = (1..=call.integer(1)?).map(|value| New::of(Counted::new(value)));
    let names = Value::List(vec![Value::Name("a"), Value::Integer(2)]);
    Ok(List { items: items.collect(), named: vec![("note", Value::Argument(2)), ("names", names)] })
}

/// `both(one, other)`: exchanges what two objects hold.
fn both(call: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    let (one, other) = call.pair::<Counted, Counted>(1, 2)?;
    std::mem::swap(&mut one.1, &mut other.1);
    Ok((one.1, other.1))
}

/// What tests call.
pub(super) const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"new", Function::new(make)),
    (c"break_in_step", Function::new(break_in_step)),
    (c"break_in_native", Function::native(|_| panic!("in one of the core"))),
    (c"break_in_value", Function::new(break_in_value)),
    (c"break_in_create", Function::new(break_in_create)),
    (c"break_later", Function::new(break_later)),
    (c"made", Function::new(made)),
    (c"made_by", Function::new(made_by)),
    (c"part", Function::new(part)),
    (c"stored", Function::new(stored)),
    (c"note", Function::new(note)),
    (c"serve", Function::new(serve)),
    (c"list", Function::new(list)),
    (c"both", Function::new(both)),
];

#[test]
fn an_object_comes_with_its_fields() {
    assert_eq!(run("return b.new(5, 'note'):field()"), "note");
    assert_eq!(run("return b.new('7'):value()"), "7");
    assert_eq!(run("b.new {}"), "code:1: bad argument #1 to 'new' (number expected, got table)");
    assert_eq!(run("b.new(1).value(b.made('x'))"), "code:1: bad argument #1 to 'value' (counted expected, got head)");
}

#[test]
fn bytes_are_lent_until_lua_has_them() {
    assert_eq!(show("(function(o) return o:lend(), o:value() end)(b.new(3))"), "012 0");
    // A slice out of range, while nothing of Lua's can know of it.
    let broken = run("local o = b.new(11) return select(2, pcall(o.lend, o))");
    assert!(broken.starts_with("internal error: range end index 11"), "{broken}");
}

#[test]
fn an_object_with_bytes_is_made_when_lua_has_room() {
    assert_eq!(show("b.made('text', 'me'):read()"), "7 text|0 me");
    assert_eq!(run("return b.made('none')"), "nil");
    assert_eq!(run("return select(2, pcall(b.made, 'panic'))"), "internal error: in a source");
}

#[test]
fn an_object_makes_others_with_bytes() {
    assert_eq!(show("b.made_by(b.new(3), 'me'):read()"), "3 xxx me");
    assert_eq!(show("b.made_by(b.new(0), 'me')"), "nil");
    assert_eq!(show("b.made_by('none', 'me')"), "nil");
}

#[test]
fn a_value_is_kept_by_a_field_as_well() {
    let code = "local o = b.new(1) return show(b.stored(o, 'x'), o:field(), b.stored(1, 2))";
    assert_eq!(run(&format!("{SHOW} {code}")), "x x 2");
}

#[test]
fn parts_of_an_objects_bytes_become_strings() {
    assert_eq!(show("b.part(b.made('text'), 1, 3)"), "ex");
    assert_eq!(show("b.part(b.made('text'), 2, 2)"), "");
    assert_eq!(show("b.part(b.made('text'))"), "nil");
}

#[test]
fn values_are_noted_in_tables_and_in_those_of_a_field() {
    let code = "local o, t = b.new(1), {}
        return show(b.note(o, 'a', 1), b.note(o, 'b', 2), o:field().a, o:field().b, b.note(t, 1, 'x'), t[1])";
    assert_eq!(run(&format!("{SHOW} {code}")), "1 2 1 2 x x");
    assert!(run("b.note(b.new(1), nil, 1)").ends_with("index is nil"));
    assert_eq!(run("b.note('none', 1, 1)"), "code:1: bad argument #1 to 'note' (userdata expected, got string)");
}

#[test]
fn a_call_gets_values_that_take_memory() {
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
                b.serve(function() return 1 end) b.made('inner', {}):read() b.new(2, {}):lend()
                if seen < 200 then again() end
            end })
        end
        warn '@on'
        again()
        collectgarbage 'generational'
        local sum = 0
        while seen < 200 do
            sum = sum + b.serve(function(head) return (head:read()) end)
            b.new(3, 'note'):lend()
        end
        return sum % 5";
    assert_eq!(run(code), "0");
}

#[test]
fn a_panic_is_an_error_wherever_it_happens() {
    for (call, text) in [
        ("b.break_in_step()", "code:1: internal error: in a step"),
        ("b.break_in_native()", "code:1: internal error: in one of the core"),
        ("b.break_in_value()", "code:1: internal error: no index: -1"),
        ("b.break_in_create()", "internal error: no index: 0"),
        ("b.break_later(function() return 1, 2 end)", "code:1: internal error: in a later step"),
    ] {
        let code = format!(
            "for _ = 1, 300 do pcall(function() {call} end) end return select(2, pcall(function() {call} end))"
        );
        assert_eq!(run(&code), text, "{call}");
    }
}

#[test]
fn two_objects_are_changed_at_once_unless_they_are_one() {
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
