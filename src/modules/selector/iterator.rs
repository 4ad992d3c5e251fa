//! `for udata, events in selector:wait() do`: the wait and its iterator.
//!
//! Invariant: `Selector::iterating` is the kind of the loop that reads the events of a batch, or that has abandoned the
//! batch. If a wait finds `iterating` set, the wait checks whether that loop is still running. This check is slow.
//! Therefore, after a loop of a selector was left early, the selector's later loops get a guard, which reports when a
//! loop ends. The upvalues of the iterator are the selector and the udata list.

use super::interest::{events_for, sweep};
use super::state::{GUARD, ITERATOR, Loop, Selector, THREAD, UDATA, open};
use crate::lua::{
    Argument, Call, Closure, Either, Element, Fault, Field, Function, FunctionTable, Maybe, NewWith, Nil, Object,
    Running, Stack, Value, functions, upvalue,
};
use std::time::Duration;

/// The closing value of a `for` over events: Lua closes it whenever the loop ends.
pub(crate) struct LoopGuard;

/// The user value that refers to the selector whose events the loop reads.
pub(crate) const SELECTOR: Field<LoopGuard> = Field::new(1);

impl Object for LoopGuard {
    const NAME: &'static str = "lio.selector loop";
    const USER_VALUES: i32 = 1;
    const META: FunctionTable = functions! { __close = end_loop };
}

/// Called when the guard's loop has ended or was left.
fn end_loop(call: &mut Call<'_>) -> Result<(), Fault> {
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

/// Returns whether the loop over an earlier wait of the selector at index 1 is still on the call stack: the loop's
/// coroutine is running, or has resumed the running coroutine, directly or indirectly. A suspended or finished
/// coroutine has abandoned its loop.
fn is_inside_loop(call: &mut Call<'_>) -> Result<bool, Fault> {
    let selector = call.object::<Selector>(1)?;
    let running = selector.iterating.get();
    if running == Loop::None {
        return Ok(false);
    }
    let is_other = selector.thread.get() != call.running();
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

/// The unit of a timeout.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Seconds = 1,
    Milliseconds = 1000,
}

impl Unit {
    /// Returns the timeout at argument 2.
    pub(super) fn timeout(self, call: &Stack) -> Result<Option<Duration>, Fault> {
        call.timeout_in(2, f64::from(self as i32))
    }
}

/// The message of a wait that would never end.
pub(super) const NOTHING_TO_WAIT_FOR: &str = "no open sockets to check and no timeout set";

/// The iterator for `for`, alone or with a guard as the closing value.
type WaitResult = Either<Argument, (Argument, Nil, Nil, Argument)>;

/// `for udata, events in sel:wait([timeout]) do`: blocks until a registration is ready, `timeout` seconds have passed
/// (may be fractional; absent or negative: no timeout; 0: poll), or the waker fires. Then the loop yields each ready
/// registration once: its udata and its ready bits.
pub(super) const WAIT: Function = Function::new(|call: &mut Call<'_>| wait(call, Unit::Seconds));

/// Waits for events. The timeout at argument 2 is in `unit`.
pub(super) fn wait(call: &mut Call<'_>, unit: Unit) -> Result<WaitResult, Fault> {
    let timeout = unit.timeout(call)?;
    let (selector, inner) = open(call)?;
    let (inner, last) = (inner.clone(), selector.thread.get());
    // A loop that has ended normally leaves `iterating` at `None`.
    let mut was_left = selector.was_left.get();
    if selector.iterating.get() != Loop::None {
        if is_inside_loop(call)? {
            return Err(Fault::message("wait: called inside the loop over an earlier wait of the same selector"));
        }
        let selector = call.object::<Selector>(1)?;
        selector.iterating.set(Loop::None);
        was_left = selector.was_left.get();
    }
    if timeout.is_none() && inner.count() == 0 && !inner.has_waker() {
        return Err(Fault::message(NOTHING_TO_WAIT_FOR));
    }
    if last != call.running() {
        let running = call.push(Running)?;
        call.set_field(1, THREAD, running)?;
        call.object::<Selector>(1)?.thread.set(call.running());
    }
    sweep(call, 1, &inner)?;
    let hook = call.hook();
    // A signal handler of the host may have set a hook (lua.c does), which Lua must run.
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

/// Pushes the iterator of the selector at index 1, which is created when it is first needed. Returns its index.
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
    let iterator = call.create(Closure(NEXT, (Argument(1), Argument(udata))))?;
    call.set_field(1, ITERATOR, iterator)?;
    Ok(iterator)
}

/// An event in the batch of a wait.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// The index of the registration's udata in the selector's list, starting at 1.
    pub(crate) index: usize,
    /// The ready bits in the form of the registration's mode.
    pub(crate) events: i64,
    /// The identity of the registration's udata if the udata is a full userdata, otherwise 0.
    pub(crate) object: usize,
}

impl Selector {
    /// Returns the next event of the batch, or `None` at its end. An iterator calls this function; `arguments` is the
    /// number of its arguments, and `by` the kind of its loop.
    #[inline]
    pub(crate) fn next(&self, arguments: i32, by: Loop) -> Option<Event> {
        let found = self.inner.as_ref()?.next();
        // `for` passes its state and control variable. A direct call of the iterator passes nothing, and its caller can
        // stop iterating unnoticed.
        let running = found.is_some() && arguments > 0;
        self.iterating.set(if running { by } else { Loop::None });
        let (registration, bits) = found?;
        let events = events_for(bits, registration.mode.get());
        Some(Event { index: registration.slot + 1, events, object: registration.object.get() })
    }
}

/// The iterator. Upvalue 1 is the selector, upvalue 2 the selector's udata list; both are nil after the selector was
/// closed.
const NEXT: Function = Function::new(|call: &mut Call<'_>| {
    let arguments = call.count();
    let selector = call.as_object::<Selector>(upvalue(1));
    let event = selector.and_then(|selector| selector.next(arguments, Loop::For));
    Ok(Maybe(event.map(|event| (Element(upvalue(2), event.index as i64), event.events))))
});
