//! Steps of all kinds, and the actions after them.

use super::{SHOW, run, show};
use crate::lua::{
    Argument, Call, Chunk, Failure, Fault, Function, FunctionTable, INDEX, Many, Next, Nil, Outcome, Pushing, Register,
    RegistryName, Running, ScratchBytes, failed, functions, results, scratch, then,
};
use std::os::fd::AsRawFd;

/// `many(n)`: returns the numbers from 1 to n.
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

/// `odd(n)`: returns results of one of three kinds.
fn odd(call: &mut Call<'_>) -> Result<Odd, Fault> {
    Ok(match call.integer_in(1, 1..=3, "the number")? {
        1 => Odd::Nothing(()),
        2 => Odd::Word("two"),
        _ => Odd::Failed(Failure::new("odd", "what was wrong", "wrong")),
    })
}

/// `refused(n)`: fails in its first step (1), in its second step (2), or after a wait (3). The steps push values before
/// they fail.
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
        _ => Err(failed("refused")(std::io::Error::from_raw_os_error(libc::ENOENT))),
    }
}

/// `turns(n)`: yields 0, 1, … up to `n` - 1, and keeps one more value on its stack each time.
fn turns(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.integer(1)?;
    call.push(0i64)?;
    Ok(Next::yields(1, then(turn), 1))
}

fn turn(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    if i64::from(outcome.kept) == call.integer(1)? {
        return Ok(Next::rest(outcome.first));
    }
    call.push(i64::from(outcome.kept))?;
    call.push(i64::from(outcome.kept))?;
    Ok(Next::yields(1, then(turn), outcome.kept + 1))
}

/// `wild(n)`: refers to values that the step has not pushed.
fn wild(call: &mut Call<'_>) -> Result<Next, Fault> {
    let nothing = then(|_, _| Ok(()));
    Ok(match call.integer(1)? {
        1 => Next::pushed(1000),
        2 => Next::call(1000, nothing, 0),
        3 => Next::protected(-5, 0, 0, nothing, 0),
        4 => Next::yields(1000, nothing, 0),
        5 => Next::rest(1000),
        _ => Next::rest(-5),
    })
}

/// `waiting(…)`: drops its arguments and waits. Returns the values that it is resumed with, except the first one; then
/// the index of the first value, and the number of values.
fn waiting(_: &mut Call<'_>) -> Result<Next, Fault> {
    let then = then(|call: &mut Call<'_>, outcome: Outcome| {
        let (first, count) = (i64::from(outcome.first), i64::from(outcome.count));
        call.push(first)?;
        call.push(count)?;
        Ok(Next::<()>::rest(outcome.first + 1))
    });
    Ok(Next::waits(then, 0))
}

/// `guarded(f, handler)`: returns whether the call of `f` succeeded, and the first result or the error.
fn guarded(call: &mut Call<'_>) -> Result<Next<(bool, Argument)>, Fault> {
    call.push(Argument(1))?;
    let after = |_: &mut Call<'_>, outcome: Outcome| Ok((outcome.ok, Argument(outcome.first)));
    Ok(Next::protected(0, 1, 2, then(after), 0))
}

/// `number(file)`: returns the descriptor of a standard file, -1 if it is closed, nil for any other value.
fn number(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let found = call.standard_file(1);
    Ok(found.map(|file| file.map_or(-1, |file| file.as_raw_fd().into())))
}

/// `first(text, size)`: returns the first `size` bytes of the text, copied through the thread's buffer, and the text.
fn first(call: &mut Call<'_>) -> Result<(ScratchBytes, Argument), Fault> {
    let (text, size) = (call.bytes(1)?, call.integer(2)? as usize);
    let count = scratch(size, |room| {
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text[..count]);
        count
    });
    Ok((ScratchBytes(count), Argument(1)))
}

/// `code(...)`: returns the results of Lua code that cannot yield.
fn code(call: &mut Call<'_>) -> Result<Next, Fault> {
    let count = call.count();
    call.create(Chunk::Text(b"local first, second = ... return first(second)", c"=inner"))?;
    for index in 1..=count {
        call.push(Argument(index))?;
    }
    let all = then(|_: &mut Call<'_>, outcome| Ok(Next::<()>::rest(outcome.first)));
    Ok(Next::call_unyieldable(count, all, 0))
}

static NAME: RegistryName = RegistryName::new();

/// `named(value)`: makes the VM keep the name `name`. Returns the field `name` of the value's metatable, whether a
/// query for the field had a result before the VM kept the name, and whether the field exists.
fn named(call: &mut Call<'_>) -> Result<(Argument, bool, bool), Fault> {
    let before = call.walk(|values| values.has_metafield(1, &NAME));
    call.create(Register(&NAME, "name"))?;
    let after = call.walk(|values| values.has_metafield(1, &NAME));
    let value = Argument(call.metafield(1, &NAME)?);
    Ok((value, before.is_some(), after == Some(true)))
}

/// `litter()`: creates three strings of 100 bytes that become garbage. Returns whether the step may run in a finalizer.
fn litter(call: &mut Call<'_>) -> Result<bool, Fault> {
    for _ in 0..3 {
        let index = call.create(&[0; 100][..])?;
        call.drop_to(index - 1);
    }
    Ok(call.may_be_finalizer())
}

/// `coroutines(thread, iterator)`: returns whether the coroutine is active, whether it is in a loop over `iterator`,
/// and whether it is running.
fn coroutines(call: &mut Call<'_>) -> Result<(bool, bool, bool), Fault> {
    let running = call.push(Running)?;
    Ok((call.is_active(1), call.is_iterating(1, 2), call.is_same(1, running)))
}

/// `emptied(function)`: sets the first upvalue of the function to nil, and returns the function.
fn emptied(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let nil = call.push(Nil)?;
    call.set_upvalue(1, 1, nil)?;
    call.set_upvalue(1, 200, nil)?;
    Ok(Argument(1))
}

/// `passed_on(one, two, …)`: continues immediately with another step, which gets values that allocate.
fn passed_on(call: &mut Call<'_>) -> Result<Pushing<(&'static str, Argument)>, Fault> {
    let count = call.count();
    call.copy_down(2, 1, count);
    let next = Next::step(count, then(passed), call.is_yieldable().into());
    Ok(next.pushing(("new", Argument(1))))
}

fn passed(_: &mut Call<'_>, outcome: Outcome) -> Result<(i64, i64, Argument, Argument), Fault> {
    let (first, kept) = (outcome.first.into(), outcome.kept.into());
    Ok((first, kept, Argument(outcome.first), Argument(outcome.first + 1)))
}

/// The functions that tests call.
pub(super) const FUNCTIONS: FunctionTable = functions! {
    passed_on, index: INDEX, coroutines, emptied, many, odd, refused, turns, wild, waiting, guarded, first, litter, named,
    code, number,
};

#[test]
fn a_function_returns_any_number_of_results() {
    assert_eq!(show("select('#', b.many(10000)), (select(10000, b.many(10000)))"), "10000 10000");
    assert_eq!(run("return select(2, pcall(b.many, 2000000))"), "stack overflow (too many values)");
    assert_eq!(show("b.odd(1)"), "");
    assert_eq!(show("b.odd(2)"), "two");
    assert_eq!(show("b.odd(3)"), "nil odd: what was wrong wrong");
    let missing = "nil refused: No such file or directory (os error 2) not found";
    assert_eq!(show("b.refused(1)"), missing);
    assert_eq!(show("b.refused '1'"), missing);
    let later = "nil later: unexpected failure failed";
    assert_eq!(show("b.refused(2)"), later);
    assert_eq!(show("coroutine.wrap(function() return b.refused(2) end)()"), later);
    let waited = "(function(co) co() return co() end)(coroutine.wrap(b.refused))";
    assert_eq!(show(&waited.replace("co() return", "co(3) return")), later);
    assert_eq!(run("b.odd(4)"), "code:1: bad argument #1 to 'odd' (the number must be 1 to 3, not 4)");
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
fn values_that_a_step_did_not_push_are_not_touched() {
    assert_eq!(show("b.wild(1)"), "1");
    for number in [2, 3] {
        assert_eq!(run(&format!("b.wild({number})")), "code:1: internal error: no function was pushed");
    }
    assert_eq!(show("coroutine.wrap(b.wild)(4)"), "4");
    assert_eq!(show("b.wild(5)"), "");
    assert_eq!(show("b.wild(6)"), "6");
}

#[test]
fn a_wait_drops_all_values_and_the_next_step_counts_from_one() {
    let code = "local wait = coroutine.wrap(b.waiting)
        return show(select('#', wait(1, 2, 3)), wait('one', 'two'))";
    assert_eq!(run(&format!("{SHOW} {code}")), "0 two 1 2");
}

#[test]
fn a_protected_call_reports_its_result() {
    assert_eq!(show("b.guarded(function() return 1, 2 end)"), "true 1");
    assert_eq!(show("b.guarded(function() end)"), "true nil");
    assert_eq!(show("b.guarded(function() error('x', 0) end, function(e) return e .. e end)"), "false xx");
    let code = "coroutine.wrap(function() return b.guarded(function() return coroutine.yield(1) end) end)()";
    assert_eq!(show(code), "1");
}

#[test]
fn a_number_is_converted_where_a_string_is_expected() {
    assert_eq!(show("b.is_string(12)"), "true 12");
    assert_eq!(run("b.is_string({})"), "code:1: bad argument #1 to 'is_string' (string expected, got table)");
}

#[test]
fn bytes_of_the_receive_buffer_become_a_string() {
    assert_eq!(show("b.first('text', 3)"), "tex text");
    assert_eq!(show("b.first('', 0)"), " ");
    let code = "local text = ('x'):rep(100000) return #b.first(text, 70000)";
    assert_eq!(run(code), "65536");
}

#[test]
fn the_collector_restarts_after_a_step_that_allocated() {
    let code = "collectgarbage 'generational'
        local ballast, made, rested = ('x'):rep(1000000), 0, false
        local function again() setmetatable({}, { __gc = function() made = made + 1 again() end }) end
        again()
        for i = 1, 20000 do
            rested = b.litter() or rested
            -- Lua 5.5 collects garbage at the next allocation of the program.
            if _VERSION == 'Lua 5.5' and i % 100 == 0 then local _ = {} end
        end
        assert(not rested and collectgarbage 'count' < 3000, collectgarbage 'count')
        local runs = made
        collectgarbage 'stop'
        for i = 1, 1000 do assert(b.litter()) end
        assert(made == runs, 'a finalizer ran while the collector was stopped')
        return tostring(runs)";
    let result = run(code);
    let runs: u32 = result.parse().expect(&result);
    let most = if cfg!(feature = "lua55") { 201 } else { 100 };
    assert!((10..=most).contains(&runs), "{runs} collections");
}

#[test]
fn a_vm_keeps_values_and_runs_code() {
    assert_eq!(show("b.named(setmetatable({}, { name = 'me' }))"), "me false true");
    assert_eq!(show("b.named({})"), "nil true false");
    assert_eq!(show("b.code(tostring, 12)"), "12");
    let yields = "coroutine.wrap(function() return select(2, pcall(b.code, coroutine.yield)) end)()";
    assert_eq!(show(yields), "attempt to yield across a C-call boundary");
}

#[test]
fn a_step_continues_with_values_that_allocate() {
    assert_eq!(show("b.passed_on(1, 'two', 3)"), "4 0 new two");
    let inside = "coroutine.wrap(function() return b.passed_on(1, 2) end)()";
    assert_eq!(show(inside), "3 1 new 2");
    let nowhere = show("pcall(b.passed_on, 1)");
    assert!(nowhere.starts_with("false internal error"), "{nowhere}");
}

#[test]
fn coroutines_can_be_queried() {
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
fn upvalues_are_set_and_fields_are_read_as_in_lua() {
    let code = "(function() local x = 1 return b.emptied(function() return x end)() end)()";
    assert_eq!(show(code), "nil");
    assert_eq!(show("b.emptied(print) == print"), "true");
    let code = "b.index(setmetatable({}, { __index = { a = 5 } }), 'a')";
    assert_eq!(show(code), "5");
    assert_eq!(show("b.index(io.stdout, 'write') == io.stdout.write"), "true");
    assert_eq!(show("b.index(b.new(1), 'nothing')"), "nil");
}
