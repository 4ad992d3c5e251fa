//! The events of a selector's wait for `lualib/lio/net.lua`. If the tasks are those of `lio.task`, the iterator wakes
//! the tasks that wait to read, for a whole batch of events in one call from Lua. It returns the other events to Lua,
//! in order.

use crate::event::READ;
use crate::lua::{Argument, Call, Closure, Fault, Function, Kind, Maybe, NewWith, upvalue};
use crate::modules::selector::iterator::{Event, LoopGuard, SELECTOR};
use crate::modules::selector::state::{Loop, Selector, UDATA};
use crate::modules::task::{TASKS_OBJECT, push_tasks_object, tasks};
use crate::task::{Tasks, Token};

/// Upvalue 2 of the iterator: the selector. Upvalue 1: the tasks object, or false.
const SELECTOR_AT: i32 = upvalue(2);

type Events = (Closure<(Argument, Argument)>, NewWith<LoopGuard, 1>);

/// `stream.events(selector, wakes)`: returns an iterator, which replaces the iterator of `selector:wait`, and the
/// closing value of the `for` over it. `wakes` is true if tasks of `lio.task` wait on the registered userdata.
pub(super) fn events(call: &mut Call<'_>) -> Result<Events, Fault> {
    call.object::<Selector>(1)?;
    let tasks = if call.is_true(2) { push_tasks_object(call)? } else { call.push(false)? };
    let guard = NewWith::new(LoopGuard, [(SELECTOR, 1)]);
    Ok((Closure(NEXT, (Argument(tasks), Argument(1))), guard))
}

/// The iterator over the events that Lua code must handle.
const NEXT: Function = Function::new(|call: &mut Call<'_>| {
    let arguments = call.count();
    let tasks = match call.kind(TASKS_OBJECT) {
        Kind::Userdata => tasks(call).ok(),
        _ => None,
    };
    loop {
        let Some(event) = next(call, arguments, tasks.as_deref()) else { return Ok(Maybe(None)) };
        let udata = call.entry(SELECTOR_AT, UDATA, event.index)?;
        if !call.is_none(udata) {
            return Ok(Maybe(Some((Argument(udata), event.events))));
        }
        call.drop_to(udata - 1);
    }
});

/// Returns the next event that Lua code must handle. If an event only reports that its object is readable, and a task
/// waits to read from the object, wakes the task instead.
fn next(call: &Call<'_>, arguments: i32, tasks: Option<&Tasks>) -> Option<Event> {
    let selector = call.as_object::<Selector>(SELECTOR_AT)?;
    loop {
        let event = selector.next(arguments, Loop::Guarded)?;
        let is_taken = event.object != 0
            && event.events == i64::from(READ)
            && tasks.is_some_and(|tasks| tasks.wakeup_with(Token::of_userdata(event.object), true));
        if !is_taken {
            return Some(event);
        }
    }
}
