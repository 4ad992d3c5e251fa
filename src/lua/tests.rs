//! The core as its users see it: steps of every shape, driven by Lua code.

use super::{
    Argument, Call, Code, Decoded, Event, Events, Failure, Fault, Field, Function, Holder, INDEX,
    Keep, Kept, Kind, Lender, Lent, List, Made, MadeBy, Maker, Many, Module, New, NewWith, Next,
    Nil, Noted, Object, Outcome, Part, Pushing, Read, Row, Running, Scratched, Source, Stored,
    Table, Value, Walk, failed, registry, results, scratch, then,
};
use mlua::ffi;
use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// Counts how many of it are alive.
struct Counted(Rc<Cell<i32>>, i64);

thread_local!(static ALIVE: Rc<Cell<i32>> = Rc::default());

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
    const NAME: &'static CStr = c"counted";
    const USER_VALUES: i32 = 2;
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"value", Function::new(value)),
        (c"field", Function::new(field)),
        (c"lend", Function::new(lend)),
    ];
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
    Ok(Next::call(
        0,
        then(|_, _| -> Result<(), Fault> { panic!("in a later step") }),
        0,
    ))
}

/// Plain data and bytes behind it.
#[derive(Clone, Copy)]
struct Head(u32);

impl Object for Head {
    const NAME: &'static CStr = c"head";
    const USER_VALUES: i32 = 1;
    const METHODS: &'static [(&'static CStr, Function)] = &[(c"read", Function::new(read_head))];
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
    Ok(Made {
        source,
        fields: [(OWNER, 2)],
    })
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
    Ok(MadeBy {
        maker: 1,
        fields: [(OWNER, 2)],
    })
}

/// `stored(object, value)` → the value, which a field of the object has from then on.
fn stored(call: &mut Call<'_>) -> Result<Stored<Argument, Counted>, Fault> {
    call.any(2)?;
    Ok(Stored {
        value: Argument(2),
        object: 1,
        field: NOTE,
    })
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

type Served = (Made<Text, 0>, Row<(Argument, i64)>);

/// `serve(f, metatable)` → what `f` says of an object and a table with it, which are made for it.
fn serve(call: &mut Call<'_>) -> Result<Pushing<Served>, Fault> {
    let function = call.push(Argument(1))?;
    let source = Text("head".to_string());
    let row = Row {
        items: (Argument(function + 1), 42),
        named: 2,
        metatable: Some(2),
    };
    let made = Made { source, fields: [] };
    Ok(Next::call(2, then(served), 5).pushing((made, row)))
}

fn served(call: &mut Call<'_>, outcome: Outcome) -> Result<(i64, Argument), Fault> {
    assert!(outcome.ok && call.count() >= outcome.first);
    Ok((outcome.kept.into(), Argument(outcome.first)))
}

/// `swap(table, key, value)` → what was there, whether it was replaced.
fn swap(call: &mut Call<'_>) -> Result<(Argument, bool), Fault> {
    let was = call.get(1, 2)?;
    let done = call.replace(1, 2, 3)?;
    Ok((Argument(was), done))
}

/// `many(n)` → the numbers from 1 to n.
fn many(call: &mut Call<'_>) -> Result<Many<i64>, Fault> {
    Ok(Many((1..=call.integer(1)?).collect()))
}

results! {
    enum Odd {
        Nothing(()),
        Word(&'static str),
        Failed(Failure),
    }
}

/// `odd(n)`: results of three kinds.
fn odd(call: &mut Call<'_>) -> Result<Odd, Fault> {
    Ok(match call.integer_in(1, 1..=3, "the number")? {
        1 => Odd::Nothing(()),
        2 => Odd::Word("two"),
        _ => Odd::Failed(Failure::word("odd", "what was wrong", "wrong")),
    })
}

/// `refused(n)`: fails in its first step for 1, in its second for 2, after a wait for 3, with values pushed meanwhile.
fn refused(call: &mut Call<'_>) -> Result<Next<i64>, Fault> {
    let number = call.integer(1)?;
    for value in 0..100i64 {
        call.push(value)?;
    }
    let last = then(|call: &mut Call<'_>, _| {
        call.push(0i64)?;
        Err::<i64, _>(failed("later")(std::io::ErrorKind::NotFound.into()))
    });
    match number {
        2 => {
            call.push(Function::new(|_: &mut Call<'_>| Ok(())))?;
            Ok(Next::call(0, last, 0))
        }
        3 => Ok(Next::yields(0, last, 0)),
        _ => Err(failed("refused")(std::io::Error::from_raw_os_error(
            libc::ENOENT,
        ))),
    }
}

/// `turns(n)`: yields its number of the turn until `n`, and keeps one value more each time.
fn turns(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.integer(1)?;
    call.push(0i64)?;
    Ok(Next::yields(1, then(turn), 1))
}

fn turn(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    if i64::from(outcome.kept) == call.integer(1)? {
        return Ok(Next::pushed(call.count() + 1 - outcome.first));
    }
    call.push(i64::from(outcome.kept))?;
    call.push(i64::from(outcome.kept))?;
    Ok(Next::yields(1, then(turn), outcome.kept + 1))
}

/// `wild(n)`: asks for what a step did not push.
fn wild(call: &mut Call<'_>) -> Result<Next, Fault> {
    let nothing = then(|_, _| Ok(()));
    Ok(match call.integer(1)? {
        1 => Next::pushed(1000),
        2 => Next::call(1000, nothing, 0),
        3 => Next::protected(-5, 0, 0, nothing, 0),
        _ => Next::yields(1000, nothing, 0),
    })
}

/// `guarded(f, handler)` → whether it went well, and its first result or error.
fn guarded(call: &mut Call<'_>) -> Result<Next<(bool, Argument)>, Fault> {
    call.push(Argument(1))?;
    let after = |_: &mut Call<'_>, outcome: Outcome| Ok((outcome.ok, Argument(outcome.first)));
    Ok(Next::protected(0, 1, 2, then(after), 0))
}

/// `number(file)` → the descriptor of a standard file, -1 when it is closed, nil for anything else.
fn number(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let found = call.standard_file(1);
    Ok(found.map(|file| file.map_or(-1, |file| file.as_raw_fd().into())))
}

/// `both(one, other)`: exchanges what two objects hold.
fn both(call: &mut Call<'_>) -> Result<(i64, i64), Fault> {
    let (one, other) = call.pair::<Counted, Counted>(1, 2)?;
    std::mem::swap(&mut one.1, &mut other.1);
    Ok((one.1, other.1))
}

/// `first(text, size)` → so many bytes of the text, by way of the thread's, and the text.
fn first(call: &mut Call<'_>) -> Result<(Scratched, Argument), Fault> {
    let (text, size) = (call.bytes(1)?, call.integer(2)? as usize);
    let count = scratch(size, |room| {
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text[..count]);
        count
    });
    Ok((Scratched(count), Argument(1)))
}

/// `list(n, note)` → a table of n objects, whose field `note` is the note, and `names` another table.
fn list(call: &mut Call<'_>) -> Result<List<New<Counted>>, Fault> {
    let items = (1..=call.integer(1)?).map(|value| New::of(Counted::new(value)));
    let names = Value::List(vec![Value::Name("a"), Value::Integer(2)]);
    Ok(List {
        items: items.collect(),
        named: vec![("note", Value::Argument(2)), ("names", names)],
    })
}

/// `shaped()` → a list of a record and a map.
fn shaped(_: &mut Call<'_>) -> Result<Value, Fault> {
    let map = ["a", "b", "a"].into_iter().zip(1..);
    let map = map.map(|(name, number)| (name.into(), Value::Integer(number)));
    let record = vec![("name", Value::String(b"text".to_vec()))];
    Ok(Value::List(vec![
        Value::Record(record),
        Value::Map(map.collect()),
    ]))
}

fn is_string(call: &mut Call<'_>) -> Result<(bool, Vec<u8>), Fault> {
    let text = call.bytes(1)?.to_vec();
    Ok((call.kind(1) == Kind::String, text))
}

/// Adds the integers in a value, and leaves tables as soon as they have given 100.
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

/// `sum(value)` → the integers in it, and the height of the stack before and after.
fn sum_of(call: &mut Call<'_>) -> Result<(i64, bool), Fault> {
    let before = call.count();
    let total = call.walk(|values| sum(values, 1));
    Ok((total, call.count() == before))
}

/// `reversed(t)` → the elements of a list from the last to the first, as a text.
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

/// `collect(t)` → a new table with the values of another, which is walked meanwhile.
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

/// Values from words: `{` and `[` begin tables, `(` one with a name, `)` asks for it, `;` ends pairs.
struct Words(String, usize);

impl Events for Words {
    const CALL: &'static str = "words";
    fn next(&mut self, _: u32) -> Event<'_> {
        let begin = self.1;
        self.1 += 1;
        let items = Table {
            items: 2,
            ..Table::default()
        };
        match self.0.as_bytes().get(begin) {
            None => Event::End,
            Some(b'-') => Event::Nil,
            Some(b'[') => Event::Table(items),
            Some(b'{') => Event::Table(Table {
                pairs: true,
                metatable: 2,
                ..Table::default()
            }),
            Some(b'(') => Event::Table(Table {
                names: [7, -1],
                ..items
            }),
            Some(b')') => Event::Named(-1),
            Some(b'!') => Event::Content(7, items),
            Some(b'?') => Event::Wrong("no word"),
            Some(b'N') => Event::Number(f64::NAN),
            Some(b'p') => panic!("in a decoder"),
            Some(digit @ b'0'..=b'9') => Event::Integer((digit - b'0').into()),
            Some(_) => Event::String(&self.0.as_bytes()[begin..begin + 1]),
        }
    }
}

/// `words(text, metatable)` → what they mean.
fn words(call: &mut Call<'_>) -> Result<Decoded<Words>, Fault> {
    Ok(Decoded(Words(call.utf8(1)?.to_string(), 0)))
}

static NAME: Kept = Kept::new();

/// `named(value)` → what its metatable has as `name`, which the VM learns first.
fn named(call: &mut Call<'_>) -> Result<(Argument, bool, bool), Fault> {
    let before = call.walk(|values| values.has_metafield(1, &NAME));
    call.create(Keep(&NAME, "name"))?;
    let after = call.walk(|values| values.has_metafield(1, &NAME));
    let value = Argument(call.metafield(1, &NAME)?);
    Ok((value, before.is_some(), after == Some(true)))
}

/// `litter()` makes three strings of 100 bytes that nobody needs. → whether the collector counts as resting then
fn litter(call: &mut Call<'_>) -> Result<bool, Fault> {
    for _ in 0..3 {
        let index = call.create(&[0; 100][..])?;
        call.drop_to(index - 1);
    }
    Ok(call.may_be_finalizer())
}

/// `code(...)` → what code in Lua makes of the values; it cannot yield.
fn code(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    call.create(Code {
        name: c"=inner",
        text: "local first, second = ... return first(second)",
    })?;
    for index in 1..=count {
        call.push(Argument(index))?;
    }
    let all = then(|call, outcome| Ok(Next::<()>::pushed(call.count() + 1 - outcome.first)));
    Ok(Next::call_whole(count, all, 0))
}

/// `coroutines(thread, iterator)` → whether the coroutine is active, whether it iterates, and whether it is the running one.
fn coroutines(call: &mut Call<'_>) -> Result<(bool, bool, bool), Fault> {
    let running = call.push(Running)?;
    Ok((
        call.is_active(1),
        call.is_iterating(1, 2),
        call.is_same(1, running),
    ))
}

/// `emptied(function)` → the function, whose first upvalue is nil from now on.
fn emptied(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let nil = call.push(Nil)?;
    call.set_upvalue(1, 1, nil)?;
    call.set_upvalue(1, 200, nil)?;
    Ok(Argument(1))
}

/// `passed_on(one, two, …)`: a step that goes on at once with values that take memory.
fn passed_on(call: &mut Call<'_>) -> Result<Pushing<(&'static str, Argument)>, Fault> {
    call.copy(2, 1);
    let next = Next::goes_on(call.count(), then(passed), call.is_yieldable().into());
    Ok(next.pushing(("new", Argument(1))))
}

fn passed(_: &mut Call<'_>, outcome: Outcome) -> Result<(i64, i64, Argument, Argument), Fault> {
    let (first, kept) = (outcome.first.into(), outcome.kept.into());
    Ok((
        first,
        kept,
        Argument(outcome.first),
        Argument(outcome.first + 1),
    ))
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"passed_on", Function::new(passed_on)),
    (c"index", INDEX),
    (c"coroutines", Function::new(coroutines)),
    (c"emptied", Function::new(emptied)),
    (c"new", Function::new(make)),
    (c"break_in_step", Function::new(break_in_step)),
    (c"break_in_value", Function::new(break_in_value)),
    (c"break_in_create", Function::new(break_in_create)),
    (c"break_later", Function::new(break_later)),
    (c"made", Function::new(made)),
    (c"made_by", Function::new(made_by)),
    (c"part", Function::new(part)),
    (c"stored", Function::new(stored)),
    (c"note", Function::new(note)),
    (c"serve", Function::new(serve)),
    (c"swap", Function::new(swap)),
    (c"many", Function::new(many)),
    (c"odd", Function::new(odd)),
    (c"refused", Function::new(refused)),
    (c"turns", Function::new(turns)),
    (c"wild", Function::new(wild)),
    (c"guarded", Function::new(guarded)),
    (c"first", Function::new(first)),
    (c"list", Function::new(list)),
    (c"is_string", Function::new(is_string)),
    (c"shaped", Function::new(shaped)),
    (c"sum", Function::new(sum_of)),
    (c"reversed", Function::new(reversed)),
    (c"collect", Function::new(collect)),
    (c"words", Function::new(words)),
    (c"litter", Function::new(litter)),
    (c"named", Function::new(named)),
    (c"code", Function::new(code)),
    (c"number", Function::new(number)),
    (c"both", Function::new(both)),
];

const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));

/// What a chunk returns or raises, as text; it has the functions above in the table `b`. No object outlives it.
fn run(code: &str) -> String {
    let code = format!("local b = ... {code}");
    // SAFETY: a state of its own; what may raise is called protected.
    let text = unsafe {
        let state = ffi::luaL_newstate();
        ffi::luaL_openlibs(state);
        registry::ensure(state);
        let (data, name) = (code.as_ptr().cast(), c"=code".as_ptr());
        let loaded = ffi::luaL_loadbufferx(state, data, code.len(), name, c"t".as_ptr());
        if loaded == ffi::LUA_OK {
            OPEN.push(state, 0);
            ffi::lua_call(state, 0, 1);
            ffi::lua_pcall(state, 1, 1, 0);
        }
        let mut length = 0;
        let text = ffi::luaL_tolstring(state, -1, &mut length);
        let text = std::slice::from_raw_parts(text.cast(), length);
        let text = String::from_utf8_lossy(text).replace('\0', "|0");
        ffi::lua_close(state);
        text
    };
    assert_eq!(ALIVE.with(|alive| alive.get()), 0, "objects that are left");
    text
}

/// What a list of values looks like, as text.
const SHOW: &str = "local function show(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    return table.concat(list, ' ', 1, list.n)
end ";

fn show(code: &str) -> String {
    run(&format!("{SHOW} return show({code})"))
}

#[test]
fn an_object_comes_with_its_fields() {
    assert_eq!(run("return b.new(5, 'note'):field()"), "note");
    assert_eq!(run("return b.new('7'):value()"), "7");
    assert_eq!(
        run("b.new {}"),
        "code:1: bad argument #1 to 'new' (number expected, got table)"
    );
    assert_eq!(
        run("b.new(1).value(b.made('x'))"),
        "code:1: bad argument #1 to 'value' (counted expected, got head)"
    );
}

#[test]
fn a_step_goes_on_with_values_that_take_memory() {
    assert_eq!(show("b.passed_on(1, 'two', 3)"), "4 0 new two");
    let inside = "coroutine.wrap(function() return b.passed_on(1, 2) end)()";
    assert_eq!(show(inside), "3 1 new 2");
    let nowhere = show("pcall(b.passed_on, 1)");
    assert!(nowhere.starts_with("false internal error"), "{nowhere}");
}

#[test]
fn an_argument_that_is_missing_has_no_value() {
    assert_eq!(
        run("b.new()"),
        "code:1: bad argument #1 to 'new' (number expected, got no value)"
    );
    assert_eq!(
        run("b.swap(nil, nil, nil) b.is_string()"),
        "code:1: bad argument #1 to 'is_string' (string expected, got no value)"
    );
}

#[test]
fn bytes_are_lent_until_lua_has_them() {
    assert_eq!(
        show("(function(o) return o:lend(), o:value() end)(b.new(3))"),
        "012 0"
    );
    // A slice out of range, while nothing of Lua's can know of it.
    let broken = run("local o = b.new(11) return select(2, pcall(o.lend, o))");
    assert!(
        broken.starts_with("internal error: range end index 11"),
        "{broken}"
    );
}

#[test]
fn an_object_with_bytes_is_made_when_lua_has_room() {
    assert_eq!(show("b.made('text', 'me'):read()"), "7 text|0 me");
    assert_eq!(run("return b.made('none')"), "nil");
    assert_eq!(
        run("return select(2, pcall(b.made, 'panic'))"),
        "internal error: in a source"
    );
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
    assert_eq!(
        run("b.note('none', 1, 1)"),
        "code:1: bad argument #1 to 'note' (userdata expected, got string)"
    );
}

#[test]
fn a_call_gets_values_that_take_memory() {
    let code = "local meta = { name = 'meta' }
        local kept, text = b.serve(function(head, row)
            return show(row[1] == head, row[2], getmetatable(row).name, (head:read()))
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
fn tables_are_read_and_changed_where_it_takes_no_memory() {
    let code = "local t = setmetatable({ a = 1 }, { __index = error, __newindex = error })
        return show(b.swap(t, 'a', 2)) .. ' ' .. show(b.swap(t, 'b', 2)) .. ' ' .. show(t.a, rawget(t, 'b'))";
    assert_eq!(run(&format!("{SHOW} {code}")), "1 true nil false 2 nil");
    assert_eq!(show("b.swap(1, 2, 3)"), "nil false");
}

#[test]
fn results_are_of_any_number() {
    assert_eq!(
        show("select('#', b.many(10000)), (select(10000, b.many(10000)))"),
        "10000 10000"
    );
    assert_eq!(
        run("return select(2, pcall(b.many, 2000000))"),
        "stack overflow (too many values)"
    );
    assert_eq!(show("b.odd(1)"), "");
    assert_eq!(show("b.odd(2)"), "two");
    assert_eq!(show("b.odd(3)"), "nil odd: what was wrong wrong");
    let missing = "nil refused: No such file or directory (os error 2) not found";
    assert_eq!(show("b.refused(1)"), missing);
    assert_eq!(show("b.refused '1'"), missing);
    let later = "nil later: unexpected failure failed";
    assert_eq!(show("b.refused(2)"), later);
    assert_eq!(
        show("coroutine.wrap(function() return b.refused(2) end)()"),
        later
    );
    let waited = "(function(co) co() return co() end)(coroutine.wrap(b.refused))";
    assert_eq!(show(&waited.replace("co() return", "co(3) return")), later);
    assert_eq!(
        run("b.odd(4)"),
        "code:1: bad argument #1 to 'odd' (the number must be 1 to 3, not 4)"
    );
}

#[test]
fn steps_may_keep_values_through_thousands_of_waits() {
    let code = "local sum, turn = 0, coroutine.wrap(b.turns)
        turn(5000)
        for i = 1, 4999 do sum = sum + turn() end
        return show(sum, turn('last', nil, 3))";
    assert_eq!(run(&format!("{SHOW} {code}")), "12497500 last nil 3");
}

#[test]
fn what_a_step_did_not_push_is_not_touched() {
    assert_eq!(show("b.wild(1)"), "1");
    for number in [2, 3] {
        assert_eq!(
            run(&format!("b.wild({number})")),
            "code:1: internal error: no function was pushed"
        );
    }
    assert_eq!(show("coroutine.wrap(b.wild)(4)"), "4");
}

#[test]
fn a_protected_call_tells_what_came_of_it() {
    assert_eq!(show("b.guarded(function() return 1, 2 end)"), "true 1");
    assert_eq!(show("b.guarded(function() end)"), "true nil");
    assert_eq!(
        show("b.guarded(function() error('x', 0) end, function(e) return e .. e end)"),
        "false xx"
    );
    let code = "coroutine.wrap(function() return b.guarded(function() return coroutine.yield(1) end) end)()";
    assert_eq!(show(code), "1");
}

#[test]
fn a_panic_is_an_error_wherever_it_happens() {
    for (call, text) in [
        ("b.break_in_step()", "code:1: internal error: in a step"),
        ("b.break_in_value()", "code:1: internal error: no index: -1"),
        ("b.break_in_create()", "internal error: no index: 0"),
        (
            "b.break_later(function() return 1, 2 end)",
            "code:1: internal error: in a later step",
        ),
    ] {
        let code = format!(
            "for _ = 1, 300 do pcall(function() {call} end) end return select(2, pcall(function() {call} end))"
        );
        assert_eq!(run(&code), text, "{call}");
    }
}

#[test]
fn a_number_becomes_a_string_where_one_is_asked_for() {
    assert_eq!(show("b.is_string(12)"), "true 12");
    assert_eq!(
        run("b.is_string({})"),
        "code:1: bad argument #1 to 'is_string' (string expected, got table)"
    );
}

#[test]
fn a_standard_file_is_known_by_its_descriptor() {
    assert_eq!(show("b.number(io.stdout), b.number(io.stderr)"), "1 2");
    let code = "local f = io.tmpfile() f:close() return show(b.number(f))";
    assert_eq!(run(&format!("{SHOW} {code}")), "-1");
    let others = "b.number(b.new(1)), b.number('x'), b.number(print), b.number(), b.number(setmetatable({}, getmetatable(io.stdout)))";
    assert_eq!(show(others), "nil nil nil nil nil");
    let code = "debug.getregistry()['FILE*'] = nil return show(b.number(io.stdout))";
    assert_eq!(run(&format!("{SHOW} {code}")), "nil");
}

#[test]
fn two_objects_are_changed_at_once_unless_they_are_one() {
    assert_eq!(show("b.both(b.new(1), b.new(2))"), "2 1");
    assert_eq!(
        run("local o = b.new(1) b.both(o, o)"),
        "code:1: bad argument #2 to 'both' (the same object twice)"
    );
    assert_eq!(
        run("b.both(b.new(1), 2)"),
        "code:1: bad argument #2 to 'both' (counted expected, got number)"
    );
}

#[test]
fn bytes_of_the_thread_become_a_string() {
    assert_eq!(show("b.first('text', 3)"), "tex text");
    assert_eq!(show("b.first('', 0)"), " ");
    let code = "local text = ('x'):rep(100000) return #b.first(text, 70000)";
    assert_eq!(run(code), "65536");
}

#[test]
fn a_list_of_objects_has_named_values_too() {
    let code = "local list = b.list(3, 'note')
        return show(#list, list[1]:value(), list[3]:value(), list.note, list.names[1], list.names[2])";
    assert_eq!(run(&format!("{SHOW} {code}")), "3 1 3 note a 2");
}

#[test]
fn a_value_of_many_becomes_tables() {
    let code = "local list = b.shaped() return show(#list, list[1].name, list[2].a, list[2].b)";
    assert_eq!(run(&format!("{SHOW} {code}")), "2 text 3 2");
}

#[test]
fn tables_are_walked_to_any_depth() {
    assert_eq!(
        show("b.sum({ 1, { 2, { [3] = { 4 } }, n = 5 } })"),
        "22 true"
    );
    assert_eq!(show("b.sum(7)"), "7 true");
    // Tables that are left early, one in the other.
    let code =
        "local t = {} for i = 1, 50 do t[i] = { { 99, 1, 5 }, 99 } end return show(b.sum(t))";
    assert_eq!(run(&format!("{SHOW} {code}")), "102 true");
    let deep = "local t = {} for _ = 1, 1000 do t = { x = t } end return show(b.sum(t))";
    assert_eq!(run(&format!("{SHOW} {deep}")), "0 true");
    assert_eq!(show("b.reversed({ 'a', 2, {}, 1.5 })"), "Number{}2a");
    assert_eq!(show("#b.collect({ 1, 2, x = 3, y = {} })"), "4");
}

#[test]
fn values_are_made_of_events() {
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
        (")", "words: reference to nothing"),
        ("[!", "words: content inside of a table"),
        ("{N", "words: NaN for a key"),
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

/// What the debug library can do to slots of a C function while it allocates.
#[test]
fn a_finalizer_that_changes_the_stack_spoils_no_table() {
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

#[test]
fn the_collector_goes_on_where_a_step_ends_that_made_values() {
    let code = "collectgarbage 'generational'
        local ballast, made, rested = ('x'):rep(1000000), 0, false
        local function again() setmetatable({}, { __gc = function() made = made + 1 again() end }) end
        again()
        for i = 1, 20000 do rested = b.litter() or rested end
        assert(not rested and collectgarbage 'count' < 3000, collectgarbage 'count')
        local runs = made
        collectgarbage 'stop'
        for i = 1, 1000 do assert(b.litter()) end
        assert(made == runs, 'it was stopped')
        return tostring(runs)";
    let runs: u32 = run(code).parse().expect("a number");
    let most = if cfg!(feature = "lua55") { 20_001 } else { 100 };
    assert!((10..=most).contains(&runs), "{runs} collections");
}

#[test]
fn a_vm_keeps_values_and_runs_code() {
    assert_eq!(
        show("b.named(setmetatable({}, { name = 'me' }))"),
        "me false true"
    );
    assert_eq!(show("b.named({})"), "nil true false");
    assert_eq!(show("b.code(tostring, 12)"), "12");
    let yields =
        "coroutine.wrap(function() return select(2, pcall(b.code, coroutine.yield)) end)()";
    assert_eq!(show(yields), "attempt to yield across a C-call boundary");
}

#[test]
fn what_coroutines_do_can_be_asked() {
    let code = "local it = function() end
        local left = coroutine.create(function() for _ in it do end for _ in next, {1} do coroutine.yield() end end)
        coroutine.resume(left)
        local list = { show(b.coroutines(left, next)) }
        local co
        co = coroutine.create(function()
          for _ in next, {1} do
            list[#list + 1] = show(b.coroutines(co, next))
            list[#list + 1] = show(b.coroutines(co, it))
            list[#list + 1] = coroutine.wrap(function() return show(b.coroutines(co, next)) end)()
          end
          list[#list + 1] = show(b.coroutines(co, next))
        end)
        coroutine.resume(co)
        list[#list + 1] = show(b.coroutines(1, next))
        return table.concat(list, ' | ')";
    assert_eq!(
        run(&format!("{SHOW} {code}")),
        "false false false | true true true | true false true | true true false | true false true \
         | false false false"
    );
}

#[test]
fn upvalues_are_set_and_fields_are_found_as_lua_finds_them() {
    let code = "(function() local x = 1 return b.emptied(function() return x end)() end)()";
    assert_eq!(show(code), "nil");
    assert_eq!(show("b.emptied(print) == print"), "true");
    let code = "b.index(setmetatable({}, { __index = { a = 5 } }), 'a')";
    assert_eq!(show(code), "5");
    assert_eq!(
        show("b.index(io.stdout, 'write') == io.stdout.write"),
        "true"
    );
    assert_eq!(show("b.index(b.new(1), 'nothing')"), "nil");
}
