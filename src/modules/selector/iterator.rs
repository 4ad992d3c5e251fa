//! `for udata, events in selector:wait() do`: the wait and its iterator.
//!
//! Invariant: `Selector::iterating` says what hands out the events of a batch, or did when it was given up: a wait that
//! finds it set checks whether the loop is still there. The check takes time, so a selector whose loop was left once gives
//! its loops a guard from then on, which says when they end; others do without. The iterator has the selector and the
//! udata list as upvalues.

use super::interest::{events_for, sweep};
use super::state::{GUARD, ITERATOR, Loop, Selector, THREAD, UDATA, open};
use crate::lua::{
    Argument, Call, Closure, Either, Element, Fault, Field, Function, FunctionTable, Maybe, NewWith, Nil, Object,
    Running, Stack, Value, functions, upvalue,
};
use std::time::Duration;

/// Lua closes it when a `for` over events is left in whatever way.
pub(crate) struct LoopGuard;

/// The selector that the loop is over.
pub(crate) const SELECTOR: Field<LoopGuard> = Field::new(1);

impl Object for LoopGuard {
    const NAME: &'static str = "lio.selector loop";
    const USER_VALUES: i32 = 1;
    const META: FunctionTable = functions! { __close = leave };
}

fn leave(call: &mut Call<'_>) -> Result<(), Fault> {
    call.object::<LoopGuard>(1)?;
    let selector = call.field(1, SELECTOR)?;
    if let Some(selector) = call.as_object::<Selector>(selector) {
        selector.iterating.set(Loop::None);
        if let Some(inner) = &selector.inner {
            inner.end_batch();
        }
    }
    Ok(())
}

/// Whether the loop of an earlier wait of the selector at 1 is still on the call stack: its coroutine runs, or has
/// resumed (directly or not) the one that runs now. A suspended or finished one has abandoned its loop.
fn is_inside_loop(call: &mut Call<'_>) -> Result<bool, Fault> {
    let selector = call.object::<Selector>(1)?;
    let running = selector.iterating.get();
    if running == Loop::None {
        return Ok(false);
    }
    let is_other = selector.thread.get() != call.thread();
    let thread = call.field(1, THREAD)?;
    if is_other && !call.is_active(thread) {
        return Ok(false);
    }
    if running == Loop::Guarded {
        return Ok(true);
    }
    let iterator = call.field(1, ITERATOR)?;
    let found = call.is_iterating(thread, iterator);
    if !found {
        call.object::<Selector>(1)?.was_left.set(true);
    }
    Ok(found)
}

/// What a time-out is counted in.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Seconds = 1,
    Milliseconds = 1000,
}

impl Unit {
    /// The time-out at argument 2.
    pub(super) fn timeout(self, call: &Stack) -> Result<Option<Duration>, Fault> {
        call.timeout_in(2, f64::from(self as i32))
    }
}

/// The message of a wait that would never end.
pub(super) const NOTHING_TO_WAIT_FOR: &str = "no open sockets to check and no timeout set";

/// The iterator, as `for` takes it; with a guard as the closing value.
type Waited = Either<Argument, (Argument, Nil, Nil, Argument)>;

/// `for udata, events in sel:wait([timeout]) do`: blocks until something is ready, `timeout` seconds are
/// over (fractions allowed; absent or negative: for ever; 0: poll), or the waker wakes; then yields each
/// ready registration once with its ready bits.
pub(super) const WAIT: Function = Function::new(|call: &mut Call<'_>| wait(call, Unit::Seconds));

/// A wait whose time-out, argument 2, is counted in `unit`.
pub(super) fn wait(call: &mut Call<'_>, unit: Unit) -> Result<Waited, Fault> {
    let timeout = unit.timeout(call)?;
    let (selector, inner) = open(call)?;
    let (inner, last) = (inner.clone(), selector.thread.get());
    // After a loop that ran to its end nothing iterates.
    let mut was_left = selector.was_left.get();
    if selector.iterating.get() != Loop::None {
        if is_inside_loop(call)? {
            let message = "wait: called inside the loop over an earlier wait of the same selector";
            return Err(Fault::message(message));
        }
        let selector = call.object::<Selector>(1)?;
        selector.iterating.set(Loop::None);
        was_left = selector.was_left.get();
    }
    if timeout.is_none() && inner.count() == 0 && !inner.has_waker() {
        return Err(Fault::message(NOTHING_TO_WAIT_FOR));
    }
    if last != call.thread() {
        let running = call.push(Running)?;
        call.set_field(1, THREAD, running)?;
        call.object::<Selector>(1)?.thread.set(call.thread());
    }
    sweep(call, 1, &inner)?;
    let hook = call.hook();
    // A host's signal handler may have set a hook (lua.c does): let Lua run it.
    let waited = inner.wait(timeout, || call.hook() != hook);
    waited.map_err(|error| Fault::message(format_args!("wait: {error}")))?;
    let iterator = Argument(iterator(call)?);
    if !was_left {
        return Ok(Either::One(iterator));
    }
    let mut guard = call.field(1, GUARD)?;
    if call.is_none(guard) {
        guard = call.create(NewWith::new(LoopGuard, [(SELECTOR, 1)]))?;
        call.set_field(1, GUARD, guard)?;
    }
    Ok(Either::Other((iterator, Nil, Nil, Argument(guard))))
}

/// Pushes the iterator of the selector at 1, made at first use.
fn iterator(call: &mut Call<'_>) -> Result<i32, Fault> {
    let known = call.field(1, ITERATOR)?;
    if !call.is_none(known) {
        return Ok(known);
    }
    let mut udata = call.field(1, UDATA)?;
    if call.is_none(udata) {
        udata = call.create(Value::List(Vec::new()))?;
        call.set_field(1, UDATA, udata)?;
    }
    let made = call.create(Closure(NEXT, (Argument(1), Argument(udata))))?;
    call.set_field(1, ITERATOR, made)?;
    Ok(made)
}

/// An event of the batch that a wait got.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// Which registration: its udata lies at this place, from 1 on, of the selector's list.
    pub(crate) place: usize,
    /// What it is ready for, in the terms of its mode.
    pub(crate) events: i64,
    /// What tells its udata from others if that is a full userdata; else 0.
    pub(crate) object: usize,
}

impl Selector {
    /// For an iterator that was called with `arguments` values, by a loop of the kind `by`: the next event of the batch;
    /// `None` when that is over.
    #[inline]
    pub(crate) fn next(&self, arguments: i32, by: Loop) -> Option<Event> {
        let found = self.inner.as_ref()?.next();
        // `for` passes its state and control variable; a call by hand passes nothing, and then nothing says when the
        // iteration is given up.
        let running = found.is_some() && arguments > 0;
        self.iterating.set(if running { by } else { Loop::None });
        let (registration, bits) = found?;
        let events = events_for(bits, registration.mode.get());
        Some(Event { place: registration.slot + 1, events, object: registration.object.get() })
    }
}

/// The iterator: upvalue 1 is the selector, upvalue 2 its udata list; both are nil once the selector is closed.
const NEXT: Function = Function::new(|call: &mut Call<'_>| {
    let arguments = call.count();
    let selector = call.as_object::<Selector>(upvalue(1));
    let event = selector.and_then(|selector| selector.next(arguments, Loop::For));
    Ok(Maybe(event.map(|event| (Element(upvalue(2), event.place as i64), event.events))))
});
